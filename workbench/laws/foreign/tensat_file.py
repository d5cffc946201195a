"""Read Tensat's rules (s-expressions, one rule per line) and the equations of its verifier.

::

    (relu (relu ?input_1))=>(relu ?input_1)              # a rule; a rule of two roots takes two such lines
    relu(relu(input_1))==relu(input_1)relu(...           # equations without separators

A variable ``input_7`` of Tensat's files is called ``i7`` here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from workbench.laws.foreign.extents import Inexpressible
from workbench.laws.foreign.translation import Laws, law
from workbench.laws.foreign.vocabulary import Foreign, Param, Variable, handwritten, make
from workbench.rules.language import RuleSyntaxError
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import Rejected, RuleSet, load_rules
from workbench.support.messages import unknown

#: The arguments after an operator's name: ``x`` is an operand, the others are parameters.
_TENSAT: Final[dict[str, tuple[str, str]]] = {
    "ewadd": ("add", "x x"),
    "ewmul": ("mul", "x x"),
    "smul": ("scale", "x x"),
    "matmul": ("matmul", "act x x"),
    "conv2d": ("conv2d", "stride_h stride_w pad act x x"),
    "poolmax": ("maxpool", "x kernel_h kernel_w stride_h stride_w pad act"),
    "poolavg": ("avgpool", "x kernel_h kernel_w stride_h stride_w pad act"),
    "relu": ("relu", "x"),
    "sigmoid": ("sigmoid", "x"),
    "tanh": ("tanh", "x"),
    "transpose": ("transpose", "x perm shuffle"),
    "concat": ("concat", "axis rank x x"),
    "concat3": ("concat", "axis rank x x x"),
    "concat4": ("concat", "axis rank x x x x"),
    "concat5": ("concat", "axis rank x x x x x"),
    "enlarge": ("enlarge", "x x"),
    "merge": ("merge", "x count"),
    "split": ("split", "axis x"),
    "split_0": ("part0", "x"),
    "split_1": ("part1", "x"),
    "Cpool": ("mean_kernel", "kernel_h kernel_w"),
    "Iconv": ("identity_kernel", "kernel_h kernel_w"),
    "Imatmul": ("eye", ""),
    "Iewmul": ("ones", ""),
    **dict.fromkeys(("input", "weight", "dropout"), ("", "x")),
    **dict.fromkeys(("reshape", "noop"), ("", "x x")),
    "batchnorm": ("", "x x x x x"),
}
_EQUATIONS: Final[dict[str, tuple[str, str]]] = {
    **{name: _TENSAT[name] for name in ("ewadd", "ewmul", "smul", "conv2d", "relu", "sigmoid", "tanh")},
    **{name: _TENSAT[name] for name in ("Cpool", "Iconv", "Imatmul", "Iewmul", "merge")},
    "matmul": ("matmul", "x x"),
    "poolmax": ("maxpool", "kernel_h kernel_w stride_h stride_w pad x"),
    "poolavg": ("avgpool", "kernel_h kernel_w stride_h stride_w pad x"),
    "transpose": ("transpose", "x"),
    "concat": ("concat", "axis x x"),
    "enlarge": ("enlarge", "kernel_h kernel_w x"),
    "split_0": ("part0", "axis x"),
    "split_1": ("part1", "axis x"),
}
_INPUT: Final = re.compile(r"^\??input_(\d+)$")
_NUMBER: Final = re.compile(r"^-?\d+$")
_ORDER: Final = re.compile(r"^\d+(_\d+)*$")
#: Deepest nesting; Python's own stack allows not much more.
_DEEPEST: Final = 150


@dataclass(frozen=True, slots=True)
class _Node:
    """A name, the arguments in parentheses after it (None without parentheses), and its position."""

    text: str
    children: tuple[_Node, ...] | None
    at: int


@dataclass(frozen=True, slots=True)
class _Split:
    """The argument of ``split``, which is not a tensor."""

    axis: int
    whole: Foreign


@dataclass(frozen=True, slots=True)
class _Reader:
    """A converter of nodes to terms; ``error`` makes an error from a position and a message."""

    table: Mapping[str, tuple[str, str]]
    error: Callable[[int, str], RuleSyntaxError]

    def term(self, node: _Node) -> Foreign:
        """Return the tensor that a node denotes."""
        if node.children is None and node.text not in self.table:
            if found := _INPUT.match(node.text):
                return Variable(f"i{int(found[1])}")
            if node.text.startswith("?") and node.text[1:].isidentifier():
                return Variable(node.text[1:])
            raise self.error(node.at, f"expected a term, found {node.text!r}")
        if isinstance(value := self.application(node), _Split):
            raise self.error(node.at, "split has two results: expected split_0 or split_1 around it")
        return value

    def application(self, node: _Node) -> Foreign | _Split:
        """Return the result of an operator's application."""
        if node.text not in self.table:
            raise self.error(node.at, unknown("operator", node.text, self.table, listed=False))
        op, signature = self.table[node.text]
        wanted, children = signature.split(), node.children or ()
        if op == "":
            raise Inexpressible(f"Tensat's {node.text} has no counterpart in the rule language")
        if len(children) != len(wanted):
            raise self.error(node.at, f"{node.text} takes {len(wanted)} arguments, got {len(children)}")
        if op in ("part0", "part1"):
            return self.part(node, int(op[-1]), children)
        params: dict[str, Param] = {}
        args: list[Foreign] = []
        for kind, child in zip(wanted, children, strict=True):
            if kind == "x":
                args.append(self.term(child))
            elif kind == "perm" and child.children is None and _ORDER.match(child.text):
                params[kind] = tuple(int(d) for d in child.text.split("_"))
            else:
                params[kind] = self.number(kind, child)
        if op == "split":
            return _Split(self.number("axis", children[0]), args[0])
        if op == "transpose":
            params.pop("shuffle", None)
            params.setdefault("perm", (1, 0))
        return self.made(node, op, params, args)

    def part(self, node: _Node, index: int, children: Sequence[_Node]) -> Foreign:
        """Return a result of a split, which is a separate term in Tensat's rules; here the axis may be its own."""
        if len(children) == 2:
            axis, y = self.number("axis", children[0]), self.term(children[1])
        else:
            (inner,) = children
            split = self.application(inner) if inner.text == "split" else None
            if not isinstance(split, _Split):
                raise self.error(inner.at, f"expected split inside {node.text}")
            axis, y = split.axis, split.whole
        return self.made(node, "part", {"axis": axis, "index": index, "count": 2}, [y])

    def made(self, node: _Node, op: str, params: Mapping[str, Param], args: Sequence[Foreign]) -> Foreign:
        """Return a term of TASO's vocabulary; errors are raised again with a position."""
        try:
            return make(op, params, args)
        except Inexpressible:
            raise
        except RuleSyntaxError as error:
            raise self.error(node.at, str(error)) from None

    def number(self, kind: str, node: _Node) -> int:
        """Return the value of a parameter."""
        if node.children is not None or not _NUMBER.match(node.text):
            raise self.error(node.at, f"expected a number ({kind}), found {node.text!r}")
        return int(node.text)


