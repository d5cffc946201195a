import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional  # noqa: E402

from workbench.graph import evaluate  # noqa: E402
from workbench.torch.aten import TABLE  # noqa: E402
from workbench.torch.reader import read  # noqa: E402

pytestmark = pytest.mark.torch
aten = torch.ops.aten

X, Y = (2, 3, 4, 6), (2, 3, 6, 4)
IMAGE = (2, 4, 6, 8)

#: Functions and the shapes of their arguments: together they call every operator of the table.
CASES = [
    *(
        (getattr(torch, n), [X])
        for n in ("relu", "sigmoid", "tanh", "erf", "exp", "cos", "sin", "neg", "abs")
    ),
    (lambda x: torch.log(x * x + 1), [X]),
    (lambda x: torch.sqrt(x * x + 1), [X]),
    (lambda x: torch.rsqrt(torch.square(x) + 1), [X]),
    (lambda x: torch.reciprocal(x * x + 1), [X]),
    (functional.hardswish, [X]),
    (functional.gelu, [X]),
    (lambda x: functional.gelu(x, approximate="tanh"), [X]),
    (functional.silu, [X]),
    (lambda x: functional.leaky_relu(x, 0.3), [X]),
    (lambda x, y: torch.add(x, y, alpha=3), [X, (6,)]),
    (lambda x, y: torch.sub(x, y, alpha=2) / 4 - 1, [X, X]),
    (lambda x, y: x * y + 0.5, [X, (4, 1)]),
    (lambda x, y: x / (y * y + 1), [X, X]),
    (torch.maximum, [X, X]),
    (torch.minimum, [X, X]),
    *(
        (lambda x, f=f: f(x, 0.25), [X])
        for f in (aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.div.Scalar)
    ),
    (lambda x: x.transpose(0, 1).contiguous().clone(), [X]),
    (aten.alias.default, [X]),
    (lambda x: functional.dropout(x, 0.5, training=False), [X]),
    (lambda x: functional.dropout2d(x, 0.0), [X]),
    (lambda x: torch.feature_dropout(x, 0.5, False), [X]),
    (lambda x: x.softmax(1), [X]),
    (lambda x: x.softmax(-1), [X]),
    (torch.matmul, [X, Y]),
    (torch.mm, [(3, 4), (4, 5)]),
    (torch.bmm, [(2, 3, 4), (2, 4, 5)]),
    (torch.addmm, [(5,), (3, 4), (4, 5)]),
    (functional.scaled_dot_product_attention, [X, (2, 3, 5, 6), (2, 3, 5, 7)]),
    (lambda q: functional.scaled_dot_product_attention(q, q, q, scale=0.3), [X]),
    (functional.linear, [X, (5, 6), (5,)]),
    (functional.linear, [X, (5, 6)]),
    (lambda x, w, b: functional.conv2d(x, w, b, (2, 1), (1, 2), 1, 2), [IMAGE, (6, 2, 3, 3), (6,)]),
    (lambda x, w: functional.conv2d(x, w, dilation=2), [IMAGE, (6, 4, 3, 3)]),
    (
        lambda x, w, b, m, v: functional.batch_norm(x, m, v * v + 1, w, b, eps=0.1),
        [IMAGE, (4,), (4,), (4,), (4,)],
    ),
    (lambda x, w, b: functional.layer_norm(x, (4, 6), w, b), [X, (4, 6), (4, 6)]),
    (lambda x, w: functional.layer_norm(x, (6,), w), [X, (6,)]),
    (lambda x: x.view(6, 24), [X]),
    (lambda x: x.reshape(-1), [X]),
    (lambda x: aten._unsafe_view(x, [6, 24]), [X]),
    (lambda x: x.flatten(1, 2).unsqueeze(1), [X]),
    (lambda x: x.unflatten(3, (2, 3)), [X]),
    (lambda x: x.unsqueeze(0).squeeze(), [X]),
    (lambda x: x.unsqueeze(0).unsqueeze(2).squeeze(0).squeeze((1,)), [X]),
    (lambda x: x.t(), [(3, 4)]),
    (lambda x: x.transpose(-1, 0).permute(1, -1, 0, 2), [X]),
    (lambda x: x[:, 1:, ::2, -3:-1], [X]),
    (lambda x: x[:, -1] + x.select(1, 0), [X]),
    (lambda x: torch.narrow(x, -1, 1, 3), [X]),
    (lambda x: sum(x.split(2, -1)), [X]),
    (lambda x: torch.cat(x.split([1, 3], 2)[::-1], 2), [X]),
    (lambda x: torch.cat(aten.split.sizes(x, [1, 3], 2)[::-1], 2), [X]),
    (lambda x: torch.cat(x.chunk(3, -1), 0), [X]),
    (lambda x: torch.stack(x.unbind(1), -1), [X]),
    (lambda x: x.expand(5, 2, 3, -1, -1), [X]),
    (lambda x: x.mean((1, -1), keepdim=True) + x.sum(-2, keepdim=True), [X]),
    (lambda x: x.amax(2), [X]),
    (lambda x: functional.adaptive_avg_pool2d(x, 1), [IMAGE]),
    (lambda x: functional.max_pool2d(x, 3, 2, 1), [IMAGE]),
    (lambda x: functional.max_pool2d(x, 2), [IMAGE]),
    (lambda x: functional.avg_pool2d(x, 3, 2, 1), [IMAGE]),
    (lambda x: functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False), [IMAGE]),
    (lambda x: functional.interpolate(x, (11, 9), mode="bilinear"), [IMAGE]),
    (lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), [IMAGE]),
    (lambda x: functional.interpolate(x, scale_factor=2), [IMAGE]),
]


