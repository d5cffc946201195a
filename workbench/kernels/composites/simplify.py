"""Equations simplified in an e-graph: the cheapest of all forms that the laws reach."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import egglog.bindings as bindings
import numpy as np

from workbench.kernels.composites import expressions as ix
from workbench.kernels.composites.composite import Composite, Equation, NotationError
from workbench.kernels.composites.equations import parse
from workbench.kernels.composites.evaluate import evaluate
from workbench.kernels.composites.files import folder
from workbench.kernels.composites.signature import Cursor, expression
from workbench.saturation.program import Expr, literal, show
from workbench.saturation.program import parse as parsed

_LINE: Final = re.compile(r"([a-z][a-z0-9-]*)\s*:\s*(.+?)\s*=>\s*(.+?)(?:\s+where\s+(.+))?$")
_NAMES: Final = re.compile(r"[A-Za-z_]\w*(?!\w*\s*\()")
_RESERVED: Final = frozenset({*ix.FUNCTIONS, "sum", "prod", "mean", "number"})
_BOUND: Final = re.compile(r"\b(?:sum|prod|max|min)\(\s*(\w+)\s*<")
_NUMBER: Final = re.compile(r"\bnumber\(")
#: How often a law is tried.
_TRIES: Final = 60


class WrongSimplifier(ValueError):
    """Raised when a simplifier's sides differ; the message shows the numbers."""


@dataclass(frozen=True, slots=True)
class Simplifier:
    """A law: ``left`` becomes ``right``.

    ``numbers`` are the names of known numbers, ``within`` the pairs of which the first is at
    least 0 and less than the second, and ``computes`` says whether the right-hand side has ``number(…)``.
    A law that is ``contracted`` rounds a product and a sum once: it is used only where that is allowed.
    """

    name: str
    places: bool
    left: ix.Scalar | ix.IndexExpr
    right: ix.Scalar | ix.IndexExpr
    numbers: frozenset[str]
    within: tuple[tuple[str, str], ...]
    computes: bool
    text: str
    contracted: bool = False


@dataclass(frozen=True, slots=True)
class Simplifiers:
    """The laws of a file; ``forwarding`` says whether intermediate tensors may be computed at each read."""

    laws: tuple[Simplifier, ...]
    forwarding: bool = False

    def __add__(self, other: Simplifiers) -> Simplifiers:
        return Simplifiers((*self.laws, *other.laws), self.forwarding or other.forwarding)


@lru_cache(maxsize=1)
def default_simplifiers() -> Simplifiers:
    """Return the simplifiers that come with the workbench."""
    path = folder() / "default.simplify"
    return parse_simplifiers(path.read_text(), path.name)


def parse_simplifiers(text: str, file: str = "") -> Simplifiers:
    """Return the laws of a text: one in each line; ``[places]`` begins laws about places.

    Raise NotationError if a line is not a law, and WrongSimplifier if the sides of one differ on drawn numbers.

    >>> [law.name for law in parse_simplifiers("half-twice: x / 2 * 2 => x").laws]
    ['half-twice']
    """
    found: list[Simplifier] = []
    places = forwarding = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].strip()
        place = f"{file}, line {number}: " if file else f"line {number}: "
        if not line:
            continue
        if line in ("[values]", "[places]"):
            places = line == "[places]"
        elif line == "use load-forwarding":
            forwarding = True
        else:
            try:
                found.append(_law(line, places))
            except NotationError as error:
                raise NotationError(f"{place}{error}") from None
            _try(found[-1], place)
    return Simplifiers(tuple(found), forwarding)


