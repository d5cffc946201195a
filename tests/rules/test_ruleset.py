"""Rule sets: by name, from files, their parts, and the errors of files that cannot be read."""

import pytest

from workbench.rules import (
    RuleSet,
    RuleSyntaxError,
    load_rules,
    parse_rules,
    rule_set,
    rule_sets,
)
from workbench.rules.ruleset import read_rules, recognise
from workbench.support.messages import UnknownName


def test_the_librarys_sets():
    assert "default" in rule_sets()
    assert {"matmul", "merge", "layout"} <= set(rule_sets())
    default = rule_set("default")
    assert len(default.single) + len(default.multi) == len(default)
    assert {r.name for r in rule_set("merge")} <= {r.name for r in default}
    assert "add-commutes" not in {r.name for r in default}
    assert "add-commutes" in {r.name for r in rule_set("all")}


def test_selection():
    rules = rule_set("fusion")
    relu = rules.select("*-relu*")
    assert all("relu" in r.name for r in relu)
    assert len(rules.without("*-relu*")) == len(rules) - len(relu)
    with pytest.raises(LookupError, match="nothing"):
        rules.select("nothing-*")
    assert rules["conv-takes-relu"].name == "conv-takes-relu"
    with pytest.raises(KeyError, match="conv-takes-relu"):
        rules["conv-takes-rleu"]


def test_adding_keeps_names_distinct():
    fusion, merge = rule_set("fusion"), rule_set("merge")
    assert len(fusion + merge) == len(fusion) + len(merge)
    assert len(fusion + fusion) == len(fusion)
    (rule,) = parse_rules("twice: neg(neg(x)) => x")
    with pytest.raises(ValueError, match="twice"):
        RuleSet("double", (rule, rule))


def test_table_and_repr():
    frame = rule_set("merge").frame()
    assert list(frame.columns) == ["name", "law", "kind", "provenance", "status", "draws"]
    assert set(frame["status"]) == {"theorem"}
    assert set(frame["kind"]) == {"multi"}
    assert len(repr(rule_set("all")).splitlines()) <= 12


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "own.rules"
    path.write_text("abs-of-neg: abs(neg(x)) => abs(x)\n")
    assert [r.name for r in load_rules(path)] == ["abs-of-neg"]
    assert len(rule_set(str(path))) == 1


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b"twice: neg(neg(x)) => x  @ taso#1\n", "rules"),
        (b"# a == b\n\ntwice: neg(neg(x)) => x\n", "rules"),
        (b"neg(neg(x)) => x\n", "rules"),
        (b"", "rules"),
        (b"\n(relu ?x)=>?x\n", "tensat"),
        (b"?x=>(relu ?x)\n", "tensat"),
        (b"relu(input_1)==relu(input_1)tanh(input_1)==input_1", "equations"),
        (b"input_1==relu(input_1)", "equations"),
        (b"\x0a\x02\x08\x03", "taso"),
        (b"\xff\xfe", "taso"),
    ],
)
def test_content_says_which_form_a_file_has(data, form):
    assert recognise(data) == form


def test_an_empty_file_is_not_a_set_of_rules(tmp_path):
    for text in ("", "\n \n"):
        (tmp_path / "none.rules").write_text(text)
        with pytest.raises(RuleSyntaxError, match=r"none\.rules: the file is empty"):
            load_rules(tmp_path / "none.rules")


def test_unknown_sets():
    with pytest.raises(UnknownName, match="did you mean default"):
        rule_set("defautl")
    with pytest.raises(FileNotFoundError):
        rule_set("nowhere.rules")


# -- files -----------------------------------------------------------------------------------------
def write(tmp_path, text, name="some.rules"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_wrong_laws_are_shown_next_to_the_right_ones(tmp_path):
    contents = read_rules(
        write(
            tmp_path,
            "# comment\n"
            "good: relu(relu(x)) => relu(x)\n"
            "unbound: relu(x) => add(x, y)\n"
            "both: add(x, y) \\\n   <=> add(y, x)   # two lines\n"
            "missing: frob(x) => x\n"
            "good: neg(neg(x)) => x\n",
        )
    )
    assert contents.form == "rules"
    assert not contents.foreign
    assert [(i, r.name) for i, r in zip(contents.indices, contents.rules, strict=True)] == [
        (0, "good"),
        (2, "both"),
        (2, "both-back"),
    ]
    assert [(r.index, r.name) for r in contents.rejected] == [(1, "unbound"), (3, "missing"), (4, "good")]
    assert contents.rejected[0].reason.startswith("some.rules, line 3, column 30: y occurs only on the right")
    assert contents.rejected[2].reason == "some.rules, line 7: rule names must be unique, got a second good"
    assert len(contents.rules) == 3


def test_a_line_that_names_a_phase_is_no_law(tmp_path):
    contents = read_rules(
        write(tmp_path, "phase movement\na: neg(neg(x)) => x\nphase never\nb: relu(relu(x)) => relu(x)\n")
    )
    assert [(i, r.name, r.phase) for i, r in zip(contents.indices, contents.rules, strict=True)] == [
        (0, "a", "movement"),
        (2, "b", "movement"),
    ]
    (wrong,) = contents.rejected
    assert (wrong.index, wrong.name) == (1, "phase never")
    assert wrong.reason.startswith("some.rules, line 3: a phase must be any or movement")


def test_tensats_lines(tmp_path):
    contents = read_rules(
        write(tmp_path, "(relu (relu ?x))=>(relu ?x)\n(frob ?x)=>?x\n(relu ?x)=>(relu ?y)\n", "t.txt")
    )
    assert (contents.form, contents.foreign) == ("tensat", True)
    assert contents.indices == (0,)
    assert [r.index for r in contents.rejected] == [1, 2]
    assert "line 2" in contents.rejected[0].reason


def test_equations(tmp_path):
    text = "relu(relu(input_1))==relu(input_1)" + "relu(input_1,input_2)==input_1"
    text += "ewadd(input_1,input_2)==ewadd(input_2,input_1)"
    contents = read_rules(write(tmp_path, text, "e.txt"))
    assert contents.form == "equations"
    assert contents.indices == (0, 2)
    assert [r.index for r in contents.rejected] == [1]


@pytest.mark.parametrize("text", ["", "  \n", "# nothing here\n"])
def test_files_without_rules(tmp_path, text):
    with pytest.raises(RuleSyntaxError):
        read_rules(write(tmp_path, text))


def test_a_file_of_rules_in_another_encoding_names_the_line(tmp_path):
    file = tmp_path / "some.rules"
    file.write_bytes("# fine\na: relu(x) => x  # caf\u00e9\n".encode("latin-1"))
    for read in (read_rules, load_rules):
        with pytest.raises(RuleSyntaxError, match="line 2: rules must be UTF-8 text, got byte 0xe9"):
            read(file)
