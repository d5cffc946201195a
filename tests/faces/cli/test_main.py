"""The command line as a whole: help, usage, files that are none, a reader that goes away."""

import signal
import subprocess
import sys

import pytest

from tests.faces.cli.models import two_matmuls


def test_help_names_the_commands_and_imports_nothing_heavy():
    code = (
        "import sys\nfrom workbench.faces import cli\n"
        "try:\n    cli.app(['--help'], prog_name='workbench')\nexcept SystemExit as e:\n"
        "    assert e.code == 0\n"
        "heavy = {'onnx', 'onnxruntime', 'numpy', 'pandas', 'matplotlib', 'egglog', 'highspy', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *text, loaded = done.stdout.strip().splitlines()
    assert loaded == "[]"
    for command in ("optimize", "search", "rules", "cost", "bench", "demo"):
        assert any(line.split()[:1] == [command] for line in text)
    assert "Exit codes" in done.stdout
    assert not any(line.endswith("...") for line in text if not line.startswith("Usage"))


def test_version(run):
    code, out, _ = run("--version")
    assert (code, out) == (0, "workbench 0.1.0\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["optimise"],
        ["optimize"],
        ["optimize", "m.onnx", "--extractor", "best"],
        ["optimize", "m.onnx", "--e-nodes", "0"],
        ["optimize", "m.onnx", "--e-nodes", "many"],
        ["optimize", "m.onnx", "--seconds", "0"],
        ["optimize", "m.onnx", "--iterations", "0"],
        ["cost", "m.onnx", "--top", "0"],
    ],
)
def test_wrong_usage_is_2(run, arguments):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.strip()


@pytest.mark.parametrize("command", ["optimize", "cost"])
def test_a_missing_file_and_a_folder_are_named(run, tmp_path, command):
    assert run(command, tmp_path / "no.onnx")[::2] == (
        2,
        f"workbench: no such file: {tmp_path / 'no.onnx'}\n",
    )
    code, _, err = run(command, tmp_path)
    assert code == 2
    assert "is a folder" in err


@pytest.mark.slow
def test_a_reader_that_goes_away_is_not_an_error():
    pipe = f"{sys.executable} -m workbench.faces.cli rules --set all | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", pipe], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("rule")
    assert done.stderr == ""


def test_a_long_name_is_cut_in_the_message(run, tmp_path):
    m = two_matmuls()
    m.graph.node[0].input[0] = "n" * 1_000_000
    (tmp_path / "m.onnx").write_bytes(m.SerializeToString())
    code, _, err = run("optimize", tmp_path / "m.onnx")
    assert code == 2
    assert len(err) < 1200
    assert "[…]" in err
    assert "which no node, input or initializer defines" in err


def test_ctrl_c_while_the_commands_are_imported_is_130_and_one_line():
    # A module in the place of the commands, which interrupts the process that imports it.
    code = (
        "import os, signal, sys, types\n"
        "class Interrupting(types.ModuleType):\n"
        "    def __getattr__(self, name):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.modules['workbench.faces.cli.commands'] = Interrupting('workbench.faces.cli.commands')\n"
        "from workbench.faces.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "workbench: interrupted; nothing was written\n")


def test_importing_the_module_that_runs_the_command_line_runs_nothing():
    code = "import workbench.faces.cli.__main__"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_exit_code_stays_after_a_ctrl_c_in_text_that_exec_runs(tmp_path):
    # Dataclasses run such text when they are defined, as modules do while they are imported.
    (tmp_path / "interrupted.py").write_text(
        "import sys, types\n"
        "from workbench.faces.cli import main\n"
        "def app(**_):\n"
        "    try:\n"
        "        exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
        "sys.modules['workbench.faces.cli.commands'] = types.SimpleNamespace(application=lambda verb: app)\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_ctrl_c_just_before_ctrl_c_is_ignored_changes_nothing(monkeypatch):
    from workbench.faces.cli import process

    seen = []

    def set_handler(number, handler):
        seen.append((number, handler))
        if len(seen) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(process.signal, "signal", set_handler)
    process.ended()
    assert seen == [(signal.SIGINT, signal.SIG_IGN)] * 2
