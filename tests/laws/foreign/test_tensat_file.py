import pytest

from tests.sampled import in_turn
from workbench.laws.foreign.tensat_file import (
    read_equations,
    read_tensat,
    tensat_rules,
)
from workbench.laws.verification.refuting.refute import search
from workbench.rules import RuleSyntaxError, format_rule, load_rules, parse_rule


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "rules.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def laws(rules):
    return [format_rule(r) for r in rules]


# -- rules ----------------------------------------------------------------------------------------
def test_a_rule_a_line(write):
    path = write("(relu (relu ?input_7))=>(relu ?input_7)\n\n(ewadd ?x ?y) => (ewadd ?y ?x)\n")
    rules = load_rules(path)
    assert laws(rules) == [
        "tensat-1: relu(relu(i7)) => relu(i7)  @ tensat:1",
        "tensat-3: add(x, y) => add(y, x)  @ tensat:3",
    ]
    assert [(r.file, r.line) for r in rules] == [("rules.txt", 1), ("rules.txt", 3)]


def sound(read):
    """Return what was read; raise the first fault."""
    if broken := [law.reason for law in read[1] if law.broken]:
        raise RuleSyntaxError(broken[0])
    return read


def test_two_lines_are_a_rule_of_two_roots(write):
    whole = "(matmul 0 ?input_1 (concat 1 2 ?input_4 ?input_5))"
    text = "\n".join(
        f"(matmul 0 ?input_1 ?input_{v})=>(split_{i} (split 1 {whole}))" for i, v in enumerate((4, 5))
    )
    (rule,) = load_rules(write(text))
    assert format_rule(rule) == (
        "tensat-multi-1: matmul(i1, i4) ; matmul(i1, i5) => "
        "slice[axis=-1, start=0, stop=dim(i4, -1)](matmul(i1, concat[axis=-1](i4, i5))) ; "
        "slice[axis=-1, start=dim(i4, -1), stop=dim(i4, -1) + dim(i5, -1)]"
        "(matmul(i1, concat[axis=-1](i4, i5))) where rank(i4) = 2, rank(i5) = 2, rank(i1) = 2"
        "  @ tensat-multi:1"
    )
    plain = write("(relu ?x)=>(relu (relu ?x))\n(tanh ?x)=>(tanh ?x)\n(relu ?x)=>?x\n(tanh ?x)=>?x\n")
    assert [r.name for r in load_rules(plain)] == [f"tensat-{k}" for k in (1, 2, 3, 4)]
    assert [r.name for r in read_tensat(plain, multi=True)[0]] == ["tensat-multi-1", "tensat-multi-2"]


