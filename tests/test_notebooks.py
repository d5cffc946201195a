"""Notebooks are output-free in git, parameterised, and run."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: What the tests give instead of the parameters' defaults, so that a notebook runs in seconds.
SMALL = {
    "01-optimise-a-model": {"timing_seconds": 0.1},
    "02-watch-saturation": {"network": "bert", "e_nodes": 3000, "iterations": 6},
    "03-extraction": {"egraph_file": "none", "network": "bert", "seconds": 20.0},
    "04-verify-rules": {"rules_file": str(ROOT / "rules" / "convolution.rules")},
    "05-compare-graphs": {"network": "bert", "seconds": 20.0},
    "06-headline": {"results_folder": str(ROOT / "results")},
    "07-branches": {"families": "repvgg low_rank", "results_folder": str(ROOT / "results")},
}
#: How many figures a notebook draws.
FIGURES = {
    "01-optimise-a-model": 3,
    "02-watch-saturation": 3,
    "03-extraction": 1,
    "04-verify-rules": 1,
    "05-compare-graphs": 1,
    "06-headline": 3 + (ROOT / "results" / "k-multi").is_dir(),
    "07-branches": 4 * (ROOT / "results" / "branches").is_dir(),
}
#: The files that the parameter ``output`` names.
WRITTEN = {"01-optimise-a-model": "optimised.onnx"}


def cells(path, kind="code"):
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == kind]


def run(path, tmp_path, parameters):
    """Run a notebook with papermill and return what became of it."""
    papermill = pytest.importorskip("papermill")
    output = tmp_path / "run.ipynb"
    papermill.execute_notebook(
        str(path), str(output), parameters, progress_bar=False, store_widget_state=False, cwd=str(tmp_path)
    )
    shown = [o.get("data", {}) for c in cells(output) for o in c["outputs"]]
    figures = ["image/png" in d or "".join(d.get("text/html", "")).startswith("<p><img") for d in shown]
    assert sum(figures) == FIGURES[path.stem]
    assert output.stat().st_size < 1_000_000
    return output


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_carries_no_outputs(path):
    for cell in cells(path):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
    metadata = json.loads(path.read_text())["metadata"]
    assert set(metadata) <= {"kernelspec", "language_info"}
    assert metadata["kernelspec"]["name"] == "python3"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_has_one_cell_of_parameters_and_explains_itself(path):
    tagged = [c for c in cells(path) if "parameters" in c["metadata"].get("tags", [])]
    assert len(tagged) == 1
    names = re.findall(r"^(\w+) = ", "".join(tagged[0]["source"]), re.MULTILINE)
    assert set(SMALL[path.stem]) <= set(names)
    assert cells(path, "markdown")


@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path):
    if path.stem == "06-headline" and not (ROOT / "results" / "headline").is_dir():
        pytest.skip("results/headline is not stored (workbench run experiments/headline.yaml)")
    written = tmp_path / WRITTEN.get(path.stem, "")
    run(path, tmp_path, SMALL[path.stem] | ({"output": str(written)} if path.stem in WRITTEN else {}))
    assert written.exists()


@pytest.mark.notebook
@pytest.mark.shared
@pytest.mark.slow
def test_tasos_rules_are_judged_in_the_notebook(shared_data, tmp_path):
    rules = shared_data / "taso" / "graph_subst.pb"
    output = run(ROOT / "notebooks" / "04-verify-rules.ipynb", tmp_path, {"rules_file": str(rules)})
    printed = "".join(t for c in cells(output) for o in c["outputs"] for t in o.get("text", ""))
    assert "133 rules in" in printed
    assert "136 of 138 rules are sound" in printed
