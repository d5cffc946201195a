"""The how-to guides: every block of Python runs, in order, and prints what the page says."""

import contextlib
import doctest
import io
import re
import warnings
from pathlib import Path

import pytest

from tests.ops.operators import forget
from workbench.ops import Trait, with_trait

PAGES = sorted((Path(__file__).parents[1] / "docs" / "how-to").glob("*.md"))
BLOCK = re.compile(r"^```(python|text|sh|yaml|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page):
    """Return the blocks of Python of a page, each with the text that it prints."""
    found = [(m[1], m[2]) for m in BLOCK.finditer(page.read_text())]
    after = [*found[1:], ("", "")]
    return [
        (code, text if kind == "text" else "")
        for (language, code), (kind, text) in zip(found, after, strict=True)
        if language == "python"
    ]


@pytest.fixture(autouse=True)
def _clean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    for name in list(with_trait(Trait.OWN)):
        forget(name)


def test_there_are_guides():
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_guide_runs_as_shown(page):
    names = {"__name__": "__main__"}
    found = blocks(page)
    assert found
    for code, expected in found:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            exec(compile(code, str(page), "exec"), names)
        if expected and not doctest.OutputChecker().check_output(expected, said.getvalue(), SAME):
            pytest.fail(f"{code}\nprints\n{said.getvalue()}\nthe page says\n{expected}")


@pytest.mark.notebook
def test_the_guide_to_operators_runs_in_a_kernel(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    page = next(p for p in PAGES if p.stem == "operator")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code, _ in blocks(page)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for cell, (_, expected) in zip(notebook.cells, blocks(page), strict=True):
        said = "".join(o.text for o in cell.outputs if o.get("name") == "stdout")
        assert doctest.OutputChecker().check_output(expected, said, SAME)
    assert (tmp_path / "silu.onnx").is_file()
