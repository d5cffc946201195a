"""Grammars of terms: operators with their attribute settings, operands with symbolic extents, sizes."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from workbench.ops import TensorType, spec_of
from workbench.ops.types import NUMBER_DTYPES
from workbench.rules import pattern
from workbench.rules.interpret import evaluate
from workbench.rules.language import RuleSyntaxError, parse_term
from workbench.support.messages import unknown, yaml_reason

#: Operand kinds by name: the symbolic extents and the names of the operands.
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "scalar": ("", "s t"),
    "vector": ("n", "u v r q"),
    "matrix": ("n n", "x y z w m o"),
    "image": ("b c h w", "x y z u v"),
    "kernel": ("c c k k", "w k l m"),
}
#: The extents of the first assignments of sizes: distinct, and small because every term is evaluated.
_SMALL: Final = (3, 2, 5, 4, 7, 6)


class GrammarError(ValueError):
    """Raised when a grammar cannot be read; the message names the part and the form expected there."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A variable of a grammar, with its shape in symbolic extents and its element type."""

    name: str
    shape: tuple[str, ...]
    dtype: str = "float32"

    def type(self, sizes: Mapping[str, int]) -> TensorType:
        """Return the type under an assignment of sizes."""
        return TensorType(self.dtype, tuple(int(d) if d.isdigit() else sizes[d] for d in self.shape))


