"""Derivability of equations: both sides in one e-graph, which given laws make equal or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from workbench.graph import GraphBuilder
from workbench.laws.verification.proving.prove import warm_engine
from workbench.ops import TensorType
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
