import numpy as np
import pytest

import workbench
from workbench.graph import GraphBuilder, evaluate
from workbench.ops import TypeMismatch

TILES = [(1, 1), (3, 2), (13, 17), (64, 64)]


@pytest.mark.parametrize(("inner", "columns"), TILES)
def test_the_loop_nest_is_the_product_in_whole_numbers(inner, columns):
    b = GraphBuilder()
    x, w = b.input("x", (2, 7, 13)), b.input("w", (13, 17))
    graph = b.graph({"y": b.op("blocked", x, w, inner=inner, columns=columns)})
    random = np.random.default_rng(0)
    feeds = {n: random.integers(-99, 100, k.shape) for n, k in graph.input_types.items()}
    np.testing.assert_array_equal(evaluate(graph, feeds)["y"], feeds["x"] @ feeds["w"])


def test_whole_numbers_are_added_in_the_accumulator_in_every_form():
    import onnxruntime

    b = GraphBuilder()
    types = {"streamed": "uint8", "stationary": "int8", "accumulator": "int32", "result": "int32"}
    x, w = b.input("x", (3, 9), "uint8"), b.input("w", (9, 5), "int8")
    graph = b.graph({"y": b.op("blocked", x, w, inner=4, columns=16, **types)})
    feeds = {"x": np.full((3, 9), 255, np.uint8), "w": np.full((9, 5), -128, np.int8)}
    found = evaluate(graph, feeds)["y"]
    assert (found.dtype, set(found.ravel().tolist())) == (np.int32, {-255 * 128 * 9})
    session = onnxruntime.InferenceSession(workbench.to_onnx(graph).SerializeToString())
    np.testing.assert_array_equal(session.run(None, feeds)[0], found)


def test_halves_are_added_in_float32_and_rounded_once():
    b = GraphBuilder()
    types = {"streamed": "float16", "stationary": "float16", "accumulator": "float32", "result": "float16"}
    x, w = b.input("x", (1, 4096), "float16"), b.input("w", (4096, 1), "float16")
    graph = b.graph({"y": b.op("blocked", x, w, inner=16, columns=16, **types)})
    ones = {"x": np.ones((1, 4096), np.float16), "w": np.ones((4096, 1), np.float16)}
    # Added one by one in halves, the sum would stop at 2048.
    assert evaluate(graph, ones)["y"].tolist() == [[4096.0]]
    assert evaluate(graph, ones)["y"].dtype == np.float16


def test_operands_of_another_type_are_refused():
    b = GraphBuilder()
    x, w = b.input("x", (3, 4), "float16"), b.weight((4, 5), dtype="float16")
    with pytest.raises(TypeMismatch, match="the streamed operand has the unit's element type"):
        b.op("blocked", x, w)
    with pytest.raises(TypeMismatch, match="the bias must broadcast to the product"):
        b.op("blocked", b.input("y", (3, 4)), b.weight((4, 5)), b.weight((2, 3, 5)))
    with pytest.raises(TypeMismatch, match="extents of a tile must be positive"):
        b.op("blocked", b.input("z", (3, 4)), b.weight((4, 5)), inner=0)


CASES = [
    ((1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    ((2, 3), (1, 2), (2, 0, 1, 3), (2, 1)),
    ((7, 5), (1, 1), (0, 0, 0, 0), (1, 1)),
]


@pytest.mark.parametrize(("kernel", "strides", "pads", "dilations"), CASES)
def test_a_column_is_a_window_and_the_product_with_kernels_a_convolution(kernel, strides, pads, dilations):
    b = GraphBuilder()
    x, w = b.input("x", (2, 3, 7, 5)), b.input("w", (4, 3, *kernel))
    given = {"strides": strides, "pads": pads, "dilations": dilations}
    columns = b.op("unfold", x, kernel=kernel, **given)
    conv = b.op("conv2d", x, w, **given)
    rows = b.op("reshape", w, shape=(4, 3 * kernel[0] * kernel[1]))
    product = b.op("reshape", b.op("matmul", rows, columns), shape=b.type(conv).shape)
    random = np.random.default_rng(0)
    graph = b.graph({"conv": conv, "product": product})
    feeds = {n: random.integers(-9, 10, k.shape) for n, k in graph.input_types.items()}
    found = evaluate(graph, feeds)
    np.testing.assert_array_equal(found["product"], found["conv"])


def test_single_pixels_are_the_image_in_another_shape():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("unfold", b.input("x", (1, 3, 2, 2)))})
    x = np.arange(12.0, dtype=np.float32).reshape(1, 3, 2, 2)
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], x.reshape(1, 3, 4))


def test_a_window_larger_than_the_image_is_refused():
    b = GraphBuilder()
    with pytest.raises(TypeMismatch, match="the window exceeds its input"):
        b.op("unfold", b.input("x", (1, 3, 2, 2)), kernel=(3, 1))
