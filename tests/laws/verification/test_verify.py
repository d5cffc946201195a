"""Verdicts on rules: of every kind, in any number of processes, with a limit on time."""

import contextlib
import json
import multiprocessing
import re

import pytest

from tests.sampled import turn
from workbench.graph import GraphBuilder
from workbench.laws.verification import evidence
from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.instances.spaces import Ground, Instance, allowed
from workbench.laws.verification.proving import axioms
from workbench.laws.verification.refuting import refute
from workbench.laws.verification.verify import Verification
from workbench.ops import TensorType, TypeMismatch
from workbench.rules import RuleSyntaxError, parse_rules, rule_set
from workbench.rules.ruleset import Rejected, read_rules
from workbench.run.trace import StepKind, StopReason
from workbench.saturation import Saturation

RULES = """
square: mul(matmul(x, y), matmul(x, z)) => matmul(x, mul(y, z))
same: relu(add(x, y)) => relu(add(x, y))
never: add(x, y) => concat[axis=-1](x, y)
twice: relu(relu(x)) => relu(x)
rename: relu(relu(y)) => relu(y)
view: reshape[shape=s](reshape[shape=r](x)) => reshape[shape=s](x)
"""


@pytest.fixture(scope="module")
def run():
    verification = Verification(parse_rules(RULES), rejected=[Rejected(6, "broken", "line 8: no rule")])
    assert verification.run() is StopReason.FINISHED
    return verification


@pytest.mark.slow
def test_every_kind_of_verdict(run):
    assert {v.name: v.verdict for v in run.verdicts} == {
        "square": "refuted",
        "same": "vacuous",
        "never": "rejected",
        "twice": "tested",
        "rename": "tested",
        "view": "tested",
        "broken": "rejected",
    }
    assert run.counts == {"tested": 3, "refuted": 1, "vacuous": 1, "rejected": 2}
    assert [v.name for v in run.verdicts if v.by_axioms] == ["twice", "rename"]
    assert run.by_axioms == 2
    assert run.contradictions == []


def test_evidence(run):
    proved = run["twice"].evidence
    assert proved["axioms"] == ["relu-of-relu"]
    assert proved["chain"] == [["relu(relu(x))", "= relu(x)   [relu-of-relu]"]]
    assert proved["round"] == 1
    assert proved["all_cases"]
    assert run["rename"].evidence["renaming_of"] == "twice"
    example = run["square"].evidence["counterexample"]
    left, right = example["left"], example["right"]
    for i in example["index"]:
        left, right = left[i], right[i]
    assert left != right
    assert run["view"].evidence["draws"] >= 200
    assert run["view"].evidence["error_bound"] < 1e-5
    assert "common" in run["never"].reason()
    assert run["broken"].reason() == "line 8: no rule"


def test_verdicts_are_plain_data(run):
    records = json.loads(json.dumps([v.record() for v in run.verdicts]))
    assert [r["rule"] for r in records] == list(range(7))
    assert all({"rule", "name", "verdict", "seconds", "evidence", "law"} <= set(r) for r in records)
    assert list(run.frame()["verdict"]) == [r["verdict"] for r in records]
    with pytest.raises(KeyError, match="the name must be that of a rule of rules, got 'nothing'"):
        run["nothing"]


def test_faces(run):
    assert len(repr(run).splitlines()) <= 12
    assert "7 rules: 3 tested (2 by axioms), 1 refuted" in repr(run)
    assert "mul(matmul(x, y), matmul(x, z)) = " in run["square"].details()
    assert "[relu-of-relu]" in run["twice"].details()


def provable_fusion():
    """Return the laws of fusion whose activations axioms define: few enough for one step of screening."""
    fusion = [r for r in rule_set("fusion") if not re.search("relu6|silu|gelu|hardswish", r.name)]
    assert 10 < len(fusion) <= 24
    return fusion


@pytest.fixture(scope="module")
def stepped():
    """Return a verification of them, and its steps."""
    verification = Verification(provable_fusion())
    return verification, list(verification)


