import numpy as np
import onnx
import pytest

from tests.frontends.models import FLOAT, check, model, node, normal, value, weight
from workbench.frontends import ModelError, load_onnx, run_graph, run_model, save_onnx, to_onnx
from workbench.graph import Graph, GraphBuilder, Opaque, evaluate
from workbench.ops import TensorType


def written(graph, **more):
    return [n.op_type for n in to_onnx(graph, **more).graph.node]


def agree(graph, rtol=1e-5, **more):
    random = np.random.default_rng(3)
    feeds = {k: random.standard_normal(t.shape).astype(t.numpy_dtype()) for k, t in graph.input_types.items()}
    m = to_onnx(graph, **more)
    onnx.checker.check_model(m, full_check=True)
    found, expected = run_model(m, feeds), evaluate(graph, feeds)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=rtol, atol=1e-6)
    return m


def test_the_model_says_who_made_it_and_what_it_needs():
    b = GraphBuilder("net")
    m = to_onnx(b.graph({"y": b.op("relu", b.input("x", (2,)))}))
    assert (m.producer_name, m.graph.name) == ("workbench", "net")
    assert {o.domain: o.version for o in m.opset_import} == {"": 21}
    assert m.ir_version == 10


def test_a_convolution_with_bias_and_activation_is_two_nodes():
    b = GraphBuilder()
    x, w, c = b.input("x", (2, 3, 6, 6)), b.weight((4, 3, 3, 3)), b.weight((1, 4, 1, 1))
    graph = b.graph({"y": b.op("conv2d", x, w, c, act="relu", pads=(1, 1, 1, 1))})
    m = agree(graph)
    assert [n.op_type for n in m.graph.node] == ["Conv", "Relu"]
    assert sorted(tuple(t.dims) for t in m.graph.initializer) == [(4,), (4, 3, 3, 3)]


def test_a_bias_that_is_computed_is_reshaped():
    b = GraphBuilder()
    x, w, c = b.input("x", (2, 3, 6, 6)), b.weight((4, 3, 3, 3)), b.input("c", (1, 4, 1, 1))
    assert [n.op_type for n in agree(b.graph({"y": b.op("conv2d", x, w, c)})).graph.node] == [
        "Reshape",
        "Conv",
    ]


def test_a_constant_added_to_a_convolution_is_its_bias():
    b = GraphBuilder()
    x, w = b.input("x", (2, 3, 6, 6)), b.weight((4, 3, 3, 3))
    y = b.op("relu", b.op("add", b.op("conv2d", x, w, strides=(2, 1)), b.weight((4, 1, 1))))
    assert [n.op_type for n in agree(b.graph({"y": y})).graph.node] == ["Conv", "Relu"]


def test_a_folded_batch_normalisation_leaves_a_convolution_alone():
    """Return conv and batchnorm after rewriting: a scaled weight, the shift as bias, both constant."""
    b = GraphBuilder()
    x, w = b.input("x", (1, 3, 6, 6)), b.weight((4, 3, 3, 3))
    scale, shift, mean = b.weight((4,)), b.weight((4,)), b.weight((4,))
    var = b.weight(data=np.array([0.5, 1, 2, 4], np.float32))
    a = b.op("reshape", b.op("bn_scale", scale, var), shape=(4, 1, 1, 1))
    folded = b.op("conv2d", x, b.op("mul", w, a), b.op("bn_shift", scale, shift, mean, var))
    graph = b.graph({"y": folded, "z": b.op("batchnorm", b.op("conv2d", x, w), scale, shift, mean, var)})
    assert written(graph) == ["Conv", "Conv", "BatchNormalization"]
    values = run_graph(
        graph, {"x": np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)}
    )
    np.testing.assert_allclose(values["y"], values["z"], rtol=1e-4, atol=1e-5)


