"""Notebooks are output-free in git, parameterised, and run."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: What the tests give instead of the parameters' defaults, so that a notebook runs in seconds.
SMALL = {"01-optimise-a-model": {"timing_seconds": 0.1}}


def cells(path, kind="code"):
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == kind]


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
    papermill = pytest.importorskip("papermill")
    output = tmp_path / "run.ipynb"
    parameters = SMALL[path.stem] | {"output": str(tmp_path / "optimised.onnx")}
    papermill.execute_notebook(
        str(path), str(output), parameters, progress_bar=False, store_widget_state=False, cwd=str(tmp_path)
    )
    kinds = [list(o.get("data", {})) for c in cells(output) for o in c["outputs"]]
    assert sum("image/png" in k for k in kinds) == 3
    assert (tmp_path / "optimised.onnx").exists()
    assert output.stat().st_size < 1_000_000
