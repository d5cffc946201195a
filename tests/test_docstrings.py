"""The examples in docstrings print what they say."""

import doctest
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "workbench").rglob("*.py")
    if ">>> " in path.read_text()
    if path.parent.name != "torch" or importlib.util.find_spec("torch")
)


@pytest.mark.slow
def test_examples_of_docstrings_print_what_they_say(tmp_path):
    # In a process of their own, because some of them register operators and targets.
    found = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", __file__],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert int(found.stdout.split()[0]) > 150


def examples():
    """Run the examples of all modules; return the numbers of all and of those that failed."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = [doctest.testmod(importlib.import_module(name), optionflags=options) for name in MODULES]
    return sum(f.attempted for f in found), sum(f.failed for f in found)


if __name__ == "__main__":
    count, failed = examples()
    print(f"{count} examples, {failed} of them fail")
    sys.exit(failed > 0)