# -- Tensat's rules -------------------------------------------------------------------------------
_TOKEN: Final = re.compile(r"[()]|[^\s()]+")


def read_tensat(path: str | os.PathLike[str], multi: bool | None = None) -> tuple[list[Rule], list[Rejected]]:
    """Read a file of Tensat's rules; return the rules and the laws that are none in the rule language.

    The rule on the first line is called ``tensat-1``. If ``multi``, two lines make one rule of two roots, called
    ``tensat-multi-1`` and so on; by default this is the case if the file contains splits.
    """
    file = Path(path)
    text = _text(file)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise RuleSyntaxError(f"{file.name}: the file is empty")
    if multi is None:
        multi = "(split_0 " in text or "(split_1 " in text
    if multi and len(lines) % 2:
        raise RuleSyntaxError(
            f"{file.name}, line {lines[-1][0]}: rules of two roots must have two lines each, got {len(lines)}"
        )
    step, origin = (2, "tensat-multi") if multi else (1, "tensat")

    found = Laws(file.name)
    for index in range(len(lines) // step):
        own = lines[index * step :][:step]
        number = index + 1 if multi else own[0][0]
        with found.reading(index, f"{origin}-{number}", f"{file.name}, line {own[0][0]}"):
            sides = (_rule_line(text, f"{file.name}, line {at}") for at, text in own)
            sources, targets = zip(*sides, strict=True)
            rule = law(f"{origin}-{number}", sources, targets, (f"{origin}:{number}",))
            found.add(replace(rule, line=own[0][0]))
    return found.rules, found.rejected


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise RuleSyntaxError(f"{file.name}, byte {error.start}: the file must be text in UTF-8") from None


def _rule_line(line: str, place: str) -> tuple[Foreign, Foreign]:
    def error(at: int, message: str) -> RuleSyntaxError:
        return RuleSyntaxError(f"{place}, column {at + 1}: {message}")

    left, arrow, right = line.partition("=>")
    if not arrow:
        raise error(len(line), "expected 'left=>right'")
    if "=>" in right:
        raise error(len(left) + 2 + right.index("=>"), "a second '=>'")
    reader = _Reader(_TENSAT, error)
    sides = []
    for text, offset in ((left, 0), (right, len(left) + 2)):
        tokens = [(m[0], m.start() + offset) for m in _TOKEN.finditer(text)]
        node, rest = _expression(tokens, 0, offset + len(text), error)
        if rest < len(tokens):
            raise error(tokens[rest][1], f"expected the end of the term, found {tokens[rest][0]!r}")
        sides.append(reader.term(node))
    return sides[0], sides[1]


def _expression(
    tokens: Sequence[tuple[str, int]],
    i: int,
    end: int,
    error: Callable[[int, str], RuleSyntaxError],
    depth: int = 0,
) -> tuple[_Node, int]:
    if i == len(tokens):
        raise error(end, "expected a term, found the end")
    text, at = tokens[i]
    if text == ")":
        raise error(at, "expected a term, found ')'")
    if text != "(":
        return _Node(text, None, at), i + 1
    if i + 1 == len(tokens) or tokens[i + 1][0] in "()":
        raise error(at, "expected an operator after '('")
    if depth == _DEEPEST:
        raise error(at, f"terms must be nested at most {_DEEPEST} deep")
    name, place = tokens[i + 1]
    children: list[_Node] = []
    i += 2
    while i < len(tokens) and tokens[i][0] != ")":
        child, i = _expression(tokens, i, end, error, depth + 1)
        children.append(child)
    if i == len(tokens):
        raise error(at, "this parenthesis is never closed")
    return _Node(name, tuple(children), place), i + 1


# -- the verifier's equations ---------------------------------------------------------------------
#: A variable's number ends where the name of the next equation begins.
_WORD: Final = re.compile(r"input_[0-9]+|[A-Za-z0-9_]+")
#: Ranks of the generator's variables: the first are matrices, the others images and kernels.
_RANKS: Final = {f"i{n}": 2 if n <= 6 else 4 for n in range(1, 20)}


def read_equations(path: str | os.PathLike[str]) -> tuple[list[Rule], list[Rejected]]:
    """Read a file of equations; return the rules and the laws that are none in the rule language.

    The first equation is called ``equation-0``; one that has a form only from right to left is reversed.
    Equations have no separators, so a wrong sign anywhere breaks the file.
    """
    file = Path(path)
    reader = _Reader(_EQUATIONS, partial(_misplaced, file.name))

    found = Laws(file.name)
    for number, (at, left, right) in enumerate(_equations(_text(file), file.name)):
        name = f"equation-{number}"
        with found.reading(number, name, f"{file.name}, character {at}"):
            sides = [reader.term(left)], [reader.term(right)]
            made = partial(law, name, *sides, (f"equation#{number}",), either=True, planar=True)
            try:
                found.add(made())
            except Inexpressible:
                found.add(made(declared=_RANKS))
    if not found.rules and not found.rejected:
        raise RuleSyntaxError(f"{file.name}: the file is empty")
    return found.rules, found.rejected


def _misplaced(name: str, at: int, message: str) -> RuleSyntaxError:
    return RuleSyntaxError(f"{name}, character {at}: {message}")


def _found(text: str, at: int) -> str:
    return repr(text[at]) if text[at:].strip() else "the end"


def _equations(text: str, name: str) -> Iterator[tuple[int, _Node, _Node]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        while text[at].isspace():
            at += 1
        start = at
        left, at = _call(text, at, name)
        if not text.startswith("==", at):
            raise _misplaced(name, at, f"expected '==', found {_found(text, at)}")
        right, at = _call(text, at + 2, name)
        yield start, left, right


def _call(text: str, at: int, name: str, depth: int = 0) -> tuple[_Node, int]:
    word = _WORD.match(text, at)
    if word is None:
        raise _misplaced(name, at, f"expected a term, found {_found(text, at)}")
    start, at = at, word.end()
    if not text.startswith("(", at):
        return _Node(word[0], None, start), at
    if depth == _DEEPEST:
        raise _misplaced(name, start, f"terms must be nested at most {_DEEPEST} deep")
    children: list[_Node] = []
    while True:
        child, at = _call(text, at + 1, name, depth + 1)
        children.append(child)
        if text.startswith(")", at):
            return _Node(word[0], tuple(children), start), at + 1
        if not text.startswith(",", at):
            raise _misplaced(name, at, f"expected ',' or ')', found {_found(text, at)}")


# -- Tensat's complete rule set -------------------------------------------------------------------
def tensat_rules(folder: str | os.PathLike[str]) -> RuleSet:
    """Return the rules with which Tensat was published: those of its two files and those in its source.

    ``folder`` contains ``converted.txt`` and ``converted_multi.txt``. The source adds four rules that merge
    groups of a convolution, with the next numbers, and two that enlarge a kernel to the size of another one.
    """
    files = Path(folder)
    rules = [*load_rules(files / "converted.txt"), *load_rules(files / "converted_multi.txt")]
    enlarged, grouped = handwritten()
    rules += [law(f"tensat-{n}", *sides, (f"tensat:{n}",)) for n, sides in enumerate(grouped, 121)]
    rules += [law(f"tensat-multi-p{n}", *sides, (f"tensat:P{n}",)) for n, sides in enumerate(enlarged, 1)]
    return RuleSet("tensat", tuple(rules))
