import pytest

from workbench.rules import RuleSyntaxError, format_rule, parse_rule, parse_rules
from workbench.rules.language import choices
from workbench.rules.pattern import App, Arith, AttrVar, DimOf, DtypeOf, Inverse, Literal, Var, Vector
from workbench.rules.ruleset import load_rules
from workbench.rules.verdicts import law_of, library

LIBRARY = [rule for file in sorted(library().glob("*.rules")) for rule in load_rules(file)]


def test_every_law_of_the_library_reads_back():
    for rule in LIBRARY:
        (again,) = parse_rule(format_rule(rule))
        assert (again.sources, again.targets, again.conditions) == (
            rule.sources,
            rule.targets,
            rule.conditions,
        )
        assert (again.name, again.provenance, again.each) == (rule.name, rule.provenance, rule.each)


def test_a_rule_says_what_it_means():
    text = (
        "scale: mul(conv2d[c, act=none](x, w), a) => conv2d[c, act=none](x, mul(w, a)) where dim(a, -1) = 1"
    )
    (rule,) = parse_rule(text + "  @ taso#7, laws:A3")
    (source,) = rule.sources
    assert source.op == "mul"
    assert source.args[0] == App("conv2d", (Var("x"), Var("w")), (("act", Literal("none")),), "c")
    assert rule.provenance == ("taso#7", "laws:A3")
    assert not rule.multi


def test_both_ways_are_two_rules():
    forth, back = parse_rule("law: neg(neg(x)) <=> abs(abs(x))")
    assert (forth.name, back.name) == ("law", "law-back")
    assert back.sources == forth.targets


def test_attributes():
    (rule,) = parse_rule("p: transpose[perm=(1, 0)](slice[axis=-1, start=i, stop=j, step=1](x)) => x")
    assert dict(rule.sources[0].attrs)["perm"] == Literal((1, 0))
    inner = dict(rule.sources[0].args[0].attrs)
    assert inner["axis"] == Literal(-1)
    assert inner["start"] == AttrVar("i")
    (rule,) = parse_rule("p: conv2d[pads=(t, l, b, r)](x, w) => x")
    assert isinstance(dict(rule.sources[0].attrs)["pads"], Vector)


def test_constants_and_element_types():
    text = "p: relu(x) => matmul(relu(x), eye[size=dim(x, -1), dtype=dtype(x)]())"
    (rule,) = parse_rule(text)
    made = rule.targets[0].args[1]
    assert made == App("eye", (), (("size", DimOf("x", -1)), ("dtype", DtypeOf("x"))))
    assert format_rule(rule) == text
    text = "q: cast[to=d](matmul(x, eye[size=n, dtype=d]())) => cast[to=d](x)"
    (rule,) = parse_rule(text)
    inner = rule.sources[0].args[0].args[1]
    assert dict(inner.attrs) == {"size": AttrVar("n"), "dtype": AttrVar("d")}
    assert format_rule(rule) == text
    (rule,) = parse_rule("r: relu(x) => mul(relu(x), ones[shape=(1), dtype=float64]())")
    assert dict(rule.targets[0].args[1].attrs) == {"shape": Literal((1,)), "dtype": Literal("float64")}
    # A variable may bear the function's name.
    (rule,) = parse_rule("s: matmul(x, eye[size=n, dtype=dtype]()) => x")
    assert dict(rule.sources[0].args[1].attrs)["dtype"] == AttrVar("dtype")


def test_a_phase_is_that_of_the_laws_after_it():
    before, after = parse_rules(
        "one: neg(neg(x)) => x\n\nphase movement  # see below\ntwo: relu(relu(x)) => relu(x)\n"
    )
    assert (before.phase, after.phase) == ("any", "movement")
    with pytest.raises(RuleSyntaxError, match="line 1: a phase must be any or movement or last, got 'rest'"):
        parse_rules("phase rest\none: neg(neg(x)) => x")


def test_permutations():
    (rule,) = parse_rule(
        "p: softmax[axis=a](transpose[perm=p](x)) => transpose[perm=inverse(p)](softmax[axis=p[a - 1]](x)) "
        "where p[-1] = -1, compose(p, inverse(p)) = p"
    )
    softmax = rule.targets[0].args[0]
    assert dict(rule.targets[0].attrs)["perm"] == Inverse(AttrVar("p"))
    assert dict(softmax.attrs)["axis"] == Arith("axis", AttrVar("p"), Arith("-", AttrVar("a"), Literal(1)))
    assert "axis=p[a - 1]" in format_rule(rule)
    assert "where p[-1] = -1, compose(p, inverse(p)) = p" in format_rule(rule)


