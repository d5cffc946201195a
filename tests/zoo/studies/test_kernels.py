from pathlib import Path

import pytest

from tests.kernels.codegen.needs import compiler
from workbench.graph import GraphBuilder
from workbench.kernels.codegen.deployment import Deployed
from workbench.studies.experiments.config import StudyError, read_object
from workbench.studies.experiments.registry import read_study
from zoo.chains import CHAINS
from zoo.studies.kernels import KernelsStudy, against, figures, make_plan, markdown, outcome, run_one, table

ROOT = Path(__file__).parents[3]


def test_the_study_of_composites_has_every_chain_with_every_number_of_threads(tmp_path):
    study = read_study(ROOT / "experiments" / "composites.yaml")
    plan = make_plan(study, ROOT / "experiments", tmp_path)
    assert set(study.chains) == set(CHAINS)
    assert len(plan.runs) == (len(study.chains) + len(study.models)) * len(study.threads)
    assert plan.runs[0].name == "residual-rms:1-threads"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "chains or models must name at least one"),
        ({"chains": ("mush",)}, "did you mean mish"),
        ({"chains": ("mish",), "threads": (0,)}, r"threads\[0\] must be greater than 0, got 0"),
        ({"models": ("resnet19",)}, "resnet18"),
    ],
)
def test_wrong_settings_are_refused(given, message):
    with pytest.raises(StudyError, match=message):
        read_object(KernelsStudy, given)


def record_of(kind, status, **row):
    return {
        "row": {"network": "hard-swish", "kind": kind, "threads": 1, "repeat": 0, "status": status,
                "notes": "", **row},
        "stop_reason": status, "failed": status == "failed",
        "provenance": {
            "machine": {"cpus": 1, "processor": "p", "platform": "x"}, "versions": {},
            "commit": "c", "load": None,
        },
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["chain", "model"])
def test_a_table_in_which_nothing_was_timed_has_empty_cells(kind, tmp_path):
    b = GraphBuilder()
    graph = b.graph({"y": b.op("relu", b.input("x", (2, 2)))})
    untimed = figures(Deployed(graph, None, None, None, None, "the original stays"))
    assert untimed["speedup"] is None
    records = [record_of(kind, "kept", **untimed)]
    plan = make_plan(KernelsStudy(chains=("hard-swish",), threads=(1,)), tmp_path, tmp_path)
    text = markdown(plan, table(records), records)
    assert "| hard-swish | 1 | 0 | 0 | 0 |  |  |  |  |  |  | the original stays |" in text
    assert "nan" not in text


@compiler
@pytest.mark.slow
def test_a_run_gives_a_row_and_a_table(tmp_path):
    study = KernelsStudy(chains=("hard-swish",), threads=(1,), seconds=0.2)
    plan = make_plan(study, tmp_path, tmp_path)
    found = run_one(study, plan.runs[0])
    assert found["row"]["arithmetic"] == "strict arithmetic"
    assert found["status"] in ("mixed", "kept")
    assert found["row"]["certified"] in (True, None)
    record = record_of("chain", found["status"], **found["row"])
    assert outcome(record)
    text = markdown(plan, table([record]), [record])
    assert "| hard-swish | 1 |" in text


def test_rivals_are_columns_with_the_reason_of_those_that_cannot_run(tmp_path, monkeypatch):
    from workbench.devices.targets import target

    monkeypatch.setitem(target._own, "quick", lambda _model, _inputs: lambda: None)

    def refusing(_model, _inputs):
        raise RuntimeError("it lacks an operator")

    monkeypatch.setitem(target._own, "picky", refusing)
    study = KernelsStudy(models=("resnet18",), threads=(1,), rivals=("quick", "picky"), seconds=0.05)
    plan = make_plan(study, tmp_path, tmp_path)
    run = plan.runs[0]
    assert run.config["rivals"] == ["quick", "picky"]
    b = GraphBuilder()
    graph = b.graph({"y": b.op("relu", b.input("x", (64, 64)))})
    found = {name: against(name, graph, study, run) for name in study.rivals}
    assert found["quick"]["speedup"] > 1
    assert found["picky"] == {"skipped": "it lacks an operator"}
    record = record_of("model", "kept", quick=found["quick"]["speedup"]) | {"result": {"rivals": found}}
    frame = table([record])
    assert frame["quick"][0] == found["quick"]["speedup"]
    assert frame["picky"].isna().all()
    text = markdown(plan, frame, [record])
    assert "*quick*: quick" in text
    assert "| noise | quick | picky | certified |" in text
