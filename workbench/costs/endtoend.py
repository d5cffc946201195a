"""Whether operators add up: the sum of their costs beside the time of the whole model."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from workbench.costs.model import CostModel
from workbench.costs.pricing import graph_cost, instances_of
from workbench.graph import Graph


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """Hold the sum of a model's operator costs and the median time of the whole, in microseconds.

    They differ for good reasons: the runtime fuses and re-orders what the sum counts one by one, keeps
    blocked layouts between convolutions that each one alone converts from and to, and finds in its caches
    what one operator alone finds there always. ``source`` says where the sum comes from, ``executor``
    what ran the whole.
    """

    operators: float
    whole: float
    quartiles: tuple[float, float]
    rounds: int
    source: str
    executor: str

    @property
    def ratio(self) -> float:
        """Return the sum of the operators / the whole."""
        return self.operators / self.whole if self.whole > 0 else 0.0

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return asdict(self) | {"quartiles": list(self.quartiles), "ratio": self.ratio}

    def __str__(self) -> str:
        return (
            f"sum of operators {self.operators / 1000:.3g} ms ({self.source}), "
            f"whole {self.whole / 1000:.3g} ms ({self.executor}): {self.ratio:.2f}"
        )


def end_to_end(
    graph: Graph, cost: CostModel, *, seconds: float = 2.0, threads: int | None = 1, seed: int = 0
) -> EndToEnd:
    """Price a model operator by operator, and run it whole in ONNX Runtime for ``seconds``.

    A measuring cost model measures every operator of the model, whatever its budget. ``threads`` is for
    the whole; compare like with like. One thread is timed, as single operators are, by its own processor
    time, which leaves out what other processes take of the core.
    """
    from workbench.timing import executor, time_models

    bind = getattr(cost, "bind", None)
    if bind is not None:
        bind(graph)
    measure = getattr(cost, "measure", None)
    if measure is not None:
        measure(instances_of(graph))
    total = graph_cost(graph, cost)
    clock = time.thread_time if threads == 1 else time.perf_counter
    (taken,) = time_models([graph], seconds=seconds, threads=threads, seed=seed, clock=clock)
    low, whole, high = np.percentile(taken, [25, 50, 75]).tolist()
    return EndToEnd(total, whole, (low, high), len(taken), cost.source, executor(threads, True))
