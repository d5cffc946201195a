r"""The text language of rules: one law per line.

::

    name: lhs => rhs where cond, cond   @ provenance, provenance
    name: lhs <=> rhs                            # also read backwards, as name-back
    name: lhs1 ; lhs2 => rhs1 ; rhs2             # a multi-pattern rule
    name: conv2d(x, w, a?) => rhs                # also without the operand, as name, and with it as name-bias
    name: each op[c](x, w*) => slice[axis=-1](op[c](x, concat[axis=-1](w*)))
    rows-of-f: slice[s](f(x)) => f(slice[s](x)) for f in relu, tanh   # one law for each: rows-of-relu, …
    phase movement                               # of the laws after it

A term is ``op[attribute=expression, ..., row](arg, ...)``; ``row`` represents the attributes not named.
In place of a term there may be a number, ``mul(x, 0.5)``, or a term of numbers, ``div(x, sqrt(2))``.
An expression is arithmetic on numbers, attribute variables, ``dim(x, -1)``, ``dim(x, a)`` with an axis ``a``
that an attribute binds, and ``rank(x)``. With permutations, it is ``compose(p, q)``, ``inverse(p)`` or
``p[a]``, the operand's axis that ``p`` brings to the axis ``a``, both counted from the last. A shape on a
left-hand side may name its extents, ``reshape[shape=(b, s, h, d)](x)``, and then matches that rank alone.
The expression of a dtype attribute is a name, a variable or ``dtype(x)``, and conditions compare these.
``#`` starts a comment; a line that ends in ``\\`` continues. ``constant(x)``, ``running(x)`` and
``distinct(x, y)`` restrict a rule to useful cases: a weight-only ``x``, an ``x`` that depends on an input,
two different tensors. The law holds for any. A term that a ``final`` rule has rewritten is not matched again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar, cast

from workbench.ops import Attr, OpSpec, Trait, spec_of
from workbench.ops.types import DTYPE_CODES
from workbench.rules import pattern
from workbench.rules.interpret import RELATIONS, number, typed
from workbench.support.messages import nearest

#: Largest number of laws in a file: each costs the engine time, whether it matches or not.
MOST_LAWS: Final = 2_000

#: A law for several operators: ``law for f in relu, tanh``.
_FAMILY: Final = re.compile(r"(?P<law>.*\S)\s+for\s+(?P<variable>[a-z]\w*)\s+in\s+(?P<words>[\w,\s]+)$")


class RuleSyntaxError(ValueError):
    """Raised when a rule's text is wrong; the message gives place, expected and found text."""


def _law_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the laws of a text with the number of the line where each begins; continued lines are joined."""
    pending, start = "", 0
    for line_number, raw in enumerate(text.splitlines(), 1):
        # Provenance such as taso#77 contains the sign that starts a comment elsewhere.
        law, sign, origin = raw.partition("@")
        line = law.split("#", 1)[0] if "#" in law else law + sign + re.split(r"\s#", origin, maxsplit=1)[0]
        start = start if pending else line_number
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        if (pending + line).strip():
            yield start, pending + line
        pending = ""
    if pending.strip():
        yield start, pending


def family_members(text: str) -> list[str]:
    """Return the laws that one line stands for if it is a law for several operators, else an empty list.

    >>> family_members("late-f: f(neg(x)) => neg(f(x)) for f in sinh, tanh")
    ['late-sinh: sinh(neg(x)) => neg(sinh(x))@', 'late-tanh: tanh(neg(x)) => neg(tanh(x))@']
    """
    line, _, origin = text.partition("@")
    family = _FAMILY.match(line)
    if family is None:
        return []
    title, _, law = family["law"].partition(":")
    of = rf"\b{family['variable']}\b"
    words = re.split(r"[\s,]+", family["words"].strip())
    return [f"{re.sub(of, w.replace('_', '-'), title)}:{re.sub(of, w, law)}@{origin}" for w in words]


#: Suffixes of the law's name by which optional operands are present; so far all of them are biases.
SUFFIXES: Final = {
    (): "",
    (False,): "",
    (True,): "-bias",
    (False, False): "",
    (True, False): "-bias",
    (False, True): "-other-bias",
    (True, True): "-biases",
}
MOST: Final = max(map(len, SUFFIXES))


def choices(optional: Sequence[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield, for every choice of optional operands, a suffix of the law's name and the absent operands.

    >>> [(suffix, sorted(absent)) for suffix, absent in choices(["a"])]
    [('', ['a']), ('-bias', [])]
    """
    for here, suffix in SUFFIXES.items():
        if len(here) == len(optional):
            yield suffix, frozenset(name for name, there in zip(optional, here, strict=True) if not there)


