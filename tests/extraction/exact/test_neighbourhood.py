"""Neighbourhoods of large-neighbourhood search."""

import itertools
import math
import random

import pytest

from tests.extraction.egraphs import brute_force, least, problem_of, random_egraph, random_problem
from workbench.extraction.exact.lns import Surroundings, freed
from workbench.extraction.greedy.dag import greedy, settle
from workbench.extraction.reduce.cycles import components


def start(problem):
    place = {node: i for i, node in enumerate(problem.nodes)}
    return {c: place[n] for c, n in greedy(problem).taken.items()}


def cases(seeds):
    """Yield random problems with a selection, the other e-classes' candidates and free e-classes."""
    for seed in seeds:
        egraph, costs = random_egraph(seed)
        if brute_force(egraph, costs) is None:
            continue
        problem = problem_of(egraph, costs)
        if not problem.roots:
            continue
        rng = random.Random(seed)
        classes = sorted(set(problem.eclass))
        free = set(rng.sample(classes, rng.randint(1, len(classes))))
        yield problem, start(problem), settle(problem, problem.cost).choice, free


def least_around(problem, picked, others, free):
    """Return the least cost of the acyclic selections that differ in free e-classes only, by trying all."""
    members = problem.members()
    classes = list(members)
    options = [members[c] if c in free else [picked.get(c, others[c])] for c in classes]
    best = math.inf
    for found in itertools.product(*options):
        choice = {c: i for c, i in zip(classes, found, strict=True) if i >= 0}
        if problem.cost_of(choice) < best and not problem.loops(choice):
            best = problem.cost_of(choice)
    return best


def test_the_best_of_a_neighbourhood_is_that_of_all_selections_which_differ_there():
    gains = 0
    for problem, picked, others, free in cases(range(600)):
        small = freed(problem, picked, others, free, components(problem))
        place = {i: k for k, i in enumerate(small.nodes)}
        begin = {small.eclass[place[i]]: place[i] for i in picked.values() if i in place}
        always = problem.cost_of(picked) - small.cost_of(begin)
        expected = least_around(problem, picked, others, free)
        assert always + least(small) == pytest.approx(expected)
        gains += expected < problem.cost_of(picked)
    assert gains >= 5


def test_a_neighbourhood_of_everything_is_the_problem():
    for problem, picked, others, _ in cases(range(200)):
        small = freed(problem, picked, others, set(problem.eclass), components(problem))
        assert least(small) == pytest.approx(least(problem))


def test_a_neighbourhood_has_its_own_few_numbers():
    problem = random_problem(1, classes=400)
    picked = start(problem)
    free = set(sorted(picked)[:5])
    small = freed(problem, picked, settle(problem, problem.cost).choice, free, components(problem))
    assert small.n_classes <= 60
    assert max(small.eclass) < small.n_classes


def test_draws_are_repeated_by_the_seed_and_have_about_the_size_asked_for():
    problem = random_problem(2, classes=400)
    around = Surroundings.of(problem)
    built = sorted(start(problem))
    for seed in range(20):
        drawn = around.draw(built, 60, random.Random(seed))
        assert drawn == around.draw(built, 60, random.Random(seed))
        assert drawn
        assert sum(len(around.members[c]) for c in drawn) <= 120
