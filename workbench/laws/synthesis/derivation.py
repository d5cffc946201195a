"""Derivability: which equations and rules given laws imply.

Equations of terms, and rules in every case of their typing, are questions to the proof graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from workbench.graph import Builder
from workbench.laws.matching import Bindings, Matched, compiled
from workbench.laws.proof_graph import ProofGraph
from workbench.laws.synthesis.grammar import Form, Grammar
from workbench.laws.verification.instances.spaces import Instance
from workbench.laws.verification.proving import Chain, find_chain, generic_cases
from workbench.laws.verification.refuting.refute import search
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.rules.interpret import RowAttr, attributes, evaluate, holds, spread, value
from workbench.rules.pattern import (
    App,
    AttrExpr,
    DimOf,
    Literal,
    Rule,
    Term,
    Var,
    attribute_variables,
    measured,
    names_in,
    rebuilt,
    tensor_variables,
    unbinding,
)
from workbench.rules.verdicts import law_of
from workbench.run.display import Face
from workbench.support import deadline

if TYPE_CHECKING:
    import pandas as pd

#: Limits on the rounds and the terms of one attempt; an equation that is not derived within them counts as not
#: derivable.
ROUNDS: Final = 4
MOST_TERMS: Final = 20_000
#: Instances at which a rule without a generic one is derived, and those of a first look for a counterexample.
INSTANCES, LOOK = 6, 24
#: Limit on the seconds in which one rule is derived.
SECONDS: Final = 30.0


def backwards(rule: Rule) -> Rule | None:
    """Return a law read from right to left, or None if it cannot be read so.

    The right-hand side must bind every variable, and its attributes must be values or variables.

    >>> from workbench.rules import parse_rule
    >>> print(backwards(parse_rule("both: matmul(x, add(y, z)) => add(matmul(x, y), matmul(x, z))")[0]))
    both-back: add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))
    """
    if rule.each or not all(isinstance(t, App) for t in rule.targets):
        return None
    needed, bound = (
        {*attribute_variables(*side), *(("tensor", v) for v in tensor_variables(*side))}
        for side in (rule.sources, rule.targets)
    )
    if not needed.union(names_in(*rule.conditions)) <= bound or any(map(unbinding, rule.targets)):
        return None
    targets = tuple(t for t in rule.targets if isinstance(t, App))
    return replace(rule, name=f"{rule.name}-back", sources=targets, targets=rule.sources)


def derivable(
    pairs: Sequence[tuple[Term, Term]],
    types: Mapping[str, TensorType],
    laws: Sequence[Rule],
    *,
    rounds: int = ROUNDS,
) -> list[bool]:
    """Return for each pair of terms whether laws, read both ways, make them equal within the bounds.

    Args:
        pairs: Terms over variables, with fixed attributes.
        types: The types of the variables.
        laws: The laws.
        rounds: Limit on the rounds in which they are applied.
    """
    builder = Builder()
    leaves = {name: builder.input(name, t.shape, t.dtype) for name, t in types.items()}

    def node(term: Term) -> int:
        if isinstance(term, Var):
            return leaves[term.name]
        attrs = {name: expr.value for name, expr in term.attrs if isinstance(expr, Literal)}
        return builder.op(term.op, *map(node, term.args), **attrs)

    ids = [(node(a), node(b)) for a, b in pairs]
    graph = ProofGraph(most=MOST_TERMS)
    place = graph.enter(builder.nodes)
    goals = [(place[a], place[b]) for a, b in ids]
    graph.run(laws, goals, rounds=rounds)
    return [graph.equal([goal]) for goal in goals]


def chains_at(instances: Sequence[Instance], laws: Sequence[Rule]) -> list[Chain] | None:
    """Return the chains of laws in the first of some instances, None if one of the instances has none."""
    first: list[Chain] | None = None
    for instance in instances:
        chains = find_chain(instance, laws, MOST_TERMS)
        if chains is None:
            return None
        first = first or chains
    return first


@dataclass(frozen=True, slots=True)
class Derived:
    """The outcome for one rule: ``derived``, ``not derived`` or ``refuted``, and its evidence in one line.

    ``used`` are the laws of the chain in its first instance, ``sampled`` the number of instances if they were drawn.
    """

    rule: Rule
    outcome: str
    evidence: str = ""
    used: tuple[str, ...] = ()
    sampled: int = 0


def _derived(rule: Rule, laws: Sequence[Rule], seed: int) -> Derived:
    looked = search(rule, LOOK, seed=seed, broadcast=False)
    if looked.counterexample is not None:
        return Derived(rule, "refuted", str(looked.counterexample))
    if rule.sources == rule.targets:
        return Derived(rule, "derived", "both sides are the same term")
    with suppress(deadline.OutOfTime), deadline.ending(time.time() + SECONDS):
        cases = generic_cases(rule, broadcast=False).instances
        drawn = [] if cases else search(rule, INSTANCES, seed=seed, broadcast=False, corners=()).passed
        chains = chains_at([*cases, *drawn], laws)
        if chains is not None:
            used = tuple(dict.fromkeys(name for chain in chains for name in chain.axioms))
            scope = f"at {len(drawn)} drawn instances " if drawn else ""
            return Derived(rule, "derived", f"{scope}by {', '.join(used)}", used, len(drawn))
    return Derived(rule, "not derived")


@dataclass(slots=True)
class Coverage(Face):
    """The rules of a set that given laws imply.

    A rule is *derived* if a chain of laws, read in both directions, leads from one side to the other in every case of
    the rule's typing. If its typing has no generic case, there must be one at drawn instances, of which ``sampled``
    has the number by the name of the rule. A rule with a counterexample is *refuted*. The others are *not derived*
    within the limits: :data:`MOST_TERMS` and :data:`SECONDS`. ``seed`` is that of the search for counterexamples,
    ``progress`` is called with the name of each rule before it is looked at.
    """

    rules: Sequence[Rule]
    laws: Sequence[Rule]
    seed: int = 0
    progress: InitVar[Callable[[str], object] | None] = None
    found: tuple[Derived, ...] = field(init=False)
    seconds: float = field(init=False, default=0.0)

    def __post_init__(self, progress: Callable[[str], object] | None) -> None:
        began, found = time.perf_counter(), []
        for rule in self.rules:
            if progress is not None:
                progress(rule.name)
            found.append(_derived(rule, self.laws, self.seed))
        self.found = tuple(found)
        self.seconds = time.perf_counter() - began

    def named(self, outcome: str) -> list[str]:
        """Return the names of the rules with an outcome."""
        return [one.rule.name for one in self.found if one.outcome == outcome]

    @property
    def derived(self) -> list[str]:
        """Return the names of the rules that the laws imply."""
        return self.named("derived")

    @property
    def sampled(self) -> dict[str, int]:
        """Return the number of drawn instances of the rules that are derived there, by name."""
        return {one.rule.name: one.sampled for one in self.found if one.sampled}

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of rules per outcome."""
        return {o: len(self.named(o)) for o in ("derived", "not derived", "refuted")}

    @property
    def used(self) -> list[str]:
        """Return the names of the laws that the chains use, in the order of the laws."""
        names = {name for one in self.found for name in one.used}
        return [r.name for r in self.laws if r.name in names]

    def frame(self) -> pd.DataFrame:
        """Return one row per rule: name, outcome, law, and the laws of its chain or the counterexample."""
        import pandas as pd

        rows = [(one.rule.name, one.outcome, law_of(one.rule), one.evidence) for one in self.found]
        return pd.DataFrame(rows, columns=["rule", "outcome", "law", "evidence"])

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"{len(self.found)} rules from {len(self.laws)} laws: {counts['derived']} derived, "
            f"{counts['not derived']} not derived, {counts['refuted']} refuted, {self.seconds:.1f} s"
        )


