import numpy as np
import pytest

from workbench.graph import GraphBuilder
from workbench.graph.evaluate import evaluate
from workbench.laws.verification.instances.typings import Menu
from workbench.laws.verification.refuting.cases import case_of, text_of
from workbench.laws.verification.refuting.refute import find_region, search, typed
from workbench.rules import parse_rule, parse_rules

#: Tempting laws that are wrong somewhere: grouped convolutions, broadcasting, borders, order of parts.
WRONG = {
    "merge-grouped-convs": "each conv2d[c](x, w*) => slice[axis=-3](conv2d[c](x, concat[axis=-4](w*)))",
    "sum-grouped-convs": "add(conv2d[c, act=none](x, w), conv2d[c, act=none](y, v)) => "
    "conv2d[c, act=none](concat[axis=-3](x, y), concat[axis=-3](w, v))",
    "sum-broadcast-kernels": "add(conv2d[c, act=none](x, w), conv2d[c, act=none](x, v)) => "
    "conv2d[c, act=none](x, add(w, v))",
    "group-unequal-convs": "concat[axis=-3](conv2d[c, groups=g](x, w), conv2d[c, groups=h](y, v)) => "
    "conv2d[c, groups=g + h](concat[axis=-3](x, y), concat[axis=-4](w, v))",
    "sums-broadcast-inputs": "add(conv2d[c, act=none](x, w), conv2d[c, act=none](y, w)) => "
    "conv2d[c, act=none](add(x, y), w)",
    "scale-with-activation": "mul(conv2d[c](x, w), a) => "
    "conv2d[c](x, mul(w, transpose[perm=(1, 0, 2, 3)](a))) "
    "where rank(a) = 4, dim(a, -4) = 1, dim(a, -2) = 1, dim(a, -1) = 1",
    "scale-keeps-bias": "mul(conv2d[c, act=none](x, w, b), a) => "
    "conv2d[c, act=none](x, mul(w, transpose[perm=(1, 0, 2, 3)](a)), b) "
    "where rank(a) = 4, dim(a, -4) = 1, dim(a, -2) = 1, dim(a, -1) = 1",
    "scale-per-place": "mul(conv2d[c, act=none](x, w), a) => "
    "conv2d[c, act=none](x, mul(w, transpose[perm=(1, 0, 2, 3)](a)))",
    "columns-as-rows": "mul(matmul(x, w), a) => matmul(mul(x, a), w)",
    "transpose-keeps-order": "transpose[perm=(1, 0)](matmul[c](a, b)) => "
    "matmul[c](transpose[perm=(1, 0)](a), transpose[perm=(1, 0)](b))",
    "composes-backwards": "transpose[perm=q](transpose[perm=p](x)) => transpose[perm=compose(q, p)](x)",
    "second-part-anywhere": "slice[axis=-1, start=i, stop=j](concat[axis=-1](x, y)) => y",
    "interchange-unswapped": "concat[axis=a](concat[axis=b](x, y), concat[axis=b](z, w)) => "
    "concat[axis=b](concat[axis=a](x, y), concat[axis=a](z, w)) where a != b",
    "pools-pad-with-zero": "maxpool[kernel=k, strides=s, pads=(t, l, b, r), ceil=0, dilations=(1, 1)](x) => "
    "maxpool[kernel=k, strides=s, ceil=0, dilations=(1, 1)](pad[pads=(t, l, b, r)](x))",
    "pads-with-a-value": "conv2d[c, pads=(t, l, b, r)](pad[pads=(i, j, k, m), value=v](x), w) => "
    "conv2d[c, pads=(t + i, l + j, b + k, r + m)](x, w)",
    "relu-of-sum": "relu(add(x, y)) => add(relu(x), relu(y))",
    "enlarge-without-dilation": "conv2d[c, pads=(t, l, b, r)](x, w) => "
    "conv2d[c, pads=(t, l + 1, b, r)](x, enlarge[pads=(0, 1, 0, 0)](w))",
    "groups-misplaced": "conv2d[c, groups=g](x, w) => "
    "conv2d[c, groups=g // 2](x, concat[axis=-3](w, w)) where g % 2 = 0",
    "batchnorm-forgets-bias": "batchnorm[eps=e](conv2d[c, act=none](x, w, a), s, b, m, v) => "
    "conv2d[c, act=none](x, mul(w, transpose[perm=(1, 0, 2, 3)](bn_scale[eps=e](s, v))), "
    "bn_shift[eps=e](s, b, m, v))",
    "batchnorm-other-epsilon": "batchnorm[eps=e](x, s, b, m, v) => "
    "add(mul(x, bn_scale[eps=0.001](s, v)), bn_shift[eps=0.001](s, b, m, v))",
    "identity-with-activation": "conv2d[act=a](x, identity_kernel[channels=c, dtype=d]()) => x",
    "mean-of-borders": "avgpool[kernel=(k, l), strides=s, pads=p, ceil=0, include_pad=0](x) => "
    "conv2d[strides=s, pads=p, groups=dim(x, -3)](x, "
    "mean_kernel[channels=dim(x, -3), kernel=(k, l), dtype=dtype(x)]())",
    "shift-through-padding": "conv2d[c](add(x, b), w) => add(conv2d[c](x, w), conv2d[c](b, w)) "
    "where rank(x) = 4, rank(b) = 4",
    "square-of-products": "mul(matmul(x, y), matmul(x, z)) => matmul(x, mul(y, z))",
    "quotient-of-products": "div(matmul(x, y), matmul(x, z)) => matmul(x, div(y, z))",
    "softmax-is-additive": "softmax(add(x, y)) => add(softmax(x), softmax(y))",
    "quantised-at-the-end-of-the-range": "dequantize(quantize[to=int8](x, x, y), x, y) => x",
}

