"""The rules of branches: what they say, and the tempting wrong versions of them."""

import pytest

from workbench.rules import load_rules, parse_rule, parse_rules, rule_set
from workbench.rules.language import RuleSyntaxError, format_rule
from workbench.rules.ruleset import LEFT_OUT, library, statuses
from workbench.verification.refute import search

RULES = load_rules(library() / "branches.rules")


WRONG = {
    # A kernel enlarged by what it lacks at the end, wherever its pads say it stands (C1w).
    "enlarged-at-the-end": "add(conv2d[pads=(t, l, b, r), dilations=(1, 1), act=none, c](x, w), "
    "conv2d[pads=(i, j, k, m), dilations=(1, 1), act=none, c](x, v)) => "
    "conv2d[pads=(i, j, k, m), dilations=(1, 1), act=none, c](x, add(v, "
    "enlarge[pads=(0, 0, dim(v, -2) - dim(w, -2), dim(v, -1) - dim(w, -1))](w))) "
    "where dim(w, -4) = dim(v, -4), dim(w, -2) < dim(v, -2)",
    # Under dilation pads grow by the dilation (C1w).
    "dilation-forgotten": "add(conv2d[pads=(t, l, b, r), dilations=(2, 2), act=none, c](x, w), "
    "conv2d[pads=(i, j, k, m), dilations=(2, 2), act=none, c](x, v)) => "
    "conv2d[pads=(i, j, k, m), dilations=(2, 2), act=none, c](x, add(v, enlarge[pads=(i - t, j - l, "
    "dim(v, -2) - dim(w, -2) - i + t, dim(v, -1) - dim(w, -1) - j + l)](w))) "
    "where dim(w, -4) = dim(v, -4), dim(w, -2) < dim(v, -2)",
    # Weights that broadcast (B1w).
    "weights-broadcast": "add(conv2d[c, act=none](x, w), conv2d[c, act=none](x, v)) => "
    "conv2d[c, act=none](x, add(w, v)) where dim(w, -2) < dim(v, -2)",
    # The identity at a corner of the kernel (D2w).
    "identity-at-a-corner": "add(x, conv2d[strides=(1, 1), dilations=(1, 1), groups=g, act=none, c](x, w)) "
    "=> "
    "conv2d[strides=(1, 1), dilations=(1, 1), groups=g, act=none, c](x, add(w, "
    "enlarge[pads=(0, 0, dim(w, -2) - 1, dim(w, -1) - 1)](identity_kernel[channels=dim(x, -3), groups=g, "
    "dtype=dtype(x)]()))) where dim(w, -4) = dim(x, -3)",
    # A pool that does not count its padding (D5w), and the mean as a dense kernel (D4w).
    "padding-not-counted": "add(avgpool[kernel=k, strides=s, pads=p, include_pad=0](x), "
    "conv2d[strides=s, groups=g, act=none, c](x, w)) => add(conv2d[strides=s, pads=p, groups=g](x, "
    "mul(identity_kernel[channels=dim(x, -3), groups=g, dtype=dtype(x)](), "
    "mean_kernel[channels=1, kernel=k, dtype=dtype(x)]())), conv2d[strides=s, groups=g, act=none, c](x, w))",
    "mean-over-channels": "avgpool[kernel=k, strides=s, pads=p, include_pad=1](x) => "
    "conv2d[strides=s, pads=p](x, mul(ones[shape=(dim(x, -3), dim(x, -3), 1, 1), dtype=dtype(x)](), "
    "mean_kernel[channels=1, kernel=k, dtype=dtype(x)]()))",
    # A bias before a padded window (E1w, D7w).
    "bias-before-padding": "conv2d[pads=p, act=f](conv2d(x, w, a), v) => "
    "conv2d[pads=p, act=f](x, conv2d(v, transpose[perm=(1, 0, 2, 3)](w)), "
    "conv2d(a, reduce_sum[axes=(-2, -1)](v))) where dim(w, -2) = 1, dim(w, -1) = 1",
    "bias-before-padded-mean": "avgpool[kernel=k, strides=s, pads=p, include_pad=1]("
    "conv2d[groups=g](x, w, a)) => "
    "conv2d[strides=s, pads=p, groups=g](x, mul(w, mean_kernel[channels=1, kernel=k, dtype=dtype(w)]()), a) "
    "where dim(w, -2) = 1, dim(w, -1) = 1",
    "shift-before-padding": "conv2d[c, groups=g](add(x, t), w) => "
    "conv2d[c, groups=g](x, w, conv2d[groups=g](t, reduce_sum[axes=(-2, -1)](w))) "
    "where rank(x) = 4, rank(t) = 4, dim(t, -4) = 1, dim(t, -2) = 1, dim(t, -1) = 1, dim(t, -3) = dim(x, -3)",
    # A 1x1 of stride 2 dilates what follows (E2w).
    "stride-does-not-dilate": "conv2d[dilations=(1, 1)](conv2d[strides=(2, 2)](x, w), v) => "
    "conv2d[strides=(2, 2), dilations=(1, 1)](x, conv2d(v, transpose[perm=(1, 0, 2, 3)](w))) "
    "where dim(w, -2) = 1, dim(w, -1) = 1",
    # Depthwise weights multiplied as if the pointwise came first (E4w).
    "depthwise-the-wrong-way": "conv2d(conv2d[groups=g, act=none, c](x, w), v) => "
    "conv2d[groups=1, act=none, c](x, mul(v, w)) "
    "where dim(w, -4) = g, dim(w, -3) = 1, dim(v, -2) = 1, dim(v, -1) = 1, 1 < g",
    # Scales of the input (A8w, A5w, J2w).
    "scales-of-columns": "matmul(mul(x, s), w) => matmul(x, mul(w, s)) "
    "where rank(s) = 1, dim(s, -1) = dim(w, -2), dim(w, -2) = dim(w, -1)",
    "shift-keeps-its-size": "mul(layernorm[axis=-1, eps=e](x, s, b), t) => "
    "layernorm[axis=-1, eps=e](x, mul(s, t), b) "
    "where rank(s) = 1, rank(b) = 1, rank(t) = 1",
    # A nonlinearity between (A9w).
    "across-a-relu": "conv2d(relu(conv2d(x, w)), v) => conv2d(x, conv2d(v, transpose[perm=(1, 0, 2, 3)](w))) "
    "where dim(w, -2) = 1, dim(w, -1) = 1",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_tempting_version_is_refuted(name):
    (rule,) = parse_rule(f"{name}: {WRONG[name]}")
    found = search(rule, draws=200)
    assert found.counterexample is not None, f"{len(found.passed)} passed; {found.reason}"


def test_without_its_condition_on_sizes_a_sum_of_convolutions_is_wrong():
    # One of the two has a single output, which broadcasts over those of the other.
    law = format_rule(RULES["conv-sums-crossed"]).partition("  @")[0].partition(": ")[2]
    head, _, _ = law.partition(", (dim(x, -2)")
    (rule,) = parse_rule(f"sizes-forgotten: {head}")
    found = search(rule, draws=400)
    assert found.counterexample is not None, len(found.passed)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_rule_has_no_counterexample(rule):
    found = search(rule, draws=30, seed=11)
    assert found.counterexample is None, str(found.counterexample)
    # Four slices side by side are rare: most instances are not made.
    assert len(found.passed) >= 10, found.reason


def test_each_is_known_and_in_the_default_set():
    known = statuses()
    assert {known[r.name]["status"] for r in RULES} <= {"proved", "tested"}
    assert {r.name for r in RULES} <= {r.name for r in rule_set("default")}
    assert not set(LEFT_OUT["default"]) & {r.name for r in rule_set("default")}
    assert not rule_set("default").weights
    assert rule_set("tensat-like").weights


def test_every_rule_says_where_it_is_from():
    assert all(rule.provenance for rule in RULES)


# -- where a rule is of use -----------------------------------------------------------------------------
def test_use_is_read_and_written():
    text = "some: add(add(x, a), y) => add(add(x, y), a) "
    text += "where rank(a) = 1, constant(a), running(y), distinct(x, y)"
    (rule,) = parse_rule(text)
    assert (rule.constants, rule.running, rule.distinct) == (("a",), ("y",), (("x", "y"),))
    assert format_rule(rule) == text
    assert parse_rules(format_rule(rule)) == parse_rules(text)


@pytest.mark.parametrize(
    "where", ["constant(q)", "running(3)", "distinct(x)", "distinct(x, q)", "constant x"]
)
def test_a_use_that_makes_no_sense_is_told(where):
    with pytest.raises(RuleSyntaxError, match="rule"):
        parse_rule(f"some: add(x, y) => add(y, x) where {where}")
