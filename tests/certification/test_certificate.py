import numpy as np
import pytest

from workbench.certification import certify
from workbench.certification.inputs import random_inputs
from workbench.certification.regions import Correspondence
from workbench.certification.tolerance import difference
from workbench.graph import GraphBuilder, Opaque
from workbench.ops import TensorType


def network(act="relu", scale=1.0, name="y"):
    b = GraphBuilder()
    x = b.input("x", (1, 3, 8, 8))
    w = b.weight((4, 3, 3, 3), name="w")
    s = b.weight(data=np.full((1, 4, 1, 1), scale, np.float32), name="s")
    y = b.op("mul", b.op("conv2d", x, w, pads=(1, 1, 1, 1)), s)
    return b.graph({name: b.op(act, y) if act else y})


def folded(scale):
    """Return the same graph with the scale moved into the weight."""
    b = GraphBuilder()
    x = b.input("x", (1, 3, 8, 8))
    w = b.weight((4, 3, 3, 3), name="w")
    s = b.weight(data=np.full((1, 4, 1, 1), scale, np.float32), name="s")
    scaled = b.op("mul", w, b.op("transpose", s, perm=(1, 0, 2, 3)))
    return b.graph({"y": b.op("conv2d", x, scaled, pads=(1, 1, 1, 1), act="relu")})


def test_a_right_rewrite_passes_and_says_how_well():
    certificate = certify(network(scale=0.7), folded(0.7))
    assert certificate.passed
    assert certificate.draws == 3
    assert certificate.error < 1e-12
    assert 0 < certificate.deployed_error < 1e-5
    assert "equal on 3 random inputs" in repr(certificate)
    assert certificate.summary()["passed"] is True


@pytest.mark.parametrize("wrong", [0.70001, -0.7, 0.0])
def test_a_wrong_value_fails_with_evidence(wrong):
    certificate = certify(network(scale=0.7), folded(wrong))
    assert not certificate.passed
    assert certificate.evidence.output == "y"
    assert certificate.evidence.expected != certificate.evidence.found
    assert "output 'y'" in certificate.reason


def test_a_missing_activation_fails():
    assert not certify(network(), network(act=None)).passed


def test_names_and_types_must_agree():
    assert "outputs differ" in certify(network(), network(name="z")).reason
    b = GraphBuilder()
    other = b.graph({"y": b.op("relu", b.input("x", (1, 4, 8, 8)))})
    assert "inputs differ" in certify(network(), other).reason


def test_a_weight_that_overflows_only_in_the_result_fails():
    def graph(dtype, *, moved):
        b = GraphBuilder()
        x = b.input("x", (2, 2), dtype)
        big = b.weight(data=np.full((2, 2), 300, dtype), name="big")
        small = b.weight(data=np.full((2, 2), 1e-3, dtype), name="small")
        x = b.op("mul", x, small)
        return b.graph(
            {"y": b.op("mul", x, b.op("mul", big, big)) if moved else b.op("mul", b.op("mul", x, big), big)}
        )

    certificate = certify(graph("float16", moved=False), graph("float16", moved=True))
    assert not certificate.passed
    assert "overflows in float16 although the original does not" in certificate.reason
    assert "region: " in certificate.reason
    assert certify(graph("float32", moved=False), graph("float32", moved=True)).passed


def test_an_overflow_that_the_original_has_is_not_a_failure():
    b = GraphBuilder()
    x = b.input("x", (2, 2), "float16")
    big = b.weight(data=np.full((2, 2), -300, "float16"))
    graph = b.graph({"y": b.op("min", x, b.op("mul", big, b.op("abs", big)))})
    assert certify(graph, graph).passed


def test_same_seed_same_inputs():
    graph = network()
    first, second = random_inputs(graph, 5, 0), random_inputs(graph, 5, 0)
    np.testing.assert_array_equal(first["x"], second["x"])
    assert not np.array_equal(first["x"], random_inputs(graph, 5, 1)["x"])
    assert not np.array_equal(first["x"], random_inputs(graph, 6, 0)["x"])


def test_indices_stay_in_range():
    b = GraphBuilder()
    i = b.input("i", (50,), "int64")
    table = b.weight((3, 4))
    graph = b.graph({"y": b.op("gather", table, b.op("reshape", i, shape=(5, 10)), axis=-2)})
    drawn = np.concatenate([random_inputs(graph, 0, d)["i"] for d in range(3)])
    assert set(drawn) == {0, 1, 2}
    assert certify(graph, graph).passed


def test_what_is_not_finite_must_agree():
    b = GraphBuilder()
    logs = b.graph({"y": b.op("log", b.input("x", (64,)))})
    assert certify(logs, logs).passed
    b = GraphBuilder()
    other = b.graph({"y": b.op("log", b.op("abs", b.input("x", (64,))))})
    certificate = certify(logs, other)
    assert not certificate.passed
    assert certificate.error == np.inf
    assert certificate.summary()["error"] == "infinite"


