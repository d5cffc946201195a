"""``workbench rules``: what is in the library, by name and by pattern."""

import json


def test_rules_are_listed_with_law_and_status(run):
    code, out, _ = run("rules")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["rule", "status", "provenance", "law"]
    assert any(line.startswith("relu-twice") and "relu(relu(x)) => relu(x)" in line for line in lines)
    records = json.loads(run("rules", "--json")[1])
    assert len(records) == len(lines) - 2
    assert {r["status"] for r in records} <= {"tested", "proved", "theorem"}
    theorems = sum(r["status"] == "theorem" for r in records)
    assert lines[-1].endswith(f", {theorems} theorems")
    assert theorems >= 405


def test_one_rule_or_a_pattern_can_be_asked_for(run):
    assert [r["name"] for r in json.loads(run("rules", "relu-twice", "--json")[1])] == ["relu-twice"]
    names = [r["name"] for r in json.loads(run("rules", "conv-*", "--json")[1])]
    assert len(names) > 3
    assert all(n.startswith("conv-") for n in names)
    code, _, err = run("rules", "relu-twise")
    assert code == 2
    assert "did you mean relu-twice?" in err


def test_rule_sets_are_listed(run):
    records = json.loads(run("rules", "--sets", "--json")[1])
    assert {"default", "merge"} <= {r["set"] for r in records}
    assert "multi-pattern" in run("rules", "--sets")[1]
