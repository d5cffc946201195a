"""Notebooks are committed with their outputs, small and without traces of a machine; they run anywhere."""

import ast
import importlib.util
import json
import re
from pathlib import Path

import pytest

from tests.sampled import in_turn

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: Values that the tests give instead of the parameters' defaults, so that a notebook runs in seconds.
SMALL = {
    "01-optimise-a-model": {"timing_seconds": 0.1},
    "02-watch-saturation": {"e_nodes": 3000, "iterations": 6, "compared": "0 1"},
    "03-extraction": {"seconds": 20.0},
    "04-verify-rules": {"rules_file": str(ROOT / "rules" / "convolution.rules"), "every": 6},
    "05-compare-graphs": {"network": "bert"},
    "06-headline": {},
    "07-branches": {"families": "repvgg low_rank"},
    "08-movement": {"families": "upsampling"},
    "09-write-a-rule": {"size": 16},
    "10-synthesis": {"size": 2},
    "11-why-not": {"layers": 2, "e_nodes": 3000},
    "12-systolic-array": {"image": 32, "e_nodes": 1500},
    "13-composites": {"rows": 32, "width": 64, "seconds": 0.5},
    "14-fewer-multiplications": {"layers": "16x8", "seconds": 0.2},
    "15-train-a-segformer": {"side": 64, "steps": 2},
}
#: How many figures a notebook draws.
FIGURES = {
    "01-optimise-a-model": 3,
    "02-watch-saturation": 3,
    "03-extraction": 0,
    "04-verify-rules": 1,
    "05-compare-graphs": 1,
    "06-headline": 3 + (ROOT / "results" / "k-multi").is_dir(),
    "07-branches": 4 * (ROOT / "results" / "branches").is_dir(),
    "08-movement": 0,
    "09-write-a-rule": 0,
    "10-synthesis": 1,
    "11-why-not": 0,
    "12-systolic-array": 2,
    "13-composites": 1,
    "14-fewer-multiplications": 2,
    "15-train-a-segformer": 1,
}
#: Modules that a notebook imports and that need not be installed.
NEEDED = {"15-train-a-segformer": ("torch", "transformers")}
#: The file that a notebook writes, in the folder that git ignores.
WRITTEN = {"01-optimise-a-model": "out/optimised.onnx", "05-compare-graphs": "out/comparison.html"}
#: A committed notebook has at most this many bytes, like docs/execute_notebooks.py says.
LARGEST = 1_000_000
#: A notebook is a story: it has at most this many cells of code.
MOST_CELLS = 12
#: Modules with public names that notebooks take whole.
PACKAGES = {"results", "plots", "glenside_rules"}


def cells(path, kind="code"):
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == kind]


def run(path, tmp_path, parameters):
    """Run a notebook with papermill and return what became of it."""
    papermill = pytest.importorskip("papermill", reason="papermill is not installed")
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


def texts(output):
    """Return what a reader sees of an output, as text."""
    return ["".join(t) for t in (output.get("text", ""), *output.get("data", {}).values())]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_executed_small_and_free_of_traces(path):
    assert path.stat().st_size <= LARGEST
    assert path.stem in SMALL
    code = cells(path)
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    assert any(c["outputs"] for c in code)
    for output in (o for c in code for o in c["outputs"]):
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr"
        # A widget's state is not saved: its static face is.
        assert not any("widget" in kind for kind in output.get("data", {}))
        for text in texts(output):
            assert not re.search(r" at 0x[0-9a-f]{6}|/(home|root|tmp|work)/", text)
    metadata = json.loads(path.read_text())["metadata"]
    assert set(metadata) <= {"kernelspec", "language_info"}
    assert metadata["kernelspec"]["name"] == "python3"


def test_the_limit_is_that_of_the_program_that_executes_them():
    source = (ROOT / "docs" / "execute_notebooks.py").read_text()
    assert f"LARGEST = {LARGEST:_}" in source


def test_the_pictures_of_the_readme_are_those_of_the_notebooks():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    readme = (ROOT / "README.md").read_text()
    for number, place in made.CHOSEN.items():
        (notebook,) = (ROOT / "notebooks").glob(f"{number}-*.ipynb")
        ending, content = list(made.pictures(notebook))[place]
        picture = ROOT / "docs" / "pictures" / f"{notebook.stem}.{ending}"
        assert picture.read_bytes() == content
        assert f"docs/pictures/{picture.name}" in readme


def test_what_notebooks_write_is_ignored_by_git():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "out/" in ignored
    for stem, written in WRITTEN.items():
        source = "".join("".join(c["source"]) for c in cells(ROOT / "notebooks" / f"{stem}.ipynb"))
        assert f'"{written}"' in source
        assert written.startswith("out/")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_has_one_cell_of_parameters_and_explains_itself(path):
    tagged = [c for c in cells(path) if "parameters" in c["metadata"].get("tags", [])]
    assert len(tagged) == 1
    names = re.findall(r"^(\w+) = ", "".join(tagged[0]["source"]), re.MULTILINE)
    assert set(SMALL[path.stem]) <= set(names)
    assert cells(path, "markdown")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_short_and_has_public_names_only(path):
    code = cells(path)
    assert len(code) <= MOST_CELLS
    for node in (n for c in code for n in ast.walk(ast.parse("".join(c["source"])))):
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_"), node.attr
        if isinstance(node, ast.Import):
            assert not [a.name for a in node.names if a.name.startswith("workbench.")]
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "workbench":
            # A package says what it offers; the modules inside are its own affair.
            package = importlib.import_module(node.module)
            assert hasattr(package, "__path__"), node.module
            offered = {*getattr(package, "__all__", vars(package)), *PACKAGES}
            assert {a.name for a in node.names} <= offered


def test_the_index_says_of_every_notebook_what_one_learns_and_how_long_it_takes():
    index = (ROOT / "notebooks" / "README.md").read_text()
    listed = re.findall(r"^\| \[\d\d [^]]+\]\((.+)\) \| [^|]{20,} \| [a-z ]+ \|$", index, re.MULTILINE)
    assert sorted(listed) == [path.name for path in NOTEBOOKS]
    assert "notebooks/README.md" in (ROOT / "README.md").read_text()


@pytest.mark.notebook
@pytest.mark.parametrize("path", in_turn(NOTEBOOKS, 3), ids=lambda p: p.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path):
    if path.stem == "06-headline" and not (ROOT / "results" / "headline").is_dir():
        pytest.skip("results/headline is not stored (workbench run experiments/headline.yaml)")
    for name in NEEDED.get(path.stem, ()):
        pytest.importorskip(name, reason=f"{name} is not installed")
    run(path, tmp_path, SMALL[path.stem])
    assert (tmp_path / WRITTEN.get(path.stem, "")).exists()


@pytest.mark.notebook
@pytest.mark.shared
@pytest.mark.nightly
def test_tasos_rules_are_judged_in_the_notebook(shared_data, tmp_path):
    rules = shared_data / "taso" / "graph_subst.pb"
    given = {"rules_file": str(rules), "every": 1}
    output = run(ROOT / "notebooks" / "04-verify-rules.ipynb", tmp_path, given)
    printed = "".join(t for c in cells(output) for o in c["outputs"] for t in o.get("text", ""))
    assert "133 rules in" in printed
    assert "14 of 16 rules are sound" in printed
