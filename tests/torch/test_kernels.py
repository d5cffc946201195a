import numpy as np
import pytest

from tests.devices.graphs import image
from workbench.graph import evaluate
from workbench.ops import TensorType
from workbench.torch import kernels
from workbench.torch.executor import Program, to_array
from workbench.torch.kernels import draw, kernel


def convolution(graph):
    (node,) = [n for n in graph.nodes if n.op == "conv2d"]
    return node, [graph.nodes[i].tensor for i in node.inputs]


@pytest.mark.parametrize("act", ["none", "relu", "tanh"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (1, 0, 2, 1)])
def test_every_kernel_that_is_offered_computes_what_the_form_does(device, act, bias, pads):
    graph = image(act, bias, pads)
    node, types = convolution(graph)
    with device.settings():
        plain = kernel(device, "conv2d", node.attrs, types, node.tensor, fuse=False)
        operands = [draw(device, k, i) - 1 for i, k in enumerate(types)]
        expected = plain(*operands)
        offered = list(kernels._fused(device, "conv2d", node.attrs, types, node.tensor))
        gains = act == "relu" or (act == "none" and bias and not device.cuda)
        assert bool(offered) == (gains and pads[:2] == pads[2:])
        computed = 0
        for candidate in offered:
            try:
                found = candidate(*operands)
            except (RuntimeError, AttributeError, NotImplementedError):
                continue  # not in this version, so kernel() falls back as well
            np.testing.assert_allclose(found.cpu(), expected.cpu(), atol=1e-4)
            computed += 1
        # If none of them ran, the installation would be broken.
        assert computed or not offered
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 4, 10, 10)).astype(np.float32)}
    program = Program(graph, device)
    with device.settings():
        (found,) = program(*program.inputs(feeds))
    np.testing.assert_allclose(to_array(found), evaluate(graph, feeds)["y"], atol=1e-4)


@pytest.mark.parametrize("left", [(6, 8), (2, 3, 8), (2, 1, 3, 8), (0, 8)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_with_relu_is_one_kernel_for_any_rank_on_the_left(pretended, left, dtype):
    types = [TensorType(dtype, left), TensorType(dtype, (8, 5))]
    out = TensorType(dtype, (*left[:-1], 5))
    (fused,) = kernels._fused(pretended, "matmul", ("relu",), types, out)
    a, b = (draw(pretended, k, i) - 1 for i, k in enumerate(types))
    found = fused(a, b)
    assert found.shape == out.shape
    np.testing.assert_allclose(found, kernel(pretended, "matmul", ("relu",), types, out, fuse=False)(a, b))
    assert not found.numel() or float(found.min()) == 0


def test_only_a_matrix_on_the_right_and_relu_are_one_product(pretended, cpu):
    matrix, batch = TensorType("float32", (8, 8)), TensorType("float32", (2, 8, 8))
    offered = lambda device, act, *types: list(kernels._fused(device, "matmul", (act,), types, types[0]))  # noqa: E731
    assert offered(pretended, "relu", batch, matrix)
    assert not offered(pretended, "relu", batch, batch)
    # The kernel's gelu is another function on a GPU.
    assert not offered(pretended, "gelu", batch, matrix)
    assert not offered(cpu, "relu", batch, matrix)


@pytest.mark.parametrize("recorded", [True, False])
def test_kernels_on_a_gpu_are_compared_as_recorded_if_they_can_be(pretended, monkeypatch, recorded):
    # The faster one when it is recorded is the slower one call by call.
    replayed, called, seen = {"form": 2.0, "fused": 1.0}, {"form": 2.0, "fused": 3.0}, []

    def capture(self, body, warmup=3):
        if not recorded:
            raise RuntimeError("operation not permitted when stream is capturing")
        body()
        return seen[-1]

    def run(name, value):
        return lambda *xs: seen.append(name) or value

    monkeypatch.setattr(type(pretended), "capture", capture)
    monkeypatch.setattr(
        type(pretended), "times_back_to_back", lambda self, names: [replayed[n] for n in names]
    )
    monkeypatch.setattr(type(pretended), "time", lambda self, body, n=1: body() or called[seen[-1]])
    kind = TensorType("float32", (3,))
    value = pretended.torch.ones(3)
    choice = kernels._choice(pretended, run("form", value), [run("fused", value)], [kind], kind)
    assert choice == (0 if recorded else None)


@pytest.mark.parametrize("fault", ["wrong", "refused", "shape", "no relu"])
def test_a_kernel_that_is_wrong_or_refused_is_not_taken(cpu, monkeypatch, fault):
    node, types = convolution(image())

    def faulty(device, op, attrs, inputs, out):
        def run(x, w, b):
            if fault == "refused":
                raise RuntimeError("unable to find an engine")
            if fault == "no relu":
                return kernel(device, op, (*attrs[:-1], "none"), inputs, out, fuse=False)(x, w, b)
            wrong = device.torch.zeros(out.shape)
            return wrong if fault == "wrong" else wrong[:, :1]

        yield run

    monkeypatch.setattr(kernels, "_fused", faulty)
    monkeypatch.setattr(
        kernels, "_least_time", lambda *a: 1.0
    )  # not slower, so only what it computes speaks against it
    monkeypatch.setattr(kernels, "_chosen", {})
    with cpu.settings():
        run = kernel(cpu, "conv2d", node.attrs, types, node.tensor)
        operands = [draw(cpu, k, i) for i, k in enumerate(types)]
        assert float(run(*operands).abs().max()) > 0
    assert list(kernels._chosen.values()) == [None]


def test_data_are_the_same_for_a_seed_and_suit_every_operator(device):
    kind = TensorType("float32", (100,))
    first, again, other = draw(device, kind, 1), draw(device, kind, 1), draw(device, kind, 2)
    assert first.tolist() == again.tolist() != other.tolist()
    assert 0.5 <= float(first.min()) <= float(first.max()) <= 1.5
    indices = draw(device, TensorType("int64", (500,)), 0, below=7)
    assert set(indices.tolist()) == set(range(7))
    assert set(draw(device, TensorType("bool", (9,)), 0).tolist()) == {False}