@pytest.mark.slow
def test_steps_are_rounds_of_axioms(stepped):
    verification, steps = stepped
    fusion = verification.rules
    assert steps[0].note == f"screened {len(fusion)} of {len(fusion)}: 0 counterexamples in this step"
    assert steps[0].counts == {"screened": len(fusion), "rules": len(fusion), "refuted": 0}
    first, *others = [step for step in steps if step.kind in (StepKind.PASS, StepKind.ROUND)]
    assert first.counts["pass"] == 1
    assert sum(step.counts["proved"] for step in others) == first.counts["open"] > 0
    left = first.counts["open"]
    for step in others:
        left -= step.counts["proved"]
        assert step.counts["open"] == left
        assert step.note == f"{step.counts['proved']} cases proved, {left} open"
    assert [(step.kind, step.counts) for step in steps[-2:]] == [
        (StepKind.UNPROVED, {"open": 0}),
        (StepKind.DECISION, {"decided": len(fusion), "rules": len(fusion)}),
    ]
    assert verification.stop_reason is StopReason.FINISHED
    assert verification.counts == {"tested": len(fusion)}
    assert verification.by_axioms == len(fusion)
    rounds = [step for step in verification.trace if step.rules]
    assert {r.rule for step in rounds for r in step.rules} <= {a.name for a in axioms()}
    with pytest.raises(StopIteration):
        verification.step()


@pytest.mark.slow
def test_a_contradiction_is_shown():
    wrong = parse_rules("all-relus-vanish: relu(x) => x")
    verification = Verification(parse_rules("nothing: relu(add(x, y)) => add(x, y)"), axiom_set=wrong)
    verification.run()
    (verdict,) = verification.contradictions
    assert verdict.verdict == "refuted"
    assert "refuted at another" in verdict.reason()


@pytest.mark.slow
def test_one_by_one_gives_the_same_verdicts(stepped):
    batch, _ = stepped
    alone = Verification(batch.rules[turn() % 3 :: 3], one_by_one=True)
    alone.run()
    assert [batch[v.name].verdict for v in alone.verdicts] == [v.verdict for v in alone.verdicts]
    assert [s.kind for s in alone.trace] == [StepKind.SCREENING, StepKind.SEPARATE, StepKind.DECISION]


@pytest.mark.slow
def test_several_processes_give_the_same(run):
    again = Verification(parse_rules(RULES), jobs=2)
    again.run()
    known = {v.name: v for v in run.verdicts}
    for verdict in again.verdicts:
        assert verdict.evidence == known[verdict.name].evidence


@pytest.mark.slow
def test_an_interrupt_keeps_the_verdicts():
    verification = Verification(list(rule_set("default"))[:40])

    def stop(step):
        if step.kind is StepKind.DECISION:
            raise KeyboardInterrupt

    assert verification.run(stop) is StopReason.INTERRUPTED
    counts = verification.counts
    assert verification.by_axioms > 0
    assert counts["unknown"] > 0
    assert verification.run() is StopReason.FINISHED
    assert "unknown" not in verification.counts


def test_a_time_limit_says_so():
    verification = Verification(list(rule_set("default")), effort=Effort(seconds=0.001))
    assert verification.run() is StopReason.TIME_LIMIT
    assert set(verification.counts) == {"unknown"}
    assert verification.verdicts[0].reason() == "stopped: time limit"


@pytest.mark.slow
def test_too_few_instances_are_unknown():
    # Extents of 31 are not among those that are drawn, and a product is solved for by drawing alone.
    law = "relu(neg(x)) => neg(neg(relu(neg(x))))"
    rare = parse_rules(f"rare: {law} where dim(x, -1) * dim(x, -2) = 1147, dim(x, -1) > 1, dim(x, -2) > 1")
    verification = Verification(rare, effort=Effort(draws=40))
    verification.run()
    (verdict,) = verification.verdicts
    assert verdict.verdict == "unknown"
    assert verdict.evidence["draws"] == 0
    assert "0 instances met" in verdict.reason()


