import pytest

from tests.sampled import in_turn
from workbench.laws.foreign.taso_file import messages, read_taso
from workbench.laws.verification.refuting.refute import search
from workbench.rules import RuleSyntaxError, format_rule, load_rules, parse_rule

CONV2D, MAXPOOL, RELU, CONCAT, SPLIT, TRANSPOSE, ADD, MATMUL, MUL, ENLARGE = (
    3,
    6,
    8,
    12,
    13,
    15,
    16,
    18,
    19,
    20,
)
CONV = {6: 1, 7: 1, 8: 0, 9: 0}
I1, I2, I3 = (-1, 0), (-2, 0), (-3, 0)


def node(number, inputs, paras=None):
    """Describe an operator: its number, inputs as (operator, result), parameters by key."""
    return number, inputs, paras or {}


def rule(sources, targets, outputs=((0, 0),)):
    """Describe a rule; an output is a pair of operators, or (source, target, result, result)."""
    return sources, targets, outputs


def encoded(*rules):
    collection = messages()["RuleCollection"]()
    for sources, targets, outputs in rules:
        message = collection.rule.add()
        for field, nodes in ((message.srcOp, sources), (message.dstOp, targets)):
            for number, inputs, paras in nodes:
                operator = field.add(type=number)
                for op, result in inputs:
                    operator.input.add(opId=op, tsId=result)
                for key, value in paras.items():
                    operator.para.add(key=key, value=value)
        for source, target, *results in outputs:
            first, second = results or (0, 0)
            message.mappedOutput.add(srcOpId=source, dstOpId=target, srcTsId=first, dstTsId=second)
    return collection.SerializeToString()


TWICE = rule([node(RELU, [I1]), node(RELU, [(0, 0)])], [node(RELU, [I1])], [(1, 0)])
#: A whole file of one rule, and where it ends.
ONE = encoded(TWICE)
END = f"byte {len(ONE)}"


@pytest.fixture
def write(tmp_path):
    def written(*rules, data=None):
        path = tmp_path / "rules.pb"
        path.write_bytes(encoded(*rules) if data is None else data)
        return path

    return written


def test_a_file_of_rules(write):
    joined = node(CONCAT, [I2, I3], {1: 2, 10: 2, 11: 1})
    split = node(SPLIT, [(1, 0)], {2: 2, 11: 1})
    pair = rule(
        [node(MATMUL, [I1, I2], {9: 0}), node(MATMUL, [I1, I3], {9: 0})],
        [joined, node(MATMUL, [I1, (0, 0)], {9: 0}), split],
        [(0, 2, 0, 0), (1, 2, 0, 1)],
    )
    rules = load_rules(write(TWICE, pair))
    assert rules.name == "rules"
    assert [format_rule(r) for r in rules] == [
        "taso-0: relu(relu(i1)) => relu(i1)  @ taso#0",
        "taso-1: matmul(i1, i2) ; matmul(i1, i3) => "
        "slice[axis=-1, start=0, stop=dim(i2, -1)](matmul(i1, concat[axis=-1](i2, i3))) ; "
        "slice[axis=-1, start=dim(i2, -1), stop=dim(i2, -1) + dim(i3, -1)]"
        "(matmul(i1, concat[axis=-1](i2, i3))) where rank(i2) = 2, rank(i3) = 2, rank(i1) = 2  @ taso#1",
    ]
    assert {r.file for r in rules} == {"rules.pb"}


def test_the_vocabulary(write):
    conv = node(CONV2D, [I1, I2], CONV | {4: 3, 5: 3})
    targets = [
        node(ENLARGE, [I2], {4: 5, 5: 5}),
        node(CONV2D, [I1, (0, 0)], CONV),
        node(23, [], {4: 3, 5: 3}),
        node(CONV2D, [(1, 0), (2, 0)], CONV | {9: 2}),
    ]
    (enlarged,) = load_rules(write(rule([conv], targets, [(0, 3)])))
    text = format_rule(enlarged)
    assert "enlarge[pads=((5 - dim(i2, -2)) // 2, " in text
    assert "identity_kernel[channels=dim(i2, -4), groups=1, kernel=(3, 3), dtype=dtype(i1)]()" in text
    pool = node(MAXPOOL, [I1], CONV | {4: 3, 5: 3, 9: 0})
    swapped = node(TRANSPOSE, [I2], {10: 4, 12: 0 * 64 + 1 * 16 + 3 * 4 + 2, 13: 1})
    scaled = node(MUL, [(0, 0), I3])
    (other,) = load_rules(
        write(rule([pool, scaled], [node(MAXPOOL, [I1], CONV | {4: 3, 5: 3}), scaled], [(1, 1)]))
    )
    assert "mul(maxpool[kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)](i1), i3)" in format_rule(other)
    (other,) = load_rules(write(rule([swapped], [swapped])))
    assert "transpose[perm=(0, 1, 3, 2)](i2)" in format_rule(other)


