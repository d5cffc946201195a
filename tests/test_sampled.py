"""Each commit runs other cases of a long list, all have their turn, and the same commit has the same ones."""

import pytest

from tests import sampled


@pytest.fixture
def at(monkeypatch):
    """Return a function that sets the turn."""

    def set_turn(number):
        monkeypatch.setenv("WORKBENCH_TURN", str(number))
        sampled.turn.cache_clear()

    yield set_turn
    sampled.turn.cache_clear()


def chosen(every):
    return [p.values[0] for p in sampled.in_turn("abcdefghij", every) if not p.marks]


def test_every_case_has_its_turn_once(at):
    found = []
    for number in range(4):
        at(number)
        found += chosen(4)
        assert chosen(4) == chosen(4)
    assert sorted(found) == list("abcdefghij")


def test_neighbours_cover_all_numbers_and_begin_again(at):
    found = []
    for number in range(3):
        at(number)
        found += sampled.rotating(12, 4)
    assert found == list(range(12))
    at(3)
    assert sampled.rotating(12, 4) == [0, 1, 2, 3]


def test_without_a_commit_the_turn_is_0(monkeypatch, tmp_path):
    monkeypatch.delenv("WORKBENCH_TURN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sampled.turn.__wrapped__() == 0


def test_of_those_whose_turn_has_come_bin_test_runs_a_part_and_all_have_their_turn_there_too(at):
    quick = []
    for number in range(6):
        at(number)
        cases = {p.values[0]: [mark.name for mark in p.marks] for p in sampled.in_turn(range(12), 2, quick=3)}
        assert sorted(map(tuple, cases.values())) == [()] * 2 + [("nightly",)] * 6 + [("slow",)] * 4
        quick += [case for case, marks in cases.items() if not marks]
    assert sorted(quick) == list(range(12))
