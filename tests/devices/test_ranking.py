"""Candidates are ranked by scripted times: rounds, noise, kernels, large models."""

import contextlib
from collections import Counter
from dataclasses import replace
from itertools import repeat

import numpy as np
import pytest

import workbench
from tests.devices.graphs import products
from workbench.costs import price_egraph
from workbench.costs.analytic import AnalyticCost
from workbench.devices.ranking import Entrant, Ranking, rank
from workbench.extraction.extract import extract
from workbench.frontends import to_onnx
from workbench.frontends.model import Model
from workbench.graph import evaluate
from workbench.optimizer.candidates import cheapest
from workbench.rules import parse_rules, rule_set
from workbench.saturation import Limits, Saturation


class Scripted:
    """A target on which each graph takes a set time, with noise shared by all graphs of a round."""

    title = "a script"

    def __init__(self, microseconds, *, scatter=0.0, drift=0.0):
        self.microseconds, self.scatter, self.drift = microseconds, scatter, drift
        self.loaded = []

    def check(self, graph):
        pass

    @contextlib.contextmanager
    def timers(self, models, seed):
        rng = np.random.default_rng(seed)
        self.loaded = list(models)
        counts = [sum(m.operators().values()) for m in models]

        def timer(i):
            copy = 1 + self.drift * (i == len(models) - 1)
            return self.microseconds(counts[i]) * copy * (1 + self.scatter * rng.standard_normal())

        yield [lambda i=i: timer(i) for i in range(len(models))]


@pytest.fixture(scope="module")
def saturated():
    graph = products()
    with Saturation(graph, tuple(rule_set("default")), Limits(settle=4)) as run:
        run.run()
        egraph = run.egraph()
    costs = price_egraph(egraph, AnalyticCost("t4"))
    return graph, egraph, costs, extract(egraph, costs)


def test_candidates_are_distinct_graphs_of_the_same_function_cheapest_first(saturated):
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 3)
    assert len(found) == 3
    assert len({c.graph.structural_hash() for c in found} | {graph.structural_hash()}) == 4
    assert [c.cost for c in found] == sorted(c.cost for c in found)
    assert found[0].cost == solution.cost
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)}
    expected = evaluate(graph, feeds)
    for candidate in found:
        for name, value in evaluate(candidate.graph, feeds).items():
            np.testing.assert_allclose(value, expected[name], atol=1e-5)


def test_where_nothing_else_exists_there_are_no_candidates():
    b = workbench.GraphBuilder()
    graph = b.graph({"y": b.op("softmax", b.input("x", (4, 4)))})
    result = workbench.optimize(graph, measure=3, measure_on=Scripted(lambda n: 1.0))
    assert result.graph is graph
    assert result.measured.candidates == ()
    assert "no candidate differs" in str(result.measured)


def test_the_fastest_wins_whatever_the_cost_model_says(saturated):
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 3)
    sizes = [sum(c.graph.operators().values()) for c in found]
    ranking = rank(graph, found, Scripted(float, scatter=0.001), original_cost=9.0, seconds=0.05)
    faster = [i for i in np.argsort(sizes, kind="stable") if sizes[i] < sum(graph.operators().values())]
    assert [sizes[i] for i in ranking.order()] == [sizes[i] for i in faster]
    assert ranking.original.cost == 9.0
    assert ranking.rounds >= 9
    slow_first = rank(graph, found, Scripted(lambda n: 100.0 - n), original_cost=9.0, seconds=0.05)
    assert all(sizes[i] > sum(graph.operators().values()) for i in slow_first.order())


def test_what_does_not_beat_the_noise_does_not_win(saturated):
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 3)
    gain = lambda n: 100.0 if n == 6 else 98.0  # noqa: E731  (two percent over the original)
    assert len(rank(graph, found, Scripted(gain), original_cost=9.0, seconds=0.02).order()) >= 2
    apart = rank(graph, found, Scripted(gain, drift=0.03), original_cost=9.0, seconds=0.02)
    assert apart.noise == pytest.approx(1 - 1 / 1.03)
    assert apart.order() == []
    assert "the original stays" in str(apart)
    blurred = rank(graph, found, Scripted(lambda n: 100.0, scatter=0.3), original_cost=9.0, seconds=0.02)
    assert blurred.order() == []


def test_optimising_returns_the_measured_winner_certified():
    result = workbench.optimize(products(), measure=2, measure_on=Scripted(float), measure_seconds=0.05)
    won = result.measured.candidates[result.measured.winner]
    assert result.certificate.passed
    assert result.cost_after == won.cost
    assert result.solution.cost == won.cost
    assert sum(result.graph.operators().values()) < 6
    summary = result.summary()["measured"]
    assert summary["winner"] == result.measured.winner
    assert summary["candidates"][0]["interval"][0] <= summary["candidates"][0]["speedup"]
    assert "measured: " in repr(result)
    rows = {r.what: r for r in workbench.optimizer.summary.summary_rows(result)}
    assert "×" in rows["timing"].figures
    assert rows["timing"].seconds > 0


