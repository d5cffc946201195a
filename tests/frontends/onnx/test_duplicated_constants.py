import numpy as np
import pytest

from tests.frontends.models import model, node, value, weight
from workbench.frontends import import_onnx, run_model, to_onnx
from workbench.frontends.onnx.duplicated_constants import doubled
from workbench.graph import GraphBuilder, evaluate

HALF = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
TWICE = np.concatenate([HALF, HALF], -1)


def read(table):
    b = GraphBuilder()
    table = np.asarray(table, np.float32)
    return b.graph({"y": b.op("mul", b.input("x", table.shape), b.weight(data=table, name="table"))})


def test_a_table_is_two_copies_of_its_half():
    given = read(TWICE)
    graph = doubled(given)
    assert graph.operators() == {"slice": 1, "concat": 1, "mul": 1}
    assert set(graph.weights) == {"table"}
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], evaluate(given, {"x": x})["y"])
    assert [n.op_type for n in to_onnx(graph).graph.node] == ["Mul"]


@pytest.mark.parametrize(
    "table",
    [
        np.concatenate([HALF, HALF + np.eye(3, 4)], -1),  # the first rows differ
        np.concatenate([HALF, HALF[[0, 2, 1]]], -1),  # only the first rows are equal
        np.ones((3, 8)),  # one number
        TWICE[:1],  # one row
        TWICE[0],
        TWICE[:, :7],  # no halves
        np.concatenate([HALF * 0, -HALF * 0], -1),  # a negative zero
    ],
)
def test_other_tables_stay(table):
    given = read(table)
    assert doubled(given) is given


def test_what_is_computed_from_such_a_table_is_two_copies_too():
    nodes = [node("Cos", "angles", "c"), node("Cast", "c", "d", to=1), node("Mul", "x d", "y")]
    given = model(nodes, [value("x", [3, 8])], [value("y", [3, 8])], [weight("angles", TWICE)])
    graph = import_onnx(given).graph
    assert graph.operators()["concat"] == 1
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    found = run_model(to_onnx(graph), {"x": x})["y"]
    np.testing.assert_allclose(found, x * np.cos(TWICE), rtol=1e-6)


def test_a_constant_of_places_that_an_axis_lacks_stays():
    b = GraphBuilder()
    rows = b.op("gather", b.weight(data=TWICE), b.weight(data=np.array([0, 7])), axis=-2)
    given = b.graph({"y": b.op("mul", b.input("x", (2, 8)), rows)})
    assert doubled(given) is given
