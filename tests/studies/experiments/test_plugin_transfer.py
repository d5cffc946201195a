"""What a notebook registered reaches the processes of its studies; packages reach the command line."""

import json
import sys
import threading

import numpy as np
import pytest

import workbench
from tests.ops.operators import cube, forget, registered
from tests.packages import install
from workbench.costs.plugins import OWN as COSTS
from workbench.extraction.own import OWN as EXTRACTORS
from workbench.faces.cli.commands import app
from workbench.ops import Trait, registry, with_trait
from workbench.studies.experiments.config import StudyError, read_study
from workbench.studies.experiments.process import Job, run_jobs


def seen(names):
    """Return what a process knows: the price of an instance, and the operators."""
    from workbench.costs.registry import cost_model

    prices = [cost_model(name).price([None]).tolist() for name in names]
    return prices, sorted(with_trait(Trait.OWN))


def test_the_process_of_a_job_knows_what_was_registered():
    workbench.cost_model.register("three")(lambda instance: 3.0)
    workbench.cost_model.register("stays", threading.Lock())
    try:
        with registered(cube, exact=3):
            ((_, outcome),) = run_jobs([Job("look", seen, ["three"], 60.0)])
        assert outcome.value == ([[3.0]], ["cube"])
        ((_, outcome),) = run_jobs([Job("look", seen, ["stays"], 60.0)])
        assert "UnknownCostModel" in outcome.note
    finally:
        COSTS._own.clear()


PACKAGE = """
import numpy as np, workbench
from workbench.extraction.problem import tree_costs

@workbench.operator(exact=2, onnx="com.example::Square")
def square(x):
    return x * x

def ones(instance):
    return 2.0 if instance.op == 'mul' else 1.0

def first(egraph, costs, *, seconds):
    return np.array(tree_costs(egraph, costs)[1])
"""


def test_the_command_line_and_models_know_what_packages_offer(tmp_path, monkeypatch):
    install(
        tmp_path, monkeypatch, "offers", PACKAGE,
        operators={"square": "square"}, cost_models={"ones": "ones"}, extractors={"first": "first"},
    )  # fmt: skip
    monkeypatch.setattr(registry, "_searched", False)
    try:
        b = workbench.GraphBuilder()
        x = b.op("relu", b.input("x", (2, 3)))
        workbench.save_onnx(b.graph({"y": b.op("mul", x, x)}), tmp_path / "m.onnx")
        (tmp_path / "own.rules").write_text("square: mul(x, x) => square(x)\n")
        made, said = tmp_path / "out.onnx", tmp_path / "out.json"
        words = ["optimize", tmp_path / "m.onnx", "--rules", tmp_path / "own.rules", "--cost", "ones"]
        words += ["--extractor", "first", "-o", made, "--json", said, "--quiet"]
        app(list(map(str, words)), standalone_mode=False)
        assert json.loads(said.read_text())["cost_source"] == "the cost model ones"
        forget("square")  # the file alone leads to the package
        del sys.modules["offers"]
        monkeypatch.setattr(registry, "_searched", False)
        again = workbench.load_onnx(made)
        assert [n.op for n in again.nodes] == ["input", "relu", "square"]
        values = workbench.evaluate(again, {"x": np.full((2, 3), 3.0, np.float32)})
        assert values["y"].tolist() == [[9.0] * 3] * 2
    finally:
        forget("square")


def test_studies_name_what_was_registered(tmp_path):
    text = (
        "kind: optimisation\nnetworks: [bert]\ncost: three\n"
        "methods:\n  mine: {by: saturation, extractor: mine}\n"
    )
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(StudyError, match="extractor"):
        read_study(tmp_path / "study.yaml")
    workbench.cost_model.register("three")(lambda instance: 3.0)
    workbench.extractor.register("mine")(lambda egraph, costs, *, seconds: {})
    try:
        study = read_study(tmp_path / "study.yaml")
        assert (study.cost, study.methods["mine"].extractor) == ("three", "mine")
    finally:
        COSTS._own.clear()
        EXTRACTORS._own.clear()