def without(term: pattern.Term, absent: frozenset[str]) -> pattern.Term | None:
    """Return a term without some operands, or None if nothing of it is left.

    Raise ValueError if that does not follow from the operands being zero.
    """
    if isinstance(term, pattern.Var):
        return None if term.name in absent else term
    args = [without(arg, absent) for arg in term.args]
    left = tuple(arg for arg in args if arg is not None)
    if len(left) == len(args):
        return replace(term, args=left)
    if term.op == "add":
        return left[0] if left else None
    spec = spec_of(term.op)
    if not spec.variadic and None not in args[: spec.min_inputs]:
        return replace(term, args=left)
    others = left if spec.variadic else args[spec.min_inputs :]
    act = dict(term.attrs).get("act", pattern.Literal("none") if term.row is None else None)
    activated = "act" in spec.attr_names and act != pattern.Literal("none")
    if Trait.LINEAR not in spec.traits or activated or any(arg is not None for arg in others):
        names = ", ".join(sorted(absent))
        raise ValueError(f"{term.op} without {names} cannot be derived (try writing both laws)")
    return None


def objection(optional: Sequence[str], named: Sequence[str], sources: Sequence[pattern.Term]) -> str:
    """Return an objection to the use of optional operands, or ``""``.

    ``optional`` are the operands marked on the left-hand side, ``named`` those marked anywhere, ``sources``
    the terms of the left-hand side.
    """
    if late := [name for name in named if name not in optional]:
        return f"{late[0]}? is marked on the right-hand side only (try marking it on the left-hand side)"
    if len(optional) > MOST:
        return f"at most {MOST} operands of a law may be absent, got {', '.join(optional)}"
    for term in pattern.applications(*sources):
        needed = spec_of(term.op).min_inputs
        if any(isinstance(arg, pattern.Var) and arg.name in optional for arg in term.args[:needed]):
            return (
                f"{term.op} must have its first {f'{needed} operands' if needed > 1 else 'operand'}: "
                "these cannot be optional"
            )
    return ""


T = TypeVar("T")
#: Largest number of words and signs in a law, and deepest nesting of parentheses.
MOST_TOKENS: Final = 2_000
DEEPEST: Final = 50
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d+\.\d*(?:e-?\d+)?|\d+e-?\d+|\d+|inf\b)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign><=>|=>|!=|<=|>=|//|[()\[\],;=<>+\-*%?]))"
)
#: A line that names the phase of the laws after it.
_PHASE: Final = re.compile(r"\s*phase\s+(?P<name>[\w-]+)\s*$")
_NAME: Final = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


