import itertools
import math

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of, problem_of, random_egraph
from workbench.extraction.exact.cycle_constraints import (
    Formula,
    Separator,
    formula_of,
    pair_formulas,
)
from workbench.extraction.problem import NoExtraction
from workbench.extraction.reduce.dominators import must_sets

#: Root 0 reads 1; 1 and 2 can read each other, or be built apart.
RING = [(0, [1]), (1, [2]), (1, []), (2, [1]), (2, [])]


def selections(problem):
    """Yield every selection below the roots (e-class → candidate), and whether it is acyclic."""
    members = problem.members()
    for picked in itertools.product(*members.values()):
        of_class = dict(zip(members, picked, strict=True))
        yield of_class, not problem.loops(of_class)


def holds(problem, formula, of_class):
    built, stack = set(), list(problem.roots)
    while stack:
        c = stack.pop()
        if c not in built:
            built.add(c)
            stack += problem.children[of_class[c]]
    taken = {of_class[c] for c in built}
    supply = len(taken & set(formula.by))
    return len(taken & set(formula.taken)) <= supply and all(j not in built or supply for j in formula.built)


def problems(count):
    for seed in range(count):
        egraph, costs = random_egraph(seed)
        try:
            problem = problem_of(egraph, costs + 1)
        except NoExtraction:
            continue
        if math.prod(map(len, problem.members().values())) <= 400:
            yield problem


def test_the_formula_of_a_ring():
    problem = problem_of(egraph_of(RING), np.ones(5))
    formula = formula_of(problem, [1, 2], problem.members())
    assert formula == Formula(by=(2, 4), built=(1, 2))


def test_formulas_hold_for_every_acyclic_selection():
    counts = [0, 0]
    for problem in problems(400):
        members = problem.members()
        loops = {
            tuple(sorted(loop)) for s, fine in selections(problem) if not fine for loop in problem.loops(s)
        }
        formulas = [formula_of(problem, loop, members) for loop in sorted(loops)]
        pairs = list(pair_formulas(problem, must_sets(problem)))
        for selection, fine in selections(problem):
            if fine:
                assert all(holds(problem, f, selection) for f in (*formulas, *pairs))
            else:
                counts[0] += 1
                assert not all(holds(problem, f, selection) for f in formulas)
        counts[1] += len(pairs)
    assert min(counts) > 50


def test_a_loop_is_found_where_it_is_needed_only():
    problem = problem_of(egraph_of(RING), np.ones(5))
    assert problem.loops({0: 0, 1: 1, 2: 3}) == [[1, 2]]
    assert problem.loops({0: 0, 1: 1, 2: 4}) == []
    # The loop stands beside what the root needs.
    apart = problem_of(egraph_of([*RING, (0, []), (3, [1])], (0, 3)), np.ones(7))
    assert apart.loops({0: 5, 1: 2, 2: 3, 3: 6}) == []


def test_separation_finds_what_a_fractional_solution_violates():
    problem = problem_of(egraph_of(RING), np.ones(5))
    x, y = [1.0, 0.9, 0.1, 0.9, 0.0], {0: 1.0, 1: 1.0, 2: 0.9}
    (formula,) = Separator.of(problem)(x, y, math.inf)
    assert set(formula.by) == {2, 4}
    assert set(formula.built) == {1, 2}
    founded = Separator.of(problem).founded(x)
    assert founded[1] == pytest.approx(0.1)
    assert Separator.of(problem)([1.0, 0.0, 1.0, 0.0, 0.0], {0: 1.0, 1: 1.0, 2: 0.0}, math.inf) == []


def test_what_is_separated_is_violated_and_cuts_off_no_acyclic_selection():
    rng = np.random.default_rng(0)
    cut = 0
    for problem in problems(400):
        members = problem.members()
        x = rng.random(len(problem.nodes))
        y = {c: min(1.0, float(sum(x[i] for i in m))) for c, m in members.items()}
        for formula in Separator.of(problem)(x, y, math.inf):
            cut += 1
            supply = sum(x[i] for i in formula.by)
            assert all(y[j] > supply for j in formula.built)
            assert all(holds(problem, formula, s) for s, fine in selections(problem) if fine)
    assert cut > 30


def test_formulas_without_loops_hold_and_raise_the_bound():
    found = 0
    for problem in problems(300):
        separator = Separator.of(problem, everywhere=True)
        members = problem.members()
        # Every candidate to an equal share: half of one choice and half of another.
        x = [1 / len(members[c]) for c in problem.eclass]
        formulas = separator(x, dict.fromkeys(members, 1.0), math.inf)
        found += len(formulas)
        for selection, fine in selections(problem):
            if fine:
                assert all(holds(problem, f, selection) for f in formulas)
    assert found > 20
