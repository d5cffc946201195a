import pytest

from workbench.rules import parse_rule, parse_rules
from workbench.rules.language import RuleSyntaxError
from workbench.rules.optional import choices
from workbench.rules.verdicts import law_of


def laws(text):
    return {rule.name: law_of(rule) for rule in parse_rule(text)}


def test_a_law_is_read_with_and_without_the_operand():
    assert laws("takes-relu: relu(conv2d[c, act=none](x, w, b?)) => conv2d[c, act=relu](x, w, b)") == {
        "takes-relu": "relu(conv2d[act=none, c](x, w)) => conv2d[act=relu, c](x, w)",
        "takes-relu-bias": "relu(conv2d[act=none, c](x, w, b)) => conv2d[act=relu, c](x, w, b)",
    }


def test_of_two_the_first_changes_fastest():
    text = "sums: add(conv2d(x, w, a?), conv2d(x, v, z?)) => conv2d(x, add(w, v), add(a, z))"
    found = laws(text)
    assert list(found) == ["sums", "sums-bias", "sums-other-bias", "sums-biases"]
    assert [law.partition("=> ")[2] for law in found.values()] == [
        "conv2d(x, add(w, v))",
        "conv2d(x, add(w, v), a)",
        "conv2d(x, add(w, v), z)",
        "conv2d(x, add(w, v), add(a, z))",
    ]


@pytest.mark.parametrize(
    ("target", "left"),
    [
        ("conv2d(x, w, mul(b, s))", "conv2d(x, w)"),
        ("conv2d(x, w, add(mul(b, s), s))", "conv2d(x, w, s)"),
        ("conv2d(x, w, conv2d(b, v))", "conv2d(x, w)"),
        ("conv2d(x, add(w, conv2d(x, w, b)), s)", "conv2d(x, add(w, conv2d(x, w)), s)"),
        ("add(conv2d(x, w), add(b, neg(b)))", "conv2d(x, w)"),
        ("conv2d(x, w, conv2d[act=none](transpose[perm=(0, 1, 3, 2)](b), s))", "conv2d(x, w)"),
    ],
)
def test_what_an_absent_operand_leaves(target, left):
    without, whole = parse_rule(f"some: mul(conv2d(x, w, b?), conv2d(s, v)) => {target}")
    assert law_of(without).partition("=> ")[2] == left
    assert law_of(whole).partition("=> ")[2] == target


def test_conditions_on_what_is_absent_fall_away():
    text = (
        "scales: mul(layernorm(x, s, b?), t) => layernorm(x, mul(s, t), mul(b, t)) "
        "where rank(s) = 1, dim(b, -1) = dim(x, -1), constant(b), running(x)"
    )
    without, whole = parse_rule(text)
    assert law_of(without).partition("where ")[2] == "rank(s) = 1, running(x)"
    assert whole.constants == ("b",)
    assert len(whole.conditions) == 2
    # An attribute may have the name of an absent operand.
    named = (
        "pads: conv2d[pads=(b, l, r, t), c](x, w, b?) => conv2d[pads=(b, l, r, t), c](x, w, b) where b = 0"
    )
    assert all(len(rule.conditions) == 1 for rule in parse_rule(named))


def test_both_ways_and_in_every_member():
    assert list(laws("turn: relu(conv2d(x, w, b?)) <=> conv2d[act=relu](x, w, b)")) == [
        "turn", "turn-back", "turn-bias", "turn-bias-back",
    ]  # fmt: skip
    without, whole = parse_rule(
        "merge: each conv2d(x, w*, b*?) => "
        "slice[axis=-3](conv2d(x, concat[axis=-4](w*), concat[axis=-3](b*)))"
    )
    assert "b*" in str(whole)
    assert "b" not in str(without).partition(": ")[2].replace("concat", "")


@pytest.mark.parametrize(
    ("law", "told"),
    [
        ("conv2d(x, w?) => conv2d(x, w)", "conv2d must have its first 2 operands: these cannot be optional"),
        ("relu(x?) => x", "relu must have its first operand: these"),
        ("add(conv2d(x, w, b?), x) => b", "without b a side of the law would be empty"),
        ("relu(conv2d(x, w, b)) => conv2d[act=relu](x, w, b?)", "b\\? is marked on the right-hand side only"),
        (
            "add(conv2d(x, w, a?), mul(conv2d(x, w, b?), conv2d(y, w, c?))) => x",
            "at most 2 operands of a law may be absent, got a, b, c",
        ),
        ("conv2d(x, w, b??) => x", "expected"),
        ("conv2d(x, w, b?) => add(x, sigmoid(b))", "sigmoid without b cannot be derived"),
        ("conv2d(x, w, b?) => conv2d(x, w, max(b, w))", "max without b cannot be derived"),
        ("conv2d(x, w, b?) => add(x, concat[axis=0](b, w))", "concat without b cannot be derived"),
        ("conv2d(x, w, b?) => add(x, conv2d(b, w, x))", "conv2d without b cannot be derived"),
        ("conv2d[c](x, w, b?) => add(x, conv2d[c](b, w))", "conv2d without b cannot be derived"),
        ("conv2d(x, w, b?) => add(x, matmul[act=sigmoid](b, w))", "matmul without b cannot be derived"),
        ("conv2d?(x, w) => x", "expected"),
    ],
)
def test_misuse_is_reported(law, told):
    with pytest.raises(RuleSyntaxError, match=told):
        parse_rule(f"wrong: {law}")


def test_names_stay_distinct():
    with pytest.raises(RuleSyntaxError, match="rule names must be unique, got a second some-bias"):
        parse_rules("some: relu(conv2d(x, w, b?)) => conv2d(x, w, b)\nsome-bias: relu(x) => x\n")


def test_without_optional_operands_there_is_one_choice():
    assert list(choices([])) == [("", frozenset())]