def test_the_vocabulary(write):
    terms = [
        (
            "(conv2d 2 1 1 3 ?x ?w)",
            "conv2d[strides=(2, 1), pads=(0, 0, 0, 0), dilations=(1, 1), groups=g0, act=tanh]",
        ),
        ("(matmul 2 ?x ?w)", "matmul[act=relu](x, w)"),
        ("(ewmul ?x ?w)", "mul(x, w)"),
        ("(smul ?x ?w)", "mul(x, w)"),
        ("(sigmoid (tanh ?x))", "sigmoid(tanh(x))"),
        ("(poolmax ?x 3 1 1 1 0 0)", "maxpool[kernel=(3, 1), strides=(1, 1), pads=(1, 0, 1, 0)](x)"),
        (
            "(poolavg ?x 3 3 2 2 1 2)",
            "relu(avgpool[kernel=(3, 3), strides=(2, 2), pads=(0, 0, 0, 0), include_pad=0](x))",
        ),
        ("(transpose ?x 0_2_1 1)", "transpose[perm=(0, 2, 1)](x)"),
        ("(concat3 0 2 ?x ?w ?v)", "concat[axis=-2](x, w, v)"),
        ("(conv2d 1 1 0 0 ?x (enlarge ?w ?v))", "enlarge[pads=(e0, f0, e0, f0)](w)"),
        ("(conv2d 1 1 0 0 ?x (merge ?w 3))", "merge_gconv[count=3, groups=g0](w)"),
        (
            "(conv2d 1 1 0 0 ?x (Iconv 3 3))",
            "identity_kernel[channels=c0, groups=1, kernel=(3, 3), dtype=d0]()",
        ),
        ("(conv2d 1 1 0 0 ?x (Cpool 3 3))", "mean_kernel[channels=c0, kernel=(3, 3), dtype=d0]()"),
        ("(matmul 0 ?x (Imatmul))", "eye[size=n0, dtype=d0]()"),
        ("(ewmul ?x Iewmul)", "ones[shape=s0, dtype=d0]()"),
    ]
    for term, ours in terms:
        source = f"(ewadd {term} (relu ?v))" if "enlarge" in term else term
        (rule,) = load_rules(write(f"{source}=>{source}"))
        assert ours in format_rule(rule).partition(" => ")[0], term


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rules.txt: the file is empty"),
        ("\n \n", "rules.txt: the file is empty"),
        (b"\xff\xfe", "rules.txt, byte 0: the file must be text in UTF-8"),
        ("(relu ?x)", "line 1, column 10: expected 'left=>right'"),
        ("(relu ?x)=>(relu ?x)=>?x", "column 21: a second '=>'"),
        ("(relu ?x)=>", "column 12: expected a term, found the end"),
        ("(relu ?x)=>(relu ?x", "column 12: this parenthesis is never closed"),
        ("(relu ?x)=>(relu ?x))", "column 21: expected the end of the term, found ')'"),
        ("(relu ?x)=>)", "column 12: expected a term, found ')'"),
        ("(relu ?x)=>(relu ())", "column 18: expected an operator after '('"),
        ("(relu ?x)=>(rleu ?x)", "column 13: no operator is called 'rleu'; did you mean relu"),
        ("(relu ?x)=>(relu ?x ?x)", "column 13: relu takes 1 arguments, got 2"),
        ("(relu ?x)=>(concat 0 ?x ?x)", "column 13: concat takes 4 arguments, got 3"),
        ("(relu ?x)=>(matmul ?x ?x ?x)", "column 20: expected a number (act), found '?x'"),
        ("(relu ?x)=>(matmul 9 ?x ?x)", "column 13: matmul: act must be from 0 to 3, got 9"),
        ("(relu ?x)=>(concat 2 2 ?x ?x)", "column 13: concat: axis must be below 2, got 2"),
        ("(relu ?x)=>(transpose ?x 0_0 1)", "the order of axes must be a permutation, got (0, 0)"),
        ("(relu ?x)=>(relu 3)", "column 18: expected a term, found '3'"),
        ("(relu ?x)=>(relu relu)", "column 18: relu takes 1 arguments, got 0"),
        ("(relu ?x)=>(split 0 ?x)", "split has two results"),
        ("(relu ?x)=>(relu ?y)", "line 1: y occurs only on the right-hand side"),
        ("(relu ?x)=>?x\n\n(relu ?x)=>(relu ?y)", "line 3: y occurs only on the right-hand side"),
        ("(relu ?x)=>?x\n(tanh ?x)=>(tanh 1)", "line 2, column 18: expected a term"),
        ("(relu ?x)=>" + "(relu " * 200 + "?x" + ")" * 200, "terms must be nested at most 150 deep"),
    ],
)
def test_errors_of_rules(write, text, message):
    path = write(text)
    with pytest.raises(RuleSyntaxError, match=r"^rules\.txt") as caught:
        sound(read_tensat(path, False))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "(relu ?x)=>?x\n(relu ?x)=>?x\n(relu ?x)=>?x\n",
            "line 3: rules of two roots must have two lines each, got 3",
        ),
        ("(relu ?x)=>(split_0 ?x)\n(relu ?x)=>?x\n", "column 21: expected split inside split_0"),
        ("(relu ?x)=>(split_0 (relu ?x))\n(relu ?x)=>?x\n", "expected split inside split_0"),
        (
            "(relu ?x)=>?x\n(relu ?x)=>(split_1 (split ?x ?x))\n",
            "line 2, column 28: expected a number (axis)",
        ),
    ],
)
def test_errors_of_rules_of_two_roots(write, text, message):
    with pytest.raises(RuleSyntaxError, match=r"^rules\.txt") as caught:
        sound(read_tensat(write(text), True))
    assert message in str(caught.value)


def test_rules_without_a_form(write):
    path = write("(relu ?x)=>?x\n(dropout ?x)=>?x\n?x=>(relu ?x)\n")
    rules, rejected = read_tensat(path)
    assert laws(rules) == [
        "tensat-1: relu(x) => x  @ tensat:1",
        "tensat-3: relu(x) => x  @ tensat:3, reversed",
    ]
    assert [(r.index, r.name, r.reason) for r in rejected] == [
        (1, "tensat-2", "Tensat's dropout has no counterpart in the rule language")
    ]
    with pytest.raises(
        RuleSyntaxError, match=r"1 of 3 laws have no form .* tensat-2: Tensat\'s dropout has no"
    ):
        load_rules(path)
    assert len(load_rules(path, strict=False)) == 2
    _, (rejected,) = read_tensat(write("?x=>(relu ?x)\n(relu ?x)=>?x\n"), True)
    assert (rejected.name, rejected.reason) == ("tensat-multi-1", "a source is a bare variable")


