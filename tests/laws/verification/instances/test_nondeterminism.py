import random

import pytest

from workbench.laws.verification.instances.linear import Inconsistent
from workbench.laws.verification.instances.nondeterminism import Enumeration, RandomChoices


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