# -- instances of laws in a grammar ----------------------------------------------------------------
# Their attributes have the values of the grammar's forms.
class _Values(Matched):
    """The values of attribute variables and of rows; the types of tensors are open."""

    def kind(self, name: str) -> TensorType:
        raise TypeMismatch(f"the type of {name} is open")


def grounded(rule: Rule, forms: Sequence[Form], sizes: Mapping[str, int]) -> list[Rule]:
    """Return the instances of a law of one source of which every operator on the left is a form of a grammar.

    Under the assignment ``sizes`` of numbers to extents the forms have their attributes.

    >>> from workbench.rules import parse_rule
    >>> from workbench.laws.synthesis import Grammar
    >>> grammar = Grammar.of("relu concat[axis=-1] concat[axis=-2]")
    >>> (law,) = parse_rule("law: concat[axis=a](relu(x), relu(y)) => relu(concat[axis=a](x, y))")
    >>> for instance in grounded(law, grammar.forms, grammar.sizes[0]):
    ...     print(instance)
    law: concat[axis=-1](relu(x), relu(y)) => relu(concat[axis=-1](x, y))
    law: concat[axis=-2](relu(x), relu(y)) => relu(concat[axis=-2](x, y))
    """
    known = [(form, form.values(sizes)) for form in forms]
    found: dict[Rule, None] = {}
    for source, values in _sources(rule.sources[0], known, {}):
        assert isinstance(source, App)
        try:
            given: list[Any] = [rebuilt(c, partial(_filled, values=values)) for c in rule.conditions]
            target = _target(rule.targets[0], values)
            allowed = all(measured(c) or _Values({}).holds(c) for c in given)
        except TypeMismatch:
            continue
        if allowed:
            conditions = tuple(c for c in given if measured(c))
            found.setdefault(replace(rule, sources=(source,), targets=(target,), conditions=conditions))
    return list(found)


