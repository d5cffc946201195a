"""Which rules the command line asks for."""

import pytest

from workbench.faces.cli.rule_options import chosen_rules
from workbench.rules import RuleSet


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
    with pytest.raises(FileNotFoundError, match=r"^there is no rules file no/such.rules$"):
        chosen_rules(["no/such.rules"])
    with pytest.raises(FileNotFoundError, match=r"repeat the option: --rules default --rules my3.rules"):
        chosen_rules(["default,my3.rules"])


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
