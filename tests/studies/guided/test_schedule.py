"""Schedules of rules as data, and their text; saturations whose rules a policy chooses."""

import pytest

from tests.saturation.test_engine import shared_matmuls, sum_of
from workbench.rules import parse_rules
from workbench.run.trace import StopReason
from workbench.saturation import Limits, Saturation
from workbench.studies.guided import Backoff, Guided, Scheduled
from workbench.studies.guided.schedule import (
    Policy,
    Repeat,
    Run,
    ScheduleError,
    Sequence,
    chosen,
    parse_schedule,
)

AC = parse_rules("commute: add(x, y) => add(y, x)\nregroup: add(add(x, y), z) => add(x, add(y, z))")
PAIR = parse_rules(
    "pair: matmul(x, w) ; matmul(x, v) => "
    "slice[axis=-1, start=0, stop=dim(w, -1)](matmul(x, concat[axis=-1](w, v))) ; "
    "slice[axis=-1, start=dim(w, -1), stop=dim(w, -1) + dim(v, -1)](matmul(x, concat[axis=-1](w, v)))"
)
FULL = 3**5 - 2**6 + 1 + 5


def test_a_text_is_read_as_data():
    found = parse_schedule("run a-* b until saturated, then c twice, repeat")
    assert found == Repeat(Sequence((Run(("a-*", "b")), Run(("c",), 2))))
    assert parse_schedule("run (a once, then b 3 times, repeat 4 times), then c until saturated") == Sequence(
        (Repeat(Sequence((Run(("a",), 1), Run(("b",), 3))), 4), Run(("c",)))
    )


def test_the_text_of_a_schedule_reads_back():
    for text in ("a until saturated, then b twice, repeat", "(a once, repeat 2 times), then b 5 times"):
        schedule = parse_schedule(text)
        assert parse_schedule(str(schedule)) == schedule


@pytest.mark.parametrize(
    ("text", "words"),
    [("a", "how often"), ("twice", "name rules"), ("(a once", r"end with '\)'"), ("a 0 times", "at least 1"),
     ("a once b", "or the end, got 'b'"),
     ("a 3 time", "after 'a 3 time'"), ("a once; b", "rules and words")],
)  # fmt: skip
def test_other_texts_are_refused(text, words):
    with pytest.raises(ScheduleError, match=words):
        parse_schedule(text)


def test_patterns_choose_names_and_must_match():
    assert chosen(("m*", "c"), ("mat", "conv", "c")) == {"mat", "c"}
    with pytest.raises(ScheduleError, match="got 'x'"):
        chosen(("x",), ("a",))
    with pytest.raises(ScheduleError, match="did you mean regroup"):
        chosen(("regruop",), ("regroup", "commute"))


def after(policy, graph=None, rules=AC, **limits):
    with Guided(graph or sum_of(5), rules, policy, Limits(**limits)) as run:
        return run.run(), run.e_nodes, [tuple(sorted(c)) for c in run.chosen]


def test_a_schedule_says_which_rules_run():
    reason, e_nodes, steps = after(Scheduled(parse_schedule("regroup until saturated, then commute once")))
    assert reason is StopReason.FINISHED
    assert steps[-1] == ("commute",)
    assert set(steps[:-1]) == {("regroup",)}
    assert e_nodes < FULL


@pytest.mark.parametrize(
    "policy",
    [
        lambda: Scheduled(parse_schedule("(commute once, then regroup until saturated), repeat")),
        lambda: Scheduled(parse_schedule("* until saturated")),
        lambda: Backoff(limit=20),
        lambda: Backoff(limit=10_000),
    ],
)
def test_a_policy_that_leaves_nothing_out_reaches_saturation(policy):
    reason, e_nodes, _ = after(policy())
    assert e_nodes == FULL
    assert reason in (StopReason.SATURATED, StopReason.FINISHED)


def test_limits_hold_under_any_policy():
    reason, e_nodes, _ = after(Backoff(), e_nodes=50)
    assert (reason, e_nodes <= 50) == (StopReason.E_NODE_LIMIT, True)
    reason, _, steps = after(Backoff(), iterations=2)
    assert (reason, len(steps)) == (StopReason.ITERATION_LIMIT, 2)


def test_rules_of_several_roots_run_when_they_are_chosen_and_allowed():
    graph = shared_matmuls(2)
    assert after(Scheduled(parse_schedule("pair once")), graph, PAIR)[1] > len(graph)
    assert after(Scheduled(parse_schedule("pair once")), graph, PAIR, k_multi=0)[1] == len(graph)


def test_without_a_policy_nothing_is_different():
    with Saturation(sum_of(5), AC) as run:
        run.run()
        assert run.e_nodes == FULL


@pytest.mark.parametrize(
    ("choice", "error", "words"),
    [
        ("regroup", TypeError, "must choose a set of names of rules, got 'regroup'"),
        (3, TypeError, "got 3"),
        (["regruop"], LookupError, "no rule is called 'regruop'; did you mean regroup"),
    ],
)
def test_a_policy_that_chooses_no_rules_is_reported(choice, error, words):
    class Own(Policy):
        def choose(self, progress):
            return choice

    with pytest.raises(error, match=words):
        after(Own())


def test_a_policy_may_choose_a_list():
    class Own(Policy):
        def choose(self, progress):
            return ["regroup"] if not progress.steps else None

    assert after(Own())[2] == [("regroup",)]
