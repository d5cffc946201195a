"""A function in a process of its own: its value, its failures, its death, its limit."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import workbench
from tests.ops.operators import cube, forget, registered
from tests.packages import install
from workbench.costs.registry import cost_model as COSTS
from workbench.extraction.registry import OWN as EXTRACTORS
from workbench.faces.cli.commands import app
from workbench.ops import Trait, registry, with_trait
from workbench.studies.experiments.config import StudyError
from workbench.studies.experiments.process import Job, run_jobs
from workbench.studies.experiments.registry import read_study


def double(x):
    return 2 * x


def fail(x):
    raise ValueError(f"no {x}")


def exhaust(x):
    raise MemoryError


def die(x):
    print("last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def leave(x):
    os._exit(7)


def allocate(x):
    return len(bytearray(x))


def hang(x):
    time.sleep(60)


def hang_with_child(path):
    """Start a process, leave its number, and end it when this one is ended."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        path.write_text(str(process.pid))
        time.sleep(60)
    finally:
        process.kill()
        process.wait()


def hang_deaf(x):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def read(file):
    while not (file.exists() and file.read_text()):
        time.sleep(0.05)
    return int(file.read_text())


def chatter(x):
    print("noise on the standard output", flush=True)
    return hash("text")


def outcome(function, argument=None, seconds=30.0, seed=0):
    ((_, found),) = run_jobs([Job("one", function, argument, seconds, seed)])
    return found


@pytest.mark.slow
def test_a_value_comes_back():
    found = outcome(double, 21)
    assert (found.status, found.value, found.note) == ("done", 42, "")
    assert found.seconds > 0


@pytest.mark.slow
def test_what_a_function_prints_does_not_disturb_and_the_seed_is_that_of_hashes():
    same = {outcome(chatter, seed=seed).value for seed in (3, 3, 4)}
    assert len(same) == 2


@pytest.mark.parametrize(
    ("function", "status", "note"),
    [
        (fail, "failed", "ValueError: no 1"),
        (exhaust, "failed", "out of memory"),
        (die, "crashed", "the process was ended by SIGKILL: last words"),
        (leave, "crashed", "the process ended with code 7"),
    ],
)
def test_failures_and_deaths_are_outcomes(function, status, note):
    found = outcome(function, 1)
    assert (found.status, found.note, found.value) == (status, note, None)


@pytest.mark.slow
def test_a_hang_is_killed_and_takes_its_own_processes_along(tmp_path):
    found = outcome(hang_with_child, tmp_path / "pid", seconds=2.0)
    assert (found.status, found.note) == ("killed", "not finished after 2 s")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.slow
def test_a_process_that_does_not_listen_is_killed_all_the_same(monkeypatch):
    monkeypatch.setattr("workbench.studies.experiments.process.PATIENCE", 0.3)
    assert outcome(hang_deaf, seconds=1.5).status == "killed"


@pytest.mark.slow
def test_several_run_at_a_time_and_end_with_the_iteration(tmp_path):
    file = tmp_path / "pid"
    long = Job("long", hang_with_child, file, 60)
    found = run_jobs([long, *(Job(str(i), double, i, 60) for i in range(2)), Job("seen", read, file, 60)], 2)
    answers = [next(found) for _ in range(3)]
    assert [job.name for job, _ in answers] == ["0", "1", "seen"]
    found.close()
    with pytest.raises(ProcessLookupError):
        os.kill(answers[-1][1].value, 0)


@pytest.mark.slow
def test_a_process_ends_when_its_parent_dies(tmp_path):
    file = tmp_path / "pid"
    code = (
        "import os, signal, pathlib, threading, time\n"
        "from workbench.studies.experiments.process import Job, run_jobs\n"
        "from tests.studies.experiments.test_process import hang_with_child\n"
        f"file = pathlib.Path({str(file)!r})\n"
        "def watch():\n"
        "    while not (file.exists() and file.read_text()): time.sleep(0.05)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "threading.Thread(target=watch, daemon=True).start()\n"
        "list(run_jobs([Job('one', hang_with_child, file, 60)]))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    pid = int(file.read_text())
    until = time.perf_counter() + 15
    while time.perf_counter() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the process is still there")


@pytest.mark.slow
def test_halting_ends_what_runs():
    halt = threading.Event()
    threading.Timer(1.0, halt.set).start()
    assert list(run_jobs([Job("long", hang, None, 60.0)], halt=halt)) == []


@pytest.mark.slow
def test_a_process_has_the_memory_that_its_job_says():
    ((_, found),) = run_jobs([Job("much", allocate, 8 << 30, 60.0, memory=2 << 30)])
    assert (found.status, found.note) == ("failed", "out of memory")


def seen(names):
    """Return what a process knows: the price of an instance, and the operators."""
    from workbench.costs.registry import cost_model

    prices = [cost_model(name).price([None]).tolist() for name in names]
    return prices, sorted(with_trait(Trait.OWN))


@pytest.mark.slow
def test_the_process_of_a_job_knows_what_was_registered():
    workbench.cost_model.register("three")(lambda instance: 3.0)
    workbench.cost_model.register("stays", threading.Lock())
    try:
        with registered(cube, exact=3):
            ((_, outcome),) = run_jobs([Job("look", seen, ["three"], 60.0)])
        assert outcome.value == ([[3.0]], ["cube"])
        ((_, outcome),) = run_jobs([Job("look", seen, ["stays"], 60.0)])
        assert "UnknownName" in outcome.note
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


@pytest.mark.slow
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
