"""Sizes that depend on symbolic dimensions are computed by nodes."""

import numpy as np
import onnx
import pytest
from onnx import helper

from workbench.frontends.model import Source
from workbench.frontends.onnx.symbolic_writer import TO_THE_END, ShapeWriter
from workbench.frontends.runtime import run_model
from workbench.ops import TensorType
from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.integers import at_least, choose, equal, largest, num, smallest, sym

N, S = 14_489, 51_991
GENERIC = Generic({"n": N, "s": S})
SOURCES = {"n": Source("x", 0), "s": Source("x", 1)}


class Nodes:
    """A writer that collects nodes and constants and runs them."""

    def __init__(self):
        self.nodes, self.arrays = [], {}

    def node(self, op_type, inputs, **attrs):
        self.nodes.append(helper.make_node(op_type, list(inputs), [f"v{len(self.nodes)}"], **attrs))
        return self.nodes[-1].output[0]

    def plain(self, array):
        self.arrays[f"c{len(self.arrays)}"] = array
        return f"c{len(self.arrays) - 1}"

    def run(self, name, n, s):
        graph = helper.make_graph(
            [*self.nodes, helper.make_node("Identity", [name], ["y"])],
            "sizes",
            [helper.make_tensor_value_info("x", 1, ["n", "s"])],
            [helper.make_tensor_value_info("y", 7, None)],
            [onnx.numpy_helper.from_array(v, k) for k, v in self.arrays.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return run_model(model, {"x": np.zeros((n, s), np.float32)})["y"].tolist()


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ([N, 3, S], [2, 3, 5]),
        ([N * S], [10]),
        ([12 * N * S, 4, 4], [120, 4, 4]),
        ([S + 1, S - 1], [6, 4]),
        ([N + S], [7]),
        ([7, S], [7, 5]),
    ],
)
def test_vectors_are_computed_from_the_shape_of_an_input(numbers, found):
    nodes = Nodes()
    assert nodes.run(ShapeWriter(nodes, GENERIC, SOURCES).vector(numbers), 2, 5) == found


def test_quotients_maxima_and_choices_are_computed_as_they_are_meant():
    n, s = sym("n"), sym("s")
    made = {
        (s + 1) // 2: lambda n, s: (s + 1) // 2,
        (n - s) // 3: lambda n, s: (n - s) // 3,
        largest(n - s, num(1)): lambda n, s: max(n - s, 1),
        smallest(n, s, num(4)): lambda n, s: min(n, s, 4),
        choose(at_least(n, s), s * 2, n + 7): lambda n, s: s * 2 if n >= s else n + 7,
        choose(equal(n, num(3)), s, num(0)): lambda n, s: s if n == 3 else 0,
    }
    for size, meant in made.items():
        for sizes in ((1, 1), (2, 5), (3, 9), (9, 2)):
            nodes = Nodes()
            assert nodes.run(ShapeWriter(nodes, GENERIC, SOURCES).integers([size]), *sizes) == [meant(*sizes)]


def test_what_is_computed_once_is_not_written_again():
    nodes = Nodes()
    writer = ShapeWriter(nodes, GENERIC, SOURCES)
    first = writer.vector([N, S, 4])
    before = len(nodes.nodes)
    assert writer.vector([N, S, 4]) == first
    assert len(nodes.nodes) == before
    assert [n.op_type for n in nodes.nodes].count("Shape") == 1


@pytest.mark.parametrize(
    ("before", "after", "written"),
    [
        ((N, S, 8), (N, S, 2, 4), [0, 0, 2, 4]),
        ((N, S, 8), (N * S, 8), [-1, 8]),
        ((N, S, 2, 4), (N * 2, S, 4), [-1, 0, 4]),
        ((N, 64, 7, 7), (N, 3136), [-1, 3136]),
        ((N, S), (S, N), None),
    ],
)
def test_a_shape_copies_and_infers_what_it_can(before, after, written):
    nodes = Nodes()
    name = ShapeWriter(nodes, GENERIC, SOURCES).shape(TensorType("float32", before), after)
    if written is None:
        assert nodes.run(name, 2, 5) == [5, 2]
    else:
        assert nodes.arrays[name].tolist() == written
        assert not nodes.nodes


def test_a_slice_to_the_end_of_a_symbolic_axis_says_so():
    writer = ShapeWriter(Nodes(), GENERIC, SOURCES)
    kind = [TensorType("float32", (N, S, 8))]
    given = {"axis": -2, "start": 1, "stop": S, "step": 1}
    assert writer.slice_attrs("slice", given, kind)["stop"] == TO_THE_END
    assert writer.slice_attrs("slice", {**given, "axis": -1, "stop": 8}, kind)["stop"] == 8
    assert writer.slice_attrs("slice", {**given, "stop": S - 1}, kind)["stop"] == S - 1


def test_an_attribute_that_depends_on_a_size_cannot_be_written():
    with pytest.raises(Undecodable, match="kernel_shape"):
        ShapeWriter(Nodes(), GENERIC, SOURCES).check("AveragePool", {"kernel_shape": [S, S]})
