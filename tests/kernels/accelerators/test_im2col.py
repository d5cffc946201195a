import numpy as np
import pytest

from workbench.graph import GraphBuilder, evaluate
from workbench.ops import TypeMismatch

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
