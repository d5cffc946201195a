"""Requirements on unknown extents are solved, and completed assignments are exactly the solutions."""

import operator
import random
from itertools import product

import pytest

from workbench.laws.verification.instances.linear import Inconsistent, NotLinear, Relation, System


def extents(count):
    system = System()
    return system, *(system.fresh("abcdefgh"[i], "extent") for i in range(count))


def test_equations_are_solved():
    system, a, b, c = extents(3)
    system.require(a + b == c)
    system.require(a - b == 1)
    (free,) = system.free()
    for value in range(3, 12, 2):
        found = system.complete({free: value})
        assert found is not None
        assert found[free] == value
        assert (found[0] + found[1], found[0] - found[1]) == (found[2], 1)
    system.require(c == 9)
    assert system.free() == []
    assert [x.reduced() for x in (a, b, c)] == [5, 4, 9]
    assert system.complete({}) == {0: 5, 1: 4, 2: 9}


def test_what_is_decided_is_a_boolean_and_what_is_not_is_a_relation():
    _, a, b = extents(2)
    assert (a == a) is True
    assert (a + 1 > a) is True
    assert (a != a) is False
    assert (2 * (a - b) + 2 * b - a <= a) is True
    relation = a < b
    assert isinstance(relation, Relation)
    assert relation.holds({0: 1, 1: 2})
    assert not relation.holds({0: 2, 1: 2})


@pytest.mark.parametrize(
    "contradiction",
    [
        lambda s, a, b: s.require(a == a + 1),
        lambda s, a, b: s.require(a == 0),  # an extent is 1 or more
        lambda s, a, b: s.require(2 * a == 3),  # no fraction of an extent
        lambda s, a, b: (s.require(a == b), s.require(a == b + 1)),
        lambda s, a, b: (s.require(a == b), s.require(a != b)),
        lambda s, a, b: s.require(s.fresh("rank", "rank", 4) == 5),  # a bound from above
        lambda s, a, b: (s.require(a >= b + 1), s.require(a == 2), s.require(b == 2), s.check()),
        lambda s, a, b: s.require(False),
    ],
)
def test_a_contradiction_is_found(contradiction):
    system, a, b = extents(2)
    with pytest.raises(Inconsistent):
        contradiction(system, a, b)


