"""``workbench optimize``: results, messages, exit codes, interrupts."""

import json
import os
import signal
import subprocess
import sys

import onnx
import pytest

from tests.faces.cli.models import two_matmuls


@pytest.mark.parametrize("content", [b"", b"not a protobuf \xff\xff", None])
def test_a_broken_file_is_2_and_nothing_is_written(run, tmp_path, content):
    path, output = tmp_path / "broken.onnx", tmp_path / "out.onnx"
    whole = two_matmuls().SerializeToString()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    code, out, err = run("optimize", path, "-o", output)
    assert (code, out) == (2, "")
    assert str(path) in err
    assert "not an ONNX model" in err
    assert not output.exists()


@pytest.mark.parametrize("opset", [5, 4000])
def test_an_unsupported_opset_is_2(run, tmp_path, opset):
    path = tmp_path / "old.onnx"
    onnx.save(two_matmuls(opset=opset), path)
    code, _, err = run("optimize", path)
    assert code == 2
    assert str(opset) in err
    assert "opset" in err


def test_an_ill_typed_model_is_2(run, tmp_path):
    path = tmp_path / "ill.onnx"
    onnx.save(two_matmuls(first=7), path)
    code, _, err = run("optimize", path, "-q")
    assert code == 2
    assert err.startswith("workbench: ")


def test_an_unbound_dimension_says_how_to_bind_it(run, tmp_path):
    path = tmp_path / "symbolic.onnx"
    onnx.save(two_matmuls(batch="height"), path)
    code, _, err = run("search", path)
    assert code == 2
    assert "'height'" in err
    assert "--dim height=224" in err
    assert "dims=" not in err


def test_what_only_looks_at_a_model_takes_usual_sizes(run, tmp_path):
    path = tmp_path / "symbolic.onnx"
    onnx.save(two_matmuls(batch="height"), path)
    for words, shown in (
        ((), "[224, 16]"),
        (("--size", "height=5"), "[5, 16]"),
        (("--dim", "height=3"), "[3, 16]"),
    ):
        code, out, _ = run("cost", path, *words)
        assert code == 0
        assert shown in out
    assert run("cost", path, "--size", "width=5")[0] == 2


