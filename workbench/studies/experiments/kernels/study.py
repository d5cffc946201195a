"""The study of kernels: chains and models as mixed programs, certified and timed whole."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.studies.experiments.isolated_runs import Call, plan_apart, repeats
from workbench.studies.experiments.kernels.config import KernelsStudy
from workbench.studies.experiments.plan import Plan, Record, Run

if TYPE_CHECKING:
    from workbench.graph import Graph
    from workbench.kernels.codegen.deployment import Deployed

#: The rules that saturate the e-graphs of chains.
RULES: Final = "default"


@dataclass(frozen=True, slots=True)
class Order:
    """The argument of one run's process."""

    subject: str
    chain: bool
    threads: int
    seconds: float
    seed: int


def make_plan(study: KernelsStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, subject by subject; the study names no files, so ``home`` is unused."""
    return plan_apart(study, folder, run_one, _runs(study), blank={"result": {}})


def _runs(study: KernelsStudy) -> Iterator[tuple[Run, Call]]:
    subjects = [*((name, True) for name in study.chains), *((name, False) for name in study.models)]
    for (subject, chain), threads in product(subjects, study.threads):
        for repeat, seed in repeats(study.repeats, study.seed):
            config = {
                "study": "kernels",
                "network": subject,
                "chain": chain,
                "threads": threads,
                "timing": study.seconds,
                "seed": seed,
                **({"rules": RULES} if chain else {}),
            }
            order = Order(subject, chain, threads, study.seconds, seed)
            columns = {"network": subject, "kind": "chain" if chain else "model", "threads": threads}
            run = Run(subject, f"{threads}-threads", config, study.limit, seed, repeat)
            yield run, Call(order, columns, study.grace)


def outcome(record: Record) -> str:
    """Return the outcome of a run in one line."""
    row = record["row"]
    if not row.get("before"):
        return str(row["notes"] or row["status"])
    return (
        f"{row['speedup']:.2f}× ({row['before']:.0f} → {row['after']:.0f} µs), {row['kernels']} kernels, "
        f"{row['status']}"
    )


# -- in the process of a run ---------------------------------------------------------------------------
def graph_of(order: Order) -> Graph:
    """Return the chain or the imported model of an order; torch exports a model in its own process."""
    from workbench.frontends import load_onnx
    from workbench.studies.benchmarks.kernel_chains import chain
    from workbench.studies.experiments.deployment.study import model_file

    if order.chain:
        return chain(order.subject)
    with tempfile.TemporaryDirectory(prefix="workbench-kernels-") as folder:
        return load_onnx(model_file(order.subject, Path(folder) / "model.onnx", order.seed))


def run_one(order: Order) -> Record:
    """Deploy one chain or model as a mixed program, and return the figures."""
    from workbench.costs.registry import cost_model
    from workbench.kernels.codegen.compiler import build_from
    from workbench.kernels.codegen.deployment import deploy
    from workbench.optimizer.pipeline import optimize

    build, graph = build_from(), graph_of(order)
    rewritten: dict[str, Any] = {}
    if order.chain:  # clusters compete with rewrites in one e-graph
        found = optimize(graph, rules=RULES, cost="cpu", time=False, seed=order.seed)
        rewritten = {"saturated": (found.egraph, found.costs), "candidates": [found.graph]}
    done = deploy(
        graph,
        cost_model("cpu"),
        **rewritten,
        threads=order.threads,
        seconds=order.seconds,
        seed=order.seed,
        build=build,
    )
    clusters = () if done.tried is None else done.tried.clusters
    return {
        "row": {**figures(done), "arithmetic": build.arithmetic, "flags": " ".join(build.flags)},
        "status": "kept" if done.plan is None else "mixed",
        "stop_reason": "kept" if done.plan is None else "mixed",
        "notes": [done.reason],
        "result": {"clusters": [[m.op for m in c.members] for c in clusters]},
    }


def figures(done: Deployed) -> Record:
    """Return the figures of a mixed program; a figure is None if nothing was timed or certified."""
    timed, plan, certificate = done.timed, done.tried, done.certificate
    return {
        "kernels": 0 if plan is None else len(plan.clusters),
        "operators": 0 if plan is None else sum(len(c.members) for c in plan.clusters),
        "others": 0 if plan is None else plan.others,
        "before": None if timed is None else timed.before,
        "after": None if timed is None else timed.after,
        "speedup": None if timed is None else timed.speedup,
        "low": None if timed is None else timed.interval[0],
        "high": None if timed is None else timed.interval[1],
        "noise": None if timed is None else timed.noise,
        "rounds": None if timed is None else timed.rounds,
        "certified": None if certificate is None else certificate.passed,
        "error": None if certificate is None else certificate.deployed_error,
    }