def _law(line: str, places: bool) -> Simplifier:
    match = _LINE.fullmatch(line)
    if match is None:
        raise NotationError("a simplifier must be name: left => right where …", line, 0, len(line))
    name, left, right, conditions = match.groups()
    numbers: set[str] = set()
    within: list[tuple[str, str]] = []
    contracted = False
    for part in filter(None, ((c or "").strip() for c in re.split(r",(?![^(]*\))", conditions or ""))):
        if known := re.fullmatch(r"number\((\w+)\)", part):
            numbers.add(known[1])
        elif part == "contracted":
            contracted = True
        elif pair := re.fullmatch(r"(\w+)\s*<\s*(\w+)", part):
            within.append((pair[1], pair[2]))
        else:
            raise NotationError(f"a condition must be number(m), j < n or contracted, got {part!r}", line)
    if unknown := sorted(set(_variables(right)) - set(_variables(left))):
        raise NotationError(f"{unknown[0]} must occur on the left", line)
    plain = _NUMBER.sub("(", right)
    one, two = (_side(side, _variables(left), places) for side in (left, plain))
    return Simplifier(
        name, places, one, two, frozenset(numbers), tuple(within), plain != right, line, contracted
    )


def _variables(text: str) -> list[str]:
    bound = set(_BOUND.findall(text))
    return [n for n in dict.fromkeys(_NAMES.findall(text)) if n not in _RESERVED and n not in bound]


def _side(text: str, names: Sequence[str], places: bool) -> ix.Scalar | ix.IndexExpr:
    if not places:
        return parse("law", f"{_scalars(names)} -> law_{{T}}[]", f"law_ = {text}").equations[0].value
    c = Cursor(text)
    value = expression(c, lambda token: ix.ExtentName(token.text), "a place")
    if c.next.kind != "stop":
        c.fail(f"the law must end here, got {c.shown()}")
    return value


# -- trying -------------------------------------------------------------------------------------------
def _try(law: Simplifier, place: str) -> None:
    rng = random.Random(law.name)
    names = _variables(law.text.partition(":")[2].partition("=>")[0])
    for _ in range(_TRIES):
        values: dict[str, Any]
        if law.places:
            values = {n: rng.randint(1, 6) for n in names}
            for j, n in law.within:
                values[j] = rng.randrange(int(n) if n.isdigit() else values[n])
            one, two = (float(ix.computed(side, values)) for side in (law.left, law.right))  # type: ignore[arg-type]
        else:
            values = {n: rng.choice((-2.5, -1.0, 0.0, 0.5, 3.0, rng.uniform(-4, 4))) for n in names}
            shell = parse("law", f"{_scalars(names)} -> law_{{T}}[]", "law_ = 0")
            made = [replace(shell.equations[0], value=side) for side in (law.left, law.right)]  # type: ignore[arg-type]
            operands = [np.asarray(values[n], np.float64) for n in names]
            one, two = (float(np.asarray(evaluate(replace(shell, equations=(e,)), operands))) for e in made)
        same = math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-12)
        if not same and not (math.isnan(one) and math.isnan(two)):
            drawn = ", ".join(f"{n} = {v:g}" for n, v in values.items())
            raise WrongSimplifier(f"{place}the sides of {law.name} differ: {one:g} and {two:g} at {drawn}")


def _scalars(names: Sequence[str]) -> str:
    return ", ".join(f"{n}{{T}}[]" for n in names)


#: Costs of primitives that are not 1, in additions.
COSTS: Final = {"div": 4, "sqrt": 6, "pow": 30, "tanh": 20, "erf": 20} | dict.fromkeys(
    ("exp", "log", "sin", "cos"), 15
)
#: Reading an operand; reading an intermediate tensor, which was written before; a turn of a loop.
_READ, _LOAD, _LOOP = 2, 8, 50
_PLACES: Final = {"+": "p_add", "-": "p_sub", "*": "p_mul", "//": "p_div", "%": "p_mod"}
_SIGNS: Final = {name: sign for sign, name in _PLACES.items()}
#: The most rounds of the laws.
_ROUNDS: Final = 12
_COMPUTED: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/", "max": "max", "min": "min", "neg": "neg"}


@dataclass(frozen=True, slots=True)
class Step:
    """How often a law matched in the equation of a tensor."""

    target: str
    law: str
    matches: int


