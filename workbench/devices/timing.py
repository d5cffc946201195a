"""End-to-end time of two models, measured in alternation so that disturbances affect both."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.support.formatting import gain

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

#: The clock of time limits, in seconds.
clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True, slots=True)
class Timing:
    """Medians and quartiles of runs in alternation, in microseconds, and the ``seconds`` spent on measuring."""

    before: float
    after: float
    before_quartiles: tuple[float, float]
    after_quartiles: tuple[float, float]
    rounds: int
    executor: str
    seconds: float = 0.0

    @property
    def speedup(self) -> float:
        """Return ``before`` divided by ``after``."""
        return self.before / self.after if self.after > 0 else 1.0

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "before": self.before,
            "after": self.after,
            "before_quartiles": list(self.before_quartiles),
            "after_quartiles": list(self.after_quartiles),
            "speedup": self.speedup,
            "rounds": self.rounds,
            "executor": self.executor,
        }

    def __str__(self) -> str:
        runs = f"medians of {self.rounds} runs in alternation"
        return f"{gain(self.before, self.after)}, {runs}, {self.executor}"


def rounds(
    timers: Sequence[Callable[[], float]],
    *,
    seconds: float,
    least: int = 5,
    most: int = 200,
    enough: Callable[[list[list[float]]], bool] | None = None,
    slow: float = math.inf,
    taken: list[list[float]] | None = None,
    seed: int = 0,
) -> list[list[float]]:
    """Return the figures of each of ``timers``: one per round, taken in a new random order in each round.

    A run finds in the caches the data of the run before it. In a fixed order, a run would always follow
    itself or the same other run. The random order is seeded. One round before the first is a warm-up and not
    counted.

    Args:
        timers: Functions that return figures.
        seconds: The time limit; rounds end after it, but not before ``least`` rounds.
        least: The least number of rounds.
        most: The largest number of rounds.
        enough: Ends the rounds if it is true of the figures so far; called after every round.
        slow: If the figures of the warm-up together are larger, it counts as the first round, and two rounds
            are the least: caches hardly matter to so long a run.
        taken: Lists to which the figures are added.
        seed: The seed of the order.
    """
    if seconds <= 0 or least < 1 or most < least:
        raise ValueError(
            f"rounds must have seconds > 0 and 1 <= least <= most, got {seconds}, {least}, {most}"
        )
    began = clock()
    warm_up = [timer() for timer in timers]
    counts = sum(warm_up) > slow
    taken = [[] for _ in timers] if taken is None else taken
    for figures, figure in zip(taken, warm_up if counts else [], strict=False):
        figures.append(figure)
    least = min(least, 2) if counts else least
    order, draws = list(range(len(timers))), random.Random(seed)
    began = began if counts else clock()
    for number in range(int(counts), most):
        if number >= least and clock() - began >= seconds:
            break
        if enough is not None and number and enough(taken):
            break
        draws.shuffle(order)
        for i in order:
            taken[i].append(timers[i]())
    return taken


def paired_speedup(
    before: Sequence[float], after: Sequence[float], *, comparisons: int = 1
) -> tuple[float, tuple[float, float]]:
    """Return the speed-up between two series of rounds, the median of their ratios, and its interval.

    The two figures of a round were taken close together, so their ratio is free of disturbances that affect
    both. The interval contains the true median with 95 % (by order statistics, for any distribution); with
    several ``comparisons``, all intervals do so at once. In few rounds it is the range of all ratios.

    >>> paired_speedup([2.0] * 9, [1.0] * 9)
    (2.0, (2.0, 2.0))
    """
    ratios = sorted(b / a for b, a in zip(before, after, strict=True))
    n = len(ratios)
    reach = NormalDist().inv_cdf(1 - 0.025 / comparisons) * math.sqrt(n) / 2
    low, high = math.floor(n / 2 - reach), math.ceil(n / 2 + reach)
    return float(np.median(ratios)), (ratios[max(0, low)], ratios[min(n - 1, high)])


def random_feeds(
    session: InferenceSession, seed: int = 0, shapes: Mapping[str, Sequence[int]] | None = None
) -> dict[str, np.ndarray]:
    """Return a model's random inputs by name: normal floats, integers 0 and 1; dimensions not in ``shapes`` are 1."""
    from onnx import TensorProto
    from onnx.helper import tensor_dtype_to_np_dtype

    random = np.random.default_rng(seed)
    feeds = {}
    for value in session.get_inputs():
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        known = (shapes or {}).get(value.name, value.shape)
        shape = [n if isinstance(n, int) else 1 for n in known]
        code = {"float": "FLOAT", "double": "DOUBLE"}.get(kind, kind.upper())
        dtype = np.dtype(tensor_dtype_to_np_dtype(TensorProto.DataType.Value(code)))
        if dtype.kind == "f":
            feeds[value.name] = random.standard_normal(shape).astype(dtype)
        else:
            feeds[value.name] = random.integers(0, 2, shape).astype(dtype)
    return feeds
