import re

import numpy as np
import pytest

import workbench
from workbench.summary import operator_changes, running_operators, summary_rows
from workbench.timing import Timing


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
    assert result.cost_source in figures["cost"]
    assert figures["written"] == "a.onnx"
    assert figures["rules"] == ", ".join(result.rules)
    assert re.fullmatch(r"\d+ rules fired: \d+ proved", figures["verdicts"])
    assert "equal on 3 random inputs" in figures["certificate"]


def test_timing_has_a_row_when_it_was_measured(result):
    timing = Timing(2000.0, 1000.0, (1.0, 1.0), (1.0, 1.0), 7, "test", seconds=0.5)
    (row,) = [r for r in summary_rows(result, timing=timing) if r.what == "timing"]
    assert row.seconds == 0.5
    assert "2.00×" in row.figures
    assert "7 runs" in row.figures


def test_operator_changes_name_what_changed(result):
    assert operator_changes(result) == "3 → 1: matmul 2 → 1, add 1 → 0"


def test_nothing_found_says_so():
    b = workbench.GraphBuilder()
    same = workbench.optimize(b.graph({"y": b.op("tanh", b.input("x", (4,)))}))
    assert operator_changes(same) == "1 → 1, unchanged"
    assert "the original is the best found" in {r.what: r.figures for r in summary_rows(same)}["rules"]
