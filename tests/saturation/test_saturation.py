import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from workbench.graph import GraphBuilder
from workbench.rules import parse_rule, rule_set
from workbench.run.trace import StepKind, StopReason, Trace
from workbench.saturation import Limits, Saturation

from . import laws
from .test_engine import shared_matmuls, sum_of

AC = [laws.ADD_COMMUTES, laws.ADD_ASSOCIATES]


def test_runs_to_saturation_and_tells_its_steps():
    with Saturation(sum_of(5), AC) as run:
        assert run.run() is StopReason.SATURATED
        egraph = run.egraph()
        assert len(egraph) == run.e_nodes == 3**5 - 2**6 + 1 + 5
        frame = run.trace.frame()
        assert frame["e_nodes"].iloc[0] == 9
        assert frame["step"].tolist() == list(range(len(frame)))
        born = run.trace.rule_frame()["e_nodes"].sum()
        assert born == run.e_nodes - frame["e_nodes"][0]
        assert len(repr(run).splitlines()) <= 12


def test_iteration_yields_steps_and_a_stopped_run_stays_stopped():
    with Saturation(sum_of(4), AC) as run:
        steps = list(run)
        assert [s.index for s in steps] == list(range(1, len(steps) + 1))
        with pytest.raises(StopIteration):
            run.step()


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(e_nodes=300), StopReason.E_NODE_LIMIT),
        (Limits(iterations=2), StopReason.ITERATION_LIMIT),
        (Limits(seconds=1e-9), StopReason.TIME_LIMIT),
    ],
)
def test_limits_stop_the_run(limits, reason):
    with Saturation(sum_of(8), AC, limits) as run:
        assert run.run() is reason
        assert run.e_nodes <= limits.e_nodes
        assert len(run.egraph()) == run.e_nodes


@pytest.mark.slow
def test_time_limit_ends_an_iteration_that_would_take_long():
    with Saturation(sum_of(17), AC, Limits(e_nodes=50_000_000, seconds=1.5, iterations=99)) as run:
        assert run.run() is StopReason.TIME_LIMIT
        assert len(run.egraph()) == run.e_nodes


@pytest.mark.slow
def test_what_a_cut_run_found_is_not_computed_again(monkeypatch):
    monkeypatch.setattr("workbench.saturation.saturation.AT_RISK", float("inf"))
    with Saturation(sum_of(17), AC, Limits(e_nodes=50_000_000, seconds=1.5, iterations=99)) as run:
        assert run.run() is StopReason.TIME_LIMIT
        assert not run.merge_among([])
        assert len(run.egraph()) == run.e_nodes
        assert run.engine._process is None  # no engine was started again


@pytest.mark.slow
def test_memory_limit_costs_the_iteration_not_the_process():
    limits = Limits(e_nodes=500_000_000, memory=450 << 20, iterations=99, seconds=300)
    with Saturation(sum_of(18), AC, limits) as run:
        assert run.run() is StopReason.MEMORY_LIMIT
        assert "GiB" in run.trace.steps[-1].note
        assert run.trace.steps[-1].kind is StepKind.CUT
        assert len(run.egraph()) == run.e_nodes


def test_interrupt_leaves_an_object_that_continues():
    with Saturation(sum_of(7), AC) as whole:
        whole.run()
        size = whole.e_nodes
    with Saturation(sum_of(7), AC) as run:
        run.step()
        before = run.e_nodes
        run.close()  # what Ctrl-C in the middle of an iteration does to the engine
        assert run.e_nodes == before
        run.run()
        assert run.e_nodes == size


@pytest.mark.slow
def test_ctrl_c_during_an_iteration():
    limits = Limits(e_nodes=50_000_000, seconds=120, iterations=99)
    with Saturation(sum_of(17), AC, limits) as run:
        run.start_engine()
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        assert run.run() is StopReason.INTERRUPTED
        assert len(run.egraph()) == run.e_nodes


