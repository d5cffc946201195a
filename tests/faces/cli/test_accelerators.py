"""`workbench accelerators`: units, their rules and verdicts."""

import json

import onnx
import onnxruntime
import pytest
from typer.testing import CliRunner

import workbench
from workbench.faces import cli

run = CliRunner()


def call(*words):
    return run.invoke(cli.app, list(map(str, words)))


@pytest.fixture
def model(tmp_path):
    b = workbench.GraphBuilder("two")
    h = b.op("relu", b.op("matmul", b.input("x", (70, 40)), b.weight((40, 30))))
    place = tmp_path / "two.onnx"
    workbench.save_onnx(b.graph({"y": b.op("matmul", h, b.weight((30, 20)))}), place)
    return place


def test_units_are_listed():
    found = call("accelerators")
    assert found.exit_code == 0
    for name in ("systolic64", "wmma16", "amx_int8"):
        assert name in found.output


def test_a_unit_is_shown_and_its_rules_are_a_file_of_rules(tmp_path):
    assert "16 rows × [16, 16], float16 × float16 → float32" in call("accelerators", "wmma16").output
    text = call("accelerators", "systolic16", "--rules").output
    assert len(workbench.parse_rules(text)) == len(workbench.parse_rules(text.replace("16", "17"))) > 50


def test_an_unknown_unit_and_a_wrong_file_say_so(tmp_path):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[unit]\nname = 3\n")
    for words, message in (
        (["systolic46"], "did you mean systolic64"),
        ([str(wrong)], "wrong.toml, line 2: name must be a text, got 3"),
        (["--rules"], "need a unit"),
    ):
        found = call("accelerators", *words)
        assert found.exit_code == 2
        assert message in found.output


@pytest.mark.slow
def test_a_model_is_put_on_a_unit_with_its_figures_in_all_files(model, tmp_path):
    out, report, figures = (tmp_path / name for name in ("out.onnx", "report.html", "figures.json"))
    found = call(
        "optimize", model, "--accelerator", "systolic16", "-o", out, "--report", report, "--json", figures
    )
    assert found.exit_code == 0, found.output
    assert "2 products on systolic16" in found.output
    written = json.loads(figures.read_text())["accelerator"]
    assert written["unit"] == "systolic16"
    assert sum(layer["tiles"] for layer in written["layers"]) == written["tiles"] > 0
    page = report.read_text()
    assert "Accelerator" in page
    assert "cycles by product" in page
    assert {f.domain for f in onnx.load(out).functions} == {"workbench.blocks"}
    onnxruntime.InferenceSession(str(out))


def test_costs_and_an_accelerator_contradict_each_other(model):
    found = call("optimize", model, "--accelerator", "systolic16", "--cost", "analytic")
    assert found.exit_code == 2
    assert "contradict each other" in found.output