def test_a_variable_may_be_an_output(write):
    (forth,) = load_rules(write(rule([node(RELU, [I1])], [], [(0, -1)])))
    assert format_rule(forth) == "taso-0: relu(i1) => i1  @ taso#0"
    (back,) = load_rules(write(rule([], [node(RELU, [I1])], [(-1, 0)])))
    assert format_rule(back) == "taso-0: relu(i1) => i1  @ taso#0, reversed"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (rule([node(RELU, [I1])], [node(RELU, [I1])], []), "a rule must map at least one output, got none"),
        (rule([node(99, [I1])], [node(RELU, [I1])]), "source operator 0: unknown operator number 99"),
        (
            rule([node(RELU, [I1, I2])], [node(RELU, [I1])]),
            "source operator 0 (RELU): relu takes 1 input, got 2",
        ),
        (
            rule([node(RELU, [I1])], [node(ADD, [I1])]),
            "target operator 0 (EW_ADD): add takes 2 inputs, got 1",
        ),
        (rule([node(RELU, [I1], {9: 0})], [node(RELU, [I1])]), "relu has no parameter act"),
        (rule([node(RELU, [I1], {18: 0})], [node(RELU, [I1])]), "unknown parameter number 18"),
        (
            rule([node(CONV2D, [I1, I2], {6: 1, 7: 1, 8: 0})], []),
            "conv2d must have the parameter act, got none",
        ),
        (rule([node(CONV2D, [I1, I2], CONV | {8: 7})], []), "pad must be from 0 to 1, got 7"),
        (
            rule([node(CONCAT, [I1, I2], {1: 3, 10: 2, 11: 0})], []),
            "num_inputs of concat must be 2, the number of its inputs",
        ),
        (rule([node(CONCAT, [I1, I2], {1: 2, 10: 2, 11: 2})], []), "axis must be below 2, got 2"),
        (rule([node(SPLIT, [I1], {11: 0})], []), "num_outputs must be from 1 to 32, got None"),
        (rule([node(SPLIT, [I1], {2: 99, 11: 0})], []), "num_outputs must be from 1 to 32, got 99"),
        (rule([node(SPLIT, [I1], {2: 2, 11: 0, 14: 2})], []), "no parameter count"),
        (rule([node(TRANSPOSE, [I1], {10: 2, 12: 4})], []), "perm must be below 4 for 2 axes, got 4"),
        (
            rule([node(TRANSPOSE, [I1], {10: 2, 12: 3})], []),
            "the order of axes must be a permutation, got (1, 1)",
        ),
        (rule([node(TRANSPOSE, [I1], {10: 2})], []), "transpose must have the parameter perm, got none"),
        (rule([node(RELU, [(5, 0)])], [node(RELU, [I1])]), "operands must be operators below 1, got 5"),
        (
            rule([node(RELU, [(0, 0)])], [node(RELU, [I1])]),
            "operands must be earlier operators, got itself, a cycle",
        ),
        (
            rule([node(RELU, [(1, 0)]), node(RELU, [(0, 0)])], [node(RELU, [I1])]),
            "source operator 0 (RELU): operands must be earlier operators, got operator 1, which comes later",
        ),
        (rule([node(RELU, [(-1, 1)])], []), "variable 1 has no result 1"),
        (rule([node(RELU, [I1]), node(RELU, [(0, 1)])], []), "operator 0 has no result 1"),
        (
            rule([node(RELU, [I1])], [node(RELU, [I1])], [(1, 0)]),
            "a mapped output must be a source operator below 1, got 1",
        ),
        (
            rule([node(RELU, [I1])], [node(RELU, [I1])], [(0, 3)]),
            "a mapped output must be a target operator below 1, got 3",
        ),
        (rule([node(RELU, [I1])], [node(RELU, [I1])], [(0, 0, 1, 0)]), "operator 0 has no result 1"),
        (rule([node(RELU, [I1])], [node(RELU, [I2])]), "i2 occurs only on the right-hand side"),
        (rule([node(RELU, [I1])], [], [(0, -7)]), "i7 occurs only on the right-hand side"),
    ],
)
def test_a_broken_rule_breaks_the_file(write, broken, message):
    path = write(TWICE, broken)
    for load in (load_rules, lambda p: load_rules(p, strict=False)):
        with pytest.raises(RuleSyntaxError, match=r"rules\.pb, rule 1 \(byte \d+\): ") as caught:
            load(path)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (ONE[:-1], "byte 0: the file ends 1 bytes before the rule does"),
        (ONE + b"\x0a", f"{END}: the file ends in the length of a rule"),
        (ONE + b"\x0a" + b"\xff" * 9, f"{END}: the file ends in the length of a rule"),
        (ONE + b"\x2a\x00", f"{END}: expected a rule, found 0x2a"),
        (ONE + b"\x0a\x02\x12\x09", f"rule 1 ({END}): the bytes must encode a rule"),
        (ONE + b"\x0a\x02\x0a\x00", f"rule 1 ({END}): the bytes must encode a rule"),
        (ONE + b"\x0a\x02\x28\x07", f"rule 1 ({END}): unknown fields of a rule"),
        (ONE + b"\x0a\x06\x0a\x04\x08\x08\x20\x07", "unknown fields of a rule"),
    ],
)
def test_broken_files(write, data, message):
    with pytest.raises(RuleSyntaxError, match=r"rules\.pb") as caught:
        read_taso(write(data=data))
    assert message in str(caught.value)


