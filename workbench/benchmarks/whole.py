"""The seconds of a whole call, certificate and all, in a process of its own.

The process is ``python -m workbench.benchmarks.whole``: it reads what to do from its standard input as JSON
and writes the seconds by stage to its standard output.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.frames import command, environment

if TYPE_CHECKING:
    from workbench.saturation import Limits


@dataclass(frozen=True, slots=True)
class WholeCall:
    """The seconds of a whole call: ``seconds`` in all, ``stages`` by stage, and whether it was ``certified``.

    ``seconds`` count from the first import to the certified result; the start of Python is not among them.
    """

    seconds: float
    stages: Mapping[str, float]
    certified: bool
    cost_after: float


def whole_call(name: str, *, rules: str, cost: str, limits: Limits) -> WholeCall:
    """Optimise a published network in a fresh process and return its seconds.

    Raise RuntimeError with the last line that the process wrote where it failed.
    """
    task = {
        "name": name,
        "rules": rules,
        "cost": cost,
        "e_nodes": limits.e_nodes,
        "seconds": limits.seconds,
        "iterations": limits.iterations,
        "k_multi": limits.k_multi,
        "settle": limits.settle,
    }
    done = subprocess.run(
        command("workbench.benchmarks.whole"),
        input=json.dumps(task),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{name} in a process of its own: {said[-1]}")
    return WholeCall(**json.loads(done.stdout))


def main() -> None:
    """Do what the standard input says, and write the seconds."""
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
