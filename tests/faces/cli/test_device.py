"""``workbench device``, and ``optimize --measure``, as a person and a script meet them."""

import json

import onnx
import pytest

from tests.devices.graphs import products
from workbench.frontends import save_onnx
from workbench.studies.devices.spec_io import read_spec

QUICK = ("--threads", "1", "--milliseconds", "0.5", "--quiet")


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.onnx"
    save_onnx(products(), path)
    return path


def test_from_networks_to_a_cost_table(run, tmp_path, model):
    pytest.importorskip("torch", reason="torch is not installed")
    spec, results, table = tmp_path / "s.json", tmp_path / "r.json", tmp_path / "t.parquet"
    code, out, err = run("device", "instances", model, "-o", spec, "-q")
    assert (code, err) == (0, "")
    count = len(read_spec(spec).instances)
    assert f"{count} distinct instances in {spec}" in out
    assert read_spec(spec).about["rules"] == "default"
    assert run("device", "measure", spec, results, *QUICK)[0] == 0
    code, out, _ = run("device", "record", results, "-o", table)
    assert code == 0
    assert f"{count} instances of torch" in out
    code, out, _ = run("optimize", model, "--cost", table, "-q")
    assert code == 0
    assert "by operators recorded on this machine: torch" in out
    assert "estimated" not in out


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("instances", "sqeezenet", "-o", "s.json"), 2, "did you mean squeezenet"),
        (("instances", "-o", "no/folder/s.json"), 3, "does not exist"),
        (("instances", "none.onnx", "-o", "s.json"), 2, "no such file: none.onnx"),
        (("record", "none.json"), 2, "no such file: none.json"),
        (("record", "broken.json"), 2, "is not a results file"),
        (("measure", "none.json", "r.json"), 2, "none.json"),
        (("measure",), 2, "required"),
    ],
)
def test_bad_input_is_a_message_and_an_exit_code(run, tmp_path, monkeypatch, args, code, message):
    if args[:2] == ("measure", "none.json"):
        pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.json").write_text("{}")
    found, _, err = run("device", *args)
    assert found == code
    assert message in err
    assert not (tmp_path / "s.json").exists()


@pytest.mark.slow
def test_optimising_measures_and_says_so(run, tmp_path, model):
    figures, report, output = (tmp_path / n for n in ("f.json", "r.html", "o.onnx"))
    code, out, _ = run(
        "optimize", model, "--measure", 2, "--json", figures, "--report", report, "-o", output, "-q"
    )
    assert code == 0
    (line,) = [li for li in out.splitlines() if li.startswith("timing")]
    measured = json.loads(figures.read_text())["measured"]
    assert len(measured["candidates"]) == 2
    assert measured["rounds"] >= 9
    assert "its optimiser on" in measured["target"]
    assert ("the original stays" in line) == (measured["winner"] is None)
    page = report.read_text()
    assert "<h2>Timing</h2>" in page
    assert measured["target"] in page
    assert page.count("<td>candidate") == 2
    onnx.checker.check_model(str(output), full_check=True)


def test_a_table_that_cannot_be_written_is_reported(run, tmp_path):
    from tests.costs.networks import RELU
    from workbench.costs.keys import instance_key
    from workbench.costs.store import Measurement
    from workbench.studies.devices.spec_io import Results, write_results

    results = Results({"device": "a GPU"}, {})
    results.measured[instance_key(RELU)] = Measurement(1.0, 0.0, 7)
    write_results(tmp_path / "r.json", results)
    code, _, err = run("device", "record", tmp_path / "r.json", "-o", tmp_path / "no" / "t.parquet")
    assert code == 3
    assert "does not exist" in err


def test_a_table_of_several_methods_says_how_many_of_each(run, tmp_path):
    from tests.costs.networks import ADD, MATMUL, RELU
    from workbench.costs.keys import instance_key
    from workbench.costs.store import Measurement
    from workbench.studies.devices.spec_io import Results, write_results

    results = Results({"device": "a GPU"}, {})
    for instance, method in ((RELU, "graph"), (ADD, "graph"), (MATMUL, "events")):
        results.measured[instance_key(instance)] = Measurement(1.0, 0.0, 7)
        results.methods[instance_key(instance)] = method
    write_results(tmp_path / "r.json", results)
    _, out, _ = run("device", "record", tmp_path / "r.json", "-o", tmp_path / "t.parquet")
    assert out.splitlines()[1] == "2 by recorded graphs, 1 by events, which count launches"
    results.methods = dict.fromkeys(results.methods, "graph")
    write_results(tmp_path / "r.json", results)
    _, out, _ = run("device", "record", tmp_path / "r.json", "-o", tmp_path / "t.parquet")
    assert len(out.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "cost"),
    [
        (("--measure", 2, "--measure-on", "torch:cuda"), "analytic:h100"),
        (("--measure", 2, "--measure-on", "torch:cuda:0+graph"), "analytic:h100"),
        (("--measure", 2, "--measure-on", "torch:cuda", "--cost", "cpu"), "cpu"),
        (("--measure", 2), "cpu"),
        (("--measure-on", "torch:cuda"), "cpu"),
    ],
)
def test_candidates_timed_on_a_gpu_are_chosen_by_its_costs(run, model, monkeypatch, words, cost):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from workbench.faces.cli import optimize

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda name: "NVIDIA H100 80GB HBM3")
    given = []
    monkeypatch.setattr(
        optimize, "_optimise", lambda model, settings, *a, **k: given.append(settings["cost"])
    )
    assert run("optimize", model, *words)[0] == 0
    assert given == [cost]


def test_a_device_that_is_not_there_is_bad_input(run, model, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, err = run("optimize", model, "--measure", 1, "--measure-on", "torch:cuda")
    assert code == 2
    assert "finds no GPU" in err


def test_an_unknown_target_is_reported_with_the_nearest(run, model):
    code, _, err = run("optimize", model, "--measure", 1, "--measure-on", "torche")
    assert code == 2
    assert "did you mean torch" in err