def test_run_time_statistics_are_composed_of_primitives():
    b = GraphBuilder()
    s, v, t, m = (b.input(n, (4,)) for n in "svtm")
    graph = b.graph({"a": b.op("bn_scale", s, v), "b": b.op("bn_shift", s, t, m, v)})
    feeds = {n: np.array([1, 2, 3, 4], np.float32) for n in "svtm"}
    for name, array in evaluate(graph, feeds).items():
        np.testing.assert_allclose(run_graph(graph, feeds)[name], array, rtol=1e-6)


def test_activations_of_products_are_nodes():
    b = GraphBuilder()
    y = b.op("matmul", b.input("x", (2, 3)), b.weight((3, 4)), act="tanh")
    assert [n.op_type for n in agree(b.graph({"y": y})).graph.node] == ["MatMul", "Tanh"]


def test_a_split_is_written_once_and_its_parts_may_be_outputs():
    b = GraphBuilder()
    parts = b.split(b.input("x", (2, 6)), 1, [1, 2, 3])
    graph = b.graph({"last": parts[2], "first": parts[0], "mid": b.op("relu", parts[1])})
    for opset in (9, 13, 22):
        m = agree(graph, opset=opset)
        assert [n.op_type for n in m.graph.node] == ["Split", "Relu"]
    assert m.graph.node[0].output[0] == "first"


def test_global_pooling_is_written_as_such():
    b = GraphBuilder()
    x = b.input("x", (2, 3, 5, 4))
    graph = b.graph({"a": b.op("reduce_mean", x, axes=(-1, -2)), "b": b.op("reduce_max", x, axes=(-2, -1))})
    assert written(graph) == ["GlobalAveragePool", "GlobalMaxPool"]
    b = GraphBuilder()
    other = b.op("reduce_mean", b.input("x", (2, 3, 5, 4)), axes=(-2, -1), keepdims=0)
    assert written(b.graph({"y": other})) == ["ReduceMean"]


def test_softmax_before_operator_set_13_normalises_its_axis_only():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("softmax", b.input("x", (2, 3, 4)), axis=-2)})
    assert [n.op_type for n in agree(graph, opset=11).graph.node] == ["Transpose", "Softmax", "Transpose"]
    assert written(graph, opset=13) == ["Softmax"]


def test_outputs_that_are_inputs_weights_or_the_same_value():
    b = GraphBuilder()
    x, w = b.input("x", (2,)), b.weight(data=np.array([1, 2], np.float32), name="w")
    r = b.op("relu", x)
    graph = b.graph([("a", r), ("b", r), ("c", x), ("d", w), ("x", x), ("w", w), ("e", b.op("identity", r))])
    m = agree(graph)
    assert [o.name for o in m.graph.output] == ["a", "b", "c", "d", "x", "w", "e"]


def test_an_output_may_be_called_like_the_writer_s_own_names():
    b = GraphBuilder()
    x = b.input("v0", (2,))
    graph = b.graph({"v1": b.op("relu", x), "c0": b.op("exp", b.op("neg", b.op("abs", x)))})
    agree(graph)


def test_an_output_called_like_another_input_is_refused():
    b = GraphBuilder()
    x = b.input("x", (2,))
    with pytest.raises(ModelError, match="'x'"):
        to_onnx(b.graph({"x": b.op("relu", x)}))


def test_weights_are_folded_unless_asked_not_to():
    b = GraphBuilder()
    w = b.op("transpose", b.op("mul", b.weight((4, 3)), b.weight((3,))), perm=(1, 0))
    graph = b.graph({"y": b.op("matmul", b.input("x", (2, 3)), w)})
    assert written(graph) == ["MatMul"]
    assert sorted(written(graph, fold=False)) == ["MatMul", "Mul", "Transpose"]
    agree(graph)
    agree(graph, fold=False)


def test_weights_without_a_finite_value_stay_operators():
    b = GraphBuilder()
    big = b.weight(data=np.full(3, 60000, np.float16))
    graph = b.graph({"y": b.op("mul", b.input("x", (3,), "float16"), b.op("mul", big, big))})
    assert written(graph) == ["Mul", "Mul"]


