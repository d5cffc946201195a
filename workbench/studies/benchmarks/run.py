"""Runs of the published networks with the papers' limits, for comparison with the papers' figures.

A network is optimised by one call of :func:`workbench.optimize` in a process of its own, which is
``python -m workbench.studies.benchmarks.run``: it reads its task from standard input and writes figures as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workbench.saturation import Limits
from workbench.studies.benchmarks import PUBLISHED, Published
from workbench.support.processes import command, environment


@dataclass(frozen=True, slots=True)
class WholeCall:
    """The seconds of a whole call in total and by stage, and whether the result was ``certified``.

    ``seconds`` is the time from the first import to the certified result; it excludes the start of Python.
    """

    seconds: float
    stages: Mapping[str, float]
    certified: bool
    cost_after: float


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """The figures of one network: sizes, costs in microseconds by method, and the seconds of the call.

    ``search`` covers the same stages as Tensat's published seconds: saturation, reading the e-graph and
    exact extraction. It excludes ``engine`` (compiling the rules, starting the engine, loading the solver)
    and ``pricing``.
    """

    network: str
    rules: str
    k_multi: int
    e_nodes: int
    e_classes: int
    iterations: int
    stop_reason: str
    original: float
    tree: float
    dag: float
    exact: float
    bound: float
    status: str
    scope: str
    cost_source: str
    whole_call: WholeCall

    @property
    def published(self) -> Published | None:
        """Return the published figures of the network, or None if there are none."""
        return PUBLISHED.get(self.network)

    def stage(self, name: str) -> float:
        """Return the seconds of a stage, 0 if there was none."""
        return self.whole_call.stages.get(name, 0.0)

    @property
    def search(self) -> float:
        """Return the seconds of saturation, reading the e-graph, and exact extraction."""
        return sum(map(self.stage, ("saturation", "snapshot", "extraction")))

    @property
    def faster(self) -> float | None:
        """Return Tensat's published seconds divided by this run's, or None if none are published."""
        return self.published.tensat_seconds / self.search if self.published else None

    def gain(self, method: str) -> float:
        """Return original / optimised - 1 for ``"tree"``, ``"dag"`` or ``"exact"``."""
        after: float = getattr(self, method)
        return self.original / after - 1 if after > 0 else 0.0

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        stages = ("engine", "pricing", "saturation", "snapshot", "extraction")
        return asdict(self) | {
            **{name: self.stage(name) for name in stages},
            "published": None if self.published is None else asdict(self.published),
            "search": self.search,
            "faster": self.faster,
            "gains": {method: self.gain(method) for method in ("tree", "dag", "exact")},
        }


def run_benchmark(
    name: str, *, rules: str = "default", cost: str = "analytic", limits: Limits | None = None
) -> BenchmarkRun:
    """Optimise a published network in a fresh process and return its figures.

    Args:
        name: The name of the network.
        rules: The name of the rule set, or a file.
        cost: The name of the cost model, or a recorded table.
        limits: The limits; by default Tensat's (50 000 e-nodes, 15 iterations, k_multi 1).

    Raises:
        LookupError: The network, the rule set or the cost model is unknown; the message has the nearest name.
        RuntimeError: The process failed; the message has the last line that it wrote.
    """
    from workbench.costs.registry import cost_model
    from workbench.rules.ruleset import rules_of
    from workbench.studies.benchmarks import benchmarks
    from workbench.support.messages import UnknownName

    if name not in benchmarks():
        raise UnknownName("benchmark", name, benchmarks())
    rules_of(rules), cost_model(cost)
    chosen = limits or Limits()
    given = ("e_nodes", "iterations", "k_multi", "settle")
    task = {"name": name, "rules": rules, "cost": cost, **{key: getattr(chosen, key) for key in given}}
    seconds = chosen.seconds
    task |= {"saturation_seconds": seconds, "extraction_seconds": seconds, "seconds": 4 * seconds}
    done = subprocess.run(
        command("workbench.studies.benchmarks.run"),
        input=json.dumps(task),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{name} in its own process: {said[-1]}")
    found = json.loads(done.stdout)
    return BenchmarkRun(**found | {"whole_call": WholeCall(**found["whole_call"])})


def main() -> None:
    """Read a task from standard input, do it, and write the figures."""
    task: dict[str, Any] = json.load(sys.stdin)
    name = task.pop("name")
    began = time.perf_counter()
    import workbench

    result = workbench.optimize(workbench.benchmark(name), **task)
    seconds = time.perf_counter() - began
    from workbench.extraction.extract import extract

    passed = result.certificate is not None and result.certificate.passed
    tree, dag = (extract(result.egraph, result.costs, method).cost for method in ("tree", "dag"))
    solution = result.solution
    run = BenchmarkRun(
        network=name,
        rules=task["rules"],
        k_multi=task["k_multi"],
        e_nodes=result.e_nodes,
        e_classes=result.e_classes,
        iterations=result.iterations,
        stop_reason=result.stop_reason.value,
        original=result.cost_before,
        tree=tree,
        dag=dag,
        exact=solution.cost,
        bound=solution.bound,
        status=solution.status.value,
        scope=solution.scope,
        cost_source=result.cost_source,
        whole_call=WholeCall(seconds, dict(result.seconds), passed, result.cost_after),
    )
    json.dump(asdict(run), sys.stdout)


if __name__ == "__main__":
    main()