# -- equations ------------------------------------------------------------------------------------
def test_equations_follow_one_another(write):
    path = write("relu(relu(input_1))==relu(input_1)ewadd(input_1,input_2)==ewadd(input_2,input_1)\n")
    assert laws(load_rules(path)) == [
        "equation-0: relu(relu(i1)) => relu(i1)  @ equation#0",
        "equation-1: add(i1, i2) => add(i2, i1)  @ equation#1",
    ]


def test_the_vocabulary_of_equations(write):
    same = "strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)"
    text = (
        "poolavg(3,3,1,1,0,input_8)==conv2d(1,1,0,0,input_8,Cpool(3,3))"
        "conv2d(1,1,0,0,input_7,smul(Iconv(3,3),input_20))==smul(input_7,input_20)"
        "matmul(input_1,smul(Imatmul,input_20))==smul(input_1,input_20)"
        "ewadd(input_7,ewmul(input_7,input_8))==ewmul(input_7,ewadd(input_8,Iewmul))"
        "split_1(0,transpose(concat(1,input_1,input_2)))==transpose(input_2)"
        "conv2d(1,1,0,0,input_7,enlarge(3,3,input_13))==conv2d(1,1,0,0,input_7,input_13)"
        "concat(1,relu(input_1),relu(input_2))==relu(concat(1,input_1,input_2))"
        "poolmax(3,3,1,1,0,concat(0,input_7,input_8))"
        "==concat(0,poolmax(3,3,1,1,0,input_7),poolmax(3,3,1,1,0,input_8))"
    )
    rules = laws(load_rules(write(text)))
    assert rules[0].endswith(
        f"=> conv2d[{same}, groups=dim(i8, -3), act=none]"
        "(i8, mean_kernel[channels=dim(i8, -3), kernel=(3, 3), dtype=dtype(i8)]())  @ equation#0"
    )
    assert "mul(identity_kernel[channels=c0, groups=1, kernel=(3, 3), dtype=d0](), i20)" in rules[1]
    assert rules[1].endswith("where c0 = dim(i7, -3), rank(i20) = 0  @ equation#1")
    assert rules[2].startswith(
        "equation-2: matmul(i1, mul(eye[size=n0, dtype=d0](), i20)) => mul(i1, i20) where"
    )
    assert rules[3] == (
        "equation-3: add(i7, mul(i7, i8)) => mul(i7, add(i8, ones[shape=(), dtype=dtype(i7)]()))"
        "  @ equation#3"
    )
    assert rules[4].startswith(
        "equation-4: slice[axis=-2, start=j0, stop=k0](transpose[perm=(1, 0)](concat[axis=-1]"
    )
    assert "enlarge[pads=(e0, f0, e0, f0)](i13)" in rules[5]
    assert rules[6] == (
        "equation-6: concat[axis=a0](relu(i1), relu(i2)) => relu(concat[axis=a0](i1, i2)) "
        "where a0 = 1 - rank(i1)  @ equation#6"
    )
    assert "concat[axis=-4](i7, i8)" in rules[7]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rules.txt: the file is empty"),
        (" \n", "rules.txt: the file is empty"),
        ("relu(input_1)=relu(input_1)", "character 13: expected '==', found '='"),
        ("relu(input_1)", "character 13: expected '==', found the end"),
        ("relu(input_1)==", "character 15: expected a term, found the end"),
        ("relu(input_1)==relu(input_1", "character 27: expected ',' or ')', found the end"),
        ("relu(input_1)==relu(input_1;", "character 27: expected ',' or ')', found ';'"),
        ("relu(input_1)==relu(input_1)relu", "character 32: expected '==', found the end"),
        ("relu(input_1)==relu(input_1)]", "character 28: expected a term, found ']'"),
        ("relu(input_1)==rule(input_1)", "character 15: no operator is called 'rule'"),
        ("relu(input_1)==relu(input_1,input_1)", "character 15: relu takes 1 arguments, got 2"),
        ("relu(input_1)==relu(input)", "character 20: expected a term, found 'input'"),
        ("relu(input_1)==concat(a,input_1,input_1)", "character 22: expected a number (axis), found 'a'"),
        (
            "relu(input_1)==poolmax(0,3,1,1,0,input_1)",
            "character 15: maxpool: kernel_h must be from 1 to 1048576, got 0",
        ),
        ("relu(input_1)==relu(input_2)", "character 0: i2 occurs only on the right-hand side"),
        (
            "relu(input_1)==input_1tanh(input_1)==tanh(input_2)",
            "character 22: i2 occurs only on the right-hand side",
        ),
        ("relu(input_1)==" + "relu(" * 200 + "input_1" + ")" * 200, "terms must be nested at most 150 deep"),
    ],
)
def test_errors_of_equations(write, text, message):
    with pytest.raises(RuleSyntaxError, match=r"^rules\.txt") as caught:
        sound(read_equations(write(text)))
    assert message in str(caught.value)