def test_products_and_divisions_by_unknowns_are_refused_until_they_are_known():
    system, a, b = extents(2)
    for impossible in (lambda: a * b, lambda: a * a, lambda: a // b, lambda: a % b, lambda: 12 // a):
        with pytest.raises(NotLinear):
            impossible()
    system.require(b == 3)
    assert (a * b - 3 * a == 0) is True
    assert (b * a - 3 * a == 0) is True
    assert b * b == 9
    assert 12 // b == 4
    assert b // b == 1
    system.require(a // b == 2)
    (free,) = system.free()
    assert system.complete({free: 8}) is not None
    assert system.complete({free: 9}) is None


def test_a_quotient_follows_from_its_dividend():
    system, n, m = extents(2)
    quotient, rest = (n + 3) // 2, (n + 3) % 2
    system.require(m == quotient + 1)
    assert system.free() == [0]  # neither the quotient nor what it determines
    for value in range(1, 9):
        found = system.complete({0: value})
        assert found is not None
        assert found[1] == (value + 3) // 2 + 1
        assert rest.value(found) == (value + 3) % 2


def test_equal_dividends_share_a_quotient():
    system, a, b = extents(2)
    assert ((a + 1) // 2 == (1 + a) // 2) is True
    assert isinstance(a // 2 == a // 3, Relation)
    assert isinstance(a // 2 == b // 2, Relation)
    system.require(a == b)
    assert (a // 2 == b // 2) is True
    assert (a // 1 == a) is True
    assert a % 1 == 0


def test_a_dividend_may_be_determined_by_its_quotient():
    system, n = extents(1)
    quotient = n // 2
    system.require(n == 2 * quotient + 1)
    (free,) = system.free()
    assert system.complete({free: 3})[0] == 7
    system, n = extents(1)
    quotient = n // 2
    system.require(n == 3 * quotient)
    (free,) = system.free()
    solutions = [system.complete({free: v}) for v in range(6)]
    assert [s[0] for s in solutions if s is not None] == [3]  # 3 // 2 = 1, but 6 // 2 is not 2


def test_bounds_are_those_of_requirements_on_one_unknown_alone():
    system, a, b, c = extents(3)
    system.require(a <= 5)
    system.require(2 * a <= 7)
    system.require(b + c <= 4)
    assert system.bounds() == {0: 3}
    system.require(c == 1)
    assert system.bounds() == {0: 3, 1: 3}
    system.require(a == 2)
    assert system.bounds() == {1: 3}


def test_an_assignment_below_the_least_or_above_the_top_is_not_a_solution():
    system = System()
    rank, pad = system.fresh("rank", "rank", 4), system.fresh("pad", "pad")
    extent = system.fresh("n", "extent")
    system.require(pad == extent - 2)
    system.require(rank == extent)
    (free,) = system.free()
    whole = [system.complete({free: v}) for v in range(8)]
    assert sorted(s[2] for s in whole if s is not None) == [2, 3, 4]


ATOMS = [
    lambda v: v[0],
    lambda v: v[1],
    lambda v: v[2],
    lambda v: (v[0] + 1) // 2,
    lambda v: (v[1] + v[2]) // 2,
    lambda v: (2 * v[1] + v[0]) // 3,
    lambda v: v[2] % 2,
    lambda v: (v[0] + v[1]) % 3,
]
RELATIONS = [operator.eq, operator.eq, operator.ge, operator.ne, operator.lt]


def requirement(rng):
    """Return a random requirement that runs on numbers and on unknowns alike."""
    parts = [(rng.choice((-2, -1, 1, 1, 2)), atom) for atom in rng.sample(ATOMS, rng.randint(1, 3))]
    relation, constant = rng.choice(RELATIONS), rng.randint(-4, 4)
    return lambda v: relation(sum(factor * atom(v) for factor, atom in parts), constant)


@pytest.mark.slow
def test_completed_assignments_are_exactly_the_solutions():
    rng = random.Random(20)
    box = range(1, 5)
    solvable = contradictory = 0
    for _ in range(250):
        wanted = [requirement(rng) for _ in range(rng.randint(1, 4))]
        solutions = {v for v in product(box, repeat=3) if all(w(v) for w in wanted)}
        system, *unknowns = extents(3)
        try:
            for w in wanted:
                system.require(w(unknowns))
            system.check()
        except Inconsistent:
            assert not solutions
            contradictory += 1
            continue
        free = system.free()
        ranges = [box if system.kinds[u] == "extent" else range(13) for u in free]
        completed = [system.complete(dict(zip(free, numbers, strict=True))) for numbers in product(*ranges)]
        found = {(c[0], c[1], c[2]) for c in completed if c is not None}
        assert {v for v in found if max(v) <= 4} == solutions
        assert all(w(v) for v in found for w in wanted)  # beyond the box too
        solvable += bool(solutions)
    assert solvable > 80
    assert contradictory > 20


def test_a_number_plus_unknowns_is_shown_with_their_names():
    _, a, b = extents(2)
    assert repr(2 * a - b + 3) == "2*a + -1*b + 3"
    assert repr(a - a) == "0"


@pytest.mark.parametrize("shift", [0, 1, -2])
def test_equal_quotients_equate_their_dividends_up_to_remainders(shift):
    system = System(remainders=True)
    a, b = (system.fresh(name, "extent") for name in "ab")
    system.require(a // 3 == b // 3 + shift)
    kinds = [system.kinds[u] for u in system.free()]
    assert sorted(kinds) == ["extent", "remainder", "remainder"]
    # Whatever the free numbers are, only pairs that fit are left; and every pair that fits is met.
    met = set()
    for numbers in product(range(1, 13), repeat=3):
        values = {
            u: n if kind == "extent" else n % 3
            for u, kind, n in zip(system.free(), kinds, numbers, strict=True)
        }
        found = system.complete(values)
        if found is not None:
            assert found[0] // 3 == found[1] // 3 + shift
            met.add((found[0], found[1]))
    free = 0 if 0 in system.free() else 1
    fitting = {(x, y) for x, y in product(range(1, 40), repeat=2) if x // 3 == y // 3 + shift}
    assert {pair for pair in fitting if pair[free] < 13} == met


def test_unknowns_in_proportion_have_a_common_part():
    system = System(remainders=True)
    a, b = (system.fresh(name, "extent") for name in "ab")
    system.require(5 * a == 6 * b)
    (part,) = system.free()
    assert system.complete({part: 7}) == {0: 42, 1: 35, part: 7}
    # Of opposite signs they are zero, which no extent is.
    other = System(remainders=True)
    c, d = (other.fresh(name, "extent") for name in "cd")
    other.require(5 * c == -6 * d)
    assert other.complete(dict.fromkeys(other.free(), 7)) is None


def test_a_number_that_is_not_a_number_says_itself_what_it_equals():
    class Product:
        def __eq__(self, other):
            raise NotLinear("a product")

    _, a, _ = extents(2)
    with pytest.raises(NotLinear):
        _ = a == Product()
    assert (a == "a") is False
    assert (a != "a") is True
