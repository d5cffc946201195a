"""Comparing two model files finds them equal or finds the first tensor that differs."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import workbench
from tests.certification.models import chain, model, network
from workbench.certification import certify_files
from workbench.certification.model import Model
from workbench.certification.unrunnable_ops import set_apart
from workbench.frontends.model import ModelError


@pytest.mark.parametrize(
    ("change", "tensor", "operators"),
    [
        ({"entry": 0.01}, "c", ("Conv",)),
        ({"pads": 2}, "c", ("Conv",)),
        ({"epsilon": 1e-3}, "b", ("BatchNormalization",)),
        ({"swapped": True}, "d", ("Sub",)),
        ({"axis": 2}, "y", ("Softmax",)),
    ],
)
def test_the_first_tensor_that_differs_is_named(change, tensor, operators):
    found = certify_files(network(), network(**change))
    assert not found.equal
    assert found.difference.tensor == tensor
    assert found.difference.a.operators == found.difference.b.operators == operators
    assert found.difference.expected != found.difference.found


def test_a_model_is_equal_to_itself():
    found = certify_files(network(), network())
    assert found.equal
    assert found.error == 0.0
    assert found.own_rounding > 0
    assert found.passed
    assert "equal on 8 draws" in found._repr_mimebundle_()["text/html"]
    assert len(found.drawn) == 8  # six for one batch size, one for each of two others


@pytest.mark.slow
@pytest.mark.parametrize("level", ["BASIC", "EXTENDED", "ALL"])
def test_what_the_runtime_makes_of_a_model_is_equal_and_errors_in_it_are_found(tmp_path, level):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(tmp_path / "o.onnx")
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    content = network().SerializeToString()
    onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    assert certify_files(network(), tmp_path / "o.onnx").equal
    optimised = onnx.load(tmp_path / "o.onnx")
    (weight,) = [t for t in optimised.graph.initializer if len(t.dims) == 4]
    values = onnx.numpy_helper.to_array(weight).copy()
    values.flat[np.abs(values).argmax()] *= 1.05  # the largest entry, so not mere padding
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    found = certify_files(network(), optimised)
    assert not found.equal
    assert found.difference.tensor in ("b", "r")
    assert "Conv" in found.difference.a.operators


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_a_filter_over_sound_runs_at_more_samples_than_usual(factor):
    # The state has a name of its own for the batch, and fits one batch alone.
    shapes = ([("x", 1, ["batch", "samples"]), ("s", 1, ["streams", 4])], [("y", 1, None)])
    pads = [("pads", np.array([0, 64, 0, 64]))]
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"], mode="reflect"),
        helper.make_node("ReduceSum", ["p", "axis"], ["m"]),
        helper.make_node("Concat", ["m", "s"], ["c"], axis=1),
        helper.make_node("Mul", ["c", "k"], ["y"]),
    ]
    a, b = (
        model(nodes, *shapes, [*pads, ("axis", np.array([1])), ("k", np.float32(k))]) for k in (1.0, factor)
    )
    found = certify_files(a, b)
    assert found.equal == (factor == 1.0)
    assert all("samples=256" in drawn or "samples=1024" in drawn for drawn in found.drawn)


@pytest.mark.slow
def test_another_order_of_a_sum_is_rounding_and_a_changed_entry_is_not():
    rng = np.random.default_rng(1)
    w, v = rng.standard_normal((2, 64, 64)).astype("f4")
    shapes = ([("x", 1, [8, 64])], [("y", 1, [8, 64])])
    two = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "v"], ["y"])]
    original = model(two, *shapes, [("w", w), ("v", v)])
    one = [helper.make_node("MatMul", ["x", "u"], ["y"])]
    product = w.astype("f8") @ v.astype("f8")
    assert certify_files(original, model(one, *shapes, [("u", product.astype("f4"))])).equal
    product[3, 4] += 0.05
    found = certify_files(original, model(one, *shapes, [("u", product.astype("f4"))]))
    assert not found.equal
    assert found.difference.index[1] == 4


@pytest.mark.slow
def test_small_columns_next_to_a_large_one_are_compared_by_themselves():
    b = np.ones((8, 9), "f4")
    b[:, 8] = 1e7
    wrong = b.copy()
    wrong[2, 3] = 1.01
    shapes = ([("x", 1, [64, 8])], [("y", 1, [64, 9])])
    one = [helper.make_node("MatMul", ["x", "b"], ["y"])]
    found = certify_files(model(one, *shapes, [("b", b)]), model(one, *shapes, [("b", wrong)]))
    assert not found.equal
    assert found.difference.index[1] == 3


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 4])
def test_the_columns_of_a_small_batch_are_compared_over_all_draws(batch):
    shapes = (f"float[{batch},64] x", f"float[{batch},100] y")
    w = np.random.default_rng(0).standard_normal((64, 100)).astype("f4")
    scale = np.logspace(-6, 6, 100, dtype="f4")
    other = scale.copy()
    other[2] *= F(1.01)
    twice = "h = MatMul(x, w) y = Mul(h, k)"
    original = written(twice, *shapes, w=w, k=scale)
    assert certify_files(original, written("y = MatMul(x, w)", *shapes, w=w * scale)).equal
    found = certify_files(original, written(twice, *shapes, w=w, k=other))
    assert not found.equal
    assert found.difference.index[1] == 2


@pytest.mark.slow
def test_channels_of_other_magnitudes_are_compared_by_themselves():
    shapes = ("float[1,8,7,7] x", "float[1,8,7,7] y")
    scale = np.array([1e6, 1, 1, 1, 1, 1, 1, 1], "f4").reshape(8, 1, 1)
    wrong = scale.copy()
    wrong[3] = 1.01
    original = written("y = Mul(x, k)", *shapes, k=scale)
    found = certify_files(original, written("y = Mul(x, k)", *shapes, k=wrong), draws=1)
    assert not found.equal
    assert found.difference.index[1] == 3


@pytest.mark.slow
def test_a_cast_of_what_was_folded_in_a_wider_type_is_found():
    nodes = [
        helper.make_node("Mul", ["p", "q"], ["m"]),
        helper.make_node("Cast", ["m"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["x", "i"], ["y"]),
    ]
    shapes = ([("x", 1, [9])], [("y", 1, [1])])
    weights = [("p", np.array([0.7], "f4")), ("q", np.array([10], "f4"))]
    folded = model(nodes[2:], *shapes, [("i", np.array([6]))])
    found = certify_files(model(nodes, *shapes, weights), folded)
    assert not found.equal
    assert (found.difference.tensor, found.difference.expected, found.difference.found) == ("i", 7, 6)
    assert found.difference.a.operators == ("Mul", "Cast")
    right = model(nodes[2:], *shapes, [("i", np.array([7]))])
    assert certify_files(model(nodes, *shapes, weights), right).equal


def test_interfaces_that_differ_are_reported_before_anything_runs():
    other = network()
    other.graph.input[0].name = "z"
    other.graph.node[0].input[0] = "z"
    found = certify_files(network(), other)
    assert not found.equal
    assert "input 'x' is missing in B" in found.reason
    assert found.drawn == ()


@pytest.mark.slow
def test_a_symbol_fixed_in_b_is_a_note_and_bound_to_that_size():
    found = certify_files(network(), network(batch=5))
    assert found.equal
    assert any("symbolic (n) in A, fixed at 5 in B" in note for note in found.notes)


def test_a_draw_that_the_original_fails_on_is_made_again_gentler():
    node = helper.make_node("Div", ["x", "d"], ["y"])
    shapes = ([("x", 7, [4]), ("d", 7, [4])], [("y", 7, [4])])
    found = certify_files(model([node], *shapes), model([node], *shapes))
    assert found.equal
    assert any("were drawn instead" in note for note in found.notes)


def _custom(factor=2.0, scale=1.0):
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["a"]),
        helper.make_node("Mystery", ["a"], ["b"], domain="nobody.knows", strength=factor),
        helper.make_node("Mul", ["b", "s"], ["y"]),
    ]
    shapes = ([("x", 1, [2, 3])], [("y", 1, [2, 3])])
    weights = [("k", np.float32(3)), ("s", np.float32(scale))]
    return model(nodes, *shapes, weights, extra=[("nobody.knows", 1)])


@pytest.mark.slow
def test_operators_that_nothing_runs_are_compared_by_what_they_read():
    found = certify_files(_custom(), _custom())
    assert found.equal
    assert any("nobody.knows:Mystery" in note for note in found.notes)
    # Nodes behind such a node are compared too, and so are its attributes.
    behind = certify_files(_custom(), _custom(scale=1.5))
    assert (behind.equal, behind.difference.tensor) == (False, "y")
    before = _custom()
    before.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.float32(4), "k"))
    assert certify_files(_custom(), before).difference.tensor == "a"
    assert "same attributes" in certify_files(_custom(), _custom(factor=3.0)).reason


@pytest.mark.parametrize("name", ["Sampling", "BitmaskDropout"])
def test_random_operators_of_the_runtime_are_not_run(name):
    nodes = [helper.make_node(name, ["x", "r", "t"], ["y"], domain="com.microsoft")]
    inputs = [(name, TensorProto.FLOAT, [2]) for name in "xrt"]
    file = Model.of(model(nodes, inputs, [("y", TensorProto.FLOAT, [2])]), None, "")
    apart = set_apart(file, file, set())
    assert [node.op_type for node, _ in apart.pairs] == [name]
    assert apart.read == (("x", "x"), ("r", "r"), ("t", "t"))


@pytest.mark.slow
def test_random_operators_make_the_same_in_both():
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["r"]),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    shapes = ([("x", 1, [4, 4])], [("y", 1, [4, 4])])
    assert certify_files(model(nodes, *shapes), model(nodes, *shapes)).equal


def _endless(limit):
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["on"]),
            helper.make_node("Add", ["v", "v"], ["w"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", 7, []),
            helper.make_tensor_value_info("going", 9, []),
            helper.make_tensor_value_info("v", 1, [2]),
        ],
        [helper.make_tensor_value_info("on", 9, []), helper.make_tensor_value_info("w", 1, [2])],
    )
    node = helper.make_node("Loop", ["trips" if limit else "", "true", "x"], ["y"], body=body)
    weights = [("true", np.array(True)), *([("trips", np.array(limit))] if limit else [])]
    return model([node], [("x", 1, [2])], [("y", 1, [2])], weights)


@pytest.mark.slow
def test_a_loop_without_an_end_ends_in_a_message():
    with pytest.raises(ModelError, match=r"did not finish within 2 s"):
        certify_files(_endless(0), _endless(0), run_seconds=2)
    found = certify_files(_endless(3), _endless(0), run_seconds=2)
    assert not found.equal
    assert "B (the model) fails" in found.reason
    assert "did not finish" in found.reason


@pytest.mark.slow
def test_what_needs_more_memory_than_allowed_ends_in_a_message():
    node = helper.make_node("Expand", ["x", "n"], ["y"])
    large = model([node], [("x", 1, [1])], [("y", 1, None)], [("n", np.array([2**30]))])
    with pytest.raises(ModelError, match=r"needs more than the 3.0 GiB of memory"):
        certify_files(large, large, memory=3 << 30)


@pytest.mark.slow
def test_nothing_that_is_not_finite_is_lost():
    found = certify_files(chain(["Log", "Neg"]), chain(["Log", "Neg"]))
    assert found.equal
    clipped = model(
        [
            helper.make_node("Log", ["x"], ["l"]),
            helper.make_node("Where", ["is", "z", "l"], ["v1"]),
            helper.make_node("IsNaN", ["l"], ["is"]),
            helper.make_node("Neg", ["v1"], ["y"]),
        ],
        [("x", 1, [3, 5])],
        [("y", 1, [3, 5])],
        [("z", np.float32(0))],
    )
    found = certify_files(chain(["Log", "Neg"]), clipped)
    assert not found.equal
    assert np.isnan(found.difference.expected)


@pytest.mark.slow
def test_external_data_and_graphs_are_models_too(tmp_path):
    onnx.save_model(
        network(), tmp_path / "e.onnx", save_as_external_data=True, location="e.data", size_threshold=10
    )
    assert workbench.certify(tmp_path / "e.onnx", network().SerializeToString()).equal
    broken = certify_files(tmp_path / "e.onnx", network(entry=0.1))
    (line,) = broken.difference.weights
    assert line.startswith("weight 'w' is ")
    assert line.endswith("in B at [1, 2, 0, 1]")
    graph = workbench.load_onnx(network(batch=1))
    assert workbench.certify(graph, graph).passed
    assert workbench.certify(network(batch=1), graph).equal


@pytest.mark.slow
def test_a_misspelt_dimension_is_an_error_with_the_nearest():
    with pytest.raises(ValueError, match=r"did you mean batch"):
        certify_files(network(batch="batch"), network(batch="batch"), dims={"btach": 2})
    found = certify_files(network(batch="batch"), network(batch="batch"), dims={"batch": 7})
    assert all("batch=7" in text for text in found.drawn)


@pytest.mark.parametrize("bad", [b"", b"no model", b"\x08\x07"])
def test_what_is_not_a_model_is_an_error(bad):
    with pytest.raises(ModelError, match=r"not an ONNX model"):
        certify_files(network(), bad)


def test_limits_are_checked():
    with pytest.raises(ValueError, match="positive"):
        certify_files(network(), network(), seconds=0)
    with pytest.raises(ValueError, match="draws must be at least 1, got 0"):
        certify_files(network(), network(), draws=0)


def test_limits_hold_for_any_number_of_draws():
    with pytest.raises(ModelError, match="did not finish within"):
        certify_files(chain(["Relu"]), chain(["Relu"]), draws=10**30, seconds=0.2)


def test_less_memory_than_the_runtime_needs_is_an_error_of_one_line(capfd):
    with pytest.raises(ModelError, match="does not load in ONNX Runtime: needs more than the"):
        certify_files(chain(["Relu"]), chain(["Relu"]), memory=100 << 20)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_an_input_too_large_to_draw_is_refused():
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 8]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    large = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelError, match="input 'x' must have at most"):
        certify_files(large, large, dims={"n": 10**11})


def written(body, given="float[4,6] x", made="float[4,6] y", **weights):
    """Return a model from ONNX's text form."""
    text = f'<ir_version: 8, opset_import: ["" : 17]>\ng ({given}) => ({made}) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items())
    return model