def test_conditions_that_contradict_each_other_are_rejected():
    none = parse_rules("none: relu(neg(x)) => neg(neg(relu(neg(x)))) where dim(x, -1) = 97, rank(x) = 0")
    verification = Verification(none)
    verification.run()
    (verdict,) = verification.verdicts
    assert verdict.verdict == "rejected"
    assert "no type in common: a requirement is false" in verdict.reason()


@pytest.mark.slow
def test_broadcasting_is_distinguished():
    text = (
        "sum: conv2d[c, act=none](add(x, y), w) => add(conv2d[c, act=none](x, w), conv2d[c, act=none](y, w))"
    )
    together, apart = Verification(parse_rules(text)), Verification(parse_rules(text), apart=True)
    together.run()
    apart.run()
    assert together.verdicts[0].verdict == "refuted"
    assert apart.verdicts[0].by_axioms
    assert apart.verdicts[0].evidence["broadcasting"]["verdict"] == "refuted"


#: Time enough for a whole file on a busy machine.
AMPLE = Effort(seconds=1800.0)
#: TASO's rules that are wrong under its own matcher.
WRONG = [98, 99, 100, 105, 125, 126, 127, 128, 129, 130, 131]


@pytest.mark.slow
@pytest.mark.shared
def test_some_of_tasos_rules(shared_data):
    rules = read_rules(shared_data / "taso" / "graph_subst.pb").rules
    chosen = [*range(0, 90, 15), 99, 127]
    # As its own matcher reads them, operands of a TASO rule do not broadcast.
    verification = Verification([rules[i] for i in chosen], apart=True, effort=AMPLE, jobs=2)
    assert verification.run() is StopReason.FINISHED
    found = dict(zip(chosen, verification.verdicts, strict=True))
    assert [i for i, v in found.items() if v.verdict == "refuted"] == [99, 127]
    assert (verification.counts, verification.by_axioms) == ({"tested": 6, "refuted": 2}, 6)
    assert found[127].evidence["region"]["condition"] == "g0 = 1"


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.shared
def test_tasos_rules(shared_data):
    contents = read_rules(shared_data / "taso" / "graph_subst.pb")
    verification = Verification.of(contents, effort=AMPLE, jobs=2)
    assert verification.run() is StopReason.FINISHED
    assert [v.index for v in verification.verdicts if v.verdict == "refuted"] == WRONG
    assert (verification.counts, verification.by_axioms) == ({"tested": 122, "refuted": 11}, 122)
    for index in WRONG:
        assert "region" in verification.verdicts[index].evidence
    regions = {i: verification.verdicts[i].evidence["region"]["condition"] for i in WRONG}
    assert regions[127] == "g0 = 1"
    assert regions[99] == "dim(i10, -4) * g1 = dim(i11, -4) * g0"
    # What broadcasting operands break is said beside the verdict.
    assert verification.verdicts[60].evidence["broadcasting"]["verdict"] == "refuted"
    assert verification.verdicts[71].evidence["broadcasting"]["verdict"] == "ill-typed"


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "refuted"),
    [
        pytest.param("converted.txt", [91, 92, 93, 98, 115, 116, 117, 118, 119], marks=pytest.mark.nightly),
        ("converted_multi.txt", [12, 13]),
    ],
)
def test_tensats_rules(shared_data, file, refuted):
    verification = Verification.of(read_rules(shared_data / "tensat" / file), effort=AMPLE, jobs=2)
    verification.run()
    assert [v.index + 1 for v in verification.verdicts if v.verdict == "refuted"] == refuted
    assert set(verification.counts) == {"tested", "refuted"}
    assert verification.by_axioms == verification.counts["tested"]


@pytest.mark.nightly
@pytest.mark.shared
@pytest.mark.slow
def test_tensats_equations(shared_data):
    verification = Verification.of(
        read_rules(shared_data / "tensat" / "taso_rules.txt"), effort=AMPLE, jobs=2
    )
    verification.run()
    counts = verification.counts
    assert "unknown" not in counts
    assert verification.by_axioms > 820
    assert verification.contradictions == []