#: Laws about constants, on both sides.
CONSTANTS = {
    "eye-right": "matmul(x, eye[size=n, dtype=d]()) => x",
    "eye-made": "relu(x) => matmul(relu(x), eye[size=dim(x, -1), dtype=dtype(x)]())",
    "ones-right": "mul(x, ones[shape=s, dtype=d]()) => x",
    "identity-kernel": "conv2d[pads=(t, l, t, l), groups=g]"
    "(x, identity_kernel[channels=c, groups=g, kernel=(kh, kw), dtype=d]()) => x "
    "where t = (kh - 1) // 2, l = (kw - 1) // 2",
    "mean-kernel": "avgpool[kernel=(kh, kw), strides=s, pads=p, include_pad=1](x) => "
    "conv2d[strides=s, pads=p, groups=dim(x, -3)]"
    "(x, mean_kernel[channels=dim(x, -3), kernel=(kh, kw), dtype=dtype(x)]())",
}


def rule_of(text):
    return parse_rule(text)[0]


@pytest.mark.parametrize("name", WRONG)
def test_wrong_laws_are_refuted(name):
    found = search(rule_of(f"{name}: {WRONG[name]}"), 400)
    assert found.counterexample is not None


@pytest.mark.parametrize("name", CONSTANTS)
def test_laws_about_constants_hold(name):
    found = search(rule_of(f"{name}: {CONSTANTS[name]}"), 60)
    assert found.counterexample is None
    assert len(found.passed) == 60 + found.unusual


def recomputed(example, side):
    """Evaluate one side of a counterexample by the graph's own evaluation, from its text."""
    text = example.left_text if side == "left" else example.right_text
    builder = GraphBuilder()
    leaves = {name: builder.input(name, kind.shape) for name, kind in example.kinds.items()}

    def build(term):
        if not hasattr(term, "op"):
            return leaves[term.name]
        return builder.op(term.op, *map(build, term.args), **{k: value(v) for k, v in term.attrs})

    def value(expr):
        return tuple(i.value for i in expr.items) if hasattr(expr, "items") else expr.value

    rule = rule_of(f"side: identity({text}) => identity({text})")
    graph = builder.graph({"y": build(rule.sources[0])})
    inputs = {n: np.array(example.inputs[n], np.float64).reshape(k.shape) for n, k in example.kinds.items()}
    return evaluate(graph, inputs, precise=True)["y"]


@pytest.mark.parametrize("name", ["merge-grouped-convs", "columns-as-rows", "relu-of-sum", "mean-of-borders"])
def test_a_counterexample_can_be_recomputed(name):
    example = search(rule_of(f"{name}: {WRONG[name]}"), 400).counterexample
    left, right = recomputed(example, "left"), recomputed(example, "right")
    a, b = left[example.index], right[example.index]
    assert a != pytest.approx(b)
    if example.arithmetic == "whole numbers":
        assert (a, b) == example.at()