class _Parser:
    """A parser of one rule by recursive descent."""

    def __init__(self, text: str, offset: int, where: str) -> None:
        self.text, self.where = text, where
        self.optional: list[str] = []
        self.tokens: list[_Token] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                column = at + len(text[at:]) - len(text[at:].lstrip())
                self.tokens.append(_Token("end", "", column + offset))
                self.at = len(self.tokens) - 1
                raise self.error(f"unexpected character {text[column]!r}")
            kind = str(found.lastgroup)
            self.tokens.append(_Token(kind, found[kind], found.start(kind) + offset))
            at = found.end()
        self.tokens.append(_Token("end", "", len(text) + offset))
        self.at = 0
        self.check_size()

    # -- tokens -----------------------------------------------------------------------------------
    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def error(self, message: str) -> RuleSyntaxError:
        return RuleSyntaxError(f"{self.where}, column {self.token.column + 1}: {message}")

    def check_size(self) -> None:
        """Reject a law that is longer or nested deeper than any sensible law."""
        depth = signs = 0
        for place, token in enumerate(self.tokens):
            depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
            signs = signs + 1 if token.text == "-" else 0
            if place >= MOST_TOKENS or max(depth, signs) > DEEPEST:
                self.at = place
                raise self.error(
                    f"a law must have at most {MOST_TOKENS} words, nested at most {DEEPEST} levels deep"
                )

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind != "end":
            self.at += 1
            return True
        return False

    def expected(self, what: str) -> RuleSyntaxError:
        return self.error(f"expected {what}, found {repr(self.token.text) if self.token.text else 'the end'}")

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.expected(repr(text))

    def name(self, what: str) -> str:
        if self.token.kind != "name":
            raise self.expected(what)
        return self.next()

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1].text

    def list_of(self, item: Callable[[], T], close: str) -> list[T]:
        items: list[T] = []
        while not self.accept(close):
            if items:
                self.expect(",")
            items.append(item())
        return items

    # -- terms ------------------------------------------------------------------------------------
    def term(self) -> pattern.Term:
        """Parse a variable, a number or an application."""
        if self.token.kind == "number" or self.token.text == "-":
            sign = -1 if self.accept("-") else 1
            if self.token.kind != "number":
                raise self.error(f"expected a number, found {self.token.text!r}")
            return number(sign * float(self.next()))
        name = self.name("an operator or a variable")
        if self.token.text not in ("[", "("):
            variable = pattern.Var(name, self.accept("*"))
            if self.accept("?") and name not in self.optional:
                self.optional.append(name)
            return variable
        spec = self.lookup(name)
        attrs: list[tuple[str, pattern.AttrExpr]] = []
        row: str | None = None
        if self.accept("["):
            for key, value in self.list_of(lambda: self.attribute(spec), "]"):
                if value is None:
                    if row is not None:
                        raise self.error(f"a second row variable {key!r} (the first is {row!r})")
                    row = key
                elif key in dict(attrs):
                    raise self.error(f"{key} is given twice")
                else:
                    attrs.append((key, value))
        self.expect("(")
        args = tuple(self.list_of(self.term, ")"))
        of_members = any(isinstance(a, pattern.Var) and a.starred for a in args)
        if not of_members and not spec.min_inputs <= len(args) <= spec.max_inputs:
            raise self.error(f"{name} takes {spec.arity}, got {len(args)}")
        return pattern.App(name, args, tuple(attrs), row)

    def lookup(self, name: str) -> OpSpec:
        try:
            spec = spec_of(name)
        except LookupError as error:
            self.at -= 1
            raise self.error(str(error)) from None
        if spec.leaf:
            raise self.error(f"{name} cannot occur in a rule")
        return spec

    def attribute(self, spec: OpSpec) -> tuple[str, pattern.AttrExpr | None]:
        name = self.name("an attribute")
        if not self.accept("="):
            if name in spec.attr_names:
                raise self.error(f"{name} is an attribute of {spec.name} (try {name}=...)")
            return name, None
        if name not in spec.attr_names:
            hint = nearest(name, spec.attr_names)
            raise self.error(f"{spec.name} has no attribute {name!r}{hint}")
        attr = spec.attrs[spec.attr_names.index(name)]
        return name, self.value(attr)

    def value(self, attr: Attr) -> pattern.AttrExpr:
        if attr.names or attr.kind == "dtype":
            word = self.name(f"a value of {attr.name}")
            if attr.kind == "dtype" and word == "dtype" and self.accept("("):
                return pattern.DtypeOf(self.variable_in_parentheses())
            known = attr.names or tuple(DTYPE_CODES)
            return pattern.Literal(word) if word in known else pattern.AttrVar(word)
        if self.token.text == "(" and attr.kind in ("ints", "axes", "perm", "shape"):
            self.accept("(")
            items = tuple(self.list_of(self.integer, ")"))
            if attr.kind == "ints" and len(items) != attr.length:
                raise self.error(f"{attr.name} must be {attr.length} integers, got {len(items)}")
            if all(isinstance(i, pattern.Literal) for i in items):
                return pattern.Literal(tuple(i.value for i in items))  # type: ignore[union-attr, misc]
            return pattern.Vector(items)
        return self.integer()

    # -- integers ---------------------------------------------------------------------------------
    def integer(self) -> pattern.IntExpr:
        """Parse a sum."""
        left = self.product()
        while self.token.text in ("+", "-"):
            left = pattern.Arith(self.next(), left, self.product())
        return left

    def product(self) -> pattern.IntExpr:
        left = self.atom()
        while self.token.text in ("*", "//", "%"):
            left = pattern.Arith(self.next(), left, self.atom())
        return left

    def atom(self) -> pattern.IntExpr:
        if self.accept("("):
            inner = self.integer()
            self.expect(")")
            return inner
        if self.accept("-"):
            value = self.atom()
            if isinstance(value, pattern.Literal) and not isinstance(value.value, str | tuple):
                return pattern.Literal(-value.value)
            return pattern.Arith("-", pattern.Literal(0), value)
        if self.token.kind == "number":
            text = self.next()
            return pattern.Literal(int(text) if text.isdigit() else float(text))
        name = self.name("a number or a variable")
        if not self.accept("("):
            return self.axis_of(pattern.AttrVar(name))
        if name == "dim":
            var = self.name("a tensor variable")
            self.expect(",")
            axis = self.atom()
            self.expect(")")
            if isinstance(axis, pattern.AttrVar):
                return pattern.DimOf(var, axis.name)
            if not isinstance(axis, pattern.Literal) or not isinstance(axis.value, int) or axis.value >= 0:
                raise self.error("dim must count axes from the last (try dim(x, -1))")
            return pattern.DimOf(var, axis.value)
        if name == "rank":
            return pattern.RankOf(self.variable_in_parentheses())
        if name == "inverse":
            perm = self.integer()
            self.expect(")")
            return self.axis_of(pattern.Inverse(perm))
        if name in ("max", "min", "compose"):
            left = self.integer()
            self.expect(",")
            found = pattern.Arith(name, left, self.integer())
            self.expect(")")
            return found
        raise self.error(f"unknown function {name!r} (try dim, rank, max, min, compose or inverse)")

    def axis_of(self, perm: pattern.IntExpr) -> pattern.IntExpr:
        """Parse the axis at which a permutation is read, if one follows."""
        if not self.accept("["):
            return perm
        axis = self.integer()
        self.expect("]")
        return pattern.Arith("axis", perm, axis)

    def variable_in_parentheses(self) -> str:
        var = self.name("a tensor variable")
        self.expect(")")
        return var

    # -- conditions -------------------------------------------------------------------------------
    def restriction(self, conditions: list[pattern.Compare], uses: list[tuple[str, ...]]) -> None:
        """Parse a condition, or a restriction to useful cases."""
        word = self.token.text
        if word in ("constant", "running", "distinct") and self.tokens[self.at + 1].text == "(":
            self.at += 2
            names = [word, self.name("a tensor variable")]
            if word == "distinct":
                self.expect(",")
                names.append(self.name("a tensor variable"))
            self.expect(")")
            uses.append(tuple(names))
        elif word == "final" and self.tokens[self.at + 1].text in (",", ""):
            self.at += 1
            uses.append((word,))
        else:
            conditions.append(self.condition())

    def used(self, rule: pattern.Rule, uses: Sequence[tuple[str, ...]]) -> pattern.Rule:
        """Return a rule with its restrictions to useful cases."""
        bound = pattern.tensor_variables(*rule.sources)
        for name in (n for names in uses for n in names[1:]):
            if name not in bound:
                raise self.error(f"{name} is not bound on the left-hand side")
            if name in pattern.starred(rule):
                raise self.error(f"{name} differs from member to member, so no condition may name it")
        return replace(
            rule,
            constants=tuple(n[1] for n in uses if n[0] == "constant"),
            running=tuple(n[1] for n in uses if n[0] == "running"),
            distinct=tuple((n[1], n[2]) for n in uses if n[0] == "distinct"),
            final=("final",) in uses,
        )

    def measure(self) -> pattern.IntExpr:
        dtype = self.token.text in ("dtype", *DTYPE_CODES)
        return cast("pattern.IntExpr", self.value(Attr("", "dtype"))) if dtype else self.integer()

    def condition(self) -> pattern.Compare:
        left = self.measure()
        relation = self.token.text
        if relation not in RELATIONS:
            raise self.error(f"expected one of {' '.join(RELATIONS)}, found {relation!r}")
        self.at += 1
        if (found := pattern.Compare(relation, left, self.measure())).fault:
            raise self.error(found.fault)
        return found

    # -- rules ------------------------------------------------------------------------------------
    def rule(self, name: str) -> list[pattern.Rule]:
        """Parse the law itself; return two rules if it is read in both directions."""
        each = self.token.text == "each" and self.tokens[self.at + 1].kind == "name"
        if each:
            self.at += 1
        sources = self.side()
        optional = tuple(self.optional)
        both = self.accept("<=>")
        if not both:
            self.expect("=>")
        targets = self.side()
        conditions: list[pattern.Compare] = []
        uses: list[tuple[str, ...]] = []
        if self.accept("where"):
            self.restriction(conditions, uses)
            while self.accept(","):
                self.restriction(conditions, uses)
        if self.token.kind != "end":
            raise self.error(f"expected the end of the rule, found {self.token.text!r}")
        if len(sources) != len(targets):
            raise self.error(f"there must be {len(sources)} targets, one per source, got {len(targets)}")
        if wrong := objection(optional, self.optional, sources):
            raise self.error(wrong)
        found: list[pattern.Rule] = []
        for suffix, absent in choices(optional):
            left, right = self.side_without(sources, absent), self.side_without(targets, absent)
            kept = tuple(c for c in conditions if not absent & set(pattern.measured(c)))
            said = [names for names in uses if not absent & set(names[1:])]
            laws = [(name + suffix, left, right)]
            if both:
                laws.append((f"{name}{suffix}-back", right, left))
            found += [self.used(self.checked(*law, kept, each), said) for law in laws]
        return found

    def side_without(self, terms: Sequence[pattern.Term], absent: frozenset[str]) -> tuple[pattern.Term, ...]:
        """Return the terms of a side without the absent operands."""
        try:
            found = tuple(without(term, absent) for term in terms)
        except ValueError as error:
            raise self.error(str(error)) from None
        if None in found:
            raise self.error(f"without {', '.join(sorted(absent))} a side of the law would be empty")
        return cast("tuple[pattern.Term, ...]", found)

    def side(self) -> tuple[pattern.Term, ...]:
        terms = [self.term()]
        while self.accept(";"):
            terms.append(self.term())
        return tuple(terms)

    def checked(
        self,
        name: str,
        sources: tuple[pattern.Term, ...],
        targets: tuple[pattern.Term, ...],
        conditions: tuple[pattern.Compare, ...],
        each: bool,
    ) -> pattern.Rule:
        patterns = [s for s in sources if isinstance(s, pattern.App)]
        if len(patterns) != len(sources):
            raise self.error("a left-hand side must be an operator's application, got a bare variable")
        whole = targets[0].args if each and isinstance(targets[0], pattern.App) else targets
        wrong = next((f for s in sources if (f := pattern.unbinding(s))), "") or pattern.ungiven(
            (*sources, *whole)
        )
        if wrong:
            raise self.error(wrong)
        named = pattern.tensor_variables(*sources)
        bound = set(named)
        if named:
            targets = tuple(
                t if t == s else typed(t, named[0]) for s, t in zip(sources, targets, strict=True)
            )
        if free := [v for v in pattern.tensor_variables(*targets) if v not in bound]:
            raise self.error(f"{free[0]} occurs only on the right-hand side")
        attrs = {*pattern.attribute_variables(*sources)}
        for kind, variable in (*pattern.attribute_variables(*targets), *pattern.names_in(*conditions)):
            known = bound if kind == "tensor" else {n for k, n in attrs if k == kind}
            if variable not in known:
                raise self.error(f"{variable} is not bound on the left-hand side")
        if each != any(isinstance(t, pattern.Var) and t.starred for t in pattern.subterms(*sources)):
            raise self.error("starred variables and 'each' must be used together")
        if each and not (
            len(targets) == 1 and isinstance(targets[0], pattern.App) and targets[0].op == "slice"
        ):
            raise self.error("the target of an 'each' rule must be slice[axis=...](merged)")
        return pattern.Rule(name, tuple(patterns), targets, conditions, each=each)