@dataclass(frozen=True, slots=True)
class Simplified:
    """A simplified composite and its trace: the laws that matched, each equation's cost before and after."""

    composite: Composite
    steps: tuple[Step, ...]
    costs: Mapping[str, tuple[int, int]]

    def __str__(self) -> str:
        lines = [f"{t}: cost {a} -> {b}" for t, (a, b) in self.costs.items()]
        lines += [f"  {s.target}: {s.law} × {s.matches}" for s in self.steps]
        return "\n".join([*lines, str(self.composite)])


def simplified(
    composite: Composite, laws: Simplifiers | None = None, *, contracted: bool = False
) -> Simplified:
    """Return a composite with simpler equations.

    The ``laws`` are by default those of the workbench. If it is ``contracted``, a product and a sum may be rounded
    once, by laws ``where contracted``.

    >>> from workbench.kernels.composites import parse
    >>> c = parse("c", "x{T}[~] -> y{T}[~]", "y = x * 1 + (2 - 2)")
    >>> print(simplified(c).composite.equations[0])
    y[~] = x[~]
    """
    given = laws or default_simplifiers()
    given = replace(given, laws=tuple(law for law in given.laws if contracted or not law.contracted))
    made: list[Equation] = []
    steps: list[Step] = []
    costs: dict[str, tuple[int, int]] = {}
    for equation in composite.equations:
        e = replace(equation, value=_apart(equation.value, {}))
        value, matches, costs[e.target] = _simplest(given, {b.target: b for b in made}, e)
        steps += [Step(e.target, law, n) for law, n in matches.items() if n]
        made.append(replace(e, value=value))
    return Simplified(replace(composite, equations=_needed(composite, made)), tuple(steps), costs)


def _apart(e: ix.Scalar, seen: dict[str, ix.IndexExpr]) -> ix.Scalar:
    """Return a value in which every index has one extent: reductions over others get names of their own."""
    if isinstance(e, ix.Reduce):
        names: dict[str, str] = {}
        for b in e.over:
            name = b.name
            while seen.setdefault(name, b.extent) != b.extent:
                name += "_"
            names[b.name] = name
        body = ix.scalar_reindexed(
            e.body, lambda i: ix.IndexName(names.get(i.name, i.name)) if isinstance(i, ix.IndexName) else None
        )
        over = tuple(ix.Bound(names[b.name], b.extent) for b in e.over)
        return ix.Reduce(e.function, over, _apart(body, seen))
    return ix.rebuilt(e, lambda child: _apart(child, seen))


def _needed(composite: Composite, equations: list[Equation]) -> tuple[Equation, ...]:
    used = {t.name for t in composite.outputs}
    kept: list[Equation] = []
    for e in reversed(equations):
        if e.target in used:
            kept.append(e)
            used |= {r.tensor for r in ix.reads(e.value)}
    return tuple(reversed(kept))


def _simplest(
    laws: Simplifiers, before: Mapping[str, Equation], e: Equation
) -> tuple[ix.Scalar, dict[str, int], tuple[int, int]]:
    """Return the cheapest value of an equation, the matches by law, and the costs before and after."""
    egraph = bindings.EGraph()

    def program(lines: Iterable[Expr]) -> list[Any]:
        return list(egraph.run_program(*egraph.parse_program("\n".join(map(show, lines)))))

    root = _value(e.value, lambda _: None, before)
    extract: Expr = ("extract", "$root")
    cost = int(program([*_language(), ("let", "$root", root), extract])[-1].cost)
    lines = [*_facts(e), *map(_rewrite, laws.laws)]
    if laws.forwarding:
        lines += [_forward(b) for b in before.values() if not ix.reductions(b.value)]
    *_, report, best = program([*lines, ("run", "laws", str(_ROUNDS)), extract])
    matches = dict(report.report.num_matches_per_rule)
    found = {law.name: matches.get(law.name, 0) for law in laws.laws}
    found |= {"load-forwarding": sum(n for name, n in matches.items() if name.startswith("forward "))}
    return _scalar(parsed(str(best))[0]), found, (cost, int(best.cost))


