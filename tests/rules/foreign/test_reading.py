import pytest

from workbench.rules import RuleSyntaxError
from workbench.rules.foreign.reading import load_rules, read_rules


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
    assert len(contents.rule_set()) == 3


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
