import random
from dataclasses import replace

import numpy as np
import pytest

from workbench.laws.verification.instances.linear import Inconsistent, Linear, NotLinear, Relation, System
from workbench.laws.verification.instances.typings import (
    AXES,
    Enumeration,
    Menu,
    RandomChoices,
    SpaceType,
    SpaceTyping,
    known,
)


class Refusing:
    """Decide nothing: what follows has to follow by itself."""

    def pick(self, options):
        raise AssertionError(f"a decision among {options}")

    def some(self, options):
        assert len(options) == 1, f"a decision among {options}"
        return options[0]


class Fixed:
    """Decide as told, and note between what."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def pick(self, options):
        self.asked.append(set(options))
        answer = self.answers.pop(0)
        assert answer in options
        return answer

    def some(self, options):
        return options[0] if len(options) == 1 else self.pick(options)


def typing(choices=None, **menu):
    return SpaceTyping(System(), choices or Refusing(), replace(Menu(), **menu))


def unknown(t, name="x"):
    """Return a type of which nothing is known."""
    dims = tuple(t.system.fresh(f"{name}{i}", "extent") for i in range(AXES))
    return SpaceType(t.system.fresh(f"rank {name}", "rank", AXES), dims)


def settled(t):
    while t.forced():
        pass
    assert not t.pending


def numbers(kind):
    return known(kind.rank), tuple(known(d) for d in kind.dims)


def test_shapes_are_aligned_at_the_right():
    t = typing()
    x = t.constant("float32", 2, 3)
    assert numbers(x) == (2, (1, 1, 2, 3))
    assert [t.dim(x, axis) for axis in (-1, -2, -3, -4, -5)] == [3, 2, 1, 1, 1]
    assert numbers(t.with_dim(x, -2, 7)) == (2, (1, 1, 7, 3))
    assert numbers(t.permute(x, (1, 0))) == (2, (1, 1, 3, 2))
    assert t.elements(x) == 6
    assert str(x) == "[1, 1, 2, 3]"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t, x: t.with_dim(x, -3, 1),
        lambda t, x: t.require_axis(x, -3),
        lambda t, x: t.require_axis(x, -(AXES + 1)),
        lambda t, x: t.require_axis(x, 0),  # axes are counted from the last
        lambda t, x: t.require_axis(x, AXES),
        lambda t, x: t.permute(x, (0, 2, 1)),
        lambda t, x: t.require_same(x, t.constant("float32", 3, 2), ""),
        lambda t, x: t.require_same(x, t.constant("float32", 1, 2, 3), ""),  # one axis more
        lambda t, x: t.constant("float32", 1, 1, 1, 2, 3),
    ],
)
def test_a_type_rule_that_fails_leaves_no_instance(wrong):
    t = typing()
    with pytest.raises(Inconsistent):
        wrong(t, t.constant("float32", 2, 3))


def test_a_permutation_and_an_axis_say_something_of_the_rank():
    t = typing()
    x = unknown(t)
    t.permute(x, (2, 0, 1))
    assert known(x.rank) == 3
    y = unknown(t, "y")
    t.require_axis(y, -3)
    t.require(y.rank <= 3, "")
    t.require(y.rank == 2, "")
    with pytest.raises(Inconsistent):
        t.system.check()


def test_a_product_of_unknowns_stays_below_bounds_and_equals_nothing_known():
    t = typing()
    x = unknown(t)
    assert t.elements(x) <= 1
    for compared in (6, t.elements(unknown(t, "y"))):
        with pytest.raises(NotLinear):
            t.require(t.elements(x) == compared, "")
    for i, extent in enumerate((1, 1, 2)):
        t.require(x.dims[i] == extent, "")
    assert isinstance(t.elements(x), Linear)  # one unknown is left
    assert (t.elements(x) == 2 * x.dims[3]) is True
    with pytest.raises(NotLinear):
        t.concrete("pooling with ceil_mode")


def test_known_shapes_broadcast_as_in_numpy_without_a_decision():
    rng = random.Random(3)
    alike = different = 0
    for _ in range(400):
        left, right = (tuple(rng.choice((1, 1, 2, 3)) for _ in range(rng.randint(0, AXES))) for _ in range(2))
        t = typing()
        out = t.broadcast(t.constant("float32", *left), t.constant("float32", *right))
        try:
            expected = np.broadcast_shapes(left, right)
        except ValueError:
            with pytest.raises(Inconsistent):
                settled(t)
            different += 1
            continue
        settled(t)
        assert numbers(out) == (len(expected), (1,) * (AXES - len(expected)) + expected)
        assert not t.broadcasts  # nothing had to be decided
        alike += 1
    assert min(alike, different) > 30


def test_kept_axes_do_not_broadcast():
    t = typing()
    out = t.broadcast(t.constant("float32", 5, 1, 2, 3), t.constant("float32", 4, 9, 9), keep=2)
    settled(t)
    assert numbers(out) == (4, (5, 4, 2, 3))


@pytest.mark.parametrize(
    ("left", "right", "out", "expected"),
    [
        (1, None, None, "right is out"),
        (None, 1, 4, (4, 1, 4)),
        (None, None, 1, (1, 1, 1)),
        (3, None, None, "open"),
        (3, 2, None, "impossible"),
        (1, 3, 2, "impossible"),
        (3, 3, None, (3, 3, 3)),
    ],
)
def test_an_extent_is_forced_where_only_one_value_is_left(left, right, out, expected):
    t = typing()
    x, y = unknown(t, "x"), unknown(t, "y")
    result = t.broadcast(x, y)
    triple = [kind.dims[0] for kind in (x, y, result)]
    for extent, value in zip(triple, (left, right, out), strict=True):
        if value is not None:
            t.require(extent == value, "")
    if expected == "impossible":
        with pytest.raises(Inconsistent):
            t.forced()
        return
    assert t.forced() is (expected != "open")
    assert (0 in t.pending[0].axes) is (expected == "open")
    if expected == "right is out":
        assert (triple[1] == triple[2]) is True
        assert isinstance(triple[1].reduced(), Linear)
    elif expected != "open":
        assert tuple(known(d) for d in triple) == expected


def test_a_scalar_takes_the_rank_of_the_other_operand():
    t = typing()
    x, y = unknown(t, "x"), t.constant("float32")
    out = t.broadcast(x, y)
    settled(t)
    assert (out.rank == x.rank) is True
    assert all((a == b) is True for a, b in zip(out.dims, x.dims, strict=True))


def test_operands_are_alike_without_a_decision_where_nothing_may_broadcast():
    t = typing(broadcast=False)
    x, y = unknown(t, "x"), unknown(t, "y")
    out = t.broadcast(x, y)
    t.settle()
    settled(t)
    assert all((a == b) is True for a, b in zip((x.rank, *x.dims), (y.rank, *y.dims), strict=True))
    assert (out.rank == y.rank) is True
    assert not t.broadcasts


def test_who_broadcasts_is_decided_axis_by_axis():
    choices = Fixed("broadcast", "less", "left", "right", "equal", "left")
    t = typing(choices)
    x, y = unknown(t, "x"), unknown(t, "y")
    out = t.broadcast(x, y)
    t.settle()
    settled(t)
    assert t.broadcasts
    assert [known(x.dims[i]) for i in (0, 3)] == [1, 1]
    assert known(y.dims[1]) == 1
    assert (x.dims[2] == y.dims[2]) is True
    expected = (y.dims[0], x.dims[1], x.dims[2], y.dims[3])
    assert all((a == b) is True for a, b in zip(out.dims, expected, strict=True))
    assert (out.rank == y.rank) is True
    t.require(y.rank == 2, "")
    t.require(x.rank == 2, "")
    with pytest.raises(Inconsistent):  # the left operand has fewer axes
        t.system.check()


def test_the_larger_number_is_decided_where_it_is_not_known():
    assert typing().maximum(2, 5) == 5
    found, walk = set(), Enumeration()
    while True:
        t = typing(walk)
        a = t.system.fresh("a", "pad")
        larger = t.maximum(a, 2)
        t.require(a <= 4, "")
        for value in range(5):
            if t.system.complete({0: value}) is not None:
                found.add((value, larger if isinstance(larger, int) else larger.value({0: value})))
        if not walk.advance():
            break
    assert found == {(0, 2), (1, 2), (2, 2), (3, 3), (4, 4)}


def test_known_is_a_number_where_one_value_is_left():
    t = typing()
    a, b = t.system.fresh("a", "extent"), t.system.fresh("b", "extent")
    assert known(7) == 7
    assert isinstance(a == b, Relation)
    t.require(a == b + 1, "")
    assert isinstance(known(a), Linear)
    t.require(b == 2, "")
    assert known(a) == 3
    assert type(known(a)) is int


def walk(decide):
    """Return what a function that decides gives under every sequence of decisions; None if it fails."""
    choices, found = Enumeration(), []
    while True:
        try:
            found.append(decide(choices))
        except ArithmeticError:
            found.append(None)
        if not choices.advance():
            return found


def test_every_sequence_is_walked_once_where_later_decisions_depend_on_earlier_ones():
    def decide(choices):
        length = choices.pick((0, 1, 3))
        return tuple(choices.pick("ab" if i % 2 == 0 else "xyz") for i in range(length))

    expected = [(), ("a",), ("b",)]
    expected += [(p, q, r) for p in "ab" for q in "xyz" for r in "ab"]
    assert walk(decide) == expected


def test_what_shares_a_failed_prefix_is_skipped():
    def decide(choices):
        first = choices.pick((0, 1, 2))
        if first == 1:
            raise ZeroDivisionError
        return first, choices.pick("ab")

    # One failure, not one for each option of the decision that was never made.
    assert walk(decide) == [(0, "a"), (0, "b"), None, (2, "a"), (2, "b")]


def test_a_shorter_run_forgets_the_decisions_of_a_longer_one():
    lengths = iter((3, 1, 1, 1))

    def decide(choices):
        return [choices.pick((0, 1)) for _ in range(next(lengths))]

    # The second run stops early: decisions of the first below it no longer count.
    assert walk(decide) == [[0, 0, 0], [0], [1]]


@pytest.mark.parametrize("decide", [lambda choices: 7, lambda choices: choices.pick((7,))])
def test_without_an_alternative_there_is_one_sequence(decide):
    assert walk(decide) == [7]


def test_random_decisions_follow_the_seed_and_the_number_of_times_an_option_stands():
    def drawn(seed):
        choices = RandomChoices(random.Random(seed))
        return [choices.pick(("often", "often", "seldom")) for _ in range(3000)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert 1900 < drawn(1).count("often") < 2100


def test_a_decision_with_one_option_draws_nothing():
    rng = random.Random(5)
    before = rng.getstate()
    assert RandomChoices(rng).pick(("only",)) == "only"
    assert rng.getstate() == before


def test_no_options_are_inconsistent():
    with pytest.raises(Inconsistent):
        RandomChoices(random.Random(0)).pick(())
    walk = Enumeration()
    walk.pick("ab")
    with pytest.raises(Inconsistent):
        walk.pick(())
    assert walk.advance()
    assert walk.pick("ab") == "b"
