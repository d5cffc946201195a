"""Derivability of equations: both sides in one e-graph, which given laws make equal or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from workbench.graph import GraphBuilder
from workbench.laws.verification.proving.prove import Cases, Prover, generic_cases, warm_engine
from workbench.laws.verification.refuting.refute import search
from workbench.ops import TensorType, TypeMismatch
from workbench.rules.pattern import (
    App,
    AttrVar,
    Rule,
    Term,
    Var,
    Vector,
    attribute_variables,
    names_in,
    tensor_variables,
)
from workbench.rules.pattern import Literal as Fixed
from workbench.saturation import Limits, Saturation
from workbench.saturation.remote import RemoteEngine

#: The bounds of one attempt; an equation that is not derived within them counts as not derivable.
BOUNDS: Final = Limits(e_nodes=20_000, seconds=20.0, iterations=4, k_multi=0, weights=True)


def backwards(rule: Rule) -> Rule | None:
    """Return a law read from right to left, or None if it cannot be read so.

    The right-hand side must bind every variable, and its attributes must be values or variables.

    >>> from workbench.rules import parse_rule
    >>> print(backwards(parse_rule("both: matmul(x, add(y, z)) => add(matmul(x, y), matmul(x, z))")[0]))
    both-back: add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))
    """
    if rule.each or not all(isinstance(t, App) for t in rule.targets):
        return None
    bound = {("tensor", v) for t in rule.targets for v in tensor_variables(t)}
    bound |= {n for t in rule.targets for n in attribute_variables(t)}
    needed = {("tensor", v) for s in rule.sources for v in tensor_variables(s)}
    needed |= {n for s in rule.sources for n in attribute_variables(s)}
    needed |= {n for c in rule.conditions for side in (c.left, c.right) for n in names_in(side)}
    if not needed <= bound or not all(_matchable(t) for t in rule.targets):
        return None
    targets = tuple(t for t in rule.targets if isinstance(t, App))
    return replace(rule, name=f"{rule.name}-back", sources=targets, targets=rule.sources)


def _matchable(term: Term) -> bool:
    if isinstance(term, Var):
        return True
    simple = all(
        isinstance(item, Fixed | AttrVar)
        for _, expr in term.attrs
        for item in (expr.items if isinstance(expr, Vector) else (expr,))
    )
    return simple and all(map(_matchable, term.args))


def both_ways(rules: Sequence[Rule], *, distinct: bool = True) -> list[Rule]:
    """Return laws and, if they can be read so, the laws from right to left.

    Args:
        rules: The laws.
        distinct: Whether names tell laws apart, so that none is added that is there by name.
    """
    names = {r.name for r in rules} if distinct else frozenset()
    found = list(rules)
    for rule in rules:
        back = backwards(rule)
        if back is not None and back.name not in names:
            found.append(back)
    return found


@dataclass(slots=True)
class Derivation:
    """An engine that finds which equations are implied by laws, within bounds.

    ``types`` are the types of the variables. The engine's process is started once.
    """

    types: Mapping[str, TensorType]
    bounds: Limits = BOUNDS
    engine: RemoteEngine | None = None

    def derived(
        self,
        pairs: Sequence[tuple[Term, Term]],
        laws: Sequence[Rule],
        halt: Callable[[], bool] = lambda: False,
    ) -> list[bool]:
        """Return for each pair of terms whether the laws make them equal; laws are read both ways.

        Args:
            pairs: Terms over the variables, with fixed attributes.
            laws: The laws.
            halt: Whether to stop before the next iteration.
        """
        if not laws or not pairs:
            return [False] * len(pairs)
        builder = GraphBuilder()
        leaves = {name: builder.input(name, t.shape, t.dtype) for name, t in self.types.items()}
        ids = [(_node(builder, leaves, a), _node(builder, leaves, b)) for a, b in pairs]
        roots = sorted({i for pair in ids for i in pair})
        graph = builder.graph([(f"r{i}", i) for i in roots])
        place = dict(zip(roots, graph.output_ids, strict=True))
        if self.engine is None:
            self.engine = warm_engine(self.bounds.memory)
        saturation = Saturation(graph, both_ways(laws), self.bounds, engine=self.engine, keep=0)
        self.engine = saturation.engine
        saturation.start_engine()
        met = [False] * len(pairs)
        while True:
            classes = saturation.classes()
            met = [classes[place[a]] == classes[place[b]] for a, b in ids]
            if all(met) or saturation.stop_reason is not None or halt():
                return met
            saturation.step()

    def close(self) -> None:
        """End the engine's process; it starts again when needed."""
        if self.engine is not None:
            self.engine.kill()
            self.engine = None


def _node(builder: GraphBuilder, leaves: Mapping[str, int], term: Term) -> int:
    if isinstance(term, Var):
        return leaves[term.name]
    attrs = {name: expr.value for name, expr in term.attrs if isinstance(expr, Fixed)}
    return builder.op(term.op, *(_node(builder, leaves, a) for a in term.args), **attrs)


# -- derivations at drawn instances ----------------------------------------------------------------------
#: Instances at which a rule is derived.
INSTANCES: Final = 6
#: The bounds of the e-graph.
INSTANCE_BOUNDS: Final = Limits(e_nodes=20_000, seconds=20.0, iterations=6, k_multi=0)


def derived_at_samples(rule: Rule, laws: Sequence[Rule], *, seed: int = 0) -> int:
    """Return the number of drawn instances of a rule if laws imply it at each of them, 0 otherwise.

    A rule with a generic instance is derived there, not here: the result is 0.

    The laws are read in both directions; ``seed`` is the seed of the instances.
    """
    if generic_cases(rule, broadcast=False).instances:
        return 0
    drawn = tuple(search(rule, INSTANCES, seed=seed, broadcast=False, corners=()).passed)
    if not drawn:
        return 0
    prover = Prover([rule], both_ways(laws), INSTANCE_BOUNDS, broadcast=False)
    prover.cases[0] = Cases(drawn, False, sampled=len(drawn))
    try:
        if not prover.begin():
            return 0
        while not prover.pass_over:
            prover.step()
    except (TypeMismatch, ValueError):
        return 0
    finally:
        prover.close()
    return len(drawn) if prover.proof(0) is not None else 0
