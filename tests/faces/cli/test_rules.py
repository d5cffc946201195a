"""``workbench rules``: the rules of the library, by name and by pattern."""

import json
import re

import pytest

from tests.sampled import turn
from workbench.laws.theorems import store
from workbench.laws.theorems.store import every_rule


@pytest.mark.slow
def test_rules_are_listed_with_law_and_status(run):
    code, out, _ = run("rules")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["rule", "status", "provenance", "law"]
    assert any(line.startswith("relu-twice") and "relu(relu(x)) => relu(x)" in line for line in lines)
    records = json.loads(run("rules", "--json", "-")[1])
    assert len(records) == len(lines) - 2
    assert {r["status"] for r in records} <= {"tested", "theorem"}
    theorems = sum(r["status"] == "theorem" for r in records)
    assert lines[-1].endswith(f": {theorems} theorems, {len(records) - theorems} tested")
    assert theorems >= 405


def test_one_rule_or_a_pattern_can_be_asked_for(run):
    assert [r["name"] for r in json.loads(run("rules", "relu-twice", "--json", "-")[1])] == ["relu-twice"]
    names = [r["name"] for r in json.loads(run("rules", "conv-*", "--json", "-")[1])]
    assert len(names) > 3
    assert all(n.startswith("conv-") for n in names)
    code, _, err = run("rules", "relu-twise")
    assert code == 2
    assert "did you mean relu-twice?" in err


@pytest.mark.slow
def test_rule_sets_are_listed(run):
    records = json.loads(run("rules", "--sets", "--json", "-")[1])
    assert {"default", "merge"} <= {r["set"] for r in records}
    assert "multi-pattern" in run("rules", "--sets")[1]


LAWS = """\
square: mul(matmul(x, y), matmul(x, z)) => matmul(x, mul(y, z))
twice: relu(relu(x)) => relu(x)
"""


@pytest.fixture
def laws(tmp_path):
    path = tmp_path / "own.rules"
    path.write_text(LAWS)
    return path


@pytest.mark.slow
def test_verify_decides_every_rule_and_says_that_one_is_refuted(run, laws, tmp_path):
    code, out, _ = run("verify", laws, "--json", tmp_path / "out.json", "--one-by-one", "-j", 1, "--quiet")
    assert code == 1
    assert "2 rules: 1 tested (1 by axioms), 1 refuted" in out
    assert re.search(r"in the e-graph: batch \d+\.\d\d s, one by one \d+\.\d\d s, ratio", out)
    records = json.loads((tmp_path / "out.json").read_text())
    assert [(r["rule"], r["name"], r["verdict"]) for r in records] == [
        (0, "square", "refuted"),
        (1, "twice", "tested"),
    ]
    assert all(r["seconds"] >= 0 and r["evidence"] for r in records)


@pytest.mark.slow
def test_verify_of_sound_rules_is_0_and_shows_one(run, laws):
    laws.write_text(LAWS.splitlines()[1])
    code, out, _ = run("verify", laws, "--show", "twice", "--quiet")
    assert code == 0
    assert "relu(relu(x))\n  = relu(x)   [relu-of-relu]" in out


@pytest.mark.slow
def test_verify_continues_after_what_is_not_a_rule_and_names_the_line(run, laws):
    laws.write_text("free: relu(x) => add(x, y)\nodd: matmul(x) => x\nnone: frob(x) => x\n" + LAWS)
    code, out, _ = run("verify", laws, "--quiet")
    assert code == 1
    assert "3 rejected" in out
    assert [f"line {n}" in out for n in (1, 2, 3, 4)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("data", "code", "shown", "said"),
    [
        (b"", 2, "", "workbench: {}: the file is empty\n"),
        (
            b"\x0a\x05\x0a\x03\x08",
            2,
            "",
            "workbench: {}, byte 0: the file ends 2 bytes before the rule does\n",
        ),
        (b"\xff\xfe\x00", 2, "", "workbench: {}, line 1: rules must be UTF-8 text, got byte 0xff\n"),
        # A text is read to the end: the line is rejected, and rules after it would be decided.
        (
            b"relu(x) =",
            2,
            "{}, line 1: expected 'name: lhs => rhs', found 'relu(x) ='",
            "workbench: {}: none of its 1 laws can be read as a rule\n",
        ),
    ],
)
def test_verify_of_a_broken_file_says_where(run, laws, data, code, shown, said):
    laws.write_bytes(data)
    ended, out, err = run("verify", laws, "--quiet")
    assert (ended, err) == (code, said.format(laws.name))
    assert shown.format(laws.name) in out
    assert bool(out) == bool(shown)


def test_verify_names_a_rule_that_is_not_there(run, laws):
    code, _, err = run("verify", laws, "--show", "thrice", "--quiet")
    assert code == 2
    assert "'thrice'" in err


def test_a_file_with_one_law_that_is_not_a_rule_is_2_unless_one_is_refuted(run, tmp_path):
    path = tmp_path / "half.rules"
    path.write_text("twice: relu(relu(x)) => relu(x)\nodd: frob(x) => x\n")
    code, out, err = run("verify", path, "-q")
    assert code == 2
    assert "1 theorem, 1 rejected" in out
    assert err == "workbench: half.rules: 1 law cannot be read as a rule\n"


def test_a_file_without_a_single_rule_is_2(run, tmp_path):
    path = tmp_path / "broken.rules"
    path.write_text("a: foo(x => x\nb: bar((\n")
    code, out, err = run("verify", path, "-q")
    assert code == 2
    assert "2 rejected" in out
    assert "none of its 2 laws can be read as a rule" in err


def test_verify_says_which_laws_have_a_stored_proof(run, laws, tmp_path):
    laws.write_text("relu-twice: relu(relu(x)) => relu(x)\ntwice: relu(relu(x)) => relu(x)\n")
    code, out, _ = run("verify", laws, "--json", tmp_path / "out.json", "--quiet")
    assert code == 0
    assert re.search(r"relu-twice +theorem", out)
    assert re.search(r"1 +twice +theorem", out)
    assert "2 rules: 2 theorems;" in out
    assert [r["theorem"] for r in json.loads((tmp_path / "out.json").read_text())] == [True, False]


def test_verify_needs_a_file_or_the_library(run):
    code, _, err = run("verify", "--quiet")
    assert code == 2
    assert "try --check" in err


@pytest.mark.slow
@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.nightly)])
def test_verify_checks_stored_proofs_and_writes_what_the_solver_showed(run, tmp_path, monkeypatch, every):
    check = store.check_library

    def sample(rules, *args, **options):
        return check(rules[turn() % every :: every], *args, **options)

    monkeypatch.setattr(store, "check_library", sample)
    code, out, _ = run("verify", "--check", "--smt", tmp_path / "smt", "--quiet")
    assert code == 0
    proofs, without = map(int, re.search(r"(\d+) stored proofs checked, (\d+) rules have none", out).groups())
    assert proofs + without == len(every_rule())
    theorems, default = re.search(r"(\d+) of \d+ rules are theorems, (\d+) of the", out).groups()
    assert int(theorems) >= int(default) >= (405 if every == 1 else 1)
    assert any((tmp_path / "smt").iterdir())
