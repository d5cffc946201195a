import json

import pytest

from workbench.faces.views import stepper_data
from workbench.run.trace import RuleStep, Step, StepKind, Trace


def trace(kind="saturation", count=3, **meta):
    rules = (RuleStep("grow", 8, 0.002, 5), RuleStep("idle", 0, 0.0), RuleStep("seen", 3, 0.001))
    steps = [
        Step(
            k, StepKind.ITERATION, 0.01, 100 * (k + 1), 50, cost=9.0 - k, bound=3.0, rules=rules if k else ()
        )
        for k in range(count)
    ]
    return Trace({"kind": kind, "graph": "bert"} | meta, steps)


def test_data_is_plain_and_has_a_label_a_step():
    data = json.loads(json.dumps(stepper_data(trace(stop_reason="saturated"))))
    assert data["title"] == "Saturation of bert (saturated)"
    assert [s["label"].split(" · ")[0] for s in data["steps"]] == [f"iteration {k} of 2" for k in range(3)]
    assert "8 matches" not in data["steps"][0]["label"]
    assert "11 matches" in data["steps"][1]["label"]
    assert data["steps"][1]["rows"] == [["grow", 8, 5, 2.0], ["seen", 3, 0, 1.0]]


def test_charts_have_one_value_a_step():
    growth, cost, firing = stepper_data(trace(e_node_limit=400))["charts"]
    assert growth["series"][0]["values"] == [100, 200, 300]
    assert growth["limits"] == [{"name": "limit 400", "value": 400}]
    assert cost["series"][0]["values"] == [9, 8, 7]
    assert firing["rows"] == ["grow"]
    assert firing["values"] == [[0, 5, 5]]
    assert stepper_data(trace(e_node_limit=50_000))["charts"][0]["limits"] == []


def test_matches_are_shown_where_births_are_not_known():
    steps = [
        Step(0, StepKind.START, 0.1, 1, 1),
        Step(1, StepKind.ITERATION, 0.1, 2, 1, rules=(RuleStep("r", 4, 0.0),)),
    ]
    (_, firing) = stepper_data(Trace({}, steps))["charts"]
    assert (firing["unit"], firing["values"]) == ("matches", [[0, 4]])


def test_seconds_are_shown_by_phase_and_iteration():
    spent = [{}, {"copies": 0.001, "match and apply": 0.02}, {"match and apply": 0.03, "merges": 0.0}]
    steps = [Step(k, StepKind.ITERATION, 0.1, 1, 1, phases=phases) for k, phases in enumerate(spent)]
    chart = stepper_data(Trace({}, steps))["charts"][-1]
    assert (chart["kind"], chart["unit"], chart["rows"]) == ("heat", "ms", ["match and apply", "copies"])
    assert chart["values"] == [[0.0, 20.0, 30.0], [0.0, 1.0, 0.0]]


def test_the_steps_of_a_result_count_the_e_nodes_that_it_uses():
    data = stepper_data(trace(), used={(2, "grow"): 4})
    assert data["columns"] == ["rule", "matches", "e-nodes", "ms", "in the result"]
    assert [step["rows"] for step in data["steps"]] == [
        [],
        [["grow", 8, 5, 2.0, 0], ["seen", 3, 0, 1.0, 0]],
        [["grow", 8, 5, 2.0, 4], ["seen", 3, 0, 1.0, 0]],
    ]


def test_an_extraction_shows_cost_and_bound():
    (chart,) = stepper_data(trace("extraction"))["charts"]
    assert [s["name"] for s in chart["series"]] == ["best cost", "bound"]
    assert "gap 66.67%" in stepper_data(trace("extraction"))["steps"][0]["label"]


def test_many_rules_are_counted():
    rules = tuple(RuleStep(f"r{k}", 1, 0.0, 1) for k in range(40))
    data = stepper_data(Trace({}, [Step(0, StepKind.ITERATION, 0.1, 1, 1, rules=rules)]))
    assert len(data["steps"][0]["rows"]) == 16
    assert data["steps"][0]["more"] == 24
    assert data["charts"][-1]["title"].endswith("24 more rules")


@pytest.mark.parametrize("kind", ["saturation", "extraction", "verification"])
def test_an_empty_trace_has_data(kind):
    assert stepper_data(Trace({"kind": kind}))["steps"] == []


def test_an_extraction_is_drawn_with_the_original_and_with_what_greed_found():
    kinds = (StepKind.ORIGINAL, StepKind.TREE, StepKind.DAG, StepKind.INCUMBENT, StepKind.SETTLED)
    steps = [
        Step(k, kind, 0.1, 9, 5, cost=c, bound=2.0)
        for k, (c, kind) in enumerate(zip((10, 9, 8, 7, 6), kinds, strict=True))
    ]
    (chart,) = stepper_data(Trace({"kind": "extraction"}, steps))["charts"]
    lines = {series["name"]: series["values"] for series in chart["series"]}
    assert lines["original"] == [10] * 5
    assert lines["greedy"] == [8] * 5
    assert lines["best cost"] == [10, 9, 8, 7, 6]
    (chart,) = stepper_data(Trace({"kind": "extraction"}, steps[3:]))["charts"]
    assert [series["name"] for series in chart["series"]] == ["best cost", "bound"]


def test_steps_whose_e_nodes_nobody_counted_say_so():
    steps = [
        Step(0, StepKind.START, 0.0, 10, 5),
        Step(1, StepKind.ITERATION, 2.5, 30, 9, (RuleStep("a", 3, 0.1, 20),), cost=7.0),
        Step(2, StepKind.ITERATION, 0.5, 90, 20, (RuleStep("a", 9, 0.1),)),
    ]
    trace = Trace({"kind": "saturation", "cost_source": "analytic roofline, t4"}, steps)
    data = stepper_data(trace, going=True)
    assert "counted" not in data["steps"][1]["label"]
    assert "e-nodes by rule: counted at the end" in data["steps"][2]["label"]
    assert data["steps"][2]["rows"] == [["a", 9, "counted at the end", 100.0]]
    assert data["charts"][-1]["later"] == [2]
    assert "not counted" in stepper_data(trace)["steps"][2]["label"]
    assert "cost 7 µs" in data["steps"][1]["label"]
    assert "2.50 s" in data["steps"][1]["label"]
