"""Standard streams that are closed or full."""

import subprocess
import sys
from pathlib import Path

import pytest

MAIN = "import sys; from workbench.faces.cli import main; main()"


def ended(redirected, *arguments):
    """Run the command line in a shell with redirected streams; return the exit code and both outputs."""
    line = f'exec "$0" -c "$1" "${{@:2}}" {redirected}'
    command = ["bash", "-c", line, sys.executable, MAIN, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["accelerators"]])
def test_an_output_that_takes_no_more_is_3_and_one_line(arguments):
    code, _, err = ended(">/dev/full", *arguments)
    assert code == 3
    assert err.startswith("workbench: cannot write")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_closed_output_is_not_an_error():
    assert ended(">&-", "accelerators") == (0, "", "")
    code, out, _ = ended("2>&-", "accelerators")
    assert (code, "systolic64" in out) == (0, True)


@pytest.mark.slow
def test_nothing_that_is_printed_gets_into_a_file_that_is_written(model, tmp_path):
    result = tmp_path / "result.json"
    code, out, err = ended(
        "<&- >&- 2>&-", "optimize", model, "--cost", "analytic", "--no-time", "--json", result
    )
    assert (code, out, err) == (0, "", "")
    assert result.read_text().startswith("{")
    assert result.read_text().rstrip().endswith("}")
