import numpy as np
import pytest

from tests.devices.graphs import image, products
from tests.ops.test_onnx_form import INSTANCES, inputs, instance, named
from tests.random_graphs import random_graph
from workbench.graph import GraphBuilder, GraphError, Opaque, evaluate
from workbench.ops import TensorType
from workbench.torch.executor import NotExecutable, Program, draw_inputs, first_line, to_array, to_tensor


def check(graph, device, feeds, tolerance=1e-4):
    expected = evaluate(graph, feeds, precise=True)
    for fuse in (True, False):
        program = Program(graph, device, fuse=fuse)
        with device.settings():
            results = program(*program.inputs(feeds))
        found = {
            name: to_array(value) for (name, _), value in zip(program.graph.outputs, results, strict=True)
        }
        assert list(found) == list(expected)
        for name, value in expected.items():
            assert TensorType.of(found[name]) == graph.output_types[name]
            scale = max(1.0, np.abs(value).max()) if value.size else 1.0
            np.testing.assert_allclose(found[name], value, atol=tolerance * scale, rtol=tolerance)


@pytest.mark.parametrize("case", INSTANCES, ids=named)
def test_every_operator_runs_as_its_reference(device, case):
    graph = instance(*case)
    check(graph, device, inputs(graph))


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_run_as_their_reference(device, seed):
    graph = random_graph(seed)
    rng = np.random.default_rng(seed)
    check(
        graph, device, {n: rng.standard_normal(k.shape).astype(k.dtype) for n, k in graph.input_types.items()}
    )


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "pow", "max"])
def test_a_constant_number_on_the_right_is_a_number_in_torch(cpu, op):
    b = GraphBuilder()
    x, number = b.input("x", (2, 3)), b.weight(data=np.array(1.5, np.float32))
    graph = b.graph({"y": b.op(op, b.op("exp", x), number)})
    (call,) = Program(graph, cpu).calls[1:]
    assert len(call.operands) == (2 if op == "max" else 1)  # torch.maximum takes tensors alone
    check(graph, cpu, {"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)})


def test_what_depends_on_weights_alone_is_computed_ahead_as_at_export(cpu):
    b = GraphBuilder()
    x = b.input("x", (2, 8))
    w = b.op("concat", *(b.op("exp", b.weight((8, 4))) for _ in range(2)), axis=-1)
    graph = b.graph({"y": b.op("matmul", x, w), "w": w})
    program = Program(graph, cpu)
    assert len(program.calls) == 1
    with cpu.settings():
        _, folded = program(*program.inputs({"x": np.ones((2, 8), np.float32)}))
    exact = evaluate(graph, {"x": np.ones((2, 8), np.float32)}, precise=True)["w"]
    np.testing.assert_array_equal(to_array(folded), exact.astype(np.float32))


def test_values_are_dropped_after_their_last_reader(cpu):
    b = GraphBuilder()
    x = b.input("x", (4,))
    y = b.op("relu", x)
    graph = b.graph({"z": b.op("add", b.op("neg", y), y), "y": y})
    calls = Program(graph, cpu).calls
    dropped = [graph.nodes[i].op for call in calls for i in call.last]
    assert sorted(dropped) == ["input", "neg"], "an output stays"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64", "bool"])
def test_arrays_of_any_dtype_go_there_and_back(device, dtype):
    kind = TensorType(dtype, (3, 5))
    array = np.arange(15).reshape(3, 5).astype(kind.numpy_dtype())
    tensor = to_tensor(device, array)
    assert tensor.dtype == kind.torch_dtype(device.torch)
    np.testing.assert_array_equal(to_array(tensor).astype(np.float64), array.astype(np.float64))
    np.testing.assert_array_equal(to_array(to_tensor(device, array.T[::2])), to_array(tensor).T[::2])


def test_inputs_are_checked(cpu):
    program = Program(products(), cpu)
    with pytest.raises(GraphError, match="'x' must be float32"):
        program.inputs({"x": np.zeros((3, 3), np.float32)})
    with pytest.raises(GraphError, match="got inputs"):
        program.inputs({"z": np.zeros((4, 32), np.float32)})
    with pytest.raises(ValueError, match="CUDA"):
        program.bound([], graph=True)


def test_what_has_no_form_is_named(cpu):
    b = GraphBuilder()
    (y,) = b.opaque(Opaque("NonZero", "", (TensorType("float32", (4,)),)), [b.input("x", (4,))])
    with pytest.raises(NotExecutable, match="NonZero"):
        Program(b.graph({"y": y}), cpu)


@pytest.mark.gpu
def test_a_recorded_program_follows_its_inputs(gpu):
    graph = image()
    program = Program(graph, gpu)
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 4, 10, 10)).astype(np.float32)}
    with gpu.settings():
        tensors = program.inputs({"x": np.zeros((1, 4, 10, 10), np.float32)})
        kept = []
        replay = gpu.capture(lambda: kept.append(program(*tensors)))
        tensors[0].copy_(to_tensor(gpu, feeds["x"]))
        replay()
        gpu.wait()
        np.testing.assert_allclose(to_array(kept[-1][0]), evaluate(graph, feeds)["y"], atol=1e-4)


def test_inputs_are_the_same_for_a_seed(device):
    first, second, other = (draw_inputs(image(), device, s)[0].tolist() for s in (1, 1, 2))
    assert first == second != other


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("no kernel\nmore of it", "RuntimeError: no kernel"),
        ("backend raised:\n\nno compiler\nmore", "RuntimeError: backend raised: no compiler"),
        ("", "RuntimeError"),
    ],
)
def test_the_reason_of_a_failure_is_one_line(said, line):
    assert first_line(RuntimeError(said)) == line
