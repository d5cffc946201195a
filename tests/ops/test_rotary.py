"""Rotary positions as one operator: its values, its form in ONNX Runtime, and graphs in which it is found."""

import numpy as np
import onnx
import pytest
from onnx import helper

import workbench
from workbench.frontends import import_onnx, to_onnx
from workbench.frontends.runtime import run_model
from workbench.graph import GraphBuilder, evaluate
from workbench.ops import TypeMismatch

POSITIONS, SIZE = 6, 8


def angles(positions=POSITIONS, size=SIZE):
    return np.arange(positions)[:, None] * 10.0 ** -np.arange(size // 2)[None, :]


def by_numbers(x, turn):
    """Return heads whose halves are complex numbers, each multiplied by one of size 1 (arXiv 2104.09864)."""
    half = x.shape[-1] // 2
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * turn)
    return np.concatenate([turned.real, turned.imag], -1)


def rotary(*shapes):
    b = GraphBuilder()
    return b.graph({"y": b.op("rotary", *(b.input(n, s) for n, s in zip("xcs", shapes, strict=True)))})


@pytest.mark.parametrize("leading", [(), (1,), (1, 1)])
def test_halves_are_parts_of_complex_numbers(leading):
    table = (*leading, POSITIONS, SIZE // 2)
    graph = rotary((2, 3, POSITIONS, SIZE), table, table)
    x = np.random.default_rng(0).standard_normal((2, 3, POSITIONS, SIZE)).astype(np.float32)
    feeds = {
        "x": x,
        **{n: f(angles()).astype(np.float32).reshape(table) for n, f in (("c", np.cos), ("s", np.sin))},
    }
    wanted = by_numbers(x, angles())
    np.testing.assert_allclose(evaluate(graph, feeds)["y"], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run_model(to_onnx(graph), feeds)["y"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(3, 6, 8), (6, 4), (6, 4)], r"\[B, H, S, D\]"),
        ([(1, 3, 6, 8), (6, 8), (6, 8)], "half as wide"),
        ([(1, 3, 6, 8), (6, 4), (6, 2)], "half as wide"),
        ([(1, 3, 6, 8), (5, 4), (6, 4)], "its row of a table"),
        ([(1, 3, 6, 8), (1, 3, 6, 4), (6, 4)], "one table"),
        ([(1, 3, 6, 8), (4,), (6, 4)], r"\[S, D / 2\]"),
    ],
)
def test_operands_that_do_not_fit_are_refused(shapes, message):
    with pytest.raises(TypeMismatch, match=message):
        rotary(*shapes)


