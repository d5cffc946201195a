"""The laws of resizing: their statements, and the tempting wrong versions of them."""

import numpy as np
import pytest

import workbench
from workbench.costs.analytic import AnalyticCost
from workbench.graph import GraphBuilder
from workbench.laws.verification.refuting.refute import search
from workbench.ops.resampling import COORDINATES
from workbench.rules import load_rules, parse_rule, rule_set
from workbench.rules.verdicts import library, statuses
from workbench.run.trace import StopReason
from workbench.saturation.compile import compile_rule
from workbench.saturation.encoding import Encoding

RULES = [r for r in load_rules(library() / "movement.rules") if "resize[" in str(r) or "tokens" in r.name]


@pytest.mark.parametrize("coords", COORDINATES)
def test_a_bias_passes_at_all_coordinates(coords):
    # The weights of an interpolation sum to 1, also at the border and between corners.
    (rule,) = parse_rule(
        f"shifted: add(resize[mode=linear, coords={coords}, r](x), a) => "
        f"resize[mode=linear, coords={coords}, r](add(x, a)) "
        "where rank(a) = 4, dim(a, -4) = 1, dim(a, -2) = 1, dim(a, -1) = 1, dim(a, -3) = dim(x, -3)"
    )
    found = search(rule, draws=40)
    assert found.counterexample is None
    assert set(found.arithmetics) == {"rational"}


def test_each_is_judged_and_in_the_default_set():
    known = statuses()
    assert {known[r.name]["status"] for r in RULES} <= {"tested"}
    assert {r.name for r in RULES} <= {r.name for r in rule_set("default")}
    assert all(rule.provenance for rule in RULES)
    assert all(compile_rule(rule, 1, Encoding(4)) for rule in RULES)


class Priced(AnalyticCost):
    """A machine on which interpolation and transposition are slow."""

    def price(self, instances):
        slow = [i.op == "transpose" or (i.op == "resize" and "nearest" not in i.attrs) for i in instances]
        return np.where(slow, 100.0, super().price(instances))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_a_slow_interpolation_is_two_products(mode):
    b = GraphBuilder()
    y = b.op("resize", b.input("x", (2, 3, 5, 4)), size=(7, 3), mode=mode, coords="half_pixel")
    graph = b.graph({"y": y})
    result = workbench.optimize(graph, cost=Priced(), time=False)
    running = {op: n for op, n in result.graph.operators().items() if op in ("resize", "matmul")}
    assert running == {"matmul": 2}


def test_a_linear_layer_between_transpositions_is_a_product_from_the_left():
    b = GraphBuilder()
    last = b.op("transpose", b.input("x", (2, 4, 6, 5)), perm=(0, 2, 3, 1))
    random = np.random.default_rng(0)
    weight = b.weight(data=random.standard_normal((4, 3), dtype=np.float32))
    bias = b.weight(data=random.standard_normal(3, dtype=np.float32))
    layer = b.op("add", b.op("matmul", last, weight), bias)
    graph = b.graph({"y": b.op("transpose", layer, perm=(0, 3, 1, 2))})
    result = workbench.optimize(graph, cost=Priced(), time=False)
    images = [n for n in result.graph.nodes if n.op == "transpose" and n.type.rank == 4]
    assert not images
    assert "product-between-turns-shifted" in result.rules


def test_an_interpolation_to_the_same_size_does_not_grow():
    # It is a product with a unit: were it read as one, so could each of its powers be.
    b = GraphBuilder()
    x = b.input("x", (1, 8, 6, 6))
    same = b.op("resize", x, size=(6, 6), mode="linear", coords="half_pixel")
    larger = b.op("resize", b.input("z", (1, 8, 3, 3)), size=(6, 6), mode="linear", coords="half_pixel")
    graph = b.graph({"y": b.op("conv2d", b.op("concat", same, larger, axis=-3), b.weight((4, 16, 1, 1)))})
    result = workbench.optimize(graph, cost="analytic", time=False)
    assert result.stop_reason is StopReason.SATURATED
    assert len(result.egraph) < 100