def parse_rules(text: str, file: str = "") -> list[pattern.Rule]:
    """Parse all rules of a text; raise :class:`RuleSyntaxError` with file, line and column.

    >>> [r.name for r in parse_rules("twice: neg(neg(x)) => x")]
    ['twice']
    """
    rules: list[pattern.Rule] = []
    for _, found in laws(text, file):
        if isinstance(found, RuleSyntaxError):
            raise found
        rules += found
    return rules


def laws(text: str, file: str = "") -> Iterator[tuple[str, list[pattern.Rule] | RuleSyntaxError]]:
    """Yield the label of every law of a text with its rules, or with the error that says why it is none."""
    names: set[str] = set()
    phase = pattern.PHASES[0]
    for count, (at, line) in enumerate(_law_lines(text)):
        if count >= MOST_LAWS:
            raise RuleSyntaxError(f"line {at}: a file must have at most {MOST_LAWS} laws (try two files)")
        label, place = line.partition(":")[0].strip(), _place(file, at)
        try:
            if named := _PHASE.match(line):
                if named["name"] not in pattern.PHASES:
                    expected = " or ".join(pattern.PHASES)
                    raise RuleSyntaxError(f"{place}: a phase must be {expected}, got {named['name']!r}")
                phase = named["name"]
                continue
            found = [replace(rule, phase=phase) for rule in parse_rule(line, file=file, line=at)]
            if double := [r.name for r in found if r.name in names]:
                raise RuleSyntaxError(f"{place}: rule names must be unique, got a second {double[0]}")
        except RuleSyntaxError as error:
            yield label, error
        else:
            names.update(r.name for r in found)
            yield label, found


