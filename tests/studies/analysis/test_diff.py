"""Two models of any origin are related by values, not by names."""

import numpy as np
import pytest

import workbench
from workbench.studies.analysis.diff import diff


def branches(names=("x", "y"), seed=0, gain=1.0):
    """Return two products of one input that are added, and a relu that names and order do not decide."""
    random = np.random.default_rng(seed)
    left, right = random.random((2, 8, 8), "f4")
    b = workbench.GraphBuilder("branches")
    x = b.input(names[0], (4, 8))
    return b.graph({names[1]: b.op("relu", x @ b.weight(data=left * gain) + x @ b.weight(data=right))})


@pytest.fixture(scope="module")
def result():
    return workbench.optimize(branches())


def test_a_result_is_related_as_its_egraph_relates_it(result):
    by_value, by_e_class = diff(branches(), result.graph), result.compare()
    assert by_value.before.counts() == by_e_class.before.counts()
    assert by_value.after.counts() == by_e_class.after.counts()
    assert by_value.partners(result.graph.output_ids[0])


def test_names_decide_nothing():
    found = diff(branches(), branches(names=("data", "result")))
    assert set(found.before.marks) == set(found.after.marks) == {"kept"}
    assert "by value" in str(found)


def test_another_weight_is_seen_from_there_on():
    found = diff(branches(), branches(gain=2.0))
    ops = {
        found.before.graph.nodes[i].op for i in found.before.running() if found.before.marks[i] == "removed"
    }
    assert ops == {"matmul", "add", "relu"}
    assert found.before.counts()["kept"] == 1


@pytest.mark.slow
def test_rounding_of_folded_weights_is_no_difference(tmp_path):
    b, random = workbench.GraphBuilder("normalised"), np.random.default_rng(0)
    x = b.input("x", (1, 8, 6, 6))
    inner = b.op("conv2d", x, b.weight(data=random.random((8, 8, 3, 3), "f4")), pads=1)
    norm = b.op("batchnorm", inner, *(b.weight(data=1 + random.random(8, "f4")) for _ in range(4)))
    graph = b.graph({"y": b.op("relu", norm)})
    workbench.optimize(graph).save(tmp_path / "b.onnx")
    found = diff(graph, tmp_path / "b.onnx")
    ends = found.before.graph.output_ids[0], found.after.graph.output_ids[0]
    assert found.partners(ends[1]) == (ends[0],)
    assert "removed" in found.before.marks


def test_values_that_do_not_vary_are_related_by_their_terms():
    def graph(last):
        b = workbench.GraphBuilder("constants")
        x = b.input("x", (4, 8))
        return b.graph({"y": b.op(last, x * b.weight(data=np.zeros((1, 8), "f4")))})

    assert set(diff(graph("relu"), graph("relu")).after.marks) == {"kept"}
    assert "added" in diff(graph("relu"), graph("tanh")).after.marks


def test_inputs_of_other_types_are_refused():
    b = workbench.GraphBuilder("other")
    other = b.graph({"y": b.op("relu", b.input("x", (2, 2)))})
    with pytest.raises(
        ValueError, match=r"inputs of the same types, got x: float32\[4, 8\] and x: float32\[2, 2\]"
    ):
        diff(branches(), other)


def test_it_is_a_page_and_a_frame(result, tmp_path):
    found = diff(branches(), result.graph)
    assert set(found.frame()["mark"]) <= {"kept", "rewritten", "removed", "added"}
    assert found.rules() == {}
    found.save_html(tmp_path / "d.html")
    assert "by value" in (tmp_path / "d.html").read_text()
