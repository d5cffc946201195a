"""Values that depend on symbolic sizes: which are computed at run time, and from what."""

import numpy as np
import pytest

from tests.frontends.models import model, node, value, weight
from tests.frontends.symbolic_models import heads, ints, keeps, positions
from workbench.frontends import ModelError
from workbench.frontends.model import any_extent
from workbench.frontends.model_file import open_model
from workbench.frontends.onnx.file import type_proto
from workbench.frontends.onnx.shape_inference import static_type
from workbench.graph import Graph
from workbench.ops import TensorType
from workbench.ops.inputs_and_opaque import SIZE_KEY


def sizes_in(graph: Graph) -> list[str]:
    return sorted(key.removeprefix(SIZE_KEY) for key in graph.opaques if key.startswith(SIZE_KEY))


def test_a_size_that_an_operator_reads_is_computed_from_an_input():
    graph = open_model(positions(), {}, {}).searched
    assert sizes_in(graph) == ["int64[1]_sequence", "int64[]_sequence"]
    reads = {n.attrs[0]: [graph.nodes[j].op for j in n.inputs] for n in graph if n.op == "opaque"}
    assert all(reads[SIZE_KEY + name] == ["input"] for name in sizes_in(graph))


def test_what_sizes_only_shape_is_computed_nowhere():
    assert sizes_in(open_model(heads(), {}, {}).searched) == []


def test_a_size_of_another_dtype_is_converted():
    m = model(
        [
            node("Shape", "x", "shape"),
            node("Gather", "shape one", "s"),
            node("Cast", "s", "sf", to=1),
            node("Div", "x sf", "y"),
        ],
        [value("x", ["batch", "sequence"])],
        [value("y", None)],
        [weight("one", 1, np.int64)],
    )
    opened, _ = keeps(
        m, {"batch": 3, "sequence": 5}, {"batch": 1, "sequence": 9}, symbols=["batch", "sequence"]
    )
    assert sizes_in(opened.searched) == ["float32[]_sequence"]
    # The number is an operand read at run time, not an attribute.
    assert not any(isinstance(a, float) and a > 100 for n in opened.searched for a in n.attrs)


def test_a_number_that_is_not_an_expression_in_the_sizes_fixes_them():
    m = model(
        [
            node("Shape", "x", "shape"),
            node("Gather", "shape one", "s"),
            node("Cast", "s", "sf", to=1),
            node("Sqrt", "sf", "root"),
            node("Div", "x root", "y"),
        ],
        [value("x", ["batch", "sequence"])],
        [value("y", None)],
        [weight("one", 1, np.int64)],
    )
    # The square root is not computed at import, so the dimension is kept.
    opened, written = keeps(m, {"batch": 3, "sequence": 5}, symbols=["batch", "sequence"])
    assert "Sqrt" in {n.op_type for n in written.graph.node}
    assert opened.searched.operators()["div"] == 1


def test_a_constant_extent_read_from_a_shape_is_a_constant():
    m = model(
        [
            node("Shape", "x", "shape"),
            node("Gather", "shape two", "c"),
            node("Cast", "c", "cf", to=1),
            node("Sqrt", "cf", "root"),
            node("Div", "x root", "y"),
        ],
        [value("x", ["batch", "sequence", 16])],
        [value("y", None)],
        [weight("two", 2, np.int64)],
    )
    opened, written = keeps(m, {"batch": 3, "sequence": 5}, symbols=["batch", "sequence"])
    assert not opened.searched.opaques
    assert [n.op_type for n in written.graph.node] == ["Div"]


def test_a_branch_that_a_size_decides_alike_everywhere_is_taken():
    m = model(
        [
            node("Shape", "x", "shape"),
            node("Equal", "shape minus", "open"),
            node("Where", "open ones shape", "to"),
            node("Expand", "t to", "y"),
        ],
        [value("x", ["batch", 3]), value("t", ["batch", 1])],
        [value("y", None)],
        [ints("minus", -1, -1), ints("ones", 1, 1)],
    )
    opened, _ = keeps(m, {"batch": 2}, {"batch": 1}, {"batch": 5}, symbols=["batch"])
    assert opened.searched.operators() == {"expand": 1}


def test_extents_are_bounded_again_once_a_model_is_open():
    huge = type_proto(TensorType("float32", (1 << 20, 1 << 20)))
    with any_extent():
        assert static_type(huge) is not None
    with pytest.raises(ModelError, match="must have at most"):
        static_type(huge)
