"""Make a counterexample small: a lower rank, smaller extents, elements that are 0 or 1."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import numpy as np

from workbench.laws.verification.instances.ground import instance_of, options, sample
from workbench.laws.verification.instances.linear import Inconsistent, NotLinear
from workbench.laws.verification.instances.spaces import Space, open_space
from workbench.laws.verification.instances.typings import Menu, RandomChoices
from workbench.laws.verification.refuting.cases import Case, Counterexample, case_of, plain_list, text_of
from workbench.laws.verification.refuting.exact_arithmetic import ARITHMETICS, filled, whole_numbers
from workbench.ops import TypeMismatch
from workbench.ops.exact import Inexact
from workbench.rules.pattern import Rule
from workbench.support import deadline


def small(
    rule: Rule,
    case: Case,
    space: Space | None,
    values: dict[int, int] | None,
    rng: random.Random,
    menu: Menu,
) -> Counterexample | None:
    """Return a small counterexample from a case that is one, None if whole numbers do not show it.

    Args:
        rule: The rule.
        case: An instance on which the two sides differ.
        space: The family of the instance, if it is known.
        values: The numbers that the instance has for the unknowns of the family.
        rng: The source of random numbers.
        menu: The values to choose from.
    """
    return _flat(rule, case, rng, menu) or _shrunk(case, space, values, rng, menu)


def _whole(case: Case) -> str:
    """Return an arithmetic in which small whole numbers are exact."""
    return whole_numbers(case.nodes[i] for i in case.live) if case.kind == "modular" else case.kind


def _witness(case: Case, rng: random.Random, tries: int) -> dict[int, np.ndarray] | None:
    for attempt in range(tries):
        values = case.draw(rng, _whole(case), 2 if attempt < tries // 2 else 4)
        with suppress(Inexact):
            if case.differs(_whole(case), values) is not None:
                return values
    return None


def _flat(rule: Rule, case: Case, rng: random.Random, menu: Menu) -> Counterexample | None:
    """Return a counterexample of smaller rank than a case that is one, or None."""
    most = max((case.nodes[i].tensor.rank for i in case.leaves.values()), default=0)
    for rank in range(most):
        lower = replace(menu, ranks=(rank,))
        for _ in range(12):
            deadline.check()
            try:
                space = open_space(rule, RandomChoices(rng), lower)
                values = sample(space, rng, lower)
                if values is None:
                    continue
                found = case_of(instance_of(space, values))
                if found.large or found.differs(found.kind, found.draw(rng)) is None:
                    continue
            except (Inexact, Inconsistent, NotLinear, TypeMismatch):
                continue
            ranks = [found.nodes[i].tensor.rank for i in found.leaves.values()]
            if max(ranks, default=0) < most:
                shown = _shrunk(found, space, values, rng, lower)
                if shown is not None:
                    return shown
    return None


def _shrunk(
    case: Case, space: Space | None, values: dict[int, int] | None, rng: random.Random, menu: Menu
) -> Counterexample | None:
    """Return a counterexample whose extents and elements no single step makes smaller."""
    best, witness = case, _witness(case, rng, 20)
    free = [] if space is None or values is None else space.system.free()
    current = {u: values[u] for u in free} if values is not None else {}
    changed = True
    while changed:
        changed = False
        for unknown in free:
            assert space is not None
            deadline.check()
            for smaller in sorted({1, *options(space, unknown, menu)}):
                if smaller >= current[unknown]:
                    break
                complete = space.system.complete(current | {unknown: smaller})
                if complete is None:
                    continue
                with suppress(TypeMismatch):
                    smaller_case = case_of(instance_of(space, complete))
                    found = _witness(smaller_case, rng, 6)
                    if found is not None:
                        best, witness, changed = smaller_case, found, True
                        current[unknown] = smaller
                        break
    return None if witness is None else _shown(best, *_simple(best, witness))


def _simple(case: Case, values: dict[int, np.ndarray]) -> tuple[dict[int, np.ndarray], int, tuple[int, ...]]:
    """Set elements to 0 or 1 as long as the two sides still differ."""
    kind = _whole(case)
    outcome = case.differs(kind, values)
    assert outcome is not None
    budget = 400
    for i in values:
        for index in np.ndindex(values[i].shape):
            for simple in (0, 1):
                old = values[i][index]
                if budget <= 0 or old == simple:
                    break
                budget -= 1
                values[i][index] = filled(kind, [simple], ()).item()
                trial = None
                with suppress(Inexact):
                    trial = case.differs(kind, values)
                if trial is not None:
                    outcome = trial
                    break
                values[i][index] = old
    return values, *outcome


def _shown(case: Case, values: dict[int, np.ndarray], output: int, index: tuple[int, ...]) -> Counterexample:
    kind = _whole(case)
    results = case.results(kind, values)
    left, right = case.pairs[output]
    names = {i: name for name, i in case.leaves.items()}
    kinds = {name: case.nodes[i].tensor for name, i in case.leaves.items()}
    # A variable that only gives context does not enter the values, but without it the rule does not match.
    ones = {name: filled(kind, [1] * k.elements, k.shape) for name, k in kinds.items()}
    return Counterexample(
        kinds,
        case.instance.settings(),
        {name: plain_list(values.get(i, ones[name])) for name, i in case.leaves.items()},
        output,
        index,
        plain_list(results[left]),
        plain_list(results[right]),
        ARITHMETICS[kind],
        text_of(case.nodes, left, names),
        text_of(case.nodes, right, names),
    )
