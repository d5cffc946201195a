import numpy as np
import pytest

from workbench.graph import GraphBuilder, GraphError, Opaque, evaluate, fold_constants
from workbench.ops import TensorType


def test_inputs_are_checked():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("relu", b.input("x", (2, 3)))})
    with pytest.raises(GraphError, match="'x'"):
        evaluate(graph, {})
    with pytest.raises(GraphError, match="shape"):
        evaluate(graph, {"x": np.zeros((3, 2), np.float32)})


def test_declared_and_precise_arithmetic():
    b = GraphBuilder()
    x = b.input("x", (64, 64))
    graph = b.graph({"y": b.op("matmul", x, b.weight((64, 64)))})
    data = {"x": np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)}
    plain, precise = evaluate(graph, data)["y"], evaluate(graph, data, precise=True)["y"]
    assert plain.dtype == np.float32
    assert precise.dtype == np.float64
    assert 0 < np.abs(plain - precise).max() < 1e-4


def test_opaque_operators_need_a_runner():
    b = GraphBuilder()
    x = b.input("x", (4,))
    (y,) = b.opaque(Opaque("Twice", "own", (TensorType("float32", (4,)),)), [x])
    graph = b.graph({"y": y})
    data = {"x": np.arange(4, dtype=np.float32)}
    with pytest.raises(GraphError, match="Twice"):
        evaluate(graph, data)
    np.testing.assert_array_equal(evaluate(graph, data, opaque=lambda r, v: [2 * v[0]])["y"], [0, 2, 4, 6])


def test_folding_keeps_the_function_and_rounds_once():
    b = GraphBuilder()
    x = b.input("x", (3, 4))
    w = b.op("matmul", b.weight((4, 9)), b.weight((9, 5)))
    w = b.op("mul", w, b.op("exp", b.weight((5,))))
    graph = b.graph({"y": b.op("matmul", x, w), "w": w})
    folded = fold_constants(graph)
    assert folded.operators() == {"matmul": 1}
    data = {"x": np.ones((3, 4), np.float32)}
    exact, found = evaluate(graph, data, precise=True), evaluate(folded, data, precise=True)
    rounded = exact["w"].astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(found["w"], rounded)
    np.testing.assert_allclose(found["y"], exact["y"], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_constants_are_folded_and_rounded_once(dtype):
    b = GraphBuilder()
    x = b.input("x", (1, 2, 5, 5), dtype)
    w = b.op("mean_kernel", channels=2, kernel=(3, 3), dtype=dtype)
    w = b.op("mul", b.op("exp", w), b.op("ones", shape=(2, 1, 1, 1), dtype=dtype))
    w = b.op("concat", w, b.op("identity_kernel", channels=2, groups=2, kernel=(3, 3), dtype=dtype), axis=-4)
    graph = b.graph({"y": b.op("conv2d", x, w, groups=2), "w": w})
    folded = fold_constants(graph)
    assert folded.operators() == {"conv2d": 1}
    kind = graph.output_types["w"].numpy_dtype()
    data = {"x": np.ones((1, 2, 5, 5)).astype(kind)}
    exact, found = evaluate(graph, data, precise=True)["w"], evaluate(folded, data)["w"]
    assert exact.dtype == np.float64
    assert exact[0, 0, 0, 0] == np.exp(1 / 9)
    np.testing.assert_array_equal(found, exact.astype(kind))
    assert evaluate(graph, data)["w"].dtype == kind


def test_ones_stay_small_when_they_are_folded():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("add", b.input("x", (1,)), b.op("ones", shape=(1 << 15, 1 << 15)))})
    (weight,) = fold_constants(graph).weights.values()
    assert weight.data.strides == (0, 0)


def test_folding_that_overflows_says_so():
    b = GraphBuilder()
    x = b.input("x", (2,), "float16")
    big = b.weight(data=np.full(2, 60000, np.float16))
    graph = b.graph({"y": b.op("add", x, b.op("add", big, big))})
    with pytest.raises(OverflowError, match="overflows"):
        fold_constants(graph)


def test_values_are_released():
    b = GraphBuilder()
    x = b.input("x", (1000, 1000))
    for _ in range(200):  # 800 MB if everything stayed
        x = b.op("add", x, x) if _ == 0 else b.op("neg", x)
    import tracemalloc

    tracemalloc.start()
    evaluate(b.graph({"y": x}), {"x": np.ones((1000, 1000), np.float32)})
    assert tracemalloc.get_traced_memory()[1] < 60e6
    tracemalloc.stop()


def _converted(to, factor, element):
    b = GraphBuilder()
    product = b.op("mul", b.weight(data=np.full(4, element)), b.weight(data=np.full(1, factor)))
    x = b.input("x", (4,), to)
    whole = b.op("cast", product, to=to)
    return b.graph({"x": b.op("cast", x, to="float32"), "whole": whole, "product": product})


