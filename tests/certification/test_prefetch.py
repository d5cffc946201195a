import threading

import numpy as np
import pytest

from workbench.certification import certify, prefetch
from workbench.certification.prefetch import EarlyRuns, Once, small
from workbench.frontends import to_onnx
from workbench.graph import GraphBuilder


def network():
    b = GraphBuilder("network")
    hidden = b.op("relu", b.op("matmul", b.input("x", (2, 3)), b.weight(data=np.ones((3, 4), np.float32))))
    return b.graph({"y": b.op("matmul", hidden, b.weight(data=np.ones((4, 2), np.float32)))})


def twice():
    b = GraphBuilder("network")
    hidden = b.op("matmul", b.input("x", (2, 3)), b.weight(data=np.ones((3, 4), np.float32)))
    hidden = b.op("relu", b.op("relu", hidden))
    return b.graph({"y": b.op("matmul", hidden, b.weight(data=np.ones((4, 2), np.float32)))})


def test_a_value_is_computed_by_one_thread_alone():
    calls = []
    ready = threading.Event()

    def make():
        calls.append(threading.current_thread().name)
        ready.wait(10)
        return len(calls)

    once = Once(make)
    thread = threading.Thread(target=once, name="other")
    thread.start()
    ready.set()
    assert once() == 1
    thread.join()
    assert len(calls) == 1


def test_a_failure_is_passed_on_and_the_next_call_tries_again():
    answers = iter([ValueError("not now"), 7])

    def make():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    once = Once(make)
    with pytest.raises(ValueError, match="not now"):
        once()
    assert once() == 7


@pytest.mark.parametrize("imported", [False, True])
def test_a_certificate_is_the_same_with_early_runs(imported):
    graph = network()
    given = to_onnx(graph) if imported else None
    runs = EarlyRuns(graph, given)
    runs.begin()
    found = certify(graph, twice(), given=given, early=runs)
    plain = certify(graph, twice(), given=given)
    assert found.passed
    assert found.regions
    left, right = ({k: v for k, v in c.summary().items() if k != "seconds"} for c in (found, plain))
    assert left == right


def test_early_runs_are_what_the_certificate_uses():
    graph = network()
    runs = EarlyRuns(graph, to_onnx(graph))
    assert runs.first() is None
    assert runs.probe([0]) is None
    runs.begin()
    first = runs.first()
    assert first is runs.first()
    np.testing.assert_allclose(runs.exact(first.inputs)["y"], first.outputs["y"], rtol=1e-5)
    assert runs.exact(first.inputs)["y"].dtype == np.float64
    assert runs.exact(dict(first.inputs)) is None
    assert runs.probe(range(len(graph))) is None  # weights are not shown
    assert set(runs.probe(graph.output_ids).ranges) >= {
        i for i, n in enumerate(graph.nodes) if n.op == "relu"
    }


def test_a_large_model_does_not_run_in_the_background(monkeypatch):
    graph = network()
    assert small(graph)
    monkeypatch.setattr(prefetch, "MOST_WORK", 10.0)
    assert not small(graph)
    runs = EarlyRuns(graph)
    runs.begin()
    assert runs.probe(graph.output_ids) is None


def test_a_given_model_that_does_not_load_leaves_the_run_to_the_certificate():
    graph = network()
    runs = EarlyRuns(graph, "no such file.onnx")
    runs.begin()
    assert runs.first() is None