def _place(file: str, line: int) -> str:
    return f"{file or 'rule'}, line {line}" if line else (file or "rule")


def parse_rule(text: str, *, file: str = "", line: int = 0) -> list[pattern.Rule]:
    """Parse one line; return its rules, more than one if it is read in both directions or has options."""
    place = _place(file, line)
    if members := family_members(text):
        return [rule for member in members for rule in parse_rule(member, file=file, line=line)]
    law, _, origin = text.partition("@")
    name, colon, body = law.partition(":")
    if not colon:
        raise RuleSyntaxError(f"{place}: expected 'name: lhs => rhs', found {text.strip()!r}")
    if not _NAME.match(name.strip()):
        raise RuleSyntaxError(f"{place}: a rule's name must be in kebab-case, got {name.strip()!r}")
    provenance = tuple(p.strip() for p in origin.split(",") if p.strip())
    parser = _Parser(body, len(name) + 1, place)
    return [replace(rule, provenance=provenance, file=file, line=line) for rule in parser.rule(name.strip())]


def parse_term(text: str) -> pattern.Term:
    """Parse one term, a pattern without a law; raise :class:`RuleSyntaxError` with the column."""
    parser = _Parser(text, 0, "term")
    term = parser.term()
    if parser.token.kind != "end":
        raise parser.error(f"expected the end of the term, found {parser.token.text!r}")
    return term