def _facts(e: Equation) -> Iterator[Expr]:
    """Yield the known facts about indices and extents; an index with two extents has no known one."""
    bounds = dict.fromkeys([*e.indices, *(b for part in ix.reductions(e.value) for b in part.over)])
    count = Counter(b.name for b in bounds)
    for b in bounds:
        if count[b.name] == 1:
            yield ("Within", ("Idx", literal(b.name)), _place(b.extent, lambda _: None))


# -- the language of the e-graph --------------------------------------------------------------------------
def _language() -> Iterator[str]:
    yield "(sort V) (sort P) (sort L) (relation Within (P P)) (ruleset laws)"
    yield "(constructor Num (f64) V :cost 1) (constructor Param (String) V :cost 1)"
    yield f"(constructor Val (P) V :cost 1) (constructor Red (String String P V) V :cost {_LOOP})"
    yield f"(constructor Read (String i64 L) V :cost {_READ})"
    yield f"(constructor Load (String i64 L) V :cost {_LOAD})"
    yield "(constructor Nil () L :cost 0) (constructor Cons (P L) L :cost 0)"
    yield "(constructor Whole (i64) P :cost 1) (constructor Idx (String) P :cost 1)"
    yield "(constructor Ext (String) P :cost 1) (constructor At (V) P :cost 1)"
    for name in _PLACES.values():
        yield f"(constructor {name} (P P) P :cost {3 if name in ('p_div', 'p_mod') else 1})"
    for f in ix.FUNCTIONS.values():
        yield f"(constructor f_{f.name} ({'V ' * f.arity}) V :cost {COSTS.get(f.name, 1)})"


#: Returns what stands for a part of an expression, such as a variable of a law, or None for the part itself.
Leaf = Callable[[Any], Expr | None]


def _value(e: ix.Scalar, leaf: Leaf, local: Container[str] = ()) -> Expr:
    """Return a value as an expression of the e-graph; ``local`` are the intermediate tensors."""
    if (known := leaf(e)) is not None:
        return known
    match e:
        case ix.Number(value):
            return ("Num", literal(float(value)))
        case ix.Parameter(name):
            return ("Param", literal(name))
        case ix.IndexValue(value):
            return ("Val", _place(value, leaf, local))
        case ix.Read(tensor, _, indices):
            return _read_of(e, [_place(i, leaf, local) for i in indices], tensor in local)
        case ix.Apply(function, operands):
            return (f"f_{function}", *(_value(x, leaf, local) for x in operands))
        case ix.Reduce(function, over, body):
            made = _value(body, leaf, local)
            for b in reversed(over):
                index = leaf(ix.IndexName(b.name)) or literal(b.name)
                made = ("Red", literal(function), index, _place(b.extent, leaf, local), made)
            return made
    raise TypeError(f"a scalar expression is needed, got {e!r}")


def _place(e: ix.IndexExpr, leaf: Leaf, local: Container[str] = ()) -> Expr:
    """Return a whole number as an expression of the e-graph."""
    if not isinstance(e, ix.Read) and (known := leaf(e)) is not None:
        return known
    match e:
        case ix.Whole(value):
            return ("Whole", str(value))
        case ix.IndexName(name):
            return ("Idx", literal(name))
        case ix.ExtentName(name):
            return ("Ext", literal(name))
        case ix.IndexArith(op, left, right):
            return (_PLACES[op], _place(left, leaf, local), _place(right, leaf, local))
        case ix.Read():
            return ("At", _value(e, leaf, local))


def _read_of(e: ix.Read | Equation, places: Sequence[Expr], local: bool) -> Expr:
    listed: Expr = ("Nil",)
    for place in reversed(places):
        listed = ("Cons", place, listed)
    name = e.tensor if isinstance(e, ix.Read) else e.target
    return ("Load" if local else "Read", literal(name), str(int(e.leading)), listed)