@dataclass(frozen=True, slots=True)
class Form:
    """An operator with its attributes, whose values may be expressions in the grammar's extents."""

    op: str
    arity: int
    attrs: tuple[tuple[str, pattern.AttrExpr], ...] = ()

    def values(self, sizes: Mapping[str, int]) -> tuple[Any, ...]:
        """Return the attributes in declared order under an assignment of sizes."""

        def kind(name: str) -> TensorType:
            raise GrammarError(f"a grammar has no dim(), got one of {name} in {self}")

        return spec_of(self.op).pack(
            {name: evaluate(expr, sizes.__getitem__, kind) for name, expr in self.attrs}
        )

    def attributes(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Return the attributes by name under an assignment of sizes."""
        return spec_of(self.op).unpack(self.values(sizes))

    def term(self, args: Sequence[pattern.Term], sizes: Mapping[str, int]) -> pattern.App:
        """Return the application to arguments, with the attribute values under an assignment of sizes."""
        values = self.attributes(sizes)
        return pattern.App(
            self.op, tuple(args), tuple((name, pattern.Literal(values[name])) for name, _ in self.attrs)
        )

    def __str__(self) -> str:
        return pattern.format_term(pattern.App(self.op, (), self.attrs)).removesuffix("()")


@dataclass(frozen=True, slots=True)
class Grammar:
    """The terms among which laws are looked for; :meth:`of` explains the parts.

    Every term is typed and evaluated under each assignment of ``sizes``. The laws' provenance has the ``name``.

    >>> g = Grammar.of("matmul add transpose[perm=(1, 0)]", "matrix: 3", operators=3)
    >>> [str(f) for f in g.forms]
    ['matmul', 'add', 'transpose[perm=(1, 0)]']
    """

    forms: tuple[Form, ...]
    operands: tuple[Operand, ...]
    operators: int = 3
    sizes: tuple[Mapping[str, int], ...] = ()
    name: str = "grammar"
    repeats: bool = True

    def __post_init__(self) -> None:
        if not self.forms:
            raise GrammarError("a grammar must have operators, got none (try matmul add)")
        if not self.operands:
            raise GrammarError("a grammar must have operands, got none (try matrix: 3)")
        if self.operators < 1:
            raise GrammarError(f"the number of operators in a term must be positive, got {self.operators}")
        if not self.sizes:
            object.__setattr__(self, "sizes", default_sizes(self.operands))
        known = set.intersection(*map(set, self.sizes))
        if missing := {d for o in self.operands for d in o.shape if not d.isdigit()} - known:
            raise GrammarError(f"sizes must name every extent, got none for {', '.join(sorted(missing))}")
        for form in self.forms:
            for kind, name in (n for _, expr in form.attrs for n in pattern.names_in(expr)):
                if kind != "attr" or name not in known:
                    raise GrammarError(unknown(f"extent in {form}", name, sorted(known)))

    @classmethod
    def of(
        cls,
        operators_text: str,
        operands: str | Mapping[str, Any] = "matrix: 3",
        *,
        operators: int = 3,
        sizes: Sequence[Mapping[str, int]] = (),
        name: str = "grammar",
        repeats: bool = True,
    ) -> Grammar:
        """Return the grammar of a line of operators and one of operands.

        Args:
            operators_text: The operators, separated by spaces: ``matmul concat[axis=-1] conv2d/3``. A
                number after a slash is the number of operands.
            operands: Kinds and how many of each, ``matrix: 3, scalar: 1``, or names and shapes,
                ``x y: m n, w: n k, q: int8 m n``.
            operators: The largest number of operators in a term.
            sizes: Assignments of numbers to the extents; by default two of distinct small numbers.
            name: The name of the grammar.
            repeats: Whether laws are kept of which both sides repeat a variable, as in
                ``mul(relu(x), relu(x)) = mul(x, relu(x))``.

        Raises:
            GrammarError: if a part cannot be read.
        """
        forms = tuple(_form(text) for text in _split(operators_text))
        return cls(forms, tuple(_operands(operands)), operators, tuple(sizes), name, repeats)

    @property
    def types(self) -> dict[str, tuple[str, ...]]:
        """Return the symbolic shapes of the operands by name."""
        return {o.name: o.shape for o in self.operands}

    def with_operators(self, operators: int) -> Grammar:
        """Return the grammar with another limit on the number of operators in a term."""
        return replace(self, operators=operators)


def default_sizes(operands: Sequence[Operand]) -> tuple[dict[str, int], ...]:
    """Return two assignments of small numbers; under each, different extents are different numbers."""
    symbols = list(dict.fromkeys(d for o in operands for d in o.shape if not d.isdigit()))
    if len(symbols) > len(_SMALL):
        raise GrammarError(f"sizes must be given for more than {len(_SMALL)} extents, got {len(symbols)}")
    others = (*_SMALL[1 : len(symbols)], _SMALL[0]) if len(symbols) > 1 else (2,)
    return dict(zip(symbols, _SMALL, strict=False)), dict(zip(symbols, others, strict=False))


def _split(text: str) -> Iterator[str]:
    """Yield the words of a text; spaces and commas inside brackets do not separate words."""
    depth, word = 0, ""
    for sign in text + " ":
        depth += (sign in "[(") - (sign in "])")
        if depth == 0 and sign in " ,\n\t":
            if word:
                yield word
            word = ""
        else:
            word += sign


def _form(text: str) -> Form:
    found = re.fullmatch(r"(?P<op>\w+)(?P<attrs>\[.*\])?(?:/(?P<arity>\d+))?", text)
    if found is None:
        raise GrammarError(f"an operator must look like matmul or concat[axis=-1], got {text!r}")
    try:
        spec = spec_of(found["op"])
    except LookupError as error:
        raise GrammarError(f"operator {text!r}: {error}") from None
    least = max(spec.min_inputs, 2) if spec.variadic else spec.min_inputs
    arity = int(found["arity"] or least)
    if spec.leaf or not 1 <= arity <= spec.max_inputs or arity < spec.min_inputs:
        raise GrammarError(f"{spec.name} takes {spec.arity}, got {arity}")
    try:
        term = parse_term(f"{spec.name}{found['attrs'] or ''}({', '.join('x' * arity)})")
    except RuleSyntaxError as error:
        raise GrammarError(f"operator {text!r}: {error}") from None
    assert isinstance(term, pattern.App)
    if term.row is not None:
        raise GrammarError(f"operator {text!r}: attributes must have values, got the name {term.row}")
    return Form(term.op, arity, term.attrs)


def _operands(given: str | Mapping[str, Any]) -> Iterator[Operand]:
    if isinstance(given, str):
        parts = [p.partition(":") for p in re.split(r"[,;]", given) if p.strip()]
        given = {left.strip(): right.strip() for left, _, right in parts}
    seen: set[str] = set()
    for left, right in given.items():
        for operand in _of_kind(str(left), right):
            more = (f"{operand.name}{i}" for i in range(2, 99))
            name = next(n for n in (operand.name, *more) if n not in seen)
            seen.add(name)
            yield replace(operand, name=name)


def _of_kind(left: str, right: Any) -> Iterator[Operand]:
    singular = {"matrices": "matrix"}.get(left, left.removesuffix("s"))
    if singular in KINDS and str(right).isdigit():
        shape, names = KINDS[singular]
        listed, count = names.split(), int(right)
        more = (f"{listed[0]}{i}" for i in range(len(listed), count))
        yield from (Operand(name, tuple(shape.split())) for name in [*listed[:count], *more])
        return
    if str(right).isdigit() and " " not in left:
        raise GrammarError(unknown("kind of operand", left, list(KINDS)))
    extents = tuple(right.split()) if isinstance(right, str) else tuple(str(d) for d in right)
    dtype = extents[0] if extents and extents[0] in NUMBER_DTYPES else "float32"
    extents = extents[extents[:1] == (dtype,) :]
    for name in left.split():
        if not name.isidentifier():
            raise GrammarError(f"an operand's name must be a word, got {name!r}")
        for extent in extents:
            if not (extent.isidentifier() or (extent.isdecimal() and int(extent) > 0)):
                raise GrammarError(f"an extent of {name} must be a name or a positive number, got {extent!r}")
        yield Operand(name, extents, dtype)


def read_grammar(path: str | os.PathLike[str]) -> Grammar:
    """Return the grammar in a YAML file.

    The file has ``operators`` (a list), ``operands`` (kinds with numbers, or names with shapes), and may
    have ``size`` (operators in a term), ``sizes`` (assignments of extents), ``repeats`` and ``name``. Raise
    OSError if the file cannot be read, and GrammarError if it is not a grammar.
    """
    import yaml

    file = Path(path)
    try:
        given = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise GrammarError(f"{file}: not a YAML file: {yaml_reason(error)}") from None
    if not isinstance(given, dict):
        raise GrammarError(f"{file}: a grammar must have operators and operands, got {given!r:.80}")
    known = ["operators", "operands", "size", "sizes", "repeats", "name"]
    if others := [str(key) for key in given if key not in known]:
        raise GrammarError(f"{file}: {unknown('field', others[0], known)}")
    operators = given.get("operators", "")
    text = operators if isinstance(operators, str) else " ".join(map(str, operators))
    size, sizes = given.get("size", 3), given.get("sizes", ())
    try:
        if type(size) is not int:
            raise GrammarError(f"size must be a whole number, got {size!r}")
        if not isinstance(sizes, list | tuple) or not all(isinstance(s, dict) for s in sizes):
            raise GrammarError(
                f"sizes must be a list of assignments, got {sizes!r} (try [{{n: 2}}, {{n: 3}}])"
            )
        return Grammar.of(
            text,
            given.get("operands", {}),
            operators=size,
            sizes=sizes,
            name=str(given.get("name", file.stem)),
            repeats=bool(given.get("repeats", True)),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise GrammarError(f"{file}: {error}") from None


def known_to(
    grammar: Grammar, rules: Iterable[pattern.Rule], without: Collection[str] = ()
) -> list[pattern.Rule]:
    r"""Return the rules whose operators are all in a grammar, in any phase, but those of the files ``without``.

    Files are named without their suffix.

    >>> from workbench.rules import parse_rules
    >>> rules = parse_rules("twice: relu(relu(x)) => relu(x)\ncommutes: add(x, y) => add(y, x)")
    >>> [r.name for r in known_to(Grammar.of("relu", "matrix: 1"), rules)]
    ['twice']
    """
    operators = {form.op for form in grammar.forms}
    return [
        replace(r, phase="any")
        for r in rules
        if pattern.operators_of(r) <= operators and Path(r.file).stem not in without
    ]