def test_optimising_returns_the_original_where_nothing_is_faster():
    graph = products()
    result = workbench.optimize(
        graph, measure=2, measure_on=Scripted(lambda n: 100.0 - (n == 6)), measure_seconds=0.02
    )
    assert result.graph is graph
    assert result.measured.winner is None
    assert result.cost_after == result.cost_before
    assert result.rules == ()
    assert result.certificate.passed


def test_a_fast_candidate_that_is_wrong_is_not_returned():
    graph = products()
    wrong = parse_rules("forgets: relu(matmul[act=none](x, w)) => matmul[act=none](x, w)")
    result = workbench.optimize(
        graph,
        rules=[*rule_set("matmul"), *wrong],
        measure=3,
        measure_on=Scripted(float),
        measure_seconds=0.02,
    )
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)}
    expected = evaluate(graph, feeds)
    for name, value in evaluate(result.graph, feeds).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-5)


def test_after_ctrl_c_while_measuring_the_original_stays():
    class Interrupted(Scripted):
        @contextlib.contextmanager
        def timers(self, models, seed):
            raise KeyboardInterrupt
            yield []

    result = workbench.optimize(products(), measure=2, measure_on=Interrupted(float))
    assert result.graph is result.original
    assert result.measured.winner is None
    assert str(result.measured) == "the original stays: the timing was interrupted"
    assert result.certificate.passed


def test_the_rival_is_the_model_as_it_was_given_cleaned(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(to_onnx(products()).SerializeToString())
    result = workbench.optimize(path, cost="analytic", measure=1, measure_seconds=0.1)
    assert result.measured.rounds >= 9
    assert "ONNX Runtime" in result.measured.target


def alternating(*medians, scatter=0.0):
    """Return a target whose models take these times, in order."""

    class Ordered(Scripted):
        @contextlib.contextmanager
        def timers(self, models, seed):
            rng = np.random.default_rng(seed)
            self.loaded = list(models)
            yield [lambda m=m: m * (1 + scatter * rng.standard_normal()) for m in medians]

    return Ordered(float)


def test_a_quick_ranking_ends_when_it_is_clear(saturated):
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 1)
    given = {"original_cost": 9.0, "seconds": 1e6, "quick": True}
    faster = rank(graph, found, alternating(100.0, 70.0, 100.0, scatter=0.002), **given)
    assert faster.rounds == 7, "seven rounds won"
    assert faster.order() == [0]
    slower = rank(graph, found, alternating(100.0, 120.0, 100.0, scatter=0.002), **given)
    assert slower.rounds == 4, "four rounds lost"
    assert slower.order() == []
    same = rank(graph, found, alternating(100.0, 100.0, 100.0, scatter=0.002), **given)
    assert same.rounds == 4, "a gain of less than one percent is not looked for"
    assert same.order() == []
    unclear = rank(graph, found, alternating(100.0, 98.0, 100.0, scatter=0.1), **given)
    assert unclear.rounds < 100, "a gain lost in the noise does not take for ever"
    assert (same.accepted, same.seed) == ((), 0)
    assert (same.summary()["accepted"], faster.summary()["accepted"]) == ([], [0])


@pytest.mark.slow
def test_the_errors_of_the_sequential_test_are_as_stated(saturated):
    """Wald's bounds: 5 % of equal models pass a sitting, so hardly any passes two; 5 % of clear gains are refused."""
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 1)

    def share(candidate, scatter):
        target = alternating(100.0, candidate, 100.0, scatter=scatter)
        runs = [
            rank(graph, found, target, original_cost=9.0, seconds=1e6, seed=k, quick=True) for k in range(80)
        ]
        return sum(bool(r.order()) for r in runs) / 80, max(r.rounds for r in runs)

    for scatter in (0.003, 0.03, 0.3):
        passed, rounds = share(100.0, scatter)
        assert passed <= 0.05
        assert rounds < 100
    assert share(95.0, 0.02)[0] >= 0.85
    assert share(98.0, 0.004)[0] >= 0.85


