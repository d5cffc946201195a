"""``workbench synthesise``: laws of a grammar, written as rules, and compared with other rules."""

import json

import pytest

from workbench.rules import parse_rules

pytestmark = pytest.mark.slow

GRAMMAR = "operators: [add, relu]\noperands: {matrix: 2}\nsize: 2\n"


def test_laws_are_written_and_compared(run, tmp_path):
    grammar, other = tmp_path / "small.yaml", tmp_path / "other.rules"
    grammar.write_text(GRAMMAR)
    other.write_text("swap: add(x, y) => add(y, x)\nwrong: add(x, y) => relu(x)\n")
    out = tmp_path / "laws.rules"
    code, text, _ = run(
        "synthesise", grammar, "-o", out, "--against", other, "--json", tmp_path / "o.json",
        "--trace", tmp_path / "t.jsonl", "--quiet",
    )  # fmt: skip
    assert code == 0
    laws = {r.name for r in parse_rules(out.read_text())}
    assert {"add-commutes", "relu-of-relu"} <= laws
    assert "1 derived, 0 not derived, 1 refuted" in text
    data = json.loads((tmp_path / "o.json").read_text())
    assert {law["verdict"] for law in data["laws"]} == {"tested"}
    assert (tmp_path / "t.jsonl").is_file()


def test_a_broken_grammar_says_where_and_writes_nothing(run, tmp_path):
    grammar, out = tmp_path / "small.yaml", tmp_path / "laws.rules"
    for text in ("operators: [addd]\noperands: {matrix: 2}", "[", "operators: [add]"):
        grammar.write_text(text)
        code, _, err = run("synthesise", grammar, "-o", out, "--quiet")
        assert code == 2
        assert "small.yaml" in err
        assert not out.exists()
    code, _, err = run("synthesise", tmp_path / "absent.yaml", "--quiet")
    assert code == 2