def branch(other):
    """Return a model that takes one branch if its input's sum is below 1000, and ``other`` if not."""
    named = (("t", "p", "two"), ("e", "q", other))
    arms = [f"{n} () => (float[4,6] {r}) {{ {r} = Mul(x, {w}) }}" for n, r, w in named]
    body = (
        f"s = ReduceSum<keepdims=0>(x) c = Less(s, k) y = If<then_branch={arms[0]}, else_branch={arms[1]}>(c)"
    )
    return written(body, two=F(2), three=F(3), k=F(1e3))


F = np.float32
INT = ("int64[8] i", "int64[8] y")
ROWS = ("int64[8] i", "float[8,4] y")
SIZED = ("float[N,6] x", "float[N,6] y")
TABLE = np.random.default_rng(0).standard_normal((30000, 4)).astype(F)
OF_SIZE = "d = Shape(x) n = Gather(d, z) c = Equal(n, k) o = Where(c, a, b) y = Mul(x, o)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (written("y = Identity(x)"), written("y = Clip(x, , k)", k=F(6))),
        (
            written("y = Softmax<axis=1>(x)"),
            written("e = Exp(x) s = ReduceSum<keepdims=1>(e, k) y = Div(e, s)", k=np.array([1])),
        ),
        (written("y = Identity(i)", *INT), written("y = Min(i, k)", *INT, k=np.int64(1000))),
        (
            written("y = Gather(k, i)", *ROWS, k=TABLE),
            written("y = Gather(k, i)", *ROWS, k=TABLE * np.eye(1, 30000, 0, F).T + TABLE),
        ),
        (branch("three"), branch("two")),
        (
            written(OF_SIZE, *SIZED, z=np.int64(0), k=np.int64(7), a=F(2), b=F(3)),
            written("y = Mul(x, b)", *SIZED, b=F(3)),
        ),
    ],
    ids=["bound", "overflow", "ends of a type", "first row", "condition", "size"],
)
def test_differences_at_the_edges_are_found(a, b):
    assert not certify_files(a, b).equal
    assert certify_files(a, a).equal


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (
            written("y = Abs(x)"),
            written("q = Mul(x, x) y = Sqrt(q)"),
            " in A, inf in B at [0, 0]; draw 6 (large",
        ),
        (
            written("y = Identity(x)"),
            written("h = Mul(x, k) y = Mul(h, l)", k=F(1e-20), l=F(1e20)),
            " in A, -0 in B at [0, 2]; draw 7 (tiny",
        ),
    ],
    ids=["overflow", "underflow"],
)
def test_differences_at_extreme_values_alone_are_said(a, b, said):
    found = certify_files(a, b)
    assert found.equal
    assert said in found.extreme
    assert f"\nbut not at extreme values: {found.extreme}" in str(found)
    assert found.summary()["extreme"] == found.extreme
    assert found.draws == len(found.drawn) == 6
    assert not certify_files(b, a).extreme, "the original may lose more than the other model"


