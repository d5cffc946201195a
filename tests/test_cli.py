"""The command line as a person and a script meet it: results, messages, exit codes."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.experiments.studies import write_study
from workbench import cli


@pytest.fixture
def run(capsys):
    """Run a command in this process and return its exit code, stdout and stderr."""

    def call(*args):
        with pytest.raises(SystemExit) as stop:
            cli.app([str(a) for a in args], prog_name="workbench")
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def two_matmuls(first=8, opset=17, batch=4):
    """Two products with one operand: merging them is what the rules are for."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((first, 16)).astype(np.float32), name) for name in "wv"
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("MatMul", ["x", "v"], ["q"]),
        helper.make_node("Add", ["p", "q"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 16])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "two.onnx"
    onnx.save(two_matmuls(), path)
    return path


# -- help and usage -----------------------------------------------------------------------------------
def test_help_names_the_commands_and_imports_nothing_heavy():
    code = (
        "import sys\nfrom workbench import cli\n"
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


# -- bad input ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("command", ["optimize", "cost"])
def test_a_missing_file_and_a_folder_are_named(run, tmp_path, command):
    assert run(command, tmp_path / "no.onnx")[::2] == (
        2,
        f"workbench: there is no file {tmp_path / 'no.onnx'}\n",
    )
    code, _, err = run(command, tmp_path)
    assert code == 2
    assert "is a folder" in err


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
    onnx.save(two_matmuls(batch="batch"), path)
    code, _, err = run("optimize", path)
    assert code == 2
    assert "batch" in err
    code, out, _ = run("cost", path, "--dim", "batch=3")
    assert code == 0
    assert "float32[3, 16]" in out


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


# -- unwritable output --------------------------------------------------------------------------------
@pytest.mark.parametrize("option", ["--output", "--json", "--report"])
def test_an_unwritable_place_is_3_before_any_work(run, model, tmp_path, option, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("the work has begun")

    monkeypatch.setattr("workbench.pipeline.optimize", never)
    for place, why in ((tmp_path / "nowhere" / "file", "does not exist"), (tmp_path, "is a folder")):
        code, _, err = run("optimize", model, option, place)
        assert code == 3
        assert why in err


def test_one_file_for_two_results_is_2(run, model, tmp_path):
    code, _, err = run("optimize", model, "-o", tmp_path / "a", "--json", tmp_path / "a")
    assert code == 2
    assert "two results" in err


def test_a_disk_that_fills_up_is_3(run, model, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workbench.cli.optimize.write_atomic", full)
    code, _, err = run("optimize", model, "--json", tmp_path / "a.json", "-q")
    assert code == 3
    assert "No space left" in err
    assert list(tmp_path.iterdir()) == [model]


# -- the main job -------------------------------------------------------------------------------------
def test_a_model_is_optimised_and_every_figure_written(run, model, tmp_path):
    output, figures, page = (tmp_path / n for n in ("out.onnx", "out.json", "out.html"))
    code, out, err = run("optimize", model, "-o", output, "--json", figures, "--report", page, "--time", 0.05)
    assert code == 0, err
    optimised = onnx.load(output)
    onnx.checker.check_model(optimised, full_check=True)
    assert [n.op_type for n in optimised.graph.node].count("MatMul") == 1
    assert [i.name for i in optimised.graph.input] == ["x"]
    assert [o.name for o in optimised.graph.output] == ["y"]
    record = json.loads(figures.read_text())
    assert record["optimized"] < record["original"]
    assert record["certificate"]["passed"] is True
    assert record["rules"]
    assert record["stop_reason"] in ("saturated", "iteration limit")
    assert 0 < record["classes"] <= record["nodes"]
    assert record["iterations"] >= 1
    assert record["saturation"] >= 0
    assert record["extraction"] >= 0
    assert "analytic" in record["cost_source"]
    assert record["timing"]["rounds"] >= 5
    assert record["coverage"]["modelled"] == {"Add": 1, "MatMul": 2}
    for word in ("import", "saturation", "extraction", "certificate", "cost", "rules", *record["rules"]):
        assert word in out
    assert "saturation" not in err or "growing" in err
    assert "growing the e-graph" in err
    text = page.read_text()
    assert text.count("data:image/png;base64,") == 4
    assert "<script" not in text
    assert "http" not in text


def test_quiet_says_nothing_on_stderr(run, model):
    code, out, err = run("optimize", model, "--quiet")
    assert (code, err) == (0, "")
    assert "certificate" in out


def test_every_extractor_works(run, model, tmp_path):
    costs = {}
    for extractor in ("tree", "dag", "exact"):
        figures = tmp_path / f"{extractor}.json"
        assert run("optimize", model, "--extractor", extractor, "--json", figures, "-q")[0] == 0
        costs[extractor] = json.loads(figures.read_text())["optimized"]
    assert costs["exact"] <= costs["dag"] + 1e-9


def test_limits_are_obeyed(run, model, tmp_path):
    figures = tmp_path / "f.json"
    assert run("optimize", model, "--iterations", 1, "--json", figures, "-q")[0] == 0
    assert json.loads(figures.read_text())["iterations"] <= 1
    assert run("optimize", model, "--k-multi", 0, "--rules", "merge", "--json", figures, "-q")[0] == 0
    assert json.loads(figures.read_text())["rules"] == []


def test_a_failed_certificate_is_1_and_writes_the_original(run, model, tmp_path):
    wrong = tmp_path / "wrong.rules"
    wrong.write_text("wrong: add(x, y) => sub(x, y)  @ hand\nfree: sub(x, y) => x  @ hand\n")
    output = tmp_path / "out.onnx"
    code, _, err = run("optimize", model, "--rules", wrong, "-o", output, "-q")
    assert code == 1
    assert "certificate failed" in err
    assert "original" in err
    assert [n.op_type for n in onnx.load(output).graph.node] == ["MatMul", "MatMul", "Add"]


def test_a_dimension_is_bound_on_the_way(run, tmp_path):
    path, output = tmp_path / "symbolic.onnx", tmp_path / "out.onnx"
    onnx.save(two_matmuls(batch="batch"), path)
    code, _, err = run("optimize", path, "--dim", "batch=2", "-o", output, "--time", 0.05, "-q")
    assert code == 0, err
    shape = onnx.load(output).graph.input[0].type.tensor_type.shape
    assert [d.dim_value for d in shape.dim] == [2, 8]


def test_interrupted_saturation_keeps_what_is_there(run, model, tmp_path, monkeypatch):
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

    monkeypatch.setattr("workbench.pipeline.optimize", interrupt)
    code, _, err = run("optimize", model, "-o", tmp_path / "out.onnx")
    assert code == 130
    assert "nothing was written" in err


def test_an_interrupt_afterwards_says_what_was_written(run, model, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.timing.compare", interrupt)
    output = tmp_path / "out.onnx"
    code, _, err = run("optimize", model, "-o", output, "--json", tmp_path / "f.json", "--time", 1, "-q")
    assert code == 130
    assert f"what was written: {output}" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.onnx", "two.onnx"]


def test_an_unexpected_error_is_1_and_says_where_to_look(run, model, monkeypatch):
    def break_down(*args, **kwargs):
        raise RuntimeError("no idea")

    monkeypatch.setattr("workbench.pipeline.optimize", break_down)
    code, _, err = run("optimize", model, "-q")
    assert code == 1
    assert "no idea" in err
    assert "WORKBENCH_DEBUG" in err


# -- rules and cost -----------------------------------------------------------------------------------
def test_rules_are_listed_with_law_and_status(run):
    code, out, _ = run("rules")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["rule", "status", "provenance", "law"]
    assert any(line.startswith("relu-twice") and "relu(relu(x)) => relu(x)" in line for line in lines)
    records = json.loads(run("rules", "--json")[1])
    assert len(records) == len(lines) - 2
    assert {r["status"] for r in records} <= {"tested", "proved"}


def test_one_rule_or_a_pattern_can_be_asked_for(run):
    assert [r["name"] for r in json.loads(run("rules", "relu-twice", "--json")[1])] == ["relu-twice"]
    names = [r["name"] for r in json.loads(run("rules", "conv-*", "--json")[1])]
    assert len(names) > 3
    assert all(n.startswith("conv-") for n in names)
    code, _, err = run("rules", "relu-twise")
    assert code == 2
    assert "did you mean relu-twice?" in err


def test_rule_sets_are_listed(run):
    records = json.loads(run("rules", "--sets", "--json")[1])
    assert {"default", "merge"} <= {r["set"] for r in records}
    assert "multi-pattern" in run("rules", "--sets")[1]


def test_costs_add_up(run, model):
    code, out, _ = run("cost", model)
    assert code == 0
    assert "analytic" in out
    table = json.loads(run("cost", model, "--json")[1])
    assert table["total"] > 0
    for key in ("operators", "nodes"):
        assert sum(r["cost"] for r in table[key]) == pytest.approx(table["total"])
        assert sum(r["share"] for r in table[key]) == pytest.approx(1.0)
    assert {r["operator"]: r["nodes"] for r in table["operators"]} == {"matmul": 2, "add": 1}


# -- verify -------------------------------------------------------------------------------------------
LAWS = """\
square: mul(matmul(x, y), matmul(x, z)) => matmul(x, mul(y, z))
twice: relu(relu(x)) => relu(x)
"""


@pytest.fixture
def laws(tmp_path):
    path = tmp_path / "own.rules"
    path.write_text(LAWS)
    return path


def test_verify_decides_every_rule_and_says_that_one_is_refuted(run, laws, tmp_path):
    code, out, _ = run("verify", laws, "--json", tmp_path / "out.json", "--one-by-one", "-j", 1, "--quiet")
    assert code == 1
    assert "2 rules: 1 proved, 1 refuted" in out
    assert re.search(r"in the e-graph: batch \d+\.\d\d s, one by one \d+\.\d\d s, ratio", out)
    records = json.loads((tmp_path / "out.json").read_text())
    assert [(r["rule"], r["name"], r["verdict"]) for r in records] == [
        (0, "square", "refuted"),
        (1, "twice", "proved"),
    ]
    assert all(r["seconds"] >= 0 and r["evidence"] for r in records)


def test_verify_of_sound_rules_is_0_and_shows_one(run, laws):
    laws.write_text(LAWS.splitlines()[1])
    code, out, _ = run("verify", laws, "--show", "twice", "--quiet")
    assert code == 0
    assert "relu(relu(x))\n  = relu(x)   [relu-of-relu]" in out


def test_verify_goes_on_after_what_is_no_rule_and_names_the_line(run, laws):
    laws.write_text("free: relu(x) => add(x, y)\nodd: matmul(x) => x\nnone: frob(x) => x\n" + LAWS)
    code, out, _ = run("verify", laws, "--quiet")
    assert code == 1
    assert "3 rejected" in out
    assert [f"line {n}" in out for n in (1, 2, 3, 4)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"\x0a\x05\x0a\x03\x08", "own.rules"),
        (b"relu(x) =", "own.rules"),
        (b"\xff\xfe\x00", "own.rules"),
    ],
)
def test_verify_of_a_broken_file_says_where(run, laws, data, message):
    laws.write_bytes(data)
    code, out, err = run("verify", laws, "--quiet")
    assert (code == 2 and message in err) or "rejected" in out


def test_verify_names_a_rule_that_is_not_there(run, laws):
    code, _, err = run("verify", laws, "--show", "thrice", "--quiet")
    assert code == 2
    assert "'thrice'" in err


def test_optimize_takes_the_sound_part_of_another_systems_rules(run, tmp_path, model):
    rules = tmp_path / "tensat.txt"
    rules.write_text("(ewadd ?x ?y)=>(ewadd ?y ?x)\n(relu ?x)=>?x\n")
    code, out, _ = run("optimize", model, "-o", tmp_path / "o.onnx", "--rules", rules)
    assert code == 0
    assert "unsound" not in out


# -- extract ------------------------------------------------------------------------------------------
@pytest.fixture
def egraph(tmp_path):
    """Two parts of one merged operator: dear once, cheap where it is shared; and a way in a circle."""
    nodes = {
        "root": ("0", ["a", "b"], 1.0), "a": ("1", [], 6.0), "b": ("2", [], 6.0),
        "a-part": ("1", ["both"], 0.5), "b-part": ("2", ["both"], 0.5), "both": ("3", [], 9.0),
        "both-again": ("3", ["a"], 0.1),
    }  # fmt: skip
    data = {
        "nodes": {n: {"op": n, "eclass": c, "children": k, "cost": p} for n, (c, k, p) in nodes.items()},
        "root_eclasses": ["0"],
    }
    path = tmp_path / "egraph.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("method", "cost", "status"),
    [("tree", 13, "greedy"), ("exact", 7.6, "optimal"), ("auto", 7.6, "optimal"), ("tensat", 7.6, "optimal")],
)
def test_extract_prints_and_writes_what_it_found(run, egraph, tmp_path, method, cost, status):
    code, out, _ = run("extract", egraph, "--method", method, "--json", tmp_path / "o.json", "-q")
    found = json.loads((tmp_path / "o.json").read_text())
    assert code == 0
    assert status in out
    assert found["status"] == status
    assert found["bound"] <= found["cost"] + 1e-9
    taken = {"root": 1.0, "a": 6.0, "b": 6.0, "a-part": 0.5, "b-part": 0.5, "both": 9.0, "both-again": 0.1}
    assert sum(taken[n] for n in found["choice"].values()) == pytest.approx(found["cost"])
    assert found["choice"]["0"] == "root"
    assert {"gap", "seconds", "method", "trace"} <= set(found)


def test_extract_never_goes_round_in_a_circle(run, egraph, tmp_path):
    code, _, _ = run("extract", egraph, "--method", "exact", "--json", tmp_path / "o.json", "--trace", "-q")
    found = json.loads((tmp_path / "o.json").read_text())
    assert code == 0
    assert found["cost"] == pytest.approx(7.6)
    assert found["choice"] == {"0": "root", "1": "a", "2": "b-part", "3": "both-again"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["nodes"]["root"].update(children=["nothing"]), "nothing"),
        (lambda d: d.update(root_eclasses=["7"]), "7"),
        (lambda d: d.update(root_eclasses=[]), "root"),
        (lambda d: d["nodes"]["a"].update(cost=-1), "costs are 0 or more"),
        (lambda d: d["nodes"]["a"].update(cost="dear"), "cost"),
        (lambda d: d["nodes"]["root"].update(children=["root"]), "no finite term"),
    ],
)
def test_extract_of_a_broken_file_says_what_is_wrong(run, egraph, change, message):
    data = json.loads(egraph.read_text())
    change(data)
    egraph.write_text(json.dumps(data))
    code, out, err = run("extract", egraph, "-q")
    assert (code, out) == (2, "")
    assert message in err


