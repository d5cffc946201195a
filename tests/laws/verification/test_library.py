"""The library is judged: the record covers it, rules without a proof are tested at length, wrong axioms are refuted."""

import json
import sys

import pytest

from tests.sampled import sampled
from workbench.laws.verification import library as judging
from workbench.laws.verification.library import (
    UNPROVED_DRAWS,
    draw_many,
    table,
    write_status,
)
from workbench.laws.verification.proving import axioms
from workbench.laws.verification.refuting.refute import search
from workbench.laws.verification.verify import Verification
from workbench.rules import parse_rule, rule_set
from workbench.rules.ruleset import SETS, load_rules
from workbench.rules.verdicts import TRUSTED, law_of, library, statuses, verdict_of
from workbench.run.trace import StopReason

LIBRARY = [r for f in sorted(library().glob("*.rules")) for r in load_rules(f)]

GATES = ("relu6", "gelu", "silu", "hardswish")


def test_names_are_distinct():
    names = [r.name for r in LIBRARY]
    assert len(set(names)) == len(names)


def test_status_file_covers_the_library_as_it_stands():
    known = statuses()
    assert set(known) == {r.name for r in LIBRARY}
    stale = [r.name for r in LIBRARY if known[r.name]["law"] != law_of(r)]
    assert stale == [], "run python -m workbench.laws.verification.library"


@pytest.mark.parametrize("name", SETS)
def test_sets_hold_only_theorems_and_rules_tested_at_length(name):
    known, rules = statuses(), rule_set(name)
    assert {verdict_of(r) for r in rules} <= set(TRUSTED)
    tested = [r for r in rules if verdict_of(r) == "tested"]
    assert len(tested) <= 0.06 * len(rules)
    assert all(known[r.name]["draws"] >= UNPROVED_DRAWS for r in tested)


@pytest.mark.slow
def test_the_table_is_the_record():
    text = (library() / "README.md").read_text(encoding="utf-8")
    assert text == table(statuses(), library())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "every"),
    [("ac.rules", 4), *(pytest.param(f, 1, marks=pytest.mark.nightly) for f in ("ac.rules", "fusion.rules"))],
)
def test_the_library_is_judged_again(file, every):
    rules = [r for r in LIBRARY if r.file == file][::every]
    verification = Verification(rules, axiom_set=())
    verification.run()
    known = statuses()
    assert {v.name: v.verdict for v in verification.verdicts} == {
        r.name: known[r.name]["status"] for r in rules
    }


@pytest.mark.slow
@pytest.mark.parametrize("axiom", sampled(axioms(), 4))
def test_no_axiom_is_refuted(axiom):
    found = search(axiom, 60, seed=5)
    assert found.counterexample is None
    assert len(found.passed) >= 20


@pytest.mark.parametrize(
    "law",
    [
        "concat[axis=-3](conv2d[c](x, w), conv2d[c](x, v)) => conv2d[c](x, concat[axis=-4](w, v))",
        "add(conv2d[c, act=none](x, w), conv2d[c, act=none](y, v)) => "
        "conv2d[c, act=none](concat[axis=-3](x, y), concat[axis=-3](w, v))",
        "conv2d[strides=s, pads=p, dilations=(1, 1), groups=g, act=none]"
        "(x, mean_kernel[channels=n, kernel=k, dtype=d]()) => "
        "avgpool[kernel=k, strides=s, pads=p, include_pad=0](x)",
    ],
    ids=["taso-24", "taso-19", "taso-39"],
)
def test_tasos_axioms_as_published_are_refuted(law):
    (axiom,) = parse_rule(f"published: {law}")
    assert search(axiom, 200).counterexample is not None