def test_counterexamples_are_small():
    example = search(rule_of(f"merge: {WRONG['merge-grouped-convs']}"), 100).counterexample
    assert example.kinds["x"].shape == (1, 2, 1, 1)
    assert all(abs(v) <= 4 for v in np.ravel(example.inputs["x"]))
    assert str(example).startswith("x[1, 2, 1, 1], w_0[2, 1, 1, 1], w_1[2, 1, 1, 1]: ")


def test_the_same_seed_finds_the_same():
    rule = rule_of("wrong: relu(add(x, y)) => add(relu(x), relu(y))")
    one, two = search(rule, 50, seed=3), search(rule, 50, seed=3)
    assert one.counterexample == two.counterexample
    assert one.tries == two.tries


@pytest.mark.slow
def test_going_on_labels_what_passes_and_fails():
    rule = rule_of(f"merge: {WRONG['merge-grouped-convs']}")
    found = search(rule, 60, go_on=60)
    assert found.failed
    assert found.passed
    assert all(i.rows["c"]["groups"] > 1 for i in found.failed)


@pytest.mark.slow
def test_broadcasting_can_be_left_out():
    rule = rule_of(
        "sum: conv2d[c, act=none](add(x, y), w) => add(conv2d[c, act=none](x, w), conv2d[c, act=none](y, w))"
    )
    assert search(rule, 60, broadcast=False).counterexample is None
    assert search(rule, 200).counterexample is not None


def test_a_bound_is_stated_for_polynomials_only():
    assert search(rule_of("a: mul(x, y) => mul(y, x)"), 20).bound == pytest.approx(2 / 1_048_573)
    assert search(rule_of("a: relu(relu(x)) => relu(x)"), 20).bound is None
    assert search(rule_of("a: sigmoid(identity(x)) => sigmoid(x)"), 20).arithmetics.keys() == {"digits"}


def test_sides_without_a_common_type():
    rule = rule_of("never: add(x, y) => concat[axis=-1](x, y)")
    assert typed(rule, Menu()) is False
    found = search(rule, 20)
    assert found.empty
    assert not found.draws
    assert typed(rule_of("some: relu(x) => transpose[perm=(1, 0)](x)"), Menu())


def test_text_of_nodes():
    (rule,) = parse_rules("r: relu(matmul(x, y)) => matmul[act=relu](x, y)")
    found = search(rule, 5)
    case = case_of(found.passed[0])
    names = {i: name for name, i in case.leaves.items()}
    left, right = case.pairs[0]
    assert text_of(case.nodes, left, names) == "relu(matmul(x, y))"
    assert text_of(case.nodes, right, names) == "matmul[act=relu](x, y)"


CONV = "conv2d[strides=(1, 1), pads=(p, q, p, q), dilations=(1, 1), groups={g}, act=none]({x}, {w})"


def region(text, broadcast=True):
    (rule,) = parse_rule(text)
    found = search(rule, 60, go_on=120, broadcast=broadcast)
    assert found.failed
    return find_region(rule, found, broadcast=broadcast)


@pytest.mark.slow
def test_groups():
    one, two = CONV.format(g="g", x="x", w="w"), CONV.format(g="g", x="x", w="v")
    both = CONV.format(g="g", x="x", w="concat[axis=-4](w, v)")
    found = region(f"merge: concat[axis=-3]({one}, {two}) => {both}")
    assert str(found) == "g = 1"
    assert found.rule.conditions == found.conditions
    assert search(found.rule, 40).counterexample is None


@pytest.mark.slow
def test_channels_in_a_group():
    one, two = CONV.format(g="g", x="x", w="w"), CONV.format(g="h", x="y", w="v")
    both = CONV.format(g="g + h", x="concat[axis=-3](x, y)", w="concat[axis=-4](w, v)")
    assert str(region(f"join: concat[axis=-3]({one}, {two}) => {both}")) == "dim(w, -4) * h = dim(v, -4) * g"


@pytest.mark.slow
def test_shapes():
    sum_ = CONV.format(g="g", x="add(x, y)", w="w")
    parts = ", ".join(CONV.format(g="g", x=v, w="w") for v in "xy")
    found = region(f"sum: {sum_} => add({parts})")
    assert str(found).startswith("rank(x) = rank(y), dim(x, -1) = dim(y, -1)")


@pytest.mark.parametrize("text", ["r: relu(add(x, y)) => add(relu(x), relu(y))"])
def test_nowhere(text):
    assert region(text) is None