def test_comments_continuations_and_lines():
    rules = parse_rules(
        "# a page of laws\n\none: neg(neg(x)) => x  @ taso#1  # why\ntwo: relu( \\\n   relu(x)) => relu(x)\n",
        "page.rules",
    )
    assert [(r.name, r.line) for r in rules] == [("one", 3), ("two", 4)]
    assert rules[0].provenance == ("taso#1",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: relu(x => x", "column 11: expected ','"),
        ("a: rleu(x) => x", "did you mean relu"),
        ("a: relu(x) => y", "y occurs only on the right-hand side"),
        ("a: relu(x) => transpose(x)", "transpose needs perm (try transpose[perm=...])"),
        ("a: slice[axis=a, start=i](x) => x", "slice needs stop"),
        ("Big: relu(x) => x", "a rule's name must be in kebab-case, got 'Big'"),
        ("relu(x) => x", "expected 'name: lhs => rhs'"),
        ("a: conv2d[stride=(1, 1)](x, w) => x", "did you mean strides"),
        ("a: conv2d[strides=(1, 1, 1)](x, w) => x", "must be 2 integers, got 3"),
        ("a: conv2d[c, d](x, w) => x", "second row variable"),
        ("a: conv2d[groups=1, groups=2](x, w) => x", "given twice"),
        ("a: relu(x) => x where q = 1", "q is not bound"),
        ("a: relu(x) => x where dim(y, -1) = 1", "y is not bound"),
        ("a: relu(x) => x where dim(x, 1) = 1", "dim must count axes from the last"),
        ("a: relu(x) => x where dim(x, -1)", "expected one of"),
        ("a: relu(x) => x where size(x) = 1", "unknown function"),
        ("a: transpose[perm=p](x) => x where p[-1 = -1", "expected ']'"),
        ("a: transpose[perm=p](x) => transpose[perm=inverse(q)](x)", "q is not bound"),
        ("a: relu(x, y) => x", "takes 1 operand, got 2"),
        ("a: relu(x) => $x", "unexpected character"),
        ("a: relu(x) => x extra", "expected the end"),
        ("a: x => relu(x)", "must be an operator's application, got a bare variable"),
        ("a: relu(x) ; tanh(x) => x", "there must be 2 targets, one per source, got 1"),
        ("a: input(x) => x", "cannot occur in a rule"),
        ("a: matmul(x, w*) => x", "must be used together"),
        ("a: each matmul(x, w) => x", "must be used together"),
        (
            "a: each matmul(x, w*) => matmul(x, concat[axis=-1](w*))",
            "the target of an 'each' rule must be slice",
        ),
        ("a: relu(x) => x\na: tanh(x) => x", "rule names must be unique, got a second a"),
        ("a: eye[size=n](x) => x", "takes 0 operands"),
        ("a: relu(x) => matmul(x, eye[size=3, dtype=dtype(y)]())", "y is not bound"),
        ("a: relu(x) => matmul(x, eye[size=3, dtype=d]())", "d is not bound"),
        ("a: relu(x) => matmul(x, eye[size=3, dtype=dtype(x]())", "expected ')'"),
        ("a: relu(x) => matmul(x, eye[size=dtype(x)]())", "unknown function 'dtype'"),
        ("a: relu(x) => x where dtype(x) = 1", "an element type dtype(x) compares with another"),
        ("a: matmul(x, eye[size=n, dtype=dtype(x)]()) => x", "on the left-hand side an attribute must be"),
        ("a: conv2d[groups=g + 1](x, w) => x", "on the left-hand side an attribute must be"),
        ("a: conv2d[pads=(t, l, dim(x, -1), r)](x, w) => x", "on the left-hand side an attribute must be"),
    ],
)
def test_errors_say_where_and_what(text, message):
    with pytest.raises(RuleSyntaxError, match=r"bad\.rules, line") as caught:
        parse_rules(text, "bad.rules")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "relu(" * 5000 + "x" + ")" * 5000 + " => x",
        "slice[axis=-1, start=" + "(" * 5000 + "0" + ")" * 5000 + ", stop=2](x) => x",
        "slice[axis=-1, start=" + "-" * 5000 + "1, stop=2](x) => x",
        "slice[axis=-1, start=0" + " + 1" * 5000 + ", stop=2](x) => x",
    ],
    ids=["terms", "parentheses", "signs", "a long sum"],
)
def test_a_law_beyond_all_measure_is_refused(text):
    with pytest.raises(
        RuleSyntaxError, match="a law must have at most 2000 words, nested at most 50 levels deep"
    ):
        parse_rules(f"r: {text}")


def test_a_file_of_laws_beyond_all_measure_is_refused():
    with pytest.raises(RuleSyntaxError, match="line 2001: a file must have at most 2000 laws"):
        parse_rules("".join(f"r{i}: add(x, y) => add(y, x)\n" for i in range(20_000)))


def test_a_shape_on_the_left_names_its_extents():
    (rule,) = parse_rule("split: reshape[shape=(n, h, 2)](x) => reshape[shape=(n, 2 * h)](x)")
    (source,) = rule.sources
    assert dict(source.attrs)["shape"] == Vector((AttrVar("n"), AttrVar("h"), Literal(2)))


def test_an_axis_may_be_an_attribute():
    (rule,) = parse_rule("all: slice[axis=a, start=0, stop=n](x) => x where n = dim(x, a)")
    assert rule.conditions[0].right == DimOf("x", "a")
    assert format_rule(rule).endswith("where n = dim(x, a)")
    with pytest.raises(RuleSyntaxError, match="a is not bound"):
        parse_rule("all: relu(x) => x where 1 = dim(x, a)")


def test_a_law_for_several_operators_is_one_rule_for_each():
    text = "part-of-f: slice[s](f[c](x)) => f[c](slice[s](x)) for f in relu, gelu  @ hand"
    rules = parse_rule(text)
    assert [r.name for r in rules] == ["part-of-relu", "part-of-gelu"]
    assert [r.targets[0].op for r in rules] == ["relu", "gelu"]
    assert all(r.provenance == ("hand",) for r in rules)
    with pytest.raises(RuleSyntaxError, match="relo"):
        parse_rule("part-of-f: slice[s](f(x)) => f(slice[s](x)) for f in relu, relo")


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
