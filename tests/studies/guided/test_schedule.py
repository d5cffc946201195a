"""Schedules of rules as data, and their text."""

import pytest

from workbench.studies.guided.schedule import Repeat, Run, ScheduleError, Sequence, chosen, parse_schedule


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
