"""Shapes over symbols: windows, slices, joins and reshapes are right at every size, whatever they are at one."""

import numpy as np
import pytest
from onnx import helper, numpy_helper, parser

from tests.frontends.symbolic_models import inputs_at, keeps
from workbench.frontends import run_model, to_onnx
from workbench.frontends.model_file import open_model

F4 = np.float32
RNG = np.random.default_rng(0)


def w(*shape):
    return RNG.standard_normal(shape).astype(F4)


def i8(*numbers):
    return np.array(numbers, np.int64)


def written(body, inputs, outputs, **weights):
    """Return a model from ONNX's text form."""
    m = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]>\ng ({inputs}) => ({outputs}) {{ {body} }}'
    )
    m.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items())
    return m


def along(*sizes, **more):
    return [{"batch": 2, "seq": n, **more} for n in sizes]


SEQ = "float[batch,seq,8] x"
IMAGE = "float[N,3,H,W] x"
CUT = {"z1": i8(0), "s1": i8(100), "o1": i8(1), "a": F4(2)}
UP = {"e": np.zeros(0, F4), "sc": np.array([1, 1, 2, 2], F4), "two": i8(2), "four": i8(4), "s": F4(2)}
HALVED = (
    "p = MaxPool<kernel_shape=[2,2],strides=[2,2]>(x) "
    'u = Resize<mode="nearest",coordinate_transformation_mode="asymmetric",nearest_mode="floor">(p, e, sc) '
    "du = Shape(u) d = Shape(x) hu = Slice(du, two, four) h = Slice(d, two, four) "
)


def images(*sizes):
    return [{"N": 1, "H": h, "W": w} for h, w in sizes]