@pytest.mark.parametrize(
    ("to", "factor", "element", "expected"),
    [("int64", 10, 0.7, 7), ("bool", 1e-30, 1e-30, False)],
)
def test_a_conversion_to_integers_sees_the_declared_dtype(to, factor, element, expected):
    graph = _converted(to, np.float32(factor), np.float32(element))
    data = {"x": np.zeros(4, to)}
    for form in (graph, fold_constants(graph)):
        for precise in (False, True):
            found = evaluate(form, data, precise=precise)["whole"]
            assert found.dtype == to
            assert found.tolist() == [expected] * 4
    # The product itself is computed in float64, whoever else reads it.
    exact = np.float64(np.float32(element)) * np.float64(np.float32(factor))
    assert evaluate(graph, data, precise=True)["product"].tolist() == [exact] * 4


def test_a_conversion_of_what_depends_on_inputs_sees_the_declared_dtype():
    b = GraphBuilder()
    x = b.input("x", (1,))
    graph = b.graph({"y": b.op("cast", b.op("mul", x, b.weight(data=np.float32([10]))), to="int32")})
    data = {"x": np.float32([0.7])}
    assert evaluate(graph, data)["y"].tolist() == evaluate(graph, data, precise=True)["y"].tolist() == [7]


def test_what_overflows_can_stay_as_it_is():
    b = GraphBuilder()
    x = b.input("x", (2,), "float16")
    big = b.op(
        "add", b.weight(data=np.full(2, 30000, np.float16)), b.weight(data=np.full(2, 30000, np.float16))
    )
    graph = b.graph({"y": b.op("add", x, b.op("add", big, big)), "big": big})
    folded = fold_constants(graph, keep_overflow=True)
    assert folded.operators() == {"add": 2}
    data = {"x": np.zeros(2, np.float16)}
    for name, value in evaluate(graph, data).items():
        np.testing.assert_array_equal(evaluate(folded, data)[name], value)


def test_an_index_out_of_range_can_stay_as_it_is():
    b = GraphBuilder()
    x = b.input("x", (1,))
    picked = b.op("gather", b.weight((3,)), b.weight(data=np.int64([7])), axis=-1)
    graph = b.graph({"y": b.op("add", x, picked)})
    with pytest.raises(IndexError):
        fold_constants(graph)
    assert fold_constants(graph, keep_overflow=True).operators() == {"add": 1, "gather": 1}


def test_chains_of_square_matrices_with_a_common_beginning_share_its_products():
    b, random = GraphBuilder(), np.random.default_rng(0)
    w = [b.weight(data=random.standard_normal((6, 6)).astype(np.float32)) for _ in range(4)]
    tall = b.weight(data=random.standard_normal((6, 3)).astype(np.float32))

    def product(x, y):
        return b.op("matmul", x, y)

    x = b.input("x", (2, 6))
    terms = [product(product(w[0], w[1]), w[2]), product(w[0], product(w[1], w[3]))]
    side = b.op("concat", *terms, axis=-1)
    graph = b.graph({"y": product(x, side), "z": product(x, product(terms[0], tall))})
    memo = {}
    folded = fold_constants(graph, memo=memo)
    chains = [key for key, _ in memo if isinstance(key, tuple) and key[0] == "product"]
    assert sorted(map(len, chains)) == [3, 4, 4], "the first product is computed once"
    feeds = {"x": random.standard_normal((2, 6)).astype(np.float32)}
    found, exact = evaluate(folded, feeds), evaluate(graph, feeds, precise=True)
    for name, value in exact.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5)
    assert sum(folded.operators().values()) == 2


def test_a_large_folded_weight_is_made_once_for_graphs_of_one_model():
    b = GraphBuilder()
    left, right = b.weight((512, 512)), b.weight((512, 512))
    x = b.input("x", (2, 512))
    graph = b.graph({"y": b.op("matmul", x, b.op("concat", left, right, axis=-1))})
    first, second = fold_constants(graph), fold_constants(graph.copied())
    (one,), (other,) = first.weights.values(), second.weights.values()
    assert first is not second
    assert one.data is other.data


def test_parts_of_a_joined_weight_are_not_kept_beside_it():
    b = GraphBuilder()
    x = b.input("x", (2, 512))
    parts = [b.op("transpose", b.weight((512, 512)), perm=(1, 0)) for _ in range(2)]
    graph = b.graph({"y": b.op("matmul", x, b.op("concat", *parts, axis=-1))})
    memo = {}
    fold_constants(graph, memo=memo)
    assert not any(use == "stored" for _, use in memo)