def test_start_and_stop_in_a_thread():
    limits = Limits(e_nodes=50_000_000, seconds=120, iterations=6)
    with Saturation(sum_of(12), AC, limits) as run:
        run.start()
        while len(run.trace) < 3:
            time.sleep(0.01)
        run.stop()
        assert run.stop_reason in (StopReason.INTERRUPTED, StopReason.ITERATION_LIMIT)
        assert len(run.egraph()) == run.e_nodes


def test_threads_take_turns():
    limits = Limits(e_nodes=5_000, seconds=60, iterations=6)
    with Saturation(sum_of(6), AC, limits) as alone:
        alone.run()
    with Saturation(sum_of(6), AC, limits) as run:
        found = []

        def work():
            try:
                run.run()
                found.append(len(run.egraph()))
            except BaseException as error:
                found.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [alone.e_nodes] * 4
        assert [s.index for s in run.trace] == [s.index for s in alone.trace]
        assert [s.e_nodes for s in run.trace] == [s.e_nodes for s in alone.trace]


def test_multi_patterns_wait_for_the_others_to_settle():
    b = GraphBuilder()
    x = b.input("x", (4, 8))
    t = b.op("transpose", b.op("transpose", x, perm=(1, 0)), perm=(1, 0))
    ys = [b.op("matmul", t, b.weight((8, 6))) for _ in range(2)]
    graph = b.graph({"a": ys[0], "b": ys[1]})
    rules = [laws.MERGE_PAIR, laws.TRANSPOSE_TWICE]
    with Saturation(graph, rules, Limits(settle=4)) as run:
        assert run.run() is StopReason.SATURATED
        run.egraph()
        fired = {r.rule: s.index for s in run.trace for r in s.rules if r.e_nodes}
        assert fired["merge-pair"] > fired["transpose-twice"]
    with Saturation(graph, rules, Limits(k_multi=0)) as run:
        run.run()
        assert all(r.rule != "merge-pair" for s in run.trace for r in s.rules)


def test_a_rule_with_too_many_matches_rests():
    with Saturation(sum_of(7), AC, Limits(match_limit=50, iterations=40)) as run:
        assert run.run() is StopReason.SATURATED
        assert run.e_nodes == 3**7 - 2**8 + 1 + 7
        silent = [s for s in run.trace.steps[1:] if len(s.rules) < 2]
        assert silent


def test_trace_survives_a_file(tmp_path):
    with Saturation(shared_matmuls(), [laws.MERGE_EACH]) as run:
        run.run()
        run.egraph()
    run.trace.save(tmp_path / "trace.jsonl")
    back = Trace.load(tmp_path / "trace.jsonl")
    assert back.steps == run.trace.steps
    assert back.meta == run.trace.meta