#: Axioms of convolutions and means, each without what makes it true.
SPOILED = {
    "pads-before-the-first-window": "conv2d[strides=(s, u), pads=(t, l, b, r), c](x, w) => "
    "conv2d[strides=(s, u), pads=(t - 1, l, b + 1, r), c](x, w)",
    "dilation-of-two-rows": "conv2d[dilations=(d, e), c](x, w) => conv2d[dilations=(1, e), c](x, w) "
    "where dim(w, -2) = 2",
    "some-other-rows-of-conv": "slice[axis=-2, start=1, stop=n, step=i](conv2d[strides=(s, u), c](x, w)) => "
    "conv2d[strides=(s * i, u), c](x, w)",
    "pads-of-some-rows": "conv2d[strides=(s, u), pads=(t, l, b, r), dilations=(d, e), c]("
    "slice[axis=-2, start=0, stop=n, step=i](x), w) => "
    "conv2d[strides=(s * i, u), pads=(t, l, b, r), dilations=(d * i, e), c](x, w) where n = dim(x, -2)",
    "kernel-of-groups-transposed": "merge_gconv[count=g, groups=g](w) => "
    "transpose[perm=(1, 0, 2, 3)](merge_gconv[count=g, groups=g](w)) where dim(w, -4) = dim(w, -3) * g",
    "padded-conv-of-expanded": "add(y, conv2d[groups=g, act=none, c](expand[shape=s](t), w)) => "
    "add(y, conv2d[groups=g](t, reduce_sum[axes=(-2, -1)](w))) "
    "where rank(t) = 4, dim(t, -2) = 1, dim(t, -1) = 1",
    "conv-of-slope": "add(y, conv2d[groups=g, act=none, c](t, w)) => "
    "add(y, conv2d[groups=g](reduce_mean[axes=(-2, -1)](t), reduce_sum[axes=(-2, -1)](w)))",
    "padded-mean-of-shifted": "avgpool[pads=p, include_pad=1, c](add(x, t)) => "
    "add(avgpool[pads=p, include_pad=1, c](x), t) where rank(x) = 4, dim(t, -2) = 1, dim(t, -1) = 1",
    "mean-with-padding": "avgpool[pads=p, include_pad=0, c](x) => avgpool[pads=p, include_pad=1, c](x)",
    "enlarged-under-dilation": "conv2d[strides=s, pads=(t, l, b, r), dilations=(2, 2), c]("
    "x, enlarge[pads=(i, j, k, m)](w)) => "
    "conv2d[strides=s, pads=(t - i, l - j, b - k, r - m), dilations=(2, 2), c](x, w)",
    "layernorm-shifted-before": "layernorm[axis=-1, eps=e](x, s, b) => "
    "layernorm[axis=-1, eps=e](add(x, b), s) "
    "where rank(b) = 1, dim(b, -1) = dim(x, -1)",
}


@pytest.mark.parametrize("name", SPOILED)
def test_an_axiom_without_its_condition_is_refuted(name):
    (axiom,) = parse_rule(f"{name}: {SPOILED[name]}")
    assert search(axiom, 200).counterexample is not None


def test_only_laws_that_are_new_or_tested_briefly_are_judged_again(monkeypatch):
    rule = axioms()["quantize-again"]
    (other,) = parse_rule("quantize-again: relu(relu(x)) => relu(relu(relu(x)))")
    (unheard,) = parse_rule("unheard-of: relu(relu(x)) => relu(x)")
    assert [judging._is_recorded(r) for r in (rule, other, unheard)] == [True, False, False]
    monkeypatch.setattr(judging, "UNPROVED_DRAWS", statuses()[rule.name]["draws"] + 1)
    assert not judging._is_recorded(rule)
    # A theorem needs no test at length.
    assert judging._is_recorded(rule_set("all")["add-commutes"])


@pytest.mark.slow
def test_writing_is_whole(tmp_path):
    (tmp_path / "small.rules").write_text("twice: relu(relu(x)) => relu(x)\n")
    rules = load_rules(tmp_path / "small.rules")
    verification = Verification(list(rules))
    verification.run()
    assert verification.verdicts[0].by_axioms
    write_status(verification, {}, tmp_path)
    record = json.loads((tmp_path / "status.json").read_text())["rules"]
    assert record["twice"]["status"] == "tested"
    draws = record["twice"]["draws"]
    text = (tmp_path / "README.md").read_text()
    assert (
        f"| twice | tested | `relu(relu(x)) => relu(x)` |  | {draws} instances; no proof was sought |" in text
    )


@pytest.mark.slow
def test_a_rule_that_is_no_theorem_is_tested_at_length(tmp_path, monkeypatch):
    (tmp_path / "small.rules").write_text(
        "twice: reshape[shape=s](reshape[shape=r](x)) => reshape[shape=s](x)\n"
    )
    (rule,) = load_rules(tmp_path / "small.rules")
    verification = Verification([rule])
    verification.run()
    monkeypatch.setattr(judging, "UNPROVED_DRAWS", 300)
    test = draw_many(rule)
    assert test.keys() == {"draws"}
    assert test["draws"] >= 300  # instances at unusual numbers come on top
    for found, status in ((test, "tested"), ({**test, "status": "refuted", "summary": "x = 1"}, "refuted")):
        write_status(verification, {rule.name: found}, tmp_path)
        known = json.loads((tmp_path / "status.json").read_text())["rules"]["twice"]
        assert (known["status"], known["draws"]) == (status, test["draws"])
    (wrong,) = parse_rule("wrong: reshape[shape=s](x) => reshape[shape=s](transpose[perm=(1, 0)](x))")
    assert draw_many(wrong)["status"] == "refuted"


def test_a_judgement_that_was_cut_short_is_not_written(monkeypatch):
    verification = Verification(list(load_rules(library() / "elementwise.rules"))[:2])
    verification.stop_reason = StopReason.TIME_LIMIT
    monkeypatch.setattr(judging, "judge_library", lambda **chosen: verification)
    monkeypatch.setattr(judging, "write_status", None)
    monkeypatch.setattr(sys, "argv", ["library", "--new"])
    with pytest.raises(SystemExit, match="Nothing is written"):
        judging.main()