def test_no_part_of_a_file_is_taken_for_the_whole(write):
    data = encoded(TWICE, TWICE)
    for length in range(len(data)):
        if length == len(data) // 2:
            continue  # between two rules nothing is missing
        with pytest.raises(RuleSyntaxError):
            read_taso(write(data=data[:length]))


@pytest.mark.parametrize(
    ("foreign", "reason"),
    [
        (
            rule([node(14, [I1])], [node(RELU, [I1])]),
            "TASO's RESHAPE has no counterpart in the rule language",
        ),
        (
            rule([node(RELU, [I1]), node(RELU, [I2])], [node(RELU, [I1])]),
            "source operator 1 leads to no output",
        ),
        (rule([node(RELU, [I1])], [node(RELU, [I1])], [(0, 0), (-1, -1)]), "a source is a bare variable"),
        (
            rule([node(CONV2D, [I1, I2], CONV | {6: 3})], [node(CONV2D, [I1, I2], CONV)]),
            "SAME pads at stride 3",
        ),
        (rule([node(RELU, [I1])], [node(SPLIT, [I1], {2: 2, 11: 0})]), "an axis that depends on the rank"),
    ],
)
def test_a_rule_without_a_form_is_left_out_only_on_demand(write, foreign, reason):
    path = write(TWICE, foreign, TWICE)
    rules, rejected = read_taso(path)
    assert [r.name for r in rules] == ["taso-0", "taso-2"]
    assert [(r.index, r.name) for r in rejected] == [(1, "taso-1")]
    assert reason in rejected[0].reason
    assert [r.name for r in load_rules(path, strict=False)] == ["taso-0", "taso-2"]
    with pytest.raises(RuleSyntaxError, match=r"1 of 3 laws have no form .* taso-1: "):
        load_rules(path)


def test_operands_that_are_shared_over_and_over(write):
    chain = [node(ADD, [I1, I1]), *(node(ADD, [(k, 0), (k, 0)]) for k in range(40))]
    _, (rejected,) = read_taso(write(rule(chain, [node(RELU, [I1])], [(40, 0)])))
    assert "more than 100" in rejected.reason


@pytest.fixture(scope="module")
def substitutions(shared_data):
    return shared_data / "taso" / "graph_subst.pb"


@pytest.fixture(scope="module")
def published(substitutions):
    return load_rules(substitutions)


@pytest.mark.slow
@pytest.mark.shared
def test_every_published_rule_loads(published, substitutions):
    assert len(published) == 133
    assert [int(r.name.removeprefix("taso-")) for r in published.multi] == [
        *(9, 63, 65, 70, 77, 79, 81, 95, 116, 118, 120, 127, 129)
    ]
    assert len(load_rules(substitutions)) == 133
    for law in published:
        (again,) = parse_rule(format_rule(law))
        assert (again.name, again.sources, again.targets, again.conditions, again.provenance) == (
            *(law.name, law.sources, law.targets, law.conditions, law.provenance),
        )


@pytest.mark.shared
@pytest.mark.parametrize(
    "name", in_turn(["taso-0", "taso-64", "taso-77", "taso-79", "taso-92", "taso-116"], 1, quick=3)
)
def test_sound_rules_are_sound_as_we_read_them(published, name):
    found = search(published[name], 30, broadcast=False)
    assert found.counterexample is None
    assert len(found.passed) == 30 + found.unusual


@pytest.mark.shared
@pytest.mark.parametrize("name", ["taso-59", "taso-98", "taso-127", "taso-130"])
def test_unsound_rules_keep_what_is_wrong_with_them(published, name):
    # TASO proved them without broadcasting and groups, and applies them where there are both.
    assert search(published[name], 100).counterexample is not None
