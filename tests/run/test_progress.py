import json
import sys
from types import SimpleNamespace

import pytest

from workbench.run import progress
from workbench.run.progress import STAGES, NotebookLine, Stages, progress_line, seen_in_notebooks
from workbench.run.trace import Step, StepKind
from workbench.support.formatting import thousands


def test_a_line_for_a_stage():
    assert progress_line("extraction") == "extracting the cheapest graph"
    assert progress_line("pricing", "3 of 7") == "pricing operators: 3 of 7"
    assert progress_line("something new") == "something new"
    step = Step(2, StepKind.ITERATION, 0.1, 12_345, 678, note="noted")
    assert progress_line("saturation", step) == (
        f"growing the e-graph: iteration 2, {thousands(12_345)} e-nodes, 678 e-classes"
    )
    assert progress_line("search", step) == f"searching: {thousands(12_345)} graphs found, noted"


@pytest.fixture
def kernel(monkeypatch):
    """Stand in for a Jupyter kernel; return what each output shows in turn."""
    outputs = []

    def display(data, *, raw, display_id):
        assert raw
        assert display_id
        outputs.append([data["text/plain"]])
        return SimpleNamespace(update=lambda data, raw: outputs[-1].append(data["text/plain"]))

    shell = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    return outputs


@seen_in_notebooks
def work(times, *, progress=None):
    for i in range(times):
        if progress is not None:
            progress("saturation", f"part {i}")
    if progress is not None:
        progress("extraction")
    if times < 0:
        raise ValueError("nothing to do")
    return progress


def test_in_a_notebook_one_line_is_updated_and_goes(kernel, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", -1.0)
    work(3)
    (shown,) = kernel
    assert [s.partition(" (")[0] for s in shown] == [
        "growing the e-graph: part 0",
        "growing the e-graph: part 1",
        "growing the e-graph: part 2",
        "extracting the cheapest graph",
        "",
    ]


def test_within_a_stage_it_is_not_updated_all_the_time(kernel, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 1e9)
    work(1000)
    assert [s.partition(" (")[0] for s in kernel[0]] == [
        "growing the e-graph: part 0",
        "extracting the cheapest graph",
        "",
    ]


def test_it_goes_after_an_error(kernel):
    with pytest.raises(ValueError, match="nothing"):
        work(-1)
    assert kernel[0][-1] == ""


def test_whoever_gives_progress_or_none_has_that(kernel):
    said = []
    work(2, progress=lambda stage, detail=None: said.append(stage))
    assert said == ["saturation", "saturation", "extraction"]
    assert work(2, progress=None) is None
    assert kernel == []


def test_elsewhere_nothing_is_shown(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert work(2) is None
    terminal = SimpleNamespace(get_ipython=lambda: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert work(2) is None
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert work(2) is None


def test_a_line_that_nothing_was_said_on_leaves_no_output(kernel):
    with NotebookLine():
        pass
    assert kernel == []


@pytest.mark.slow
def test_a_notebook_that_is_run_without_a_browser_keeps_one_output(tmp_path):
    papermill = pytest.importorskip("papermill", reason="papermill is not installed")
    source = (
        "import workbench\nb = workbench.GraphBuilder()\nx = b.input('x', (2, 3))\n"
        "graph = b.graph({'y': b.op('relu', b.op('relu', x))})\n"
        "result = workbench.optimize(graph, cost='analytic')"
    )
    cell = {
        "cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": [],
        "source": source,
    }  # fmt: skip
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = {"cells": [cell], "metadata": {"kernelspec": kernelspec}, "nbformat": 4, "nbformat_minor": 5}
    given, made = tmp_path / "given.ipynb", tmp_path / "made.ipynb"
    given.write_text(json.dumps(book))
    papermill.execute_notebook(str(given), str(made), progress_bar=False)
    (done,) = json.loads(made.read_text())["cells"]
    (output,) = [o for o in done["outputs"] if o["output_type"] != "stream"]
    assert "".join(output["data"]["text/plain"]) == ""


def test_stages_add_up_and_come_in_their_order():
    stages = Stages()
    for stage in ("certificate", "import", "certificate"):
        with stages(stage):
            pass
    assert list(stages.ordered()) == ["import", "certificate"]
    assert all(s >= 0 for s in stages.seconds.values())


def test_the_seconds_of_an_inner_stage_count_once(monkeypatch):
    times = iter([0.0, 1.0, 4.0, 10.0])
    monkeypatch.setattr("workbench.run.progress.time.perf_counter", lambda: next(times))
    stages = Stages()
    with stages("saturation"), stages("pricing"):
        pass
    assert stages.seconds == {"pricing": 3.0, "saturation": 7.0}


def test_a_stage_is_reported_when_it_begins_unless_it_is_quiet():
    seen = []
    stages = Stages(lambda stage, detail: seen.append((stage, detail)))
    with stages("import"):
        assert seen == [("import", None)]
    with stages("history", quiet=True):
        pass
    stages.tell("saturation", "step 1")
    assert seen == [("import", None), ("saturation", "step 1")]


def test_an_error_ends_the_stage_and_continues():
    stages = Stages()
    with pytest.raises(KeyError), stages("import"):
        raise KeyError
    assert list(stages.seconds) == ["import"]


def test_every_stage_that_people_read_of_has_words():
    assert all(words and words[0].islower() for words in STAGES.values())
