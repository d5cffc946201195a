import numpy as np
import pytest

import workbench
from workbench.rules import rule_set
from workbench.support.formatting import microseconds

pytest.importorskip("ipywidgets", reason="ipywidgets is not installed")
bench = pytest.importorskip("workbench.faces.views.bench")


@pytest.fixture
def graph():
    b = workbench.GraphBuilder("small")
    x = b.input("x", (64, 128))
    return b.graph({"y": np.maximum(x @ b.weight((128, 64)), 0), "z": b.op("relu", x @ b.weight((128, 64)))})


@pytest.fixture
def lab(graph):
    made = workbench.lab(graph)
    yield made
    made.close()


def shown(lab, name):
    return lab.tabs.children[bench.TABS.index(name)].children


def finished(lab):
    """Wait until the thread of the run has shown everything."""
    lab.saturation._thread.join(60)


@pytest.mark.slow
def test_start_goes_the_whole_way(lab, graph):
    assert [len(shown(lab, name)) for name in bench.TABS] == [1, 0, 1, 0, 0, 0, 0]
    lab.controls.start_button.click()
    finished(lab)
    assert lab.outcome.certificate.passed
    assert "theorem" in lab.outcome.certificate.rules_line()
    assert lab.outcome.solution.cost < lab.outcome.costs[lab.outcome.egraph.original].sum()
    assert [len(shown(lab, name)) for name in bench.TABS] == [1, 0, 1, 1, 1, 1, 1]
    lab.tabs.selected_index = 1
    assert len(shown(lab, "rules")) == 1
    assert lab.stepper in shown(lab, "growth")
    assert "optimal" in lab.status.value
    assert lab.stepper.step == len(lab.saturation.trace) - 1


def test_steps_are_taken_one_by_one(lab):
    lab.controls.step_button.click()
    assert len(lab.saturation.trace) == 2
    assert len(shown(lab, "e-graph")) == 1
    lab.extract_button.click()
    assert lab.outcome.certificate.passed
    assert lab.saturation.unfinished


def test_changed_rules_begin_anew(lab):
    lab.controls.step_button.click()
    first = lab.saturation
    lab.rules.value = "matmul"
    assert lab.saturation is not first
    assert shown(lab, "e-graph") == ()
    lab.limits["e_nodes"].value = 2000
    lab.controls.step_button.click()
    assert lab.saturation.limits.e_nodes == 2000
    assert {r.name for r in lab.saturation.rules} == {r.name for r in rule_set("matmul")}


def test_what_is_there_twice_is_paid_once():
    b = workbench.GraphBuilder("twice")
    x, w = b.input("x", (64, 128)), b.weight((128, 64))
    bench = workbench.lab(b.graph({"y": b.op("relu", x @ w), "z": b.op("tanh", x @ w)}))
    bench.controls.step_button.click()
    bench.extract()
    before = bench.outcome.costs[np.unique(bench.outcome.egraph.original)].sum()
    assert f"{microseconds(before)} → " in bench.status.value
    bench.close()


def test_without_an_e_graph_it_says_what_to_do(lab):
    lab.extract()
    assert "try start or step" in lab.status.value


@pytest.mark.slow
def test_its_static_face_needs_no_script(lab):
    lab.controls.step_button.click()
    lab.extract()
    data, _ = lab._repr_mimebundle_()
    assert "<script" not in data["text/html"]
    assert "Graph small" in data["text/html"]
    assert data["text/plain"].startswith("Lab of 'small'")


def test_a_stepper_made_before_follows_a_run(graph):
    with workbench.Saturation(graph) as saturation:
        stepper = saturation.view().stepper
        assert stepper.status == "not started"
        saturation.run()
        assert stepper.step == len(saturation.trace) - 1
        assert stepper.status.startswith("stopped because")


def test_a_stepper_that_is_gone_is_told_nothing(graph):
    with workbench.Saturation(graph) as saturation:
        saturation.watch(_Watcher().told)
        saturation.run()
    assert _Watcher.count == 0


class _Watcher:
    count = 0

    def told(self):
        _Watcher.count += 1