# -- laws -----------------------------------------------------------------------------------------------
def _rewrite(law: Simplifier) -> Expr:
    encoded: Callable[[Any, Leaf], Expr] = _place if law.places else _value
    left = encoded(law.left, _variables_of(law, False))
    right = encoded(law.right, _variables_of(law, law.computes))
    when = tuple(("Within", *(("Whole", n) if n.isdigit() else n for n in pair)) for pair in law.within)
    end = (":ruleset", "laws", ":name", literal(law.name))
    if isinstance(left, str):  # a law about any place that meets its conditions
        return ("rule", when, (("union", left, right),), *end)
    return ("rewrite", left, right, *((":when", when) if when else ()), *end)


def _variables_of(law: Simplifier, computes: bool) -> Leaf:
    """Return the reading of a law's names as variables, and with ``computes`` of arithmetic of known numbers."""
    sort = "Whole" if law.places else "Num"

    def leaf(e: Any) -> Expr | None:
        if computes and (made := _computed(law, e)) is not None:
            return (sort, made)
        match e:
            case ix.Read(name, _, ()) | ix.ExtentName(name):
                return (sort, name) if name in law.numbers else name
            case ix.IndexName(name):
                return f"{name}_"
        return None

    return leaf


def _computed(law: Simplifier, side: Any) -> Expr | None:
    """Return an expression of known numbers in egglog's arithmetic, or None if it is none."""
    operands: Sequence[Any] = ()
    match side:
        case ix.Read(name, _, ()) | ix.ExtentName(name):
            return name if name in law.numbers else None
        case ix.Number(value):
            return literal(float(value))
        case ix.Whole(value):
            return str(value)
        case ix.Apply(function, operands) if function in _COMPUTED:
            op = _COMPUTED[function]
        case ix.IndexArith("+" | "-" | "*" as op, left, right):
            operands = (left, right)
    made = tuple(x for o in operands if (x := _computed(law, o)) is not None)
    return (op, *made) if made and len(made) == len(operands) else None


def _forward(e: Equation) -> Expr:
    """Return the rule that replaces a read of an intermediate tensor by its definition there."""
    variables = {b.name: f"i{k}" for k, b in enumerate(e.indices)}
    load = _read_of(e, list(variables.values()), local=True)
    value = _value(e.value, lambda part: variables.get(part.name) if isinstance(part, ix.IndexName) else None)
    return ("rewrite", load, value, ":ruleset", "laws", ":name", literal(f"forward {e.target}"))


# -- back -----------------------------------------------------------------------------------------------
def _scalar(tree: Any) -> ix.Scalar:
    match tree:
        case ["Num", value]:
            return ix.Number(float(value))
        case ["Param", name]:
            return ix.Parameter(name.strip('"'))
        case ["Val", place]:
            return ix.IndexValue(_index(place))
        case ["Read" | "Load", tensor, leading, places]:
            return _read(tensor, leading, places)
        case ["Red", function, index, extent, inner]:
            body, function = _scalar(inner), function.strip('"')
            bound = ix.Bound(index.strip('"'), _index(extent))
            if isinstance(body, ix.Reduce) and body.function == function:
                return ix.Reduce(function, (bound, *body.over), body.body)
            return ix.Reduce(function, (bound,), body)
    head, *operands = tree
    return ix.Apply(head.removeprefix("f_"), tuple(map(_scalar, operands)))


def _read(tensor: str, leading: str, node: Any) -> ix.Read:
    places = []
    while len(node) > 1:
        _, place, node = node
        places.append(_index(place))
    return ix.Read(tensor.strip('"'), leading == "1", tuple(places))


def _index(tree: Any) -> ix.IndexExpr:
    match tree:
        case ["Whole", value]:
            return ix.Whole(int(value))
        case ["Idx", name]:
            return ix.IndexName(name.strip('"'))
        case ["Ext", name]:
            return ix.ExtentName(name.strip('"'))
        case ["At", [_, *read]]:
            return _read(*read)
    head, left, right = tree
    return ix.IndexArith(_SIGNS[head], _index(left), _index(right))
