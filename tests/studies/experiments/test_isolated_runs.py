"""Runs in processes of their own: their jobs, and the records that come of their outcomes."""

from workbench.studies.experiments.config import Study
from workbench.studies.experiments.plan import Plan, Run
from workbench.studies.experiments.process import Outcome


def double(study, run):
    return {
        "row": {"twice": 2 * run.order},
        "status": "finished",
        "stop_reason": "finished",
        "result": {"steps": 1},
        "seconds": {"all": 0.5},
        "notes": ["", "said by the function"],
        "trace": "the trace",
    }


THREE = Run(
    "three", "double", {}, 5.0, order=3, columns={"number": "three"}, figures={"seconds": {}}, grace=2
)
FOUR = Run("four", "double", {}, 7.0, seed=1, repeat=1, order=4, columns={"number": "four"})


def test_every_run_is_a_job_of_its_own_with_its_own_limits(tmp_path):
    plan = Plan(Study(memory=0.5, grace=3.0), double, (THREE, FOUR), tmp_path)
    ((three, four),) = ([plan.job(run) for run in batch] for batch in plan.batches(plan.runs, print))
    assert (three.name, three.seconds, three.seed) == ("three:double", 7.0, 0)
    assert (four.name, four.seconds, four.seed) == ("four:double#2", 10.0, 1)
    assert three.memory == 2**29
    assert three.function(three.argument)["row"] == {"twice": 6}


def test_repeats_take_the_next_seed_and_settings_name_the_kind(tmp_path):
    class Doubles(Study):
        KIND = "doubles"

    plan = Plan.of(Doubles(seed=4, repeats=2), tmp_path, double, [THREE], ["four: no such file"])
    assert [(run.name, run.seed) for run in plan.runs] == [("three:double", 4), ("three:double#2", 5)]
    assert plan.runs[1].config == {"study": "doubles", "seed": 5}
    assert plan.skipped == ("four: no such file",)


def test_figures_have_the_settings_columns_and_what_the_function_found():
    record, trace = FOUR.record(Outcome("done", double(None, FOUR), "said by the process", 1.23456))
    assert trace == "the trace"
    assert record == {
        "name": "four:double#2",
        "config": {},
        "failed": False,
        "wall_seconds": 1.235,
        "row": {
            "number": "four",
            "method": "double",
            "repeat": 1,
            "twice": 8,
            "status": "finished",
            "notes": "said by the process; said by the function",
        },
        "stop_reason": "finished",
        "limits_hit": [],
        "result": {"steps": 1},
        "seconds": {"all": 0.5},
    }


def test_a_killed_run_says_so_and_keeps_its_columns():
    record, trace = THREE.record(Outcome("killed", None, "after 7 s"))
    assert trace is None
    assert record["row"] == {
        "number": "three",
        "method": "double",
        "repeat": 0,
        "status": "killed",
        "notes": "after 7 s",
    }
    assert record["limits_hit"] == ["time limit"]
    assert record["seconds"] == {}
    assert record["result"] == {}


def test_limits_that_the_function_names_are_kept():
    found = double(None, THREE) | {"stop_reason": "e-node limit", "limits_hit": ["e-node limit"]}
    record, _ = THREE.record(Outcome("done", found, ""))
    assert record["limits_hit"] == ["e-node limit"]
