"""A study of two tiny e-graphs, and jobs without processes, for tests."""

import contextlib
import json
import pickle
import time

import pytest

from workbench.studies.experiments import extraction, pool
from workbench.studies.experiments.process import Outcome

#: By name: (e-class, children by e-node, cost); the root is e-class "r".
SHARED = {
    "r0": ("r", ["a0", "b0"], 0.0),
    "a0": ("a", ["s0"], 1.0),
    "a1": ("a", [], 3.0),
    "b0": ("b", ["s0"], 1.0),
    "b1": ("b", [], 3.0),
    "s0": ("s", [], 2.5),
}
CYCLE = {
    "r0": ("r", ["a0"], 1.0),
    "a0": ("a", ["b0"], 0.0),
    "a1": ("a", [], 4.0),
    "b0": ("b", ["a0"], 0.0),
    "b1": ("b", [], 2.0),
}


def write_egraph(path, nodes):
    """Write an e-graph as egraph-serialize JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = {
        name: {"op": name, "children": children, "eclass": eclass, "cost": cost}
        for name, (eclass, children, cost) in nodes.items()
    }
    path.write_text(json.dumps({"nodes": records, "root_eclasses": ["r"]}))


def write_study(folder, *, methods="tree, dag, exact", more=""):
    """Write two e-graphs and a study of them; return the study's path."""
    write_egraph(folder / "graphs" / "shared.json", SHARED)
    write_egraph(folder / "graphs" / "cycle.json", CYCLE)
    study = folder / "tiny.yaml"
    study.write_text(
        f"kind: extraction\ninstances:\n  files: [graphs/*.json]\nmethods: [{methods}]\nseconds: 20\n{more}"
    )
    return study


#: Two methods, cheap to run: a saturation and a search.
METHODS = "  ours: {by: saturation, iterations: 6}\n  taso: {by: search, budget: 5}\n"


def write_optimisation(folder, *, networks="vgg19", methods=METHODS, more="certify: false\n"):
    """Write a study of optimisations; return its path."""
    study = folder / "small.yaml"
    study.write_text(f"kind: optimisation\nnetworks: [{networks}]\nmethods:\n{methods}{more}")
    return study


#: Figures of a record that depend on the clock or the machine, and not on what was asked.
CLOCK = ("seconds", "seconds_best", "saturation", "extraction")


def figures(record):
    """Return what two runs of one configuration have in common.

    Not the certificate: it runs the graphs in a library that adds up in another order every time.
    """
    row = {key: value for key, value in record["row"].items() if key not in CLOCK}
    result = {key: value for key, value in record["result"].items() if key != "certificate"}
    return record["name"], row, record["stop_reason"], result


def done_here(jobs, at_once=1):
    """Do jobs in this process, in place of `run_jobs`; what travels is pickled as it is there."""
    for job in jobs:
        began = time.perf_counter()
        try:
            function, argument = pickle.loads(pickle.dumps((job.function, job.argument)))
            status, value, note = "done", pickle.loads(pickle.dumps(function(argument))), ""
        except Exception as error:
            status, value, note = "failed", None, f"{type(error).__name__}: {error}"
        yield job, Outcome(status, value, note, time.perf_counter() - began)


@contextlib.contextmanager
def without_processes():
    """Let studies do their jobs in this process: the start of a Python takes longer than most jobs of tests."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (extraction, pool):
            patch.setattr(module, "run_jobs", done_here)
        yield
