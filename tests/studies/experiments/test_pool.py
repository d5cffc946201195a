"""Sweeps on a real Dask cluster of two workers on this machine."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.studies.experiments.studies import figures, write_optimisation, write_study
from workbench.laws.synthesis import Grammar, enumeration, shards
from workbench.studies.experiments.plan import sweep
from workbench.studies.experiments.pool import ClusterMissing, cluster_mapper, cluster_pool
from workbench.studies.experiments.process import Job
from workbench.studies.experiments.registry import make_plan, read_study

pytest.importorskip("distributed", reason="distributed is not installed (the extra dask)")
pytestmark = [pytest.mark.dask, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[3]


def start(*arguments):
    """Start a command of Dask's that finds the package and the tests."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextlib.contextmanager
def running(*commands):
    """Start commands and end them, workers before the scheduler."""
    processes = []
    try:
        processes += [start(*command) for command in commands]
        yield processes
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(processes):
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def address_in(file):
    import json

    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError):
            return json.loads(file.read_text())["address"]
        time.sleep(0.1)
    pytest.fail("the scheduler does not start")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Return the address of a scheduler with two workers, each a process that does one job at a time."""
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    scheduler = ("scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file)
    worker = ("worker", "--scheduler-file", file, "--nthreads", 1, "--no-dashboard", "--no-nanny",
              "--local-directory", folder, "--host", "127.0.0.1")  # fmt: skip
    with running(scheduler, worker, worker):
        address = address_in(file)
        from distributed import Client

        with Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield address


def say(argument):
    return argument, os.getpid(), os.getppid()


def wait(argument):
    argument.write_text(str(os.getpid()))
    time.sleep(60)


def fail(argument):
    raise ValueError(f"no {argument}")


@pytest.mark.slow
def test_jobs_are_done_by_both_workers_each_in_a_process_of_its_own(cluster):
    jobs = [Job(str(i), say, i, 60.0) for i in range(6)]
    with cluster_pool(cluster) as pool:
        found = {job.name: (outcome, where) for job, outcome, where in pool(jobs)}
    values = [found[str(i)][0].value for i in range(6)]
    assert [value[0] for value in values] == list(range(6))
    assert len({value[1] for value in values}) == 6
    parents = {value[2] for value in values}
    assert len(parents) == 2
    assert os.getpid() not in parents
    assert found["0"][1]["machine"]["cpus"] == os.cpu_count()


@pytest.mark.slow
def test_failures_and_hangs_are_outcomes_there_too(cluster, tmp_path):
    jobs = [Job("fails", fail, 1, 60.0), Job("hangs", wait, tmp_path / "pid", 3.0)]
    with cluster_pool(cluster) as pool:
        found = {job.name: outcome for job, outcome, _ in pool(jobs)}
    assert (found["fails"].status, found["fails"].note) == ("failed", "ValueError: no 1")
    assert found["hangs"].status == "killed"


@pytest.mark.slow
def test_what_is_given_up_ends_on_the_workers_too(cluster, tmp_path):
    file = tmp_path / "pid"
    with cluster_pool(cluster) as pool:
        ended = pool([Job("quick", say, 0, 60.0), Job("long", wait, file, 60.0)])
        assert next(ended)[0].name == "quick"
        until = time.monotonic() + 30
        while not (file.exists() and file.read_text()) and time.monotonic() < until:
            time.sleep(0.1)
        ended.close()
    pid = int(file.read_text())
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the job goes on")


@pytest.mark.slow
def test_shards_of_terms_are_evaluated_on_the_workers_with_the_same_result(cluster, monkeypatch):
    monkeypatch.setattr(shards, "FEW", 5)
    grammar = Grammar.of("matmul add concat[axis=-1]", "matrix: 3", operators=2)
    here, there = enumeration.Enumeration(grammar), []
    with cluster_mapper(cluster) as mapper:
        assert mapper.workers == 2
        spread = enumeration.Enumeration(grammar, mapper=mapper)
        there += [spread.extend(last=size == 2)[1] for size in (1, 2)]
    assert [here.extend(last=size == 2)[1] for size in (1, 2)] == there
    assert [x.terms for x in here.levels] == [x.terms for x in spread.levels]


@pytest.mark.slow
def test_a_sweep_on_the_cluster_has_the_figures_of_one_here(cluster, tmp_path):
    file = write_optimisation(tmp_path)
    here = make_plan(read_study(file), tmp_path, tmp_path / "here")
    there = make_plan(read_study(file), tmp_path, tmp_path / "there")
    list(sweep(here, here.runs))
    with cluster_pool(cluster) as pool:
        assert len(list(sweep(there, there.runs, pool=pool))) == 2
        assert list(sweep(there, there.runs, pool=pool)) == []
    assert list(map(figures, there.records())) == list(map(figures, here.records()))
    assert there.missing() == []


@pytest.mark.slow
def test_e_graphs_are_made_here_and_extracted_there(cluster, tmp_path):
    plan = make_plan(read_study(write_study(tmp_path, methods="exact")), tmp_path, tmp_path / "results")
    with cluster_pool(cluster) as pool:
        records = list(sweep(plan, plan.runs, pool=pool))
    assert [r["row"]["cost"] for r in records] == [3.0, 4.5]


@pytest.mark.slow
def test_the_command_runs_a_study_on_the_cluster(cluster, tmp_path):
    study = write_optimisation(tmp_path)
    command = [sys.executable, "-m", "workbench.faces.cli", "run", study, "--results", tmp_path / "results"]
    found = subprocess.run(
        [*command, "--scheduler", cluster],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert "2 of 2 runs done now" in found.stdout


@pytest.mark.slow
def test_where_no_scheduler_or_no_worker_is_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.studies.experiments.pool.PATIENCE", 1.0)
    with pytest.raises(ClusterMissing, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        cluster_pool("tcp://127.0.0.1:9").__enter__()
    file = tmp_path / "scheduler.json"
    with running(
        ("scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file)
    ):
        address = address_in(file)
        with pytest.raises(ClusterMissing, match="has no worker; `dask worker --nthreads 1"):
            cluster_pool(address).__enter__()


@pytest.mark.slow
def test_without_distributed_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterMissing, match=r"pip install 'tamago-workbench\[dask\]'"):
        cluster_pool("tcp://127.0.0.1:9").__enter__()