def test_equations_without_a_form(write):
    path = write("relu(input_21)==split_0(0,relu(concat(0,input_21,input_22)))relu(input_1)==input_1")
    rules, rejected = read_equations(path)
    assert [r.name for r in rules] == ["equation-1"]
    assert "reversed: a split along an axis that depends on the rank" in rejected[0].reason
    with pytest.raises(RuleSyntaxError, match="1 of 2 laws have no form"):
        load_rules(path)
    assert [r.name for r in load_rules(path, strict=False)] == ["equation-1"]


def test_a_variables_number_says_its_rank_where_nothing_else_does(write):
    matrices, images = (
        str(load_rules(write(f"split_0(1,relu(concat(1,{x},{y})))==relu({x})"))["equation-0"])
        for x, y in (("input_1", "input_2"), ("input_7", "input_8"))
    )
    assert "concat[axis=-1]" in matrices
    assert "rank(i1) = 2" in matrices
    assert "concat[axis=-3]" in images
    assert "rank(i7) = 4" in images


# -- what is published ----------------------------------------------------------------------------
def reads_back(rules):
    for law in rules:
        (again,) = parse_rule(format_rule(law))
        assert (again.name, again.sources, again.targets, again.conditions, again.provenance) == (
            *(law.name, law.sources, law.targets, law.conditions, law.provenance),
        )


@pytest.fixture(scope="module")
def published(shared_data):
    return shared_data / "tensat"


@pytest.mark.shared
def test_every_published_rule_loads(published):
    assert len(load_rules(published / "converted.txt")) == 120
    assert len(load_rules(published / "converted_multi.txt").multi) == 13
    rules = tensat_rules(published)
    assert (len(rules.single), len(rules.multi)) == (124, 15)
    reads_back(rules)


@pytest.mark.slow
@pytest.mark.shared
def test_the_rules_in_tensats_source(published):
    rules = tensat_rules(published)
    merge = format_rule(rules["tensat-123"])
    assert merge.startswith("tensat-123: conv2d[strides=(2, 2), pads=(p0, q0, p0, q0), ")
    assert "groups=g0 // 2, act=none](x, merge_gconv[count=2, groups=g0](w))" in merge
    assert [dict(r.targets[0].attrs)["act"].value for r in rules.select("tensat-12[1-4]")] == [
        *("none", "relu", "none", "relu")
    ]
    beside = format_rule(rules["tensat-multi-p1"])
    assert "dim(w, -2) <= dim(v, -2), dim(w, -1) <= dim(v, -1)" in beside
    assert search(rules["tensat-121"], 30).counterexample is None
    # Where there are groups it is as wrong as the other laws that join output channels.
    assert search(rules["tensat-multi-p1"], 60).counterexample is not None


@pytest.mark.slow
@pytest.mark.shared
def test_the_equations(published):
    rules, rejected = read_equations(published / "taso_rules.txt")
    assert len(rules) == 931
    assert rejected == []
    reads_back(rules)


@pytest.fixture(scope="module")
def equations(published):
    return load_rules(published / "taso_rules.txt", strict=False)


@pytest.mark.shared
@pytest.mark.parametrize("number", in_turn([0, 90, 104, 107, 254, 256, 471, 680, 689, 809, 851], 1, quick=3))
def test_sound_equations_are_sound_as_we_read_them(equations, number):
    found = search(equations[f"equation-{number}"], 20, broadcast=False)
    assert found.counterexample is None
    assert len(found.passed) == 20 + found.unusual
