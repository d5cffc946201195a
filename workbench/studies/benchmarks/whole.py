"""The seconds of a whole call of ``optimize``, including the certificate, in its own process.

The process is ``python -m workbench.studies.benchmarks.whole``: it reads its task from standard input as JSON and
writes the seconds by stage to standard output.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.support.processes import command, environment

if TYPE_CHECKING:
    from workbench.saturation import Limits


@dataclass(frozen=True, slots=True)
class WholeCall:
    """The seconds of a whole call in total and by stage, and whether the result was ``certified``.

    ``seconds`` is the time from the first import to the certified result; it excludes the start of Python.
    """

    seconds: float
    stages: Mapping[str, float]
    certified: bool
    cost_after: float


def whole_call(name: str, *, rules: str, cost: str, limits: Limits) -> WholeCall:
    """Optimise a published network in a fresh process and return its seconds.

    Args:
        name: The name of the network.
        rules: The name of the rule set, or a file.
        cost: The name of the cost model, or a recorded table.
        limits: The limits of the saturation.

    Raises:
        RuntimeError: The process failed; the message has the last line that it wrote.
    """
    task = {
        "name": name,
        "rules": rules,
        "cost": cost,
        "e_nodes": limits.e_nodes,
        "saturation_seconds": limits.seconds,
        "iterations": limits.iterations,
        "k_multi": limits.k_multi,
        "settle": limits.settle,
    }
    done = subprocess.run(
        command("workbench.studies.benchmarks.whole"),
        input=json.dumps(task),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{name} in its own process: {said[-1]}")
    return WholeCall(**json.loads(done.stdout))


def main() -> None:
    """Read a task from standard input, do it, and write the seconds."""
    task: dict[str, Any] = json.load(sys.stdin)
    began = time.perf_counter()
    import workbench

    graph = workbench.benchmark(task.pop("name"))
    result = workbench.optimize(graph, **task)
    seconds = time.perf_counter() - began
    passed = result.certificate is not None and result.certificate.passed
    found = {
        "seconds": seconds,
        "stages": dict(result.seconds),
        "certified": passed,
        "cost_after": result.cost_after,
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