def traced(function, shapes):
    torch.manual_seed(0)
    arguments = [torch.randn(s) for s in shapes]
    return make_fx(lambda *xs: function(*xs), tracing_mode="fake", pre_dispatch=True)(*arguments), arguments


@pytest.mark.parametrize("case", range(len(CASES)))
def test_an_operator_is_read_as_what_it_computes(case):
    function, shapes = CASES[case]
    module, arguments = traced(function, shapes)
    source = read(module, training=False)
    assert source.unknown == {}
    assert source.kept == {}
    inputs = {f"place_{i}": a.numpy() for i, a in enumerate(arguments)}
    (found,) = evaluate(source.graph, inputs).values()
    np.testing.assert_allclose(found, function(*arguments).numpy(), rtol=2e-5, atol=1e-6)


def test_the_cases_call_every_operator():
    called = {n.target for case in CASES for n in traced(*case)[0].graph.nodes if n.op == "call_function"}
    # Some forms reach the graph from other entries of torch alone.
    assert {str(op) for op in TABLE.keys() - called} <= {"aten.squeeze.dim", "aten.max_pool2d.default"}


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: functional.adaptive_avg_pool2d(x, 3), [IMAGE]),
        (lambda x: functional.avg_pool2d(x, 2, ceil_mode=True), [IMAGE]),
        (lambda x: functional.interpolate(x, scale_factor=1.7, mode="bilinear"), [IMAGE]),
        (lambda x: functional.interpolate(x, (7, 9)), [IMAGE]),
        (lambda x, y: torch.matmul(x, y), [X, (6,)]),
        (lambda x: functional.layer_norm(x, (6,)), [X]),
        (lambda x: torch.cumsum(x, 1), [X]),
        (lambda x, w: functional.conv2d(x, w), [IMAGE[1:], (6, 4, 3, 3)]),
        (lambda a, x, y: torch.addmm(a, x, y, beta=2), [(5,), (3, 4), (4, 5)]),
        (lambda x: functional.dropout(x, 0.5), [X]),
        (lambda q: functional.scaled_dot_product_attention(q, q, q, is_causal=True), [X]),
        (lambda q, m: functional.scaled_dot_product_attention(q, q, q, m), [X, (4, 4)]),
        (lambda q: functional.scaled_dot_product_attention(q, q, q, dropout_p=0.1), [X]),
        (lambda q: functional.scaled_dot_product_attention(q, q, q), [X[1:]]),
        (lambda q, k: functional.scaled_dot_product_attention(q, k, k, enable_gqa=True), [X, (2, 1, 5, 6)]),
    ],
)
def test_what_has_no_equal_is_kept(function, shapes):
    module, _ = traced(function, shapes)
    source = read(module, training=False)
    assert len(source.kept) == 1


@pytest.mark.parametrize(
    "function",
    [torch.abs, lambda x: x.amax(2), lambda x: torch.maximum(x, -x), lambda x: functional.max_pool2d(x, 2)],
)
def test_kinks_are_kept_in_training(function):
    module, _ = traced(function, [IMAGE])
    assert len(read(module, training=True).kept) == 1