@pytest.mark.parametrize("bad", [{"e_nodes": 0}, {"seconds": -1}, {"iterations": 0}, {"k_multi": -1}])
def test_limits_are_checked(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Limits(**bad)


def test_start_graph_above_the_limit_stops_at_once():
    with Saturation(sum_of(8), AC, Limits(e_nodes=3)) as run:
        assert run.run() is StopReason.E_NODE_LIMIT
        assert len(run.egraph()) == 15


def chained():
    """Products of x, and of a product of x: reassociated, all of them read x."""
    b = GraphBuilder()
    x = b.input("x", (8, 16))
    first = [b.op("matmul", x, b.weight((16, 16))) for _ in range(3)]
    inner = b.op("matmul", x, b.weight((16, 16)))
    second = [b.op("matmul", inner, b.weight((16, 16))) for _ in range(3)]
    return b.graph({f"y{k}": y for k, y in enumerate([*first, *second])})


def test_merges_among_some_e_classes_take_these_alone():
    with Saturation(chained(), rule_set("default"), Limits(settle=4)) as saturation:
        saturation.run()
        egraph = saturation.egraph()
        # The start graph's own products of x: never a group of their own once all are reassociated.
        built = {int(egraph.eclass[i]) for i in egraph.original}
        merged = {
            egraph.types[int(egraph.eclass[i])].shape for i, op in enumerate(egraph.ops) if op == "matmul"
        }
        assert saturation.merge_among(built)
        after = saturation.egraph()
        more = {after.types[int(after.eclass[i])].shape for i, op in enumerate(after.ops) if op == "matmul"}
        assert (8, 4 * 16) in more - merged
        assert saturation.stop_reason is StopReason.SATURATED
        merges = [step for step in saturation.trace if step.kind is StepKind.MERGE]
        assert [step.note for step in merges] == ["merges among what was extracted"]
        assert not [step for step in saturation.trace if step.kind is StepKind.CUT]
        assert [step.index for step in saturation.trace] == list(range(len(saturation.trace)))
        # A second time there is nothing new, and nothing is recorded.
        known = len(saturation.trace)
        again = {int(after.eclass[i]) for i in after.original}
        assert not saturation.merge_among(again)
        assert (len(saturation.trace), saturation.stop_reason) == (known, StopReason.SATURATED)


def test_merges_among_e_classes_survive_a_killed_engine():
    with Saturation(chained(), rule_set("default"), Limits(settle=4)) as saturation:
        saturation.run()
        egraph = saturation.egraph()
        saturation.merge_among({int(egraph.eclass[i]) for i in egraph.original})
        size = saturation.e_nodes
        before = saturation.egraph()
        saturation.close()
        saturation._egraph = None
        after = saturation.egraph()
        assert (len(after), saturation.e_nodes) == (len(before), size)
        assert after.ops == before.ops


@pytest.mark.parametrize("limits", [Limits(settle=4, k_multi=0), Limits(settle=4, e_nodes=40)])
def test_no_merges_where_a_limit_has_ended_the_run_or_none_were_wanted(limits):
    with Saturation(chained(), rule_set("default"), limits) as saturation:
        saturation.run()
        egraph = saturation.egraph()
        reason = saturation.stop_reason
        assert not saturation.merge_among(range(egraph.n_classes))
        assert saturation.stop_reason is reason


def sum_of_convolutions(count):
    """Return a graph of ``count`` convolutions of one input, and the input, in a sum."""
    b = GraphBuilder()
    x = b.input("x", (1, 4, 6, 6))
    y = b.op("add", b.op("conv2d", x, b.weight((4, 4, 1, 1))), b.op("relu", x))
    for _ in range(count - 1):
        y = b.op("add", y, b.op("conv2d", x, b.weight((4, 4, 1, 1))))
    return b.graph({"y": y})


@pytest.mark.slow
def test_a_sum_of_many_convolutions_grows_by_the_same_for_each():
    sizes = []
    for count in (4, 6, 8):
        with Saturation(sum_of_convolutions(count), rule_set("default"), Limits(k_multi=0)) as saturation:
            assert saturation.run() is StopReason.SATURATED
            sizes.append(saturation.e_nodes)
            egraph = saturation.egraph()
    assert sizes[2] - sizes[1] <= 1.5 * (sizes[1] - sizes[0])
    assert (egraph.original >= 0).all()  # terms that a final law has rewritten can still be chosen


def test_a_final_law_and_one_of_the_last_phase():
    laws = [
        "settled: neg(relu(x)) => tanh(x) where final",
        "again: neg(relu(x)) => sigmoid(relu(x))",
    ]
    late = replace(parse_rule(laws[1])[0], phase="last")
    b = GraphBuilder()
    graph = b.graph({"y": b.op("neg", b.op("relu", b.input("x", (2, 3))))})
    for rules, expected in (
        ([*parse_rule(laws[0]), late], {"settled"}),
        ([*parse_rule(laws[0]), *parse_rule(laws[1])], {"settled", "again"}),
        ([late], {"again"}),
    ):
        with Saturation(graph, rules, Limits(iterations=6)) as saturation:
            assert saturation.run() is StopReason.SATURATED
            egraph = saturation.egraph()
        assert {egraph.rules[r] for r in egraph.birth_rule.tolist() if r >= 0} == expected
        assert "neg" in egraph.ops
