"""What is known of all sizes that a model accepts, and what is proved from it."""

import itertools

import numpy as np
import pytest

from workbench.symbolic.facts import Facts
from workbench.symbolic.integers import at_least, choose, div, equal, largest, num, smallest, sym, thresholds

N, M = sym("+n"), sym("+m")


@pytest.mark.parametrize(
    ("x", "proved"),
    [
        (N - 1, True),
        (N - 2, False),
        (N * M - N, True),
        (N - smallest(N, num(100)), True),
        (largest(N - 100, num(0)), True),
        (N - largest(N - 100, num(0)), True),
        (largest(N - M, num(0)) - 1, False),
        (N - div(N, num(2)) * 2, True),
        (div(N + 15, num(16)) * 16 - N, True),
        (N - div(N + 15, num(16)) * 16, False),
        (choose(at_least(N, num(2)), div(N, num(2)), num(1)) - 1, True),
        (div(N, num(2)) - 1, False),
        (div(N + 1, num(2)) * div(M + 1, num(2)) - 1, True),
        (div(N + 1, num(2)) * div(M, num(2)) - 1, False),
        (div(num(-5), N) + 4, False),
        ((div(N + 3, num(2)) - 1) * 32 * M - 1, True),
    ],
)
def test_what_is_at_least_zero_for_all_sizes_is_proved(x, proved):
    assert Facts().nonnegative(x) == proved


@pytest.mark.slow
def test_nothing_is_proved_that_is_wrong_for_some_size():
    rng = np.random.default_rng(0)

    def drawn(depth):
        kind = int(rng.integers(0, 7 if depth else 3))
        if kind < 2:
            return (N, M)[kind]
        if kind == 2:
            return num(int(rng.integers(-6, 7)))
        a, b = drawn(depth - 1), drawn(depth - 1)
        if kind == 3:
            return a - b
        if kind == 4:
            return largest(a, b)
        if kind == 5:
            return div(a, num(int(rng.integers(2, 5))))
        return choose(equal(a, b), b + 1, a) if rng.random() < 0.5 else choose(at_least(a, b), a - b, b)

    proved = 0
    for _ in range(1500):
        x, fact = drawn(3), drawn(1)
        facts = Facts()
        facts.add(fact)
        if facts.nonnegative(x):
            proved += 1
            for n, m in itertools.product(range(1, 13), repeat=2):
                if fact.at({"+n": n, "+m": m}) >= 0:
                    assert x.at({"+n": n, "+m": m}) >= 0, (x, fact, n, m)
    assert proved > 300


def test_what_a_model_requires_bounds_its_sizes():
    facts = Facts()
    facts.add(div(N - 10, num(5)) - 2)
    facts.add(64 - M)
    assert facts.least == {"+n": 20}
    assert facts.most == {"+m": 64}
    assert facts.nonnegative(N - 20)
    assert not facts.nonnegative(N - 21)
    assert facts.smallest(M, num(100)) == M


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        (div(N, num(2)) * 2, N, {"+n": N * 2}),
        (div(div(N, num(2)), num(2)) * 4, N, {"+n": N * 4}),
        (div(N + 1, num(2)), div(N, num(2)) + 1, {"+n": N * 2 - 1}),
        (sym("+total"), N + M, {"+total": N + M}),
        (N * 6, num(6), {"+n": num(1)}),
        (div(N * M, num(2)) * 2, N * M, {}),
    ],
)
def test_an_equality_gives_a_symbol_if_it_holds_nowhere_else(a, b, found):
    assert Facts().solved(a, b)[0] == found


def test_a_table_that_is_cut_to_a_length_bounds_the_length():
    facts = Facts()
    cut = smallest(N, num(64))
    assert facts.must_equal(N, cut)
    assert facts.solved(N, cut) == ({}, [64 - N])
    assert not facts.must_equal(N, M)


def test_extents_that_broadcast_are_one_of_both():
    facts = Facts()
    assert facts.broadcast(N, num(1)) == N
    assert facts.broadcast(N + M, sym("+total")) == N + M  # past and new tokens are more than one
    found = facts.broadcast(N, M)
    for n, m in ((1, 5), (5, 1), (5, 5), (1, 1)):
        assert found.at({"+n": n, "+m": m}) == max(n, m)
    assert facts.near({"+n": 3, "+m": 4, "+total": 9})["+total"] == 7


@pytest.mark.parametrize(
    ("extent", "equal"), [(N * N, True), (N * 2, False), (N - N // 2, False), (M, False), (num(1), False)]
)
def test_extents_are_equal_if_they_are_one_together_and_else_more(extent, equal):
    # N * 2 is 2 where N is 1, and N - N // 2 is 1 where N is 2: both broadcast there.
    assert Facts().must_equal(N, extent) == Facts().must_equal(extent, N) == equal


def test_sizes_around_which_something_changes_are_found():
    found = [smallest(N, num(100)), choose(equal(N, num(7)), num(1), num(0)), largest(M - 30, N)]
    assert {7, 101} <= thresholds(found, "+n", {"+n": 3, "+m": 5})
    assert thresholds(found, "+m", {"+n": 3, "+m": 5}) == {33}


def test_sizes_are_brought_into_a_table_that_holds_their_sum():
    facts = Facts()
    facts.add(40 - N - M)
    found = facts.near({"+n": 128, "+m": 128})
    assert found["+n"] + found["+m"] <= 40
    assert min(found.values()) >= 8


def test_what_is_not_positive_by_its_form_divides_if_facts_say_so():
    frames = div(N, num(80)) - 1
    facts = Facts()
    assert facts.quotient(frames * M * 128, frames * M * 32) is None
    facts.add(N - 400)
    assert facts.quotient(frames * M * 128, frames * M * 32) == num(4)