# -- run ----------------------------------------------------------------------------------------------
def test_a_study_is_run_once_and_then_there_is_nothing_to_do(run, tmp_path):
    study = write_study(tmp_path, methods="tree, exact")
    code, out, err = run("run", study, "--results", tmp_path / "results")
    assert code == 0, err
    assert "4 of 4 runs done now" in out
    assert "[4/4] graphs/shared:exact: cost 4.5, bound 4.5, optimal" in err
    folder = tmp_path / "results" / "tiny"
    assert sorted(p.name for p in folder.iterdir()) == ["runs", "table.csv", "table.md"]
    assert len(list((folder / "runs").iterdir())) == 4
    assert str(folder / "table.md") in out
    code, out, err = run("run", study, "--results", tmp_path / "results")
    assert (code, err) == (0, "")
    assert out.startswith("nothing to do: 4 runs are done")
    code, out, _ = run("run", study, "--results", tmp_path / "results", "--only", "*:tree", "--force", "-q")
    assert code == 0
    assert "2 of 2 runs done now" in out


def test_a_dry_run_lists_the_runs_and_does_none(run, tmp_path):
    study, results = write_study(tmp_path), tmp_path / "results"
    assert run("run", study, "--results", results, "--only", "graphs/cycle:dag", "-q")[0] == 0
    before = sorted(results.rglob("*"))
    code, out, _ = run("run", study, "--results", results, "--dry-run")
    assert code == 0
    lines = [line.split()[:4] for line in out.splitlines()]
    assert lines[0] == ["run", "seconds", "state", "folder"]
    assert lines[2][:3] == ["graphs/cycle:dag", "20", "done"]
    assert sum(line[2:4] == ["to", "do"] for line in lines) == 5
    assert sorted(results.rglob("*")) == before