def test_generated_weights_are_written_as_generated():
    b = GraphBuilder()
    w = b.weight(data=np.broadcast_to(np.float32(0.5), (400, 300)))
    graph = b.graph({"y": b.op("matmul", b.input("x", (2, 300)), b.op("transpose", w, perm=(1, 0)))})
    m = agree(graph)
    assert [n.op_type for n in m.graph.node] == ["ConstantOfShape", "Gemm"]
    assert m.ByteSize() < 1000


@pytest.mark.parametrize("opset", [9, 10, 11, 17])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("shape", [(4,), (1, 4), None])
def test_a_stored_matrix_that_is_read_transposed_is_written_once(opset, left, shape):
    b = GraphBuilder()
    random = np.random.default_rng(0)
    w = b.weight(data=random.standard_normal((3, 4) if left else (4, 3)).astype(np.float32), name="w")
    turned = b.op("transpose", w, perm=(1, 0))
    x = b.input("x", (3, 4) if left else (2, 3))
    y = b.op("matmul", *((turned, x) if left else (x, turned)))
    if shape is not None:
        y = b.op("add", y, b.weight(data=random.standard_normal(shape).astype(np.float32), name="b"))
    m = agree(b.graph({"y": y}), opset=opset)
    (node,) = m.graph.node
    assert node.op_type == "Gemm"
    assert {a.name: a.i for a in node.attribute} == {"transA" if left else "transB": 1}
    assert {t.name for t in m.graph.initializer} >= {"w"}
    assert sum(len(t.raw_data) for t in m.graph.initializer) < 2 * 48


def test_a_sum_with_another_reader_of_the_product_is_written_apart():
    b = GraphBuilder()
    w = b.op("transpose", b.weight(data=np.ones((4, 3), np.float32)), perm=(1, 0))
    y = b.op("matmul", b.input("x", (2, 3)), w)
    z = b.op("add", y, b.weight(data=np.ones(4, np.float32)))
    assert [n.op_type for n in agree(b.graph({"y": y, "z": z})).graph.node] == ["Gemm", "Add"]


def test_seeded_weights_are_written_with_their_values():
    b = GraphBuilder(seed=5)
    graph = b.graph({"y": b.op("matmul", b.input("x", (2, 3)), b.weight((3, 4), name="w"))})
    assert graph.weights["w"].data is None
    (tensor,) = to_onnx(graph).graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), graph.weights["w"].value())


def test_unused_weights_and_dead_nodes_are_not_written():
    b = GraphBuilder()
    x = b.input("x", (2,))
    nodes = b.graph({"y": b.op("relu", x), "z": b.op("add", x, b.weight((2,)))})
    graph = Graph(nodes.nodes, nodes.inputs, nodes.outputs[:1], nodes.weights)
    m = to_onnx(graph)
    assert [n.op_type for n in m.graph.node] == ["Relu"]
    assert not m.graph.initializer


def test_operator_sets_that_cannot_be_written_are_refused():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("relu", b.input("x", (2,)))})
    for opset in (8, 0, onnx.defs.onnx_opset_version() + 1):
        with pytest.raises(ModelError, match=f"opset must be from 9 to .*, got {opset}"):
            to_onnx(graph, opset=opset)


def lrn(opset, *more):
    nodes = [node("LRN", "x", "h", size=3), *more, node("Relu", "h" if not more else "g", "y")]
    return model(nodes, [value("x", [1, 4, 3, 3])], [value("y", None)], opset=opset)


def opset_of(graph, **more):
    return {o.domain: o.version for o in to_onnx(graph, **more).opset_import}[""]


def test_opaque_operators_decide_the_operator_set_where_they_changed():
    assert opset_of(load_onnx(lrn(9))) == 9  # LRN has another definition since 13
    assert opset_of(load_onnx(lrn(13))) == opset_of(Graph.from_onnx(lrn(13))) == 13
    assert opset_of(load_onnx(lrn(17))) == 17
    assert opset_of(load_onnx(lrn(17)), opset=15) == 15
    with pytest.raises(ModelError, match="operator set 21 defines LRN differently from the model's"):
        to_onnx(load_onnx(lrn(9)), opset=21)
    check(lrn(9))
    assert opset_of(load_onnx(lrn(7))) == 9