def model(first=0, rows=POSITIONS, **attrs):
    node = helper.make_node(
        "RotaryEmbedding", ["x", "first", "c", "s"], ["y"], domain="com.microsoft", **attrs
    )
    shapes = {"x": (1, 3, POSITIONS, SIZE), "c": (rows, SIZE // 2), "s": (rows, SIZE // 2)}
    inputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in shapes.items()]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shapes["x"])
    place = onnx.numpy_helper.from_array(np.array([first], np.int64), "first")
    return helper.make_model(
        helper.make_graph([node], "g", inputs, [output], [place]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=10,
    )


@pytest.mark.parametrize(("first", "rows"), [(0, POSITIONS), (0, POSITIONS + 4), (3, POSITIONS + 4)])
def test_longer_tables_are_read_from_the_first_position_on(first, rows):
    given = model(first, rows)
    graph = import_onnx(given).graph
    assert graph.operators()["rotary"] == 1
    feeds = {
        n: np.random.default_rng(0).standard_normal(t.shape).astype(np.float32)
        for n, t in graph.input_types.items()
    }
    np.testing.assert_allclose(
        evaluate(graph, feeds)["y"], run_model(given, feeds)["y"], rtol=1e-5, atol=1e-6
    )


def test_neighbouring_pairs_stay_opaque():
    assert import_onnx(model(interleaved=1)).graph.operators() == {"opaque": 1}


def swapped(b, x, h):
    first, second = b.op("slice", x, axis=-1, start=0, stop=h), b.op("slice", x, axis=-1, start=h, stop=2 * h)
    return b.op("concat", b.op("neg", second), first, axis=-1)


def by_rotated_half(b, x, cosines, sines):
    """Spell it as HuggingFace's LLaMA and GPT-NeoX do."""
    return b.op("add", b.op("mul", x, cosines), b.op("mul", swapped(b, x, SIZE // 2), sines))


def by_halves(b, x, cosines, sines, *, turned=False):
    """Spell both halves out, with tables of half the width."""
    h = SIZE // 2
    c, s = (b.op("slice", t, axis=-1, start=0, stop=h) for t in (cosines, sines))
    first, second = b.op("slice", x, axis=-1, start=0, stop=h), b.op("slice", x, axis=-1, start=h, stop=2 * h)
    real = b.op("sub", b.op("mul", first, c), b.op("mul", second, s))
    parts = [b.op("mul", second, c), b.op("mul", first, s)]
    return b.op("concat", real, b.op("add", *(parts[::-1] if turned else parts)), axis=-1)


def stored(b, *, unequal=False):
    """Return tables as weights, both halves equal unless asked otherwise."""
    whole = np.concatenate([angles(), angles() + 0.5 * unequal], -1)[None, None]
    return [b.weight(data=f(whole).astype(np.float32)) for f in (np.cos, np.sin)]


def computed(b):
    """Return tables that are computed from positions when the model runs."""
    rates = b.weight(data=(10.0 ** -np.arange(SIZE // 2)).astype(np.float32)[None])
    half = b.op("mul", b.op("reshape", b.input("positions", (POSITIONS,)), shape=(POSITIONS, 1)), rates)
    whole = b.op("reshape", b.op("concat", half, half, axis=-1), shape=(1, POSITIONS, SIZE))
    return [b.op("reshape", b.op(f, whole), shape=(1, 1, POSITIONS, SIZE)) for f in ("cos", "sin")]


def decoder(spell, tables=stored, heads=3, **given):
    """Return the attention of a decoder as it is read from an exported file."""
    b, width = GraphBuilder(), heads * SIZE
    x, (cosines, sines) = b.input("x", (1, POSITIONS, width)), tables(b, **given)
    q, k, v = (
        b.op("reshape", b.op("matmul", x, b.weight((width, width))), shape=(1, POSITIONS, heads, SIZE))
        for _ in range(3)
    )
    q, k, v = (b.op("transpose", t, perm=(0, 2, 1, 3)) for t in (q, k, v))
    q, k = (spell(b, t, cosines, sines) for t in (q, k))
    scores = b.op(
        "mul",
        b.op("matmul", q, b.op("transpose", k, perm=(0, 1, 3, 2))),
        b.weight(data=np.float32(SIZE**-0.5)),
    )
    mask = b.weight(data=np.triu(np.full((POSITIONS, POSITIONS), -1e4, np.float32), 1))
    mixed = b.op("matmul", b.op("softmax", b.op("add", scores, mask), axis=-1), v)
    joined = b.op("reshape", b.op("transpose", mixed, perm=(0, 2, 1, 3)), shape=(1, POSITIONS, width))
    return to_onnx(b.graph({"y": b.op("matmul", joined, b.weight((width, width)))}))


SPELLINGS = {
    "rotated half": (by_rotated_half, stored),
    "halves": (by_halves, stored),
    "halves turned": (lambda *given: by_halves(*given, turned=True), stored),
    "computed": (by_rotated_half, computed),
}


@pytest.mark.slow
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_rotary_positions_are_found_in_what_exporters_write(spelling):
    given = decoder(*SPELLINGS[spelling])
    # Halves spelled out are cut and joined in many ways; the operator is found long before the limit.
    result = workbench.optimize(given, rules=["default", "fused"], cost="analytic", time=False, e_nodes=4000)
    assert result.certificate.passed
    assert result.graph.operators()["rotary"] == 2
    assert not {"neg", "sub"} & set(result.graph.operators())
    feeds = {
        n: np.random.default_rng(0).standard_normal(t.shape).astype(np.float32)
        for n, t in result.graph.input_types.items()
    }
    found = run_model(to_onnx(result.graph), feeds)["y"]
    np.testing.assert_allclose(found, run_model(given, feeds)["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_nothing_is_found_without_the_fused_rules_or_with_unequal_tables():
    plain = workbench.optimize(decoder(by_rotated_half), cost="analytic", time=False)
    uneven = workbench.optimize(
        decoder(by_rotated_half, unequal=True), rules=["default", "fused"], cost="analytic", time=False
    )
    for result in (plain, uneven):
        assert result.certificate.passed
        assert "rotary" not in result.graph.operators()