def test_an_empty_file_is_not_a_set(tmp_path):
    empty = tmp_path / "empty.rules"
    empty.write_text("\n")
    with pytest.raises(RuleSyntaxError, match="empty"):
        read_rules(empty)


@pytest.mark.parametrize(("extent", "fires"), [(2, False), (3, True), (4, True), (5, False)])
def test_quotients_of_negative_numbers_are_those_of_the_engine(extent, fires):
    (rule,) = parse_rules("down: relu(x) => relu(neg(neg(x))) where (0 - dim(x, -1)) // 2 = 0 - 2")
    builder = GraphBuilder()
    graph = builder.graph({"y": builder.op("relu", builder.input("x", (extent,)))})
    saturation = Saturation(graph, [rule])
    saturation.run()
    assert (saturation.e_nodes > 2) is fires
    instance = Instance(rule, {"x": TensorType("float32", (extent,))}, {}, {})
    with contextlib.nullcontext() if fires else pytest.raises(TypeMismatch):
        Ground().add(instance)


def test_no_process_is_left_when_the_time_is_up():
    verification = Verification(list(rule_set("default"))[:60], effort=Effort(seconds=0.2), jobs=2)
    assert verification.run() is StopReason.TIME_LIMIT
    assert multiprocessing.active_children() == []
    assert verification._prover.engine is None or verification._prover.engine._process is None


def test_sampled_proofs_say_so(run):
    records = {r["name"]: r for r in (v.record() for v in run.verdicts)}
    assert records["twice"]["all_cases"] is True
    assert records["square"]["all_cases"] is None
    assert run["twice"].evidence["replays"]
    assert run["square"].evidence["replays"]


@pytest.mark.slow
def test_an_error_in_one_rule_leaves_the_verdicts_of_the_others(monkeypatch):
    def search(rule, *args, **options):
        if rule.name == "first":
            raise TypeError("unsupported operands")
        return refute.search(rule, *args, **options)

    monkeypatch.setattr(evidence, "search", search)
    rules = parse_rules(
        "first: tanh(neg(x)) => neg(tanh(x))\nsecond: relu(x) => x\nthird: relu(relu(x)) => relu(x)"
    )
    verification = Verification(rules, effort=Effort(chain=0, models=0.0, draws=40))
    assert verification.run() is StopReason.FINISHED
    assert [v.verdict for v in verification.verdicts] == ["unknown", "refuted", "tested"]
    assert verification["first"].reason() == "not judged: TypeError: unsupported operands"


@pytest.mark.slow
def test_a_remainder_by_an_extent_and_a_permutation_of_many_axes_have_instances():
    rules = parse_rules(
        "enlarged: resize[size=(h, w), mode=nearest](x) => "
        "repeat[axis=-1, times=w // dim(x, -1)](repeat[axis=-2, times=h // dim(x, -2)](x)) where h % dim(x, -2) = 0\n"
        "turned: reduce_mean[axes=(-1)](transpose[perm=p](x)) => "
        "transpose[perm=p](reduce_mean[axes=(-1)](x)) where rank(x) < 5\n"
        "selected: select(c, add(x, 1), add(y, 1)) => add(select(c, x, y), 1)"
    )
    verification = Verification(rules, effort=Effort(chain=0, models=0.0, draws=40))
    verification.run()
    assert [v.verdict for v in verification.verdicts][1:] == ["tested", "tested"]
    assert "not judged" not in verification["enlarged"].reason()


def test_permutations_of_many_axes_are_drawn():
    (rule,) = parse_rules(
        "p: transpose[perm=p](relu(x)) => relu(transpose[perm=p](x)) where p[-1] = -2, p[-2] = -1"
    )
    few, many = (allowed("p", rank, rule.conditions) for rank in (5, 13))
    assert len(few) == 6
    assert 24 <= len(many) < 1000
    assert all(sorted(p) == list(range(13)) and p[-2:] == (12, 11) for p in many)