def test_random_operators_repeat_their_results():
    record = Opaque("RandomNormalLike", "", (TensorType("float32", (4,)),), deterministic=False)
    b = GraphBuilder()
    x = b.input("x", (4,))
    (noise,) = b.opaque(record, [x])
    graph = b.graph({"y": b.op("add", x, noise)})
    rng = np.random.default_rng()

    def runner(record, operands):
        return [rng.standard_normal(4).astype(np.float32)]

    assert certify(graph, graph, opaque=runner).passed


def test_difference_is_relative_to_the_largest_entry():
    error, where = difference(np.array([100.0, 0.0]), np.array([100.0, 1.0]))
    assert error == pytest.approx(0.01)
    assert where == [1]
    assert difference(np.zeros(3), np.zeros(3))[0] == 0
    assert difference(np.zeros(3), np.zeros(4))[0] == np.inf
    assert difference(np.array([1, 2]), np.array([1, 3]))[0] == np.inf


def test_what_rewriting_costs_in_accuracy_is_next_to_what_the_dtype_costs():
    certificate = certify(network(scale=0.7), folded(0.7))
    # Both errors are of float32 against float64: of its order, neither ten times the other.
    assert 1e-9 < certificate.own_rounding < 1e-5
    assert 0.1 < certificate.rounding / certificate.own_rounding < 10
    assert f"{certificate.rounding:.1e}" in certificate.rounding_line()
    assert certificate.summary()["own_rounding"] == certificate.own_rounding


def test_what_is_not_rounded_says_so():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("relu", b.input("x", (4,), "float64"))})
    assert certify(graph, graph).rounding_line() == "computed without rounding"


def layers(*, fused=False, swapped=(), act="relu"):
    """Return four layers and the numbers of their values; ``swapped`` layers read each other's weights."""
    b = GraphBuilder()
    value, numbers = b.input("x", (1, 4, 6, 6)), {}
    order = [*range(4)]
    if swapped:
        i, j = swapped
        order[i], order[j] = j, i
    rng = np.random.default_rng(0)
    weights = [b.weight(data=rng.standard_normal((4, 4, 3, 3)).astype("f4"), name=f"w{k}") for k in range(4)]
    for k in range(4):
        value = b.op("conv2d", value, weights[order[k]], pads=1, act=act if fused else "none")
        value = value if fused else b.op("relu", value)
        numbers[value] = k
    graph = b.graph({"y": value})
    return graph, tuple(numbers.get(i, -1) for i in range(len(graph)))


def test_regions_are_compared_once_each_kind():
    before, after = layers(), layers(fused=True)
    certificate = certify(before[0], after[0], known=Correspondence(before[1], after[1]))
    assert certificate.passed
    assert (certificate.regions, certificate.distinct) == (4, 1)
    assert "4 rewritten regions, 1 distinct" in repr(certificate)


@pytest.mark.parametrize("swapped", [(0, 1), (1, 3), (2, 3)])
def test_weights_in_the_wrong_place_are_found_whatever_is_promised(swapped):
    before, after = layers(), layers(fused=True, swapped=swapped)
    certificate = certify(before[0], after[0], known=Correspondence(before[1], after[1]))
    assert not certificate.passed
    # Only the whole model distinguishes regions that differ just in the data of their weights.
    assert not certify(before[0], after[0]).passed


def test_the_first_wrong_region_is_named_with_its_rule():
    before, after = layers(), layers(fused=True, act="sigmoid")
    rules = tuple("fuse-wrongly" if n >= 0 else "" for n in after[1])
    certificate = certify(before[0], after[0], known=Correspondence(before[1], after[1], rules))
    assert not certificate.passed
    assert certificate.evidence.region == "conv2d, relu → conv2d by fuse-wrongly"
    assert certificate.evidence.rules == ("fuse-wrongly",)
    assert certificate.evidence.form == "float64"


def test_a_wrong_promise_about_a_value_inside_is_not_believed():
    before, after = layers(), layers(fused=True)
    wrong = tuple(n + 1 if 0 <= n < 3 else n for n in after[1])  # every layer claims to be the next one
    assert not certify(before[0], after[0], known=Correspondence(before[1], wrong)).passed


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("runs", [True, False])
def test_a_rewritten_region_with_an_operator_that_is_not_modelled(dtype, runs):
    record = Opaque("Shrink", "", (TensorType(dtype, (4,)),), payload=b"one")

    def graph(*, fused):
        b = GraphBuilder()
        x = b.input("x", (4,), dtype)
        (y,) = b.opaque(record, [b.op("relu", x) if fused else b.op("relu", b.op("relu", x))])
        return b.graph({"y": b.op("neg", y)})

    def runner(record, operands):
        if not runs:
            raise RuntimeError("no kernel")
        return [operands[0] * 2]

    certificate = certify(graph(fused=False), graph(fused=True), opaque=runner, whole=False)
    assert certificate.passed == runs
    assert runs or "does not run: no kernel" in certificate.reason
