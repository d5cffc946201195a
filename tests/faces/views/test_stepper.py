"""The stepper's Python half: its synchronised state, running in a thread, the face that survives."""

import time

import numpy as np
import pytest

pytest.importorskip("anywidget", reason="anywidget is not installed")

import workbench
from tests.extraction.egraphs import random_egraph
from workbench.extraction import Extraction
from workbench.faces.views.widgets import Stepper
from workbench.laws.verification import Verification
from workbench.rules import parse_rules
from workbench.run.trace import Step, StepKind, StopReason, Trace
from workbench.saturation import Limits, Saturation


def finished(stepper):
    until = time.monotonic() + 60
    while stepper.running and time.monotonic() < until:
        time.sleep(0.02)
    assert not stepper.running


def test_the_state_is_all_that_the_module_needs():
    trace = Trace({"kind": "saturation"}, [Step(k, StepKind.ITERATION, 0.1, k + 1, 1) for k in range(4)])
    stepper = trace.view()
    state = stepper.get_state()
    assert len(state["data"]["steps"]) == 4
    assert (state["step"], state["running"]) == (0, False)
    stepper.set_state({"step": 2})
    assert stepper.step == 2
    assert len(repr(stepper).splitlines()) <= 12


def test_where_no_widget_is_shown_the_static_face_stands():
    data, _ = Trace({}, [Step(0, StepKind.START, 0.1, 1, 1)]).view()._repr_mimebundle_()
    assert "<img" in data["text/html"]
    assert "Stepper at step 0" in data["text/plain"]


def test_an_extraction_runs_from_the_widget():
    egraph, costs = random_egraph(3)
    extraction = Extraction(egraph, costs)
    controls = extraction.view()
    assert not controls.start_button.disabled
    controls.limits["seconds"].value = 20
    controls.start_button.click()
    finished(controls.stepper)
    assert extraction.stop_reason is StopReason.OPTIMAL
    assert extraction.seconds == extraction.trace.meta["time_limit"] == 20
    assert len(controls.stepper.data["steps"]) == len(extraction.trace)
    assert controls.stepper.step == len(extraction.trace) - 1
    assert controls.start_button.disabled
    assert isinstance(extraction.view(), Stepper)


def test_limits_of_a_saturation_hold_from_the_next_step_on():
    with Saturation(workbench.benchmark("bert", layers=1), workbench.rule_set("default")) as saturation:
        controls = saturation.view()
        assert set(controls.limits) == {"e_nodes", "iterations", "seconds", "k_multi"}
        controls.step_button.click()
        assert len(saturation.trace) == 2
        controls.limits["iterations"].value = 2
        assert saturation.limits.iterations == 2
        controls.step_button.click()
        assert saturation.stop_reason is StopReason.ITERATION_LIMIT
        assert controls.start_button.disabled
        assert "<img" in controls._repr_mimebundle_()[0]["text/html"]


@pytest.mark.slow
def test_chosen_rules_and_costs_of_a_saturation():
    with Saturation(workbench.benchmark("bert", layers=1)) as saturation:
        controls = saturation.view()
        stepper = controls.stepper
        controls.choices["costs"].value = "analytic"
        controls.start_button.click()
        saturation._thread.join(60)  # costs come after the run
        assert all(step.cost is not None for step in saturation.trace)
        assert any(chart["title"].startswith("Cost:") for chart in stepper.data["charts"])
        # A limit that is changed after the end begins anew, as other rules do.
        controls.limits["iterations"].value = 1
        assert controls.subject is not saturation
        assert not controls.start_button.disabled
        controls.step_button.click()
        assert controls.subject.stop_reason is StopReason.ITERATION_LIMIT
        controls.choices["rules"].value = "matmul"
        assert {r.name for r in controls.subject.rules} == {r.name for r in workbench.rule_set("matmul")}
        assert controls.stepper is stepper
        assert controls.subject.graph is saturation.graph
        assert controls.subject.limits.iterations == 1
        controls.close()


def test_chosen_costs_and_method_of_an_extraction():
    with Saturation(workbench.benchmark("bert", layers=1)) as saturation:
        saturation.run()
        egraph = saturation.egraph()
    extraction = Extraction(egraph, np.ones(len(egraph)))
    controls = extraction.view()
    controls.choices["costs"].value = "analytic"
    controls.choices["method"].value = "tree"
    controls.start_button.click()
    finished(controls.stepper)
    assert controls.subject.method == "tree"
    assert controls.subject.costs.max() > 1
    assert "µs" in controls.stepper.data["steps"][-1]["label"]
    assert set(Extraction(*random_egraph(3)).view().choices) == {"method"}


def test_a_saturation_is_paused_and_continues():
    b = workbench.GraphBuilder("sums")
    xs = [b.input(f"x{k}", (4,)) for k in range(9)]
    while len(xs) > 1:
        xs = [b.op("add", xs[0], xs[1]), *xs[2:]]
    rules = tuple(workbench.rule_set("ac"))
    with Saturation(b.graph({"y": xs[0]}), rules, Limits(e_nodes=3000, iterations=40)) as saturation:
        stepper = Stepper(saturation)
        stepper.start()
        stepper.pause(wait=True)
        finished(stepper)
        known = len(saturation.trace)
        assert len(stepper.data["steps"]) == known
        if saturation.unfinished:
            stepper.start()
            finished(stepper)
            assert len(saturation.trace) > known
        assert not saturation.unfinished
        assert stepper.status.startswith("stopped because: ")


def test_every_step_of_a_live_run_is_attributed_at_a_pause_and_says_so_before():
    b = workbench.GraphBuilder("sums")
    xs = [b.input(f"x{k}", (4,)) for k in range(9)]
    while len(xs) > 1:
        xs = [b.op("add", xs[0], xs[1]), *xs[2:]]
    rules = tuple(workbench.rule_set("ac"))
    with Saturation(
        b.graph({"y": xs[0]}), rules, Limits(e_nodes=4000, iterations=40), keep=100
    ) as saturation:
        stepper = Stepper(saturation)
        assert stepper.status == "not started"
        seen = []

        def change(change):
            if change["new"]["steps"]:
                seen.append(change["new"]["steps"][-1]["label"])

        stepper.observe(change, "data")
        stepper.start()
        finished(stepper)
        assert any("e-nodes by rule: counted at the end" in label for label in seen)
        assert not any("counted" in step["label"] for step in stepper.data["steps"])
        assert all(sum(r.e_nodes for r in step.rules) > 0 for step in saturation.trace.steps[1:])


def test_why_it_stands_is_said():
    egraph, costs = random_egraph(3)
    stepper = Extraction(egraph, costs).view().stepper
    assert stepper.status == "not started"
    stepper.start()
    finished(stepper)
    assert stepper.status == "stopped because: optimal"


def test_a_verification_has_steps():
    controls = Verification(parse_rules("wrong: relu(x) => x")).view()
    controls.stepper.start()
    finished(controls.stepper)
    assert "refuted" in controls._repr_mimebundle_()[0]["text/html"]


def test_what_has_no_steps_shows_its_face():
    certificate = workbench.optimize(workbench.benchmark("bert", layers=1)).certificate
    view = certificate.view()
    assert "Certificate" in view.html
    assert view._repr_mimebundle_()[0]["text/html"] == view.html