def instances(rule: Rule, grammar: Grammar, types: Mapping[str, TensorType]) -> list[tuple[Term, Term]]:
    """Return both sides of the instances of a law of one source that are well-typed; ``types`` are its variables'."""
    found = []
    for one in grounded(rule, grammar.forms, grammar.sizes[0]):
        try:
            allowed = all(holds(c, _no_attribute, types.__getitem__) for c in one.conditions)
            (source, kind), (target, other) = _typed(one.sources[0], types), _typed(one.targets[0], types)
        except TypeMismatch:
            continue
        if allowed and kind == other and source != target:
            found.append((source, target))
    return found


def readable(laws: Sequence[Rule], grammar: Grammar) -> list[Rule]:
    """Return instances, read backwards, of laws that cannot be read so in general: their attributes are values."""
    found = []
    for law in laws:
        if law.multi or backwards(law) is not None:
            continue
        backs = map(backwards, grounded(law, grammar.forms, grammar.sizes[0]))
        found += [replace(b, name=f"{b.name}-{n}") for n, b in enumerate(b for b in backs if b is not None)]
    return found


def _no_attribute(name: str) -> Any:
    raise TypeMismatch(f"the attribute {name} is open")


def _typed(term: Term, types: Mapping[str, TensorType]) -> tuple[Term, TensorType]:
    """Return a term with values for all attributes, and its type."""
    if isinstance(term, Var):
        return term, types[term.name]
    spec = spec_of(term.op)
    values = {name: evaluate(expr, _no_attribute, types.__getitem__) for name, expr in term.attrs}
    args = [_typed(a, types) for a in term.args]
    kind = spec.result_type([k for _, k in args], spec.pack(values))
    attrs = tuple((name, Literal(given)) for name, given in values.items())
    return App(term.op, tuple(a for a, _ in args), attrs), kind


def _sources(
    term: Term, forms: Sequence[tuple[Form, tuple[Any, ...]]], values: Bindings
) -> Iterator[tuple[Term, Bindings]]:
    """Yield the instances of a term of a left-hand side, with the values of its variables."""
    if isinstance(term, Var):
        yield term, values
        return
    matched, names = compiled(term), spec_of(term.op).attr_names
    for form, given in forms:
        own = dict(values)
        if form.op != term.op or form.arity != len(term.args) or not matched.agrees(given, own):
            continue
        rows: list[tuple[tuple[Term, ...], Bindings]] = [((), own)]
        for arg in term.args:
            rows = [((*args, one), new) for args, old in rows for one, new in _sources(arg, forms, old)]
        literals = tuple((name, Literal(value)) for name, value in zip(names, given, strict=True))
        for args, new in rows:
            yield App(term.op, args, literals), new


def _target(term: Term, values: Bindings) -> Term:
    """Return the instance of a term of a right-hand side; extents of tensors stay expressions."""
    if isinstance(term, Var):
        return term
    attrs: list[tuple[str, AttrExpr]] = []
    for attr, expr in attributes(term):
        if isinstance(expr, RowAttr):
            own = values.get(f"#{expr.row}.{expr.name}", attr.default)
            expr = None if own is None else Literal(own)
        if expr is None:
            raise TypeMismatch(f"{term.op} must have the attribute {attr.name}")
        filled = _filled(expr, values)
        attrs.append(
            (attr.name, Literal(spread(filled.value, attr)) if isinstance(filled, Literal) else filled)
        )
    return App(term.op, tuple(_target(a, values) for a in term.args), tuple(attrs))


def _filled(expr: Any, values: Bindings) -> Any:
    """Return an expression with values for its attribute variables, as a literal if it names no tensor."""
    if not any(kind == "tensor" for kind, _ in names_in(expr)):
        return Literal(value(expr, _Values(values)))
    if isinstance(expr, DimOf):
        return expr if isinstance(expr.axis, int) else DimOf(expr.var, values[f"@{expr.axis}"])
    return rebuilt(expr, partial(_filled, values=values))
