"""Rounds in alternation: order, limits, ratios, intervals."""

import numpy as np
import pytest

from workbench.devices.ranking import compare
from workbench.devices.timing import paired_speedup, rounds
from workbench.graph import GraphBuilder


class Clock:
    """A clock that moves only when a run advances it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("workbench.devices.timing.clock", made)
    return made


def runs_of(clock, log, *durations):
    def run(i):
        log.append(i)
        clock.now += durations[i]
        return durations[i]

    return [lambda i=i: run(i) for i in range(len(durations))]


def test_runs_alternate_and_the_warm_up_is_not_counted(clock):
    log = []
    taken = rounds(runs_of(clock, log, 1.0, 2.0), seconds=1e9, least=2, most=40)
    assert log[:2] == [0, 1]
    assert taken == [[1.0] * 40, [2.0] * 40]
    pairs = [tuple(log[i : i + 2]) for i in range(2, len(log), 2)]
    assert set(pairs) == {(0, 1), (1, 0)}, "every round has both, in an order drawn anew"


def test_the_order_of_rounds_is_the_same_every_time(clock):
    logs = []
    for _ in range(2):
        log = []
        rounds(runs_of(clock, log, 1.0, 1.0, 1.0), seconds=1e9, least=2, most=9)
        logs.append(log)
    assert logs[0] == logs[1]


def test_a_speedup_is_that_of_the_rounds_not_of_the_medians():
    rng = np.random.default_rng(0)
    moods = rng.uniform(1, 10, 400)  # the load of the machine affects both runs of a round
    before, after = 2 * moods * rng.normal(1, 0.05, 400), moods * rng.normal(1, 0.05, 400)
    speedup, (low, high) = paired_speedup(before, after)
    assert low < speedup < high
    assert low < 2 < high
    assert high - low < 0.05
    _, (lower, higher) = paired_speedup(before, after, comparisons=10)
    assert lower < low
    assert high < higher


def test_in_few_rounds_the_interval_is_their_whole_range():
    assert paired_speedup([1.0, 2.0, 3.0], [1.0, 1.0, 1.0]) == (2.0, (1.0, 3.0))


def test_measuring_ends_when_the_time_is_up_but_not_before_the_least(clock):
    assert len(rounds(runs_of(clock, [], 1.0), seconds=4.5, least=2, most=99)[0]) == 5
    assert len(rounds(runs_of(clock, [], 9.0), seconds=1.0, least=3, most=99)[0]) == 3


def test_senseless_bounds_are_refused():
    with pytest.raises(ValueError, match="seconds > 0"):
        rounds([], seconds=0.0)


def chain(length):
    b = GraphBuilder("chain")
    y = b.input("x", (64, 64))
    for _ in range(length):
        y = b.op("matmul", y, b.weight(data=np.eye(64, dtype=np.float32)))
    return b.graph({"y": y})


def test_two_graphs_are_measured_with_the_figures_in_order():
    found = compare(chain(1), chain(2), seconds=0.05)
    assert found.rounds >= 5
    for median, (low, high) in ((found.before, found.before_quartiles), (found.after, found.after_quartiles)):
        assert 0 < low <= median <= high
    assert "all cores" in found.executor
    assert found.summary()["rounds"] == found.rounds


def test_a_slow_warm_up_counts_and_two_rounds_are_enough(clock):
    log = []

    def timers(seconds):
        def run(i):
            log.append(i)
            clock.now += seconds + 20 * (len(log) <= 3)  # loading takes a while
            return seconds

        return [lambda i=i: run(i) for i in range(3)]

    taken = rounds(timers(20.0), seconds=3.0, least=9, most=40, slow=15.0)
    assert [len(t) for t in taken] == [2, 2, 2]
    assert len(log) == 6
    log.clear()
    taken = rounds(timers(1.0), seconds=3.0, least=9, most=40, slow=15.0)
    assert [len(t) for t in taken] == [9, 9, 9]
