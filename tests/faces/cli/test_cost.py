"""``workbench cost``: prices that add up."""

import json

import pytest


def test_costs_add_up(run, model):
    code, out, _ = run("cost", model)
    assert code == 0
    assert "µs by operators measured on this machine: ONNX Runtime" in out
    assert "µs by a roofline of an NVIDIA T4, not this machine" in run("cost", model, "--cost", "analytic")[1]
    table = json.loads(run("cost", model, "--json", "-")[1])
    assert table["total"] > 0
    for key in ("operators", "nodes"):
        assert sum(r["cost"] for r in table[key]) == pytest.approx(table["total"])
        assert sum(r["share"] for r in table[key]) == pytest.approx(1.0)
    assert {r["operator"]: r["nodes"] for r in table["operators"]} == {"matmul": 2, "add": 1}
