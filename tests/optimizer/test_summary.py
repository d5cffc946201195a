import re
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

import workbench
from workbench.devices.ranking import Entrant, Ranking
from workbench.optimizer.summary import operator_changes, running_operators, summary_rows


def block():
    b = workbench.GraphBuilder("block")
    x = b.input("x", (4, 8))
    unused = b.op("exp", x)
    weight = b.weight(data=np.ones((8, 16), np.float32))
    other = b.op("mul", b.weight(data=np.ones((8, 16), np.float32)), b.weight((8, 16)))
    y = b.op("add", b.op("matmul", x, weight), b.op("matmul", x, other))
    del unused
    return b.graph({"y": y})


@pytest.fixture(scope="module")
def result():
    return workbench.optimize(block())


def test_operators_that_do_not_run_are_not_counted():
    assert running_operators(block()) == {"matmul": 2, "add": 1}


def test_the_summary_has_a_row_a_stage_in_order(result):
    rows = summary_rows(result, written=["a.onnx"])
    names = [r.what for r in rows]
    assert names == [
        "import", "engine", "saturation", "pricing", "extraction", "certificate", "rounding", "written",
        "cost", "operators", "rules", "verdicts",
    ]  # fmt: skip
    figures = {r.what: r.figures for r in rows}
    assert f"{result.iterations} iterations: saturated" in figures["saturation"]
    assert "a roofline of an NVIDIA T4, not this machine" in figures["cost"]
    assert figures["written"] == "a.onnx"
    assert figures["rules"] == ", ".join(result.rules)
    assert re.fullmatch(r"\d+ rules fired: \d+ theorems", figures["verdicts"])
    assert "equal on 3 random inputs" in figures["certificate"]


def entrant(median, speedup):
    return Entrant(1.0, median, (median - 1, median + 1), speedup, (0.99 * speedup, 1.01 * speedup))


def test_timing_and_cleaning_have_rows_when_they_were_measured(result):
    ranking = Ranking(
        entrant(2000.0, 1.0), (entrant(1000.0, 2.0),), 0.01, 7, "test", 0.5, 0, entrant(2900.0, 1 / 1.45)
    )
    timed = replace(result, measured=ranking, seconds={**result.seconds, "timing": 0.5})
    rows = {r.what: r for r in summary_rows(timed)}
    assert rows["timing"].seconds == 0.5
    assert rows["timing"].figures.startswith("2.00× (2000.0 → 1000.0 µs; 1.980 to 2.020), 7 rounds")
    assert "1.45× (2900.0 → 2000.0 µs)" in rows["cleaning"].figures
    assert list(rows).index("cleaning") < list(rows).index("timing")
    assert "decided nothing" in str(replace(ranking, decided=False))
    assert "the original stays" in str(replace(ranking, winner=None))


def test_operator_changes_name_what_changed(result):
    assert operator_changes(result) == "3 → 1: matmul 2 → 1, add 1 → 0"


def test_nothing_found_says_so():
    b = workbench.GraphBuilder()
    same = workbench.optimize(b.graph({"y": b.op("tanh", b.input("x", (4,)))}))
    assert operator_changes(same) == "1 → 1, unchanged"
    assert "the original is the best found" in {r.what: r.figures for r in summary_rows(same)}["rules"]


def test_operators_that_were_kept_as_they_came_are_counted():
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("NonZero", ["r"], ["y"])]
    ends = [helper.make_tensor_value_info("x", 1, [2, 3]), helper.make_tensor_value_info("y", 7, [2, None])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    result = workbench.optimize(model, cost="analytic", time=False)
    assert operator_changes(result) == "1 → 1, unchanged; 1 more kept as they came"