def test_a_run_that_fails_is_1_and_named(run, tmp_path):
    study = write_study(tmp_path, methods="tree")
    (tmp_path / "graphs" / "cycle.json").write_text("{}")
    for line in ("1 of 2", "nothing to do"):
        code, out, err = run("run", study, "--results", tmp_path / "results", "-j", 2)
        assert code == 1
        assert line.replace("1 of 2", "2 of 2") in out
        assert "1 failed: graphs/cycle:tree; --force does them again" in err


def test_a_wrong_study_is_2(run, tmp_path):
    study = write_study(tmp_path, more="secnds: 3\n")
    code, _, err = run("run", study, "--results", tmp_path / "results")
    assert (code, err) == (2, "workbench: tiny.yaml: unknown key 'secnds'; did you mean seconds?\n")
    assert run("run", tmp_path / "none.yaml")[0] == 2
    write_study(tmp_path)
    code, _, err = run("run", study, "--results", tmp_path / "results", "--only", "exakt")
    assert code == 2
    assert "no run fits 'exakt'" in err


def test_results_that_cannot_be_written_are_3_before_any_work(run, tmp_path):
    study = write_study(tmp_path)
    (tmp_path / "results").write_text("a file")
    code, _, err = run("run", study, "--results", tmp_path / "results")
    assert code == 3
    assert err.startswith("workbench: cannot write: ")