def test_another_shape_at_extreme_values_is_said():
    kept, ends = " r = Reshape(c, f) y = Compress(x, r)", ("float[4,6] x", "float[n] y")
    a = written(f"q = Abs(x) c = Greater(q, k){kept}", *ends, k=F(-1), f=np.array([-1]))
    b = written(f"q = Mul(x, x) c = Less(q, k){kept}", *ends, k=F(3e38), f=np.array([-1]))
    found = certify_files(a, b)
    assert found.equal
    assert found.extreme.startswith("'y': of shape (24,) in A, (0,) in B; draw 6 (large")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (
            written("y = Softmax<axis=1>(x)"),
            written(
                "m = ReduceMax<axes=[1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum<keepdims=1>(e, k) "
                "y = Div(e, s)",
                k=np.array([1]),
            ),
        ),
        (
            written("h = MatMul(x, k) y = MatMul(h, l)", k=np.eye(6, dtype=F), l=np.full((6, 6), 0.5, F)),
            written("y = MatMul(x, l)", l=np.full((6, 6), 0.5, F)),
        ),
        (written("h = Add(x, k) y = Sub(h, x)", k=F(1)), written("o = Sub(x, x) y = Add(o, k)", k=F(1))),
    ],
    ids=["softmax", "products", "cancelled"],
)
def test_right_rewrites_lose_nothing_at_extreme_values(a, b):
    found = certify_files(a, b)
    assert found.equal
    assert not found.extreme


