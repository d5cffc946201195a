"""Derivability of equations: both sides in one proof graph, in which given laws make them equal or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from workbench.graph import GraphBuilder
from workbench.laws.proof_graph import ProofGraph
from workbench.laws.verification.proving.chain import find_chain
from workbench.laws.verification.proving.prove import generic_cases
from workbench.laws.verification.refuting.refute import search
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

#: Limits on the rounds and the terms of one attempt; an equation that is not derived within them counts as not
#: derivable.
ROUNDS: Final = 4
MOST_TERMS: Final = 20_000
#: Instances at which a rule without a generic one is derived.
INSTANCES: Final = 6


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
    builder = GraphBuilder()
    leaves = {name: builder.input(name, t.shape, t.dtype) for name, t in types.items()}
    ids = [(_node(builder, leaves, a), _node(builder, leaves, b)) for a, b in pairs]
    graph = ProofGraph(most=MOST_TERMS)
    place = graph.enter(builder.nodes)
    goals = [(place[a], place[b]) for a, b in ids]
    graph.run(laws, goals, rounds=rounds)
    return [graph.equal([goal]) for goal in goals]


def _node(builder: GraphBuilder, leaves: Mapping[str, int], term: Term) -> int:
    if isinstance(term, Var):
        return leaves[term.name]
    attrs = {name: expr.value for name, expr in term.attrs if isinstance(expr, Fixed)}
    return builder.op(term.op, *(_node(builder, leaves, a) for a in term.args), **attrs)


def derived_at_samples(rule: Rule, laws: Sequence[Rule], *, seed: int = 0) -> int:
    """Return the number of drawn instances of a rule if laws imply it at each of them, 0 otherwise.

    A rule with a generic instance is derived there, not here: the result is 0.

    The laws are read in both directions; ``seed`` is the seed of the instances.
    """
    if generic_cases(rule, broadcast=False).instances:
        return 0
    drawn = search(rule, INSTANCES, seed=seed, broadcast=False, corners=()).passed
    return len(drawn) if all(find_chain(i, laws) is not None for i in drawn) else 0
