"""The measuring program runs on a machine that has only torch and numpy."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.costs.networks import ADD, MATMUL, RELU
from workbench.studies.devices import measure
from workbench.studies.devices.measure import main
from workbench.studies.devices.spec_io import Spec, read_results, write_spec

ROOT = Path(__file__).parents[3]
QUICK = ("--threads", "1", "--milliseconds", "0.5")


@pytest.fixture
def spec(tmp_path, cpu):
    path = tmp_path / "spec.json"
    write_spec(path, Spec((RELU, ADD)))
    return path


def bare_python(*arguments):
    """Run Python with only torch, its dependencies and numpy importable."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["plots"], *extras["solvers"], *extras["parquet"]]
    names = {line.partition("[")[0].partition(">")[0].partition("=")[0] for line in lines}
    names |= {"google", "yaml", "ml_dtypes"}
    blocked = sorted({n.strip().replace("-", "_") for n in names} - {"numpy", "protobuf", "pyyaml"})
    assert {"egglog", "onnx", "pandas", "scipy", "networkx", "onnxruntime", "matplotlib"} <= set(blocked)
    code = (
        "import runpy, sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {blocked}:\n"
        "            raise ModuleNotFoundError('blocked: ' + name, name=name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        f"sys.argv = ['measure', *{list(map(str, arguments))}]\n"
        "runpy.run_module('workbench.studies.devices.measure', run_name='__main__')\n"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_former_command_still_measures():
    command = [sys.executable, "-m", "workbench.devices.measure", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "SPEC.json" in done.stdout


@pytest.mark.slow
def test_it_runs_where_only_torch_and_numpy_are(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    path, out = tmp_path / "s.json", tmp_path / "r.json"
    write_spec(path, Spec((RELU, MATMUL)))
    done = bare_python(path, out, *QUICK)
    assert done.returncode == 0, done.stderr
    results = read_results(out)
    assert not results.failures
    assert len(results.measured) == 2


def test_a_spec_is_measured_and_continued(spec, tmp_path, capsys):
    out = tmp_path / "r.json"
    assert main([str(spec), str(out), *QUICK, "--seconds", "-1"]) == 0
    first = read_results(out)
    assert first.left == 2
    assert "2 left" in capsys.readouterr().err
    assert main([str(spec), str(out), *QUICK, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    second = read_results(out)
    assert second.left == 0
    assert len(second.measured) == len(first.measured) + 2
    before = out.read_bytes()
    assert main([str(spec), str(out), *QUICK, "--quiet"]) == 0
    assert read_results(out).measured == second.measured, "what is there is not measured again"
    assert main([str(spec), str(out), *QUICK, "--fresh", "--quiet"]) == 0
    assert out.read_bytes() != before


def test_results_of_another_protocol_are_not_mixed(spec, tmp_path, capsys):
    out = tmp_path / "r.json"
    assert main([str(spec), str(out), *QUICK, "--quiet"]) == 0
    before = out.read_bytes()
    assert main([str(spec), str(out), *QUICK, "--quiet", "--caches", "warm"]) == 2
    assert "--fresh" in capsys.readouterr().err
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("missing.json", "r.json"), 2, "missing.json"),
        (("spec.json", "no/folder/r.json"), 3, "does not exist"),
        (("spec.json", "r.json", "--device", "tpu"), 2, "cpu, cuda"),
        (("spec.json", "r.json", "--milliseconds", "0"), 2, "positive"),
        (("broken.json", "r.json"), 2, "is not a spec file"),
        (("spec.json", "broken.json"), 2, "is not a results file"),
    ],
)
def test_bad_input_is_a_message_and_an_exit_code(
    spec, tmp_path, monkeypatch, capsys, arguments, code, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    assert main([*arguments, "--quiet"]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "r.json").exists()


def test_ctrl_c_keeps_the_measurements(spec, tmp_path, monkeypatch, capsys):
    def interrupted(*args, keep, **options):
        keep()
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "measure_instances", interrupted)
    out = tmp_path / "r.json"
    assert main([str(spec), str(out), *QUICK, "--quiet"]) == 130
    assert "keeps the measurements" in capsys.readouterr().err
    assert out.exists()


@pytest.mark.gpu
def test_it_measures_on_a_gpu(spec, tmp_path, gpu):
    out = tmp_path / "r.json"
    assert main([str(spec), str(out), "--device", "cuda"]) == 0
    record = json.loads(out.read_text())
    assert record["device"]["cuda"]
    assert record["device"]["driver"]
    assert not record["failures"]