@pytest.mark.slow
def test_noise_is_neither_equal_nor_different():
    a, b = (written(f"h = Mul(x, k) y = {f}(h)", k=F(1e7)) for f in ("Sin", "Cos"))
    found = certify_files(a, b)
    assert found.undecided
    assert not found.equal
    assert str(found).startswith("cannot tell: 'y' of A moves by as much as it is large")
    assert found.summary()["equal"] is None
    assert certify_files(a, a).equal


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "other", "equal"), [(-17.0, -17.0, True), (-16.0, -12.0, False)])
def test_a_saturated_sigmoid_is_right_to_the_last_digit_of_one(shift, other, equal):
    small = np.full((6, 4), 0.01, F)
    text = "m = MatMul(x, w) p = Add(m, k) q = Add(p, l) s = Sigmoid(q) y = Reshape(s, r)"
    a = written(text, w=small, k=F(shift / 2 + 0.3), l=F(shift / 2 - 0.3), r=np.array([-1]))
    b = written(
        "m = MatMul(x, w) q = Add(m, k) s = Sigmoid(q) y = Reshape(s, r)",
        w=small,
        k=F(other),
        r=np.array([-1]),
    )
    found = certify_files(a, b)
    assert found.equal == equal
    assert not found.undecided


def test_all_weights_that_differ_are_listed():
    a = written("m = Mul(x, k) y = Add(m, z)", k=F(2), z=F(0))
    b = written("n = Mul(x, k) y = Add(n, z)", k=np.array([1.5], F), z=F(1))
    shapes, values = certify_files(a, b).difference.weights
    assert "weight 'k' is float32[] in A, float32[1] in B" in shapes
    assert "weight 'z' is 0 in A, 1 in B at []" in values