def test_the_model_as_it_came_is_timed_next_to_the_cleaned_one(saturated):
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 1)
    given = {"original_cost": 9.0, "seconds": 1e6, "quick": True, "uncleaned": to_onnx(graph)}
    ranking = rank(graph, found, alternating(100.0, 80.0, 100.0, 145.0), **given)
    assert ranking.cleaning == pytest.approx(1.45)
    assert ranking.candidates[0].speedup == pytest.approx(1.25), "over the cleaned original"
    assert "alone gives 1.45× (145.0 → 100.0 µs)" in ranking.cleaning_line()
    assert "the result takes" not in ranking.cleaning_line()
    slower = rank(graph, found, alternating(100.0, 80.0, 100.0, 60.0), **given)
    slower = replace(slower, winner=0, cleaned="batch=1 fixed")
    assert slower.cleaning_line().startswith("batch=1 fixed, which alone gives 0.60× (60.0 → 100.0 µs)")
    assert "the result takes 1.33× the time of the file as given" in slower.cleaning_line()
    alone = rank(graph, [], alternating(100.0, 100.0, 145.0), **given)
    assert alone.cleaning == pytest.approx(1.45)
    assert alone.order() == []
    assert "no candidate differs" in str(alone)


def test_what_cannot_be_measured_is_reported_before_the_model_is_read():
    missing = "no such file.onnx"  # whose error would come first if the model were read
    with pytest.raises(ValueError, match="measure must be at least 0, got -1"):
        workbench.optimize(missing, measure=-1)
    with pytest.raises(LookupError, match="did you mean onnxruntime"):
        workbench.optimize(missing, measure=1, measure_on="onnxruntme")


def test_the_ranking_is_said_in_one_line():
    entrants = (
        Entrant(2.0, 50.0, (49.0, 51.0), 2.0, (1.9, 2.1)),
        Entrant(1.0, 90.0, (89.0, 91.0), 1.1, (0.9, 1.2)),
    )
    ranking = Ranking(Entrant(3.0, 100.0, (99.0, 101.0)), entrants, 0.01, 40, "a target", 1.0, winner=0)
    assert ranking.order() == [0]
    assert "2.00× (100.0 → 50.0 µs; 1.900 to 2.100), number 1 of 2 candidates" in str(ranking)


class Kernels:
    """A timer of a model of which the runtime makes certain kernels; it counts its runs."""

    def __init__(self, microseconds, *kernels):
        self.microseconds, self.made, self.runs, self.loads = microseconds, Counter(kernels), 0, 0

    @property
    def kernels(self):
        self.loads += 1
        return self.made

    def __call__(self):
        self.runs += 1
        return self.microseconds


def holding(*timers):
    """Return a target that times models by these timers."""

    class Holding(Scripted):
        @contextlib.contextmanager
        def timers(self, models, seed):
            self.loaded = list(models)
            yield list(timers)

    return Holding(float)


def test_a_candidate_that_runs_the_original_s_kernels_is_not_timed(saturated):
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 2)
    given = {"original_cost": 9.0, "seconds": 1.0, "quick": True}
    timers = [Kernels(100.0, "a", "b"), Kernels(50.0, "b", "a"), Kernels(50.0, "a", "b"), Kernels(100.0)]
    ranking = rank(graph, found, holding(*timers), **given)
    assert [t.runs > 0 for t in timers] == [True, False, False, False]
    assert timers[3].loads == 0, "no second copy of the original is needed"
    assert ranking.alike == (0, 1)
    assert ranking.order() == []
    assert [c.speedup for c in ranking.candidates] == [1.0, 1.0]
    assert "the original stays: all candidates run the same kernels" in str(ranking)
    assert ranking.summary()["alike"] == [0, 1]


def test_candidates_that_run_the_same_kernels_are_timed_once(saturated):
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 3)
    timers = [Kernels(100.0, "a"), Kernels(80.0, "b"), Kernels(100.0, "a"), Kernels(1.0, "b"), Kernels(100.0)]
    ranking = rank(graph, found, holding(*timers), original_cost=9.0, seconds=1.0, quick=True)
    assert [t.runs > 0 for t in timers] == [True, True, False, False, True]
    assert [c.speedup for c in ranking.candidates] == [1.25, 1.0, 1.25]
    assert [c.cost for c in ranking.candidates] == [c.cost for c in found]
    assert ranking.order() == [0, 2]
    assert ranking.alike == (1,)
    timers = [Kernels(n, k) for n, k in ((100.0, "a"), (80.0, "b"), (100.0, "a"), (70.0, "b"), (100.0, "a"))]
    asked = rank(graph, found, holding(*timers), original_cost=9.0, seconds=0.01)
    assert all(t.runs >= 9 for t in timers), "a ranking that was asked for times every candidate"
    assert asked.order()[0] == 2


def test_rounds_that_cannot_change_the_outcome_are_not_run(saturated):
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 1)
    noisy = alternating(1e5, 1e5, 1e5, scatter=0.05)
    short = rank(graph, found, noisy, original_cost=9.0, seconds=4.0, quick=True, seed=1)
    assert short.order() == []
    assert short.rounds <= 9, "thirteen rounds would fit, and leave the interval wider than any gain in it"
    gains = alternating(1e5, 8e4, 1e5, scatter=0.05)
    assert rank(graph, found, gains, original_cost=9.0, seconds=4.0, quick=True).order() == [0]


