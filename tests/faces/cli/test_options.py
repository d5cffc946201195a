"""Checks of arguments that several commands share."""

import pytest

from workbench.faces.cli.options import check_files, chosen_rules, dimensions
from workbench.rules import RuleSet
from workbench.support.files import UnwritableOutput


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["N"], "must be NAME=VALUE"),
        (["N=0"], "a positive whole number, got N=0"),
        (["N=" + "9" * 5000], "must be NAME=VALUE"),
        (["N=9223372036854775808"], "must be below 2\\^63"),
        (["N=3", "N=4"], "must give N one value, got 3 and 4"),
    ],
)
def test_a_dimension_that_cannot_be_meant_is_refused(texts, complaint):
    with pytest.raises(ValueError, match=complaint):
        dimensions(texts)


def test_dimensions_may_be_repeated_with_one_value():
    assert dimensions(["N=3", "M=4", "N=3"]) == {"N": 3, "M": 4}
    assert dimensions([]) is None


def test_results_have_files_of_their_own_and_replace_no_input(tmp_path):
    given, one = tmp_path / "given", tmp_path / "one"
    given.write_text("kept")
    check_files([given], [one, None])
    with pytest.raises(ValueError, match="must be written to different files"):
        check_files([], [one, tmp_path / "." / "one"])
    with pytest.raises(ValueError, match="must not replace a file that the command reads"):
        check_files([given], [None, given])
    with pytest.raises(UnwritableOutput, match="does not exist"):
        check_files([], [tmp_path / "no" / "one"])


@pytest.mark.parametrize(
    "command",
    [
        ("optimize", "FILE", "--json", "FILE"),
        ("optimize", "FILE", "--report", "FILE"),
        ("search", "FILE", "--json", "FILE"),
        ("verify", "FILE", "--json", "FILE"),
        ("certify", "FILE", "FILE", "--json", "FILE"),
        ("certify", "FILE", "FILE", "--repro", "FILE"),
        ("extract", "FILE", "--json", "FILE"),
        ("synthesise", "FILE", "--journal", "FILE"),
        ("synthesise", "FILE", "--output", "FILE"),
    ],
)
def test_no_command_replaces_what_it_reads(run, tmp_path, command):
    file = tmp_path / "precious"
    file.write_text("kept")
    code, _, err = run(*(str(file) if part == "FILE" else part for part in command))
    assert code == 2
    assert "must not replace a file that the command reads" in err
    assert file.read_text() == "kept"


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.rules"
    path.write_text("my-own: add(x, y) => add(y, x)\n")
    return str(path)


def test_one_name_stays_a_name():
    assert chosen_rules(["default"]) == "default"


def test_several_stay_several_and_published_ones_are_joined(mine):
    assert chosen_rules(["merge", mine]) == ["merge", mine]
    whole = chosen_rules(["merge", mine], as_published=True)
    assert isinstance(whole, RuleSet)
    assert "my-own" in [r.name for r in whole]


def test_a_missing_file_is_said_plainly(mine):
    with pytest.raises(FileNotFoundError, match=r"^no such rules file: no/such.rules$"):
        chosen_rules(["no/such.rules"])
    with pytest.raises(FileNotFoundError, match=r"repeat the option: --rules default --rules my3.rules"):
        chosen_rules(["default,my3.rules"])


@pytest.mark.slow
@pytest.mark.filterwarnings("default::UserWarning")
def test_the_command_uses_them_all_and_refuses_a_wrong_one_unless_asked_for(run, model, tmp_path):
    wrong = tmp_path / "wrong.rules"
    wrong.write_text("forgets: relu(x) => x\n")
    words = ["optimize", model, "--rules", "default", "--rules", wrong, "--cost", "analytic", "-q"]
    code, _, err = run(*words)
    assert code == 2
    assert "forgets (x[]: " in err
    assert "--keep-refuted" in err
    code, out, err = run(*words, "--keep-refuted")
    assert code == 0, err
    assert "matmul-sums-weights" in out
    assert "workbench: warning: rule forgets of" in err
    assert "UserWarning" not in err


@pytest.mark.slow
def test_composites_of_a_file_take_part_in_a_search(run, tmp_path):
    from workbench import GraphBuilder
    from workbench.frontends import save_onnx

    place = tmp_path / "mine.composite"
    place.write_text("# Twice the tangent.\ntwice_tanh: x{T}[~] -> y{T}[~]\n    y = 2 * tanh(x)\n")
    b = GraphBuilder()
    x = b.input("x", (4, 8))
    y = b.op("mul", b.op("scalar", value=2.0, dtype="float32"), b.op("tanh", x))
    save_onnx(b.graph({"y": y}), tmp_path / "m.onnx")
    shared = ("optimize", tmp_path / "m.onnx", "--no-time", "--cost", "analytic", "-q")
    code, _, said = run(*shared, "--composites", place)
    assert code == 0, said
    place.write_text("twice_tanh: x{T}[~] -> y{T}[~\n    y = 2 * tanh(x)\n")
    code, _, said = run(*shared, "--composites", place)
    assert code == 2
    assert "twice_tanh" in said
