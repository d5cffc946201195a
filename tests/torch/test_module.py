"""Graphs as torch modules."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import workbench  # noqa: E402
from workbench.frontends import run_graph  # noqa: E402
from workbench.graph import GraphBuilder, Opaque  # noqa: E402
from workbench.ops import TensorType  # noqa: E402
from workbench.torch import to_module  # noqa: E402
from workbench.torch.executor import NotExecutable  # noqa: E402

pytestmark = pytest.mark.torch


def branches():
    """Two parallel convolutions with the names of a torch model."""
    b = GraphBuilder("branches")
    x = b.input("pixel.values", (1, 3, 9, 9))
    wide = b.op("conv2d", x, b.weight((8, 3, 3, 3), name="wide.weight"), pads=1)
    point = b.op("conv2d", x, b.weight((8, 3, 1, 1), name="layer.0.point.weight"))
    return b.graph({"y": b.op("relu", b.op("add", wide, point)), "z": b.op("tanh", point)})


def test_a_module_computes_what_its_graph_computes_under_the_names_of_the_weights():
    graph = branches()
    module = to_module(graph)
    x = np.random.default_rng(0).standard_normal((1, 3, 9, 9)).astype("f4")
    expected = run_graph(graph, {"pixel.values": x})
    y, z = module(torch.from_numpy(x))
    np.testing.assert_allclose(y.detach().numpy(), expected["y"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(z.detach().numpy(), expected["z"], rtol=1e-4, atol=1e-5)
    assert {*module.state_dict()} == {"wide.weight", "layer.0.point.weight"}


def test_a_result_is_a_module_that_can_be_trained():
    result = workbench.optimize(branches())
    module = result.to_torch()
    x = torch.randn(1, 3, 9, 9)
    for ours, theirs in zip(module(x), to_module(result.original)(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    sum(y.sum() for y in module(x)).backward()
    assert all(p.grad is not None for p in module.parameters())


def test_whole_numbers_are_buffers_and_names_that_collide_stay_apart():
    b = GraphBuilder()
    x = b.input("x", (4, 3))
    rows = b.weight(data=np.array([2, 0]), name="rows")
    picked = b.op("gather", x, rows, axis=-2)
    scaled = b.op("mul", picked, b.weight((3,), name="rows.scale"))
    module = to_module(b.graph({"y": b.op("add", scaled, b.op("ones", shape=(3,), dtype="float32"))}))
    assert [*dict(module.named_buffers())] == ["rows"]
    assert len(module.state_dict()) == 2
    assert module(torch.ones(4, 3)).shape == (2, 3)


def test_numbers_of_sixteen_bits_keep_their_type():
    b = GraphBuilder()
    x = b.input("x", (2, 3), dtype="bfloat16")
    y = b.op("mul", x, b.weight((3,), name="scale", dtype="bfloat16"))
    module = to_module(b.graph({"y": y}))
    assert module.scale.dtype is torch.bfloat16
    assert module(torch.ones(2, 3, dtype=torch.bfloat16)).dtype is torch.bfloat16


def test_an_operator_without_a_form_is_named():
    b = GraphBuilder()
    kind = TensorType("float32", (3,))
    (y,) = b.opaque(Opaque("Mystery", "", (kind,)), [b.input("x", (3,))])
    with pytest.raises(NotExecutable, match="Mystery"):
        to_module(b.graph({"y": y}))