def test_a_gain_that_disturbances_hide_gets_more_time(saturated, monkeypatch):
    """Two of the seven rounds that fit into the time are disturbed; a loss is seen in four."""
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 1)

    def ranked(candidate):
        now = [0.0]

        def timer(figures):
            taken = next(figures)
            now[0] += 0.2
            return taken

        monkeypatch.setattr("workbench.devices.timing.clock", lambda: now[0])
        originals = (repeat(1e5), iter([1e5, *[0.5e5, 1e5] * 2, *[1e5] * 100]))
        timers = [lambda f=f: timer(f) for f in (originals[0], repeat(candidate), originals[1])]
        return rank(graph, found, holding(*timers), original_cost=9.0, seconds=3.0, quick=True)

    patient = ranked(8e4)
    assert patient.order() == [0]
    assert patient.rounds == 20, "a sitting without a decision, and two that accept"
    assert ranked(1.1e5).rounds == 4


class Reloaded:
    """A timer with new sessions after each unloading; the time of a run depends on the session."""

    def __init__(self, *by_session):
        self.by_session, self.session, self.there = by_session, -1, False

    def __call__(self):
        self.session, self.there = self.session + (not self.there), True
        return self.by_session[self.session % len(self.by_session)]

    def unload(self):
        self.there = False


def test_a_small_gain_must_show_in_new_sessions_too(saturated):
    """A session of the candidate is 8 % faster by its place in memory, and another one is not."""
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 1)

    def ranked(*candidate):
        timers = [Reloaded(100.0), Reloaded(*candidate), Reloaded(100.0)]
        return rank(graph, found, holding(*timers), original_cost=9.0, seconds=1e6, quick=True), timers

    lucky, _ = ranked(92.0, 100.0)
    assert lucky.order() == []
    assert ranked(92.0, 98.9, 92.0)[0].order() == [0], "two of three sittings"
    assert ranked(98.9, 92.0, 92.0)[0].order() == [0]
    faster, timers = ranked(92.0, 92.0)
    assert faster.order() == [0]
    assert faster.rounds == 14
    assert [t.session for t in timers] == [1, 1, 1], "each was loaded twice"
    much, timers = ranked(70.0)
    assert (much.order(), much.rounds) == ([0], 7)
    assert [t.session for t in timers] == [0, 0, 0]


def test_a_gain_near_the_border_gets_more_rounds(saturated, monkeypatch):
    """A gain of 3.4 % is not sure after the rounds of one sitting, and shows in a second one."""
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 1)

    def ranked(candidate, patience):
        random, now = np.random.default_rng(3), [0.0]

        def timer(figure):
            now[0] += figure / 1e6
            return figure * (1 + abs(0.02 * random.standard_normal()))

        monkeypatch.setattr("workbench.devices.timing.clock", lambda: now[0])
        timers = [lambda f=f: timer(f) for f in (4e4, candidate, 4e4)]
        given = {"original_cost": 9.0, "seconds": patience, "quick": True}
        return rank(graph, found, holding(*timers), **given)

    near = ranked(4e4 / 1.034, 3.0)
    assert near.order() == [0]
    assert near.rounds > 14, "seven rounds are the fewest of each sitting"
    assert ranked(4e4, 3.0).order() == []


class Heavy(Scripted):
    """A target of models with large weights, which counts how many are loaded at once."""

    def __init__(self, microseconds):
        super().__init__(microseconds)
        self.there, self.most = set(), 0

    @contextlib.contextmanager
    def timers(self, models, seed):
        yield [self.timer(i, sum(m.operators().values())) for i, m in enumerate(models)]

    def timer(self, place, count):
        target = self

        class Timer:
            large, kernels = True, None

            def __call__(self):
                target.there.add(place)
                target.most = max(target.most, len(target.there))
                return target.microseconds(count)

            def unload(self):
                target.there.discard(place)

        return Timer()


def test_few_models_with_large_weights_are_loaded_at_once(saturated):
    graph, egraph, costs, solution = saturated
    found = cheapest(Model(graph, graph), egraph, costs, solution, 3)
    target = Heavy(lambda n: 100.0 * n)
    ranking = rank(graph, found, target, original_cost=1.0, seconds=0.01, quick=True)
    assert target.most == 3, "the original, its copy and one candidate"
    assert len(ranking.candidates) == len(found)
    operators = [sum(c.graph.operators().values()) for c in found]
    before = sum(graph.operators().values())
    assert [c.speedup for c in ranking.candidates] == pytest.approx([before / n for n in operators])
