"""The how-to guides: every block of Python runs, in order, and prints what the page says.

On the pages of TRIED the commands run too, and YAML or TOML that names its file is written.
"""

import contextlib
import doctest
import importlib.util
import io
import os
import re
import shlex
import warnings
from pathlib import Path

import pytest
from typer.main import get_command

from tests.ops.operators import forget
from tests.sampled import marks_of
from workbench.faces import cli
from workbench.kernels.codegen.compiler import has_compiler
from workbench.ops import Trait, with_trait

PAGES = sorted((Path(__file__).parents[1] / "docs" / "how-to").glob("*.md"))
BLOCK = re.compile(r"^```(python|text|sh|yaml|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


#: Pages whose commands of `workbench` run, because the page makes the files that they read.
TRIED = {"certify", "composites", "device", "proof", "report", "study"}
#: Pages that need a package.
NEEDS = {"torch-tensorflow": ("torch", "onnxscript"), "torch-compile": ("torch",)}
#: Pages that need a C compiler.
COMPILED = {"c-target"}


def parts(page):
    """Return the blocks of a page, each with its language and the text that it prints."""
    found = [(m[1], m[2]) for m in BLOCK.finditer(page.read_text())]
    after = [*found[1:], ("", "")]
    return [
        (language, code, text if kind == "text" else "")
        for (language, code), (kind, text) in zip(found, after, strict=True)
        if language != "text"
    ]


def blocks(page):
    """Return the blocks of Python of a page, each with the text that it prints."""
    return [(code, text) for language, code, text in parts(page) if language == "python"]


def run_commands(code):
    """Run the commands of `workbench` in a block of the shell; others are for other machines."""
    for line in code.splitlines():
        program, *words = shlex.split(line, comments=True)
        if program == "workbench":
            with pytest.raises(SystemExit):
                cli.app(words, prog_name="workbench")


def marked(number, page):
    marks = marks_of(number, 3) + [pytest.mark.torch] * ("torch" in NEEDS.get(page.stem, ()))
    return pytest.param(page, marks=marks, id=page.stem)


@pytest.fixture(autouse=True)
def _clean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
    for name in list(with_trait(Trait.OWN)):
        forget(name)


def test_there_are_guides():
    assert PAGES


@pytest.mark.slow
@pytest.mark.parametrize("page", [marked(n, page) for n, page in enumerate(PAGES)])
def test_a_guide_runs_as_shown(page):
    if page.stem in COMPILED and not has_compiler():
        pytest.skip("no C compiler on the path")
    for package in NEEDS.get(page.stem, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    names = {"__name__": "__main__"}
    assert blocks(page)
    for language, code, expected in parts(page):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            if language == "python":
                exec(compile(code, str(page), "exec"), names)
            elif language in ("yaml", "toml") and (name := re.match(r"# (\S+\.(?:yaml|toml))\n", code)):
                Path(name[1]).write_text(code)
            elif language == "sh" and page.stem in TRIED:
                run_commands(code)
            else:
                continue
        if expected and not doctest.OutputChecker().check_output(expected, said.getvalue(), SAME):
            pytest.fail(f"{code}\nprints\n{said.getvalue()}\nthe page says\n{expected}")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_commands_exist_with_their_options(page):
    commands = get_command(cli.app).commands
    shell = "".join(code for language, code, _ in parts(page) if language == "sh")
    for line in shell.splitlines():
        program, *words = shlex.split(line, comments=True)
        if program == "workbench":
            command = commands[words[0]]
            command = getattr(command, "commands", {}).get(words[1], command)
            known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
            assert {w for w in words[1:] if w.startswith("-")} <= known, line


@pytest.mark.notebook
def test_the_guide_to_operators_runs_in_a_kernel(tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    page = next(p for p in PAGES if p.stem == "operator")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code, _ in blocks(page)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for cell, (_, expected) in zip(notebook.cells, blocks(page), strict=True):
        said = "".join(o.text for o in cell.outputs if o.get("name") == "stdout")
        assert doctest.OutputChecker().check_output(expected, said, SAME)
    assert (tmp_path / "silu.onnx").is_file()