def test_an_interrupted_study_keeps_what_is_done(run, tmp_path, monkeypatch):
    from workbench.experiments import extraction_study

    save, kept = extraction_study.save_record, []

    def interrupted(folder, record, trace=None):
        if len(kept) == 2:
            raise KeyboardInterrupt
        kept.append(record["name"])
        save(folder, record, trace)

    monkeypatch.setattr(extraction_study, "save_record", interrupted)
    study, results = write_study(tmp_path), tmp_path / "results"
    code, _, err = run("run", study, "--results", results)
    assert code == 130
    assert "interrupted: 2 runs are kept, 4 are left; run it again to go on" in err
    assert "- graphs/shared: tree, dag, exact" in (results / "tiny" / "table.md").read_text()
    monkeypatch.undo()
    code, out, _ = run("run", study, "--results", results, "-q")
    assert code == 0
    assert "4 of 6 runs done now" in out


# -- bench and demo -----------------------------------------------------------------------------------
def test_a_benchmark_stands_beside_the_published_figures(run):
    code, out, err = run("bench", "vgg19")
    assert code == 0, err
    assert "Tensat s" in out
    (row,) = [line for line in out.splitlines() if line.startswith("vgg19")]
    assert "0.4" in row.split()
    assert "+8.9%" in row.split()
    (record,) = json.loads(run("bench", "vgg19", "--json", "-q")[1])
    assert record["network"] == "vgg19"
    assert record["exact"] <= record["original"]