def test_a_difference_behind_a_saturated_output_is_that_of_a_draw():
    text = "m = Mul(x, s) r = Relu(m) a = Add(r, k) y = Sigmoid(a)"
    found = certify_files(written(text, s=F(1), k=F(60)), written(text, s=F(1.5), k=F(60)))
    assert not found.equal
    where = found.difference
    assert (where.tensor, where.counterpart, where.outputs) == ("r", "r", ())
    assert (where.draw, where.found) == ("draw 0 (normal, seed 0)", pytest.approx(1.5 * where.expected))
    assert "the outputs agree on these draws; 'r': " in str(found)
    assert certify_files(written(text, s=F(1), k=F(60)), written(text, s=F(1.5), k=F(60)), inside=False).equal


@pytest.mark.slow
def test_a_threshold_in_an_external_file_is_read(tmp_path):
    model = written("y = Clip(x, , k)", k=F(6))
    path = tmp_path / "clip.onnx"
    onnx.save(model, path, save_as_external_data=True, location="clip.data", size_threshold=0)
    assert certify_files(path, path).equal


@pytest.mark.slow
def test_a_result_that_fails_is_different_even_beside_noise():
    a = written("h = Mul(x, k) y = Sin(h)", *SIZED, k=F(1e7))
    b = written("s = Reshape(x, r) h = Mul(s, k) y = Cos(h)", *SIZED, k=F(1e7), r=np.array([2, 6]))
    found = certify_files(a, b)
    assert "fails on" in found.reason
    assert not found.undecided
