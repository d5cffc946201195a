"""Graphviz's layout as a program of its own."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("pygraphviz", reason="pygraphviz is not installed")

from workbench.faces.views import dot

REQUEST = {"boxes": [[40, 20, "0"], [40, 20, ""]], "edges": [["0", "1", "0"]], "clusters": [30]}


def test_the_program_says_what_the_function_says():
    done = subprocess.run(
        [sys.executable, "-P", dot.__file__], input=json.dumps(REQUEST), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == dot.place(REQUEST)


def test_it_imports_nothing_of_the_package():
    code = f"import runpy, sys; runpy.run_path({dot.__file__!r}); print('workbench' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
