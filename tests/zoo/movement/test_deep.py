"""Deep encoders read at one row: the gain of one layer costs the others nothing, in both orders of axes."""

import pytest

import workbench
from workbench.graph import GraphBuilder

ROWS, WIDTH, HEADS = 24, 16, 2
DEPTH = WIDTH // HEADS


def encoder(layers, first="batch", batch=1):
    """Return a pre-normed encoder of which one row is read; positions or batches come first."""
    b = GraphBuilder()
    turned = first == "positions"
    cut = (ROWS, batch, HEADS, DEPTH) if turned else (batch, ROWS, HEADS, DEPTH)
    heads, keys, joined = (
        ((1, 2, 0, 3), (1, 2, 3, 0), (2, 0, 1, 3)) if turned else ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    )

    def norm(x):
        return b.op("layernorm", x, b.weight((WIDTH,)), b.weight((WIDTH,)))

    def linear(x, wide, narrow=WIDTH):
        return b.op("add", b.op("matmul", x, b.weight((narrow, wide))), b.weight((wide,)))

    def attention(x):
        q, k, v = (
            b.op("transpose", b.op("reshape", linear(x, WIDTH), shape=cut), perm=perm)
            for perm in (heads, keys, heads)
        )
        mixed = b.op("matmul", b.op("softmax", b.op("matmul", q, k)), v)
        shape = (ROWS, batch, WIDTH) if turned else (batch, ROWS, WIDTH)
        return linear(b.op("reshape", b.op("transpose", mixed, perm=joined), shape=shape), WIDTH)

    x = b.input("x", (batch, ROWS, WIDTH))
    x = b.op("transpose", x, perm=(1, 0, 2)) if turned else x
    for _ in range(layers):
        x = b.op("add", x, attention(norm(x)))
        x = b.op("add", x, linear(b.op("gelu", linear(norm(x), 4 * WIDTH)), WIDTH, 4 * WIDTH))
    x = b.op("transpose", x, perm=(1, 0, 2)) if turned else x
    return b.graph({"y": linear(norm(b.op("slice", x, axis=-2, start=0, stop=1)), 5)})


def optimized(graph):
    return workbench.optimize(graph, cost="analytic", time=False)


def shapes(result, op):
    return [n.tensor.shape for n in result.graph.nodes if n.op == op]


@pytest.mark.slow
@pytest.mark.parametrize("first", ["batch", "positions"])
def test_e_nodes_and_iterations_do_not_depend_on_rows_sinking_through_layers(first):
    two, four = (optimized(encoder(layers, first)) for layers in (2, 4))
    for result in (two, four):
        assert result.certificate.passed
        assert result.stop_reason.value == "saturated"
        assert shapes(result, "gelu")[-1] == (1, 1, 4 * WIDTH)
        assert all(shape != (1, 1, 4 * WIDTH) for shape in shapes(result, "gelu")[:-1])
    assert four.iterations <= two.iterations + 6
    assert four.e_nodes < 2 * two.e_nodes


@pytest.mark.slow
def test_several_sequences_gain_as_much_with_positions_first():
    batch, positions = (optimized(encoder(2, first, batch=2)) for first in ("batch", "positions"))
    assert positions.certificate.passed
    assert positions.cost_after <= 1.01 * batch.cost_after


def test_a_stack_of_layers_read_at_one_row_gains_in_every_layer():
    b = GraphBuilder()
    x = b.input("x", (ROWS, WIDTH))
    for _ in range(6):
        x = b.op("add", x, b.op("gelu", b.op("matmul", x, b.weight((WIDTH, WIDTH)))))
    result = optimized(b.graph({"y": b.op("slice", x, axis=-2, start=0, stop=1)}))
    assert shapes(result, "matmul") == 6 * [(1, WIDTH)]


@pytest.mark.slow
def test_overlapping_parts_sink_through_every_layer():
    b = GraphBuilder()
    x = b.input("x", (20_000, 64))
    for _ in range(3):
        x = b.op("gelu", b.op("matmul", x, b.weight((64, 64))))
    parts = [b.op("slice", x, axis=-2, start=i, stop=i + 2) for i in (0, 1)]
    result = optimized(b.graph({f"y{i}": part for i, part in enumerate(parts)}))
    assert {rows for rows, _ in shapes(result, "matmul")} <= {2, 3, 4}


@pytest.mark.slow
def test_twelve_layers_gain_as_much_with_positions_first():
    results = {first: optimized(encoder(12, first)) for first in ("batch", "positions")}
    for result in results.values():
        assert result.certificate.passed
        assert result.stop_reason.value == "saturated"
        assert result.e_nodes < 4_000
    assert results["positions"].cost_after <= 1.01 * results["batch"].cost_after