CASES = {
    "a slice that ends beyond short inputs": (
        "s = Slice(x, z1, s1, o1) d = Shape(s) n = Gather(d, one) f = Cast<to=1>(n) y = Div(s, f)",
        (SEQ, "float[batch,S,8] y", along(1, 50, 99, 100, 101, 200)),
        {"one": np.int64(1), **CUT},
    ),
    "heads of such a slice": (
        "s = Slice(x, z1, s1, o1) r = Reshape(s, sh) y = Transpose<perm=[0,2,1,3]>(r)",
        (SEQ, "float[batch,2,S,4] y", along(1, 50, 100, 200)),
        {"sh": i8(0, 0, 2, 4), **CUT},
    ),
    "the last rows of an axis that may be shorter": (
        "y = Slice(x, k, far, o1)",
        (SEQ, "float[batch,S,8] y", along(1, 7, 8, 9, 40)),
        {"k": i8(-8), "far": i8(2**62), "o1": i8(1)},
    ),
    "an end below zero by a size": (
        "d = Shape(x) n = Gather(d, o1) k = Sub(n, eight) y = Slice(x, z1, k, o1)",
        (SEQ, "float[batch,S,8] y", along(1, 5, 8, 9, 20)),
        {"eight": i8(8), "z1": i8(0), "o1": i8(1)},
    ),
    "all but the first row": (
        "s = Slice(x, o1, far, z1) y = Relu(s)",
        (SEQ, "float[P,seq,8] y", [{"batch": b, "seq": 3} for b in (1, 2, 5)]),
        {"o1": i8(1), "far": i8(2**62), "z1": i8(0)},
    ),
    "halves of a batch": (
        "d = Shape(x) n = Gather(d, zero) n1 = Add(n, one) half = Div(n1, two) e1 = Unsqueeze(half, z1) "
        "t1 = Unsqueeze(two, z1) e2 = Mul(e1, t1) u = Slice(x, z1, e1, z1) c = Slice(x, e1, e2, z1) y = Sub(c, u)",
        ("float[batch,8] x", "float[half,8] y", [{"batch": b} for b in (1, 2, 4, 6)]),
        {"zero": np.int64(0), "one": np.int64(1), "two": np.int64(2), "z1": i8(0)},
    ),
    "padding that depends on the size": (
        'c = Conv<strides=[2,2],auto_pad="SAME_UPPER">(x, k) y = Relu(c)',
        (IMAGE, "float[N,5,P,Q] y", images((1, 1), (17, 18), (18, 16), (51, 54), (64, 3))),
        {"k": w(5, 3, 3, 3)},
    ),
    "windows larger than the input": (
        "p = MaxPool<kernel_shape=[2,2],strides=[2,2]>(x) d = Shape(p) n = Slice(d, two, four) y = Cast<to=1>(n)",
        (IMAGE, "float[2] y", images((1, 1), (2, 1), (3, 5))),
        {"two": i8(2), "four": i8(4)},
    ),
    "windows that are rounded up": (
        "p = MaxPool<kernel_shape=[3,3],strides=[2,2],ceil_mode=1>(x) y = Flatten<axis=2>(p)",
        (IMAGE, "float[P,Q] y", images((3, 3), (4, 5), (6, 7), (2, 8))),
        {},
    ),
    "a skip that is padded to": (
        HALVED + "df = Sub(h, hu) z6 = ConstantOfShape<value=int64[1]{0}>(six) pads = Concat<axis=0>(z6, df) "
        "v = Pad(u, pads) a = Add(v, x) y = Mul(a, s)",
        (IMAGE, "float[N,3,P,Q] y", images((64, 32), (51, 33), (2, 3))),
        {"six": i8(6), **UP},
    ),
    "a skip that is cropped": (
        HALVED + "v = Slice(x, z2, hu, ax) a = Add(u, v) y = Mul(a, s)",
        (IMAGE, "float[N,3,P,Q] y", images((64, 32), (51, 33), (2, 3))),
        {"z2": i8(0, 0), "ax": i8(2, 3), **UP},
    ),
    "a frame of one and a half": (
        'r = Resize<mode="nearest",coordinate_transformation_mode="asymmetric",nearest_mode="floor">(x, e, k) '
        "y = Relu(r)",
        (IMAGE, "float[N,3,P,Q] y", images((2, 2), (3, 4), (7, 5))),
        {"e": np.zeros(0, F4), "k": np.array([1, 1, 1.5, 0.5], F4)},
    ),
    "padding to a multiple": (
        "d = Shape(x) n = Gather(d, o1) m = Mod(n, four) f = Sub(four, m) p = Mod(f, four) "
        "pads = Concat<axis=0>(z4, p, z1) v = Pad(x, pads) y = Reshape(v, sh)",
        (SEQ, "float[batch,S,4,8] y", along(1, 3, 4, 5, 8)),
        {"o1": i8(1), "four": i8(4), "z4": i8(0, 0, 0, 0), "z1": i8(0), "sh": i8(0, -1, 4, 8)},
    ),
    "as many of the largest as there are": (
        "d = Shape(x) n = Gather(d, o1) k = Min(n, five) y, i = TopK<axis=1>(x, k)",
        (SEQ, "float[batch,S,8] y, int64[batch,S,8] i", along(1, 4, 5, 6)),
        {"o1": i8(1), "five": i8(5)},
    ),
    "parts of computed lengths": (
        "d = Shape(x) n = Gather(d, o1) h = Div(n, two) r = Sub(n, h) l = Concat<axis=0>(h, r) "
        "a, b = Split<axis=1>(x, l) c = Concat<axis=1>(b, a) y = Relu(c)",
        (SEQ, "float[batch,seq,8] y", along(1, 2, 3, 8)),
        {"o1": i8(1), "two": i8(2)},
    ),
    "two lengths that may broadcast": (
        "a = Add(x, z) h = MatMul(a, k) y = Relu(h)",
        (
            "float[A,8] x, float[B,8] z",
            "float[C,4] y",
            [{"A": a, "B": b} for a, b in ((4, 4), (1, 5), (5, 1))],
        ),
        {"k": w(8, 4)},
    ),
    "the last row of a join with a part that may be empty": (
        "p = Slice(x, o1, far, o1) c = Concat<axis=1>(x, p) y = Gather<axis=1>(c, last)",
        (SEQ, "float[batch,8] y", along(1, 2, 5)),
        {"o1": i8(1), "far": i8(2**62), "last": np.int64(-1)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_shape_is_right_at_every_size(name):
    body, (inputs, outputs, sizes), weights = CASES[name]
    keeps(written(body, inputs, outputs, **weights), *sizes, symbols=sizes[0])


@pytest.mark.parametrize("seq", [1, 2, 5])
def test_an_axis_of_one_is_dropped_only_if_it_is_one(seq):
    """The form in which torch writes ``x.squeeze(1)`` of a dynamic axis."""
    m = written(
        "h = Mul(x, two) d = Shape(h) n = Gather(d, one) c = Equal(n, one)",
        SEQ,
        "float[batch,8] y",
        two=F4(2),
        one=np.int64(1),
        axes=i8(1),
    )
    untyped = [helper.make_tensor_value_info(n, 1, None) for n in "pq"]
    yes = helper.make_graph([helper.make_node("Squeeze", ["h", "axes"], ["p"])], "t", [], untyped[:1])
    no = helper.make_graph([helper.make_node("Identity", ["h"], ["q"])], "e", [], untyped[1:])
    m.graph.node.append(helper.make_node("If", ["c"], ["o"], then_branch=yes, else_branch=no))
    m.graph.node.append(helper.make_node("Mul", ["o", "two"], ["y"]))
    m.graph.output[0].type.tensor_type.ClearField("shape")
    opened = open_model(m, {}, {})
    feeds = inputs_at(m, {"batch": 2, "seq": seq})
    found = run_model(to_onnx(opened.searched, symbols=opened.table), feeds)["y"]
    np.testing.assert_array_equal(found, run_model(m, feeds)["y"])


def test_long_strides_and_halved_images_keep_their_symbols():
    chain = "u = Unsqueeze(x, o1) "
    previous, channels, weights = "u", 1, {"o1": i8(1)}
    for i, (kernel, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))):
        weights[f"w{i}"], channels = w(4, channels, kernel), 4
        chain += f"c{i} = Conv<strides=[{stride}]>({previous}, w{i}) r{i} = Relu(c{i}) "
        previous = f"r{i}"
    m = written(
        chain + f"y = Transpose<perm=[0,2,1]>({previous})",
        "float[batch,samples] x",
        "float[batch,frames,4] y",
        **weights,
    )
    sizes = [{"batch": 1, "samples": n} for n in (400, 719, 720, 1600)]
    opened, _ = keeps(m, *sizes, symbols=["batch", "samples"])
    assert opened.generic.facts.least == {"+samples": 400}
    assert opened.sizes["samples"] >= 400