@pytest.mark.parametrize("opset", [9, 11, 12])
@pytest.mark.parametrize(("low", "high"), [(0.5, np.inf), (-np.inf, 0.5), (-0.5, 0.5)])
def test_bounds_in_float64_run_in_every_operator_set(opset, low, high):
    b = GraphBuilder()
    graph = b.graph({"y": b.op("clip", b.input("x", (50,), "float64"), low=low, high=high)})
    agree(graph, opset=opset)


def test_operators_are_written_for_the_operator_set_of_the_opaque_ones():
    old = lrn(9, node("Clip", "h", "g", min=0.0, max=1.0))
    graph = check(old).graph
    clip = next(n for n in to_onnx(graph).graph.node if n.op_type == "Clip")
    assert {a.name for a in clip.attribute} == {"min", "max"}


def test_an_operator_that_needs_a_newer_operator_set_gets_it():
    b = GraphBuilder()
    x = b.input("x", (1, 1, 2, 2))
    graph = b.graph({"y": b.op("maxpool", x, kernel=(1, 1), strides=(2, 2), ceil=1)})
    assert opset_of(graph) == 22
    b = GraphBuilder()
    x = b.input("x", (1, 2, 4, 4), "bfloat16")
    w = b.weight((2, 2, 1, 1), dtype="bfloat16")
    assert opset_of(b.graph({"y": b.op("conv2d", x, w)})) == 22


def test_an_opaque_operator_without_onnx_form_is_refused():
    b = GraphBuilder()
    (y,) = b.opaque(Opaque("Thing", "", (TensorType("float32", (2,)),)), [b.input("x", (2,))])
    with pytest.raises(ModelError, match="Thing has no ONNX form"):
        to_onnx(b.graph({"y": y}))


def test_saving_and_loading_gives_the_same_graph(tmp_path):
    graph = load_onnx(lrn(13))
    save_onnx(graph, tmp_path / "m.onnx")
    again = load_onnx(tmp_path / "m.onnx")
    assert again.operators() == graph.operators()
    save_onnx(again, tmp_path / "n.onnx")
    assert load_onnx(tmp_path / "n.onnx").structural_hash() == again.structural_hash()
    assert (tmp_path / "m.onnx").read_bytes() == (tmp_path / "n.onnx").read_bytes()


def test_writing_is_deterministic():
    m = model(
        [node("MatMul", "x w", "h"), node("LRN", "h", "y", size=3)], [value("x", [1, 4, 3, 3])],
        [value("y", None)], [normal("w", 3, 3), weight("unused", [1.0])], 13,
    )  # fmt: skip
    graph = load_onnx(m)
    assert to_onnx(graph).SerializeToString() == to_onnx(graph).SerializeToString()
    assert to_onnx(load_onnx(m)).SerializeToString() == to_onnx(graph).SerializeToString()
    assert m.graph.input[0].type.tensor_type.elem_type == FLOAT


def test_constants_that_laws_make_are_written_as_weights():
    b = GraphBuilder()
    x = b.input("x", (2, 4, 5, 5))
    w = b.op("concat", b.op("identity_kernel", channels=4), b.op("identity_kernel", channels=4), axis=-4)
    large = b.op("ones", shape=(80, 80))
    graph = b.graph({"y": b.op("conv2d", x, w), "large": large, "eye": b.op("eye", size=3)})
    for fold in (True, False):
        m = agree(graph, fold=fold)
        assert "Conv" in [n.op_type for n in m.graph.node]
    assert sorted(written(graph)) == ["ConstantOfShape", "Conv", "Identity", "Identity"]
    assert sorted(written(graph, fold=False)) == ["Concat", "Conv", "Identity", "Identity"]
