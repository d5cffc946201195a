import io
import os
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from workbench.rules import rule_set
from workbench.run.trace import StopReason
from workbench.saturation import Limits, Saturation, process, worker
from workbench.studies.benchmarks import benchmark
from workbench.support import disk_cache
from workbench.support.processes import environment, receive, send

from . import laws
from .test_engine import sum_of

AC = (laws.ADD_COMMUTES, laws.ADD_ASSOCIATES)


@pytest.fixture(autouse=True)
def nothing_known(tmp_path, monkeypatch):
    """Begin without processes and without what earlier runs have needed."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    disk_cache._memory.clear()
    process.end_idle()
    yield
    process.end_idle()


def outcome(graph, rules, limits):
    """Return all that a run leaves but its seconds, and the number of the engine's process."""
    with Saturation(graph, rules, limits, keep=0) as run:
        run.run()
        egraph = run.egraph()
        number = run.engine._process.number
        if run.merge_among(np.unique(egraph.eclass[egraph.original]).tolist()):
            egraph = run.egraph()
        steps = [
            (s.index, s.e_nodes, s.e_classes, s.note, [(r.rule, r.matches) for r in s.rules])
            for s in run.trace
        ]
        columns = {f.name: getattr(egraph, f.name) for f in fields(egraph)}
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in columns.items()}
    return (run.stop_reason, steps, plain), number


@pytest.mark.parametrize(
    "limits", [Limits(settle=4), Limits(settle=0, k_multi=2), Limits(settle=4, e_nodes=150)], ids=str
)
@pytest.mark.slow
def test_a_kept_engine_gives_what_a_fresh_one_gives(limits, tmp_path):
    rules = rule_set("default")
    graphs = [benchmark("nasrnn"), benchmark("bert", layers=1), benchmark("squeezenet")]
    fresh = []
    for graph in graphs:
        process.end_idle()
        fresh.append(outcome(graph, rules, limits)[0])
    # The rules that were needed are known from now on, and loaded at once.
    assert list(tmp_path.glob("rules/needed-*"))
    process.end_idle()
    numbers = set()
    for i in (0, 1, 2, 2, 1, 0, 0):
        found, number = outcome(graphs[i], rules, limits)
        numbers.add(number)
        assert found == fresh[i]
    assert len(numbers) == 1


@pytest.mark.slow
def test_other_rules_of_the_same_names_are_loaded_anew():
    graph = benchmark("bert", layers=1)
    rules = rule_set("default")
    fewer = rules.without("*-relu*", "matmul-*")
    alone, _ = outcome(graph, fewer, Limits(settle=4))
    process.end_idle()
    outcome(graph, rules, Limits(settle=4))
    assert outcome(graph, fewer, Limits(settle=4))[0] == alone


def test_a_process_is_kept_and_no_more_than_one():
    process.warm()
    (first,) = process._idle
    process.warm()
    assert process._idle == [first]
    with Saturation(sum_of(4), AC) as one, Saturation(sum_of(5), AC) as other:
        one.run()
        other.run()
        numbers = {s.engine._process.number for s in (one, other)}
        assert first.number in numbers
        assert len(numbers) == 2
    assert len(process._idle) == 1


@pytest.mark.slow
def test_none_is_kept_when_none_are_wanted(monkeypatch):
    monkeypatch.setenv("WORKBENCH_KEPT_ENGINES", "0")
    process.warm()
    with Saturation(sum_of(4), AC) as run:
        run.run()
    assert process._idle == []


def test_a_process_that_has_ended_is_replaced():
    process.warm()
    (first,) = process._idle
    assert first.settle()
    first._popen.kill()
    first.wait()
    with Saturation(sum_of(4), AC) as run:
        assert run.run() is StopReason.SATURATED
        assert run.engine._process.number != first.number


@pytest.mark.slow
def test_a_process_that_was_stopped_is_not_kept():
    limits = Limits(e_nodes=50_000_000, seconds=0.5, iterations=99)
    with Saturation(sum_of(17), AC, limits) as run:
        assert run.run() is StopReason.TIME_LIMIT
        run.engine.kill()
    assert process._idle == []


@pytest.mark.slow
def test_a_process_that_has_grown_ends_when_it_rests(monkeypatch):
    sizes = iter([1 << 30, (1 << 30) + worker.GROWN, (1 << 30) + worker.GROWN + 1])
    monkeypatch.setattr(worker, "_size", lambda: next(sizes))
    monkeypatch.setattr(worker, "limit_memory", lambda limit: None)
    requests, answers = io.BytesIO(), io.BytesIO()
    for _ in range(3):
        send(requests, ("rest", None))
    requests.seek(0)
    worker.serve(requests, answers)
    answers.seek(0)
    assert [receive(answers) for _ in range(2)] == [("ready", None), ("ok", None)]
    assert not answers.read()  # it ended at the second rest


def test_a_fork_takes_no_process_of_its_parent():
    process.warm()
    (kept,) = process._idle
    child = os.fork()
    if child == 0:
        os._exit(0 if process._idle == [] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert kept.settle()
    assert process._idle == [kept]


def test_a_process_ends_with_its_owner():
    program = (
        "import os\nfrom workbench.saturation import process\nprocess.warm()\n"
        "print(process._idle[0].number, flush=True)\nos._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment()
    )
    number = int(done.stdout)
    for _ in range(200):
        try:
            if Path(f"/proc/{number}/stat").read_text().split()[2] == "Z":
                break
        except FileNotFoundError:
            break
        time.sleep(0.05)
    else:
        raise AssertionError(f"process {number} is still there")