def test_the_model_itself_is_replaced_by_force_alone(run, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(two_matmuls(), path)
    given = path.read_bytes()
    code, _, err = run("optimize", path, "-o", path, "--no-time", "-q")
    assert code == 2
    assert "--force" in err
    assert path.read_bytes() == given
    assert run("optimize", path, "-o", path, "--force", "--no-time", "-q")[0] == 0
    assert path.read_bytes() != given


def test_without_a_file_it_says_that_nothing_is_written(run, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(two_matmuls(), path)
    code, out, _ = run("optimise", path, "--cost", "analytic", "-q")
    assert code == 0
    assert "nothing: no -o FILE was given" in out


def test_the_output_takes_the_figures_alone(run, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(two_matmuls(), path)
    code, out, _ = run("optimize", path, "--cost", "analytic", "--json", "-", "-q")
    assert code == 0
    assert json.loads(out)["model"] == str(path)


@pytest.mark.slow
def test_symbolic_dimensions_are_kept_and_priced_at_a_size(run, tmp_path):
    path, output, figures = (tmp_path / name for name in ("symbolic.onnx", "out.onnx", "out.json"))
    onnx.save(two_matmuls(batch="batch"), path)
    code, out, err = run("optimize", path, "-o", output, "--size", "batch=4", "--json", figures, "-q")
    assert code == 0, err
    assert "kept batch; priced at batch=4" in " ".join(out.split())
    written = onnx.load(output).graph
    for value in (*written.input, *written.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    assert json.loads(figures.read_text())["dynamic"]["kept"] == ["batch"]
    code, _, err = run("optimize", path, "-o", output, "--dim", "batch=2", "-q")
    assert code == 0
    assert onnx.load(output).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


@pytest.mark.parametrize("option", ["--dim", "--size"])
def test_a_misspelt_dimension_gets_the_nearest_in_terms_of_the_option(run, tmp_path, option):
    path = tmp_path / "symbolic.onnx"
    onnx.save(two_matmuls(batch="batch"), path)
    code, _, err = run("optimize", path, option, "bacth=2", "-q")
    assert code == 2
    assert err.startswith(f"workbench: {option} must name a dimension")
    assert "got 'bacth'" in err
    assert "did you mean 'batch'" in err


@pytest.mark.parametrize("text", ["batch", "batch=", "batch=-1", "batch=0", "=3", "batch=x"])
def test_a_dimension_is_name_and_number(run, model, text):
    code, _, err = run("optimize", model, "--dim", text)
    assert code == 2
    assert "NAME=VALUE" in err


def test_an_unknown_rule_set_gets_the_nearest(run, model):
    code, _, err = run("optimize", model, "--rules", "defualt")
    assert code == 2
    assert "did you mean default?" in err
    assert run("rules", "--set", "defualt")[0] == 2


def test_a_file_of_rules_that_is_wrong_names_the_line(run, model, tmp_path):
    wrong = tmp_path / "wrong.rules"
    wrong.write_text("good: relu(relu(x)) => relu(x)  @ hand\nbad: relu(x => x\n")
    code, _, err = run("optimize", model, "--rules", wrong)
    assert code == 2
    assert "wrong.rules" in err
    assert "2" in err


def test_an_unknown_cost_model_is_2(run, model):
    code, _, err = run("optimize", model, "--cost", "quantum")
    assert code == 2
    assert "quantum" in err


@pytest.mark.parametrize("option", ["--output", "--json", "--report"])
def test_an_unwritable_place_is_3_before_any_work(run, model, tmp_path, option, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("the work has begun")

    monkeypatch.setattr("workbench.optimizer.pipeline.optimize", never)
    for place, why in ((tmp_path / "nowhere" / "file", "does not exist"), (tmp_path, "is a folder")):
        code, _, err = run("optimize", model, option, place)
        assert code == 3
        assert why in err


def test_one_file_for_two_results_is_2(run, model, tmp_path):
    code, _, err = run("optimize", model, "-o", tmp_path / "a", "--json", tmp_path / "a")
    assert code == 2
    assert "the results must be written to different files" in err


def test_a_disk_that_fills_up_is_3(run, model, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workbench.faces.cli.options.write_atomic", full)
    code, _, err = run("optimize", model, "--json", tmp_path / "a.json", "-q")
    assert code == 3
    assert "No space left" in err
    assert list(tmp_path.iterdir()) == [model]


@pytest.mark.slow
def test_a_model_is_optimised_and_every_figure_written(run, model, tmp_path):
    output, figures, page = (tmp_path / n for n in ("out.onnx", "out.json", "out.html"))
    code, out, err = run(
        "optimize", model, "-o", output, "--json", figures, "--report", page,
        "--cost", "analytic", "--time", 0.05,
    )  # fmt: skip
    assert code == 0, err
    optimised = onnx.load(output)
    onnx.checker.check_model(optimised, full_check=True)
    assert [n.op_type for n in optimised.graph.node].count("MatMul") == 1
    assert [i.name for i in optimised.graph.input] == ["x"]
    assert [o.name for o in optimised.graph.output] == ["y"]
    record = json.loads(figures.read_text())
    assert record["cost_after"] < record["cost_before"]
    assert record["certificate"]["passed"] is True
    assert record["rules"]
    assert record["stop_reason"] in ("saturated", "iteration limit")
    assert 0 < record["e_classes"] <= record["e_nodes"]
    assert record["iterations"] >= 1
    assert record["saturation"] >= 0
    assert record["extraction"] >= 0
    assert "analytic" in record["cost_source"]
    assert record["timing"]["rounds"] >= 3
    assert record["speedup"] == pytest.approx(record["cost_before"] / record["cost_after"])
    assert record["measured"]["decided"] is False
    assert "which decided nothing" in out
    assert "a roofline of an NVIDIA T4, not this machine" in out
    assert record["coverage"]["modelled"] == {"Add": 1, "MatMul": 2}
    for word in ("import", "saturation", "extraction", "certificate", "cost", "rules", *record["rules"]):
        assert word in out
    assert "saturation" not in err or "growing" in err
    assert "growing the e-graph" in err
    text = page.read_text()
    assert text.count("data:image/svg+xml;base64,") == 2 + len(record["rules"]) + 4  # graphs, laws, figures
    assert "<script" not in text
    assert "http" not in text


def test_quiet_says_nothing_on_stderr(run, model):
    code, out, err = run("optimize", model, "--quiet")
    assert (code, err) == (0, "")
    assert "certificate" in out


def test_a_profile_shows_phases_and_rules(run, model):
    code, out, _ = run("optimize", model, "--profile", "--no-time", "-q")
    assert code == 0
    phases, rules = (
        out.index("Iterations of the saturation by phase"),
        out.index("Rules, the most productive"),
    )
    assert phases < out.index("match and apply") < rules < out.index("in the result")


@pytest.mark.slow
def test_every_extractor_works(run, model, tmp_path):
    costs = {}
    for extractor in ("tree", "dag", "exact"):
        figures = tmp_path / f"{extractor}.json"
        words = ("--extractor", extractor, "--cost", "analytic", "--no-time", "--json", figures, "-q")
        assert run("optimize", model, *words)[0] == 0
        costs[extractor] = json.loads(figures.read_text())["cost_after"]
    assert costs["exact"] <= costs["dag"] + 1e-9


def test_limits_are_obeyed(run, model, tmp_path):
    figures = tmp_path / "f.json"
    assert run("optimize", model, "--iterations", 1, "--json", figures, "-q")[0] == 0
    assert json.loads(figures.read_text())["iterations"] <= 1
    assert run("optimize", model, "--k-multi", 0, "--rules", "merge", "--json", figures, "-q")[0] == 0
    assert json.loads(figures.read_text())["rules"] == []


@pytest.mark.slow
def test_a_failed_certificate_is_1_and_writes_the_original(run, model, tmp_path):
    wrong = tmp_path / "wrong.rules"
    wrong.write_text("wrong: add(x, y) => sub(x, y)  @ hand\nfree: sub(x, y) => x  @ hand\n")
    output = tmp_path / "out.onnx"
    options = ("--keep-refuted", "--cost", "analytic", "--no-time", "-o", output, "-q")
    code, _, err = run("optimize", model, "--rules", wrong, *options)
    assert code == 1
    assert "certificate failed" in err
    assert "original" in err
    assert [n.op_type for n in onnx.load(output).graph.node] == ["MatMul", "MatMul", "Add"]


def test_timing_is_on_for_this_machine_and_can_be_left_out(run, model, tmp_path):
    figures = tmp_path / "f.json"
    assert run("optimize", model, "--json", figures, "-q")[0] == 0
    record = json.loads(figures.read_text())
    assert record["cost_source"].startswith("measured")
    assert record["settings"]["time"] is True
    assert run("optimize", model, "--no-time", "--json", figures, "-q")[0] == 0
    assert json.loads(figures.read_text())["measured"] is None
    code, _, err = run("optimize", model, "--no-time", "--time", 2, "-q")
    assert code == 2
    assert "--time and --no-time contradict" in err


def test_a_dimension_is_bound_on_the_way(run, tmp_path):
    path, output = tmp_path / "symbolic.onnx", tmp_path / "out.onnx"
    onnx.save(two_matmuls(batch="batch"), path)
    code, _, err = run("optimize", path, "--dim", "batch=2", "-o", output, "--time", 0.05, "-q")
    assert code == 0, err
    shape = onnx.load(output).graph.input[0].type.tensor_type.shape
    assert [d.dim_value for d in shape.dim] == [2, 8]


def test_interrupted_saturation_keeps_the_results_so_far(run, model, tmp_path, monkeypatch):
    from workbench.saturation import Saturation

    original, seen = Saturation.step, []

    def interrupted(self):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(original(self))
        return seen[-1]

    monkeypatch.setattr(Saturation, "step", interrupted)
    output = tmp_path / "out.onnx"
    code, out, err = run("optimize", model, "-o", output)
    assert code == 0
    assert "interrupted: the result above" in err
    assert "interrupted" in out
    assert output.exists()


def test_an_interrupt_before_there_is_a_result_is_130(run, model, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.optimizer.pipeline.optimize", interrupt)
    code, _, err = run("optimize", model, "-o", tmp_path / "out.onnx")
    assert code == 130
    assert "nothing was written" in err


def test_an_interrupt_afterwards_says_what_was_written(run, model, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.faces.cli.optimize._figures", interrupt)
    output = tmp_path / "out.onnx"
    code, _, err = run("optimize", model, "-o", output, "--json", tmp_path / "f.json", "--no-time", "-q")
    assert code == 130
    assert f"interrupted; written so far: {output}" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.onnx", "two.onnx"]


def test_an_unexpected_error_is_1_and_says_where_to_look(run, model, monkeypatch):
    def break_down(*args, **kwargs):
        raise RuntimeError("no idea")

    monkeypatch.setattr("workbench.optimizer.pipeline.optimize", break_down)
    code, _, err = run("optimize", model, "-q")
    assert code == 1
    assert "no idea" in err
    assert "WORKBENCH_DEBUG" in err


@pytest.mark.slow
def test_optimize_takes_the_sound_part_of_another_systems_rules(run, tmp_path, model):
    rules = tmp_path / "tensat.txt"
    rules.write_text("(ewadd ?x ?y)=>(ewadd ?y ?x)\n(relu ?x)=>?x\n")
    code, out, _ = run("optimize", model, "-o", tmp_path / "o.onnx", "--rules", rules)
    assert code == 0
    assert "unsound" not in out


@pytest.mark.slow
def test_ctrl_c_ends_the_process_without_a_traceback(tmp_path):
    from workbench.studies.benchmarks.light import light_path

    command = [sys.executable, "-m", "workbench.faces.cli", "optimize", str(light_path("densenet121"))]
    process = subprocess.Popen(
        [*command, "-o", str(tmp_path / "out.onnx")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for line in process.stderr:
        if "growing" in line or "reading" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err + out
    if process.returncode == 0:
        assert (tmp_path / "out.onnx").exists()
    else:
        assert process.returncode == 130
        assert not (tmp_path / "out.onnx").exists()


# -- TASO's text format -------------------------------------------------------------------------------
TEXT = (
    "100\n0\n10:0\n4,8\n101\n1\n11:0\n8,16\n102\n1\n11:0\n8,16\n"
    "103\n18\n100:0,101:0\n0,2\n104\n18\n100:0,102:0\n0,2\n"
)
SUM = "105\n16\n103:0,104:0\n4,16\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "two.model"
    path.write_text(TEXT + SUM)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.model", "out.onnx"])
def test_a_text_of_tasos_is_optimised_and_written_by_the_extension(run, text, tmp_path, name):
    output, figures, page = tmp_path / name, tmp_path / "f.json", tmp_path / "r.html"
    code, out, err = run(
        "optimize", text, "-o", output, "--json", figures, "--report", page, "--cost", "analytic", "-q"
    )
    assert (code, err) == (0, "")
    assert ("without weights: the format has none" in out) == (name == "out.model")
    assert json.loads(figures.read_text())["coverage"]["modelled"] == {"matmul": 2, "add": 1}
    again = json.loads(run("cost", output, "--cost", "analytic", "--json", "-")[1])
    assert {r["operator"] for r in again["operators"]} >= {"matmul"}
    assert again["total"] == pytest.approx(json.loads(figures.read_text())["cost_after"])


def test_a_broken_text_of_tasos_is_2_and_names_the_line(run, text, tmp_path):
    text.write_text(TEXT + "105\n16\n103:0,106:0\n4,16\n")
    code, out, err = run("optimize", text, "-o", tmp_path / "out.model")
    assert (code, out) == (2, "")
    assert f"{text}, line 23: operator 105 (add) reads operator 106, which does not come before it" in err
    assert not (tmp_path / "out.model").exists()


def test_a_node_that_tasos_text_cannot_say_is_2_and_nothing_is_written(run, model, tmp_path):
    source = tmp_path / "sub.onnx"
    whole = onnx.load(model)
    whole.graph.node[2].op_type = "Sub"
    onnx.save(whole, source)
    code, _, err = run("optimize", source, "-o", tmp_path / "out.model", "--rules", "fusion", "-q")
    assert code == 2
    assert "no form for %" in err
    assert ", got sub (ONNX has one)" in err
    assert not (tmp_path / "out.model").exists()


def test_a_text_of_tasos_has_no_dimension_to_bind(run, text):
    code, _, err = run("optimize", text, "--dim", "batch=2", "-q")
    assert code == 2
    assert "has no symbolic dimensions" in err


@pytest.mark.slow
def test_options_of_the_runtime_are_measured_for_the_file(run, tmp_path):
    path, output, figures = tmp_path / "m.onnx", tmp_path / "out.onnx", tmp_path / "figures.json"
    onnx.save(two_matmuls(batch="height"), path)
    code, out, _ = run("optimize", path, "-o", output, "--no-time", "--runtime-options", "--json", figures)
    assert code == 0
    (row,) = (line for line in out.splitlines() if line.startswith("options  "))
    found = json.loads(figures.read_text())["runtime_options"]
    assert f"InferenceSession({str(output)!r}, options" in found["code"]
    assert ("defaults are the fastest" in row) == (found["best"] == "defaults")
    assert (found["code"] in out) == (found["best"] != "defaults")
