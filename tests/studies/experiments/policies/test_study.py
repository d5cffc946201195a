from pathlib import Path

import pytest

from workbench.rules import rule_set
from workbench.studies.experiments.config import PoliciesStudy, StudyError, read_study
from workbench.studies.experiments.policies.config import POLICIES
from workbench.studies.experiments.policies.study import Order, groups_of, make_plan, outcome, run_one
from workbench.studies.experiments.policies.tables import markdown, table, winners

ROOT = Path(__file__).parents[4]


def order(policy, **changes):
    given = {
        "network": "squeezenet", "policy": policy, "k_multi": 1, "rules": "tensat-like", "cost": "analytic",
        "e_nodes": 600, "iterations": 3, "seconds": 1e4, "extraction_seconds": 1e4, "seed": 0,
    }  # fmt: skip
    return Order(**given | changes)


def record_of(wanted, found):
    return {
        "row": {"network": wanted.network, "policy": wanted.policy, "k_multi": wanted.k_multi, "repeat": 0,
                "status": found["status"], "notes": "", **found["row"]},
        "stop_reason": found["stop_reason"], "failed": False,
        "provenance": {
            "machine": {"cpus": 1, "processor": "p", "platform": "x"}, "versions": {},
            "commit": "c", "load": None,
        },
    }  # fmt: skip


def test_the_study_has_every_policy_with_every_number_of_multi_iterations(tmp_path):
    study = read_study(ROOT / "experiments" / "policies.yaml")
    plan = make_plan(study, ROOT / "experiments", tmp_path)
    assert set(study.policies) == set(POLICIES)
    assert len(plan.runs) == len(study.networks) * len(study.policies) * len(study.k_multi)
    assert len({run.folder for run in plan.runs}) == len(plan.runs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"networks": ()}, "at least one"),
        ({"networks": ("brt",)}, "bert"),
        ({"networks": ("bert",), "policies": ("backof",)}, "backoff"),
        ({"networks": ("bert",), "k_multi": (0,)}, "at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(given, message):
    with pytest.raises((StudyError, LookupError), match=message):
        PoliciesStudy(**given)


def test_every_rule_is_in_one_group():
    rules = rule_set("tensat-like")
    groups = groups_of(rules)
    assert sorted(name for group in groups.values() for name in group) == sorted(r.name for r in rules)
    assert all(r.multi for r in rules if r.name in groups["several roots"])


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["plain", "backoff", "match-limited", "best-first"])
def test_a_run_gives_a_row(policy):
    wanted = order(policy)
    found = run_one(wanted)
    row = found["row"]
    assert row["optimized"] <= row["original"]
    assert row["e_nodes"] <= 600
    assert (row["trials"] > 0) == (policy == "best-first")
    assert outcome(record_of(wanted, found))


def test_the_table_marks_the_least_cost(tmp_path):
    made = []
    for policy, cost in (("plain", 9.0), ("backoff", 8.0), ("match-limited", 8.0)):
        row = {
            "original": 10.0,
            "optimized": cost,
            "bound": cost,
            "e_nodes": 5,
            "steps": 1,
            "trials": 0,
            "growing": 1.0,
            "saturation": 1.0,
            "extraction": 0.1,
            "scope": "e-graph",
            "cost_source": "c",
        }
        found = {"row": row, "status": "optimal", "stop_reason": "time limit"}
        made.append(record_of(order(policy), found))
    frame = table(made)
    assert winners(frame) == {("squeezenet", 1): ["backoff", "match-limited"]}
    study = PoliciesStudy(networks=("squeezenet",), k_multi=(1,))
    text = markdown(make_plan(study, tmp_path, tmp_path), frame, made)
    assert "| squeezenet | 1 | plain | 10.00 | 9.00 |" in text
    assert "| squeezenet | 1 | backoff | 10.00 | **8.00** |" in text
    assert "of 1 in all: backoff 1, match-limited 1." in text


def test_a_table_without_runs_lists_those_that_are_missing(tmp_path):
    study = PoliciesStudy(networks=("nasrnn",), policies=("plain",), k_multi=(2,))
    text = markdown(make_plan(study, tmp_path, tmp_path), table([]), [])
    assert "- nasrnn: plain-k2" in text
