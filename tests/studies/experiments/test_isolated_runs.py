"""The work of studies whose runs share no preparation."""

from workbench.studies.experiments.plan import Apart, Call, Run
from workbench.studies.experiments.process import Outcome


def double(order):
    return {
        "row": {"twice": 2 * order},
        "status": "finished",
        "stop_reason": "finished",
        "result": {"steps": 1},
        "seconds": {"all": 0.5},
        "notes": ["", "said by the function"],
        "trace": "the trace",
    }


def work():
    runs = [Run("three", "double", {}, 5.0, seed=0), Run("four", "double", {}, 7.0, seed=1, repeat=1)]
    calls = {
        "three:double": Call(3, {"number": "three"}, grace=2.0),
        "four:double#2": Call(4, {"number": "four"}, grace=3.0),
    }
    return runs, Apart(double, calls, memory=0.5, blank={"seconds": {}})


def test_every_run_is_a_task_of_its_own_with_its_own_limits():
    runs, apart = work()
    ((first, second),) = apart.batches(runs, print)
    assert (first.job.argument, first.job.seconds, first.job.seed) == (3, 7.0, 0)
    assert (second.job.argument, second.job.seconds, second.job.seed) == (4, 10.0, 1)
    assert first.job.memory == 2**29


def test_figures_have_the_settings_columns_and_what_the_function_found():
    runs, apart = work()
    ((_, task),) = apart.batches(runs, print)
    record, trace = apart.figures(task, Outcome("done", double(4), "said by the process"))
    assert trace == "the trace"
    assert record == {
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
    runs, apart = work()
    ((task, _),) = apart.batches(runs, print)
    record, trace = apart.figures(task, Outcome("killed", None, "after 7 s"))
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
    runs, apart = work()
    ((task, _),) = apart.batches(runs, print)
    found = double(3) | {"stop_reason": "e-node limit", "limits_hit": ["e-node limit"]}
    record, _ = apart.figures(task, Outcome("done", found, ""))
    assert record["limits_hit"] == ["e-node limit"]