def test_a_benchmark_has_to_be_named(run):
    code, _, err = run("bench")
    assert code == 2
    assert "nasrnn" in err
    code, _, err = run("bench", "nasrn")
    assert code == 2
    assert "did you mean nasrnn?" in err


def test_the_demonstration_leaves_model_figures_and_report(run, tmp_path):
    code, out, err = run(
        "demo", "squeezenet", "--folder", tmp_path / "new", "--cost", "analytic", "--time", 0.05
    )
    assert code == 0, err
    names = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert names == ["squeezenet-optimised.onnx", "squeezenet.html", "squeezenet.json", "squeezenet.onnx"]
    assert "medians of" in out
    assert run("demo", "squeeze", "--folder", tmp_path)[0] == 2


# -- as a process -------------------------------------------------------------------------------------
def test_a_reader_that_goes_away_is_no_error():
    pipe = f"{sys.executable} -m workbench.cli rules --set all | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", pipe], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("rule")
    assert done.stderr == ""


@pytest.mark.slow
def test_ctrl_c_ends_the_process_without_a_traceback(tmp_path):
    from workbench.benchmarks.light import light_path

    command = [sys.executable, "-m", "workbench.cli", "optimize", str(light_path("densenet121"))]
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


# -- search -------------------------------------------------------------------------------------------
def test_search_writes_what_it_found(run, model, tmp_path):
    places = [tmp_path / name for name in ("out.onnx", "out.json", "out.html")]
    code, out, err = run("search", model, "-o", places[0], "--json", places[1], "--report", places[2])
    assert code == 0, err
    assert "graphs expanded" in out
    assert "certificate" in out
    figures = json.loads(places[1].read_text())
    assert figures["optimized"] < figures["original"]
    assert figures["certificate"]["passed"] is True
    assert onnx.load(places[0]).graph.output[0].name == "y"
    assert places[2].read_text().startswith("<!DOCTYPE html>")
    assert "searching" in err


def test_search_says_what_is_wrong(run, model, tmp_path):
    code, _, err = run("search", model, "--mode", "taso-release", "-q")
    assert (code, "graph_subst.pb" in err) == (2, True)
    code, _, err = run("search", model, "--alpha", "0.5")
    assert code == 2
    code, _, err = run("search", tmp_path / "missing.onnx")
    assert (code, "there is no file" in err) == (2, True)
    code, _, err = run("search", model, "-o", tmp_path / "a", "--json", tmp_path / "a")
    assert (code, "two results" in err) == (2, True)
    assert not (tmp_path / "a").exists()


def test_search_keeps_the_original_where_the_certificate_fails(run, model, tmp_path):
    (tmp_path / "wrong.rules").write_text("wrong: add(x, y) => x\n")
    output = tmp_path / "out.onnx"
    code, _, err = run("search", model, "--rules", tmp_path / "wrong.rules", "-o", output, "-q")
    assert code == 1
    assert "the certificate failed (wrong): the original stays; the original was written" in err
    assert [n.op_type for n in onnx.load(output).graph.node].count("Add") == 1
