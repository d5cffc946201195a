"""Which of several equal graphs runs fastest: timed end to end in alternation, the original among them.

A cost model adds up operators; a runtime fuses, chooses layouts and fills caches. The k best extractions
of a cost model are close to each other in its eyes, and what is fastest among them is measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.devices.targets import Target
from workbench.extraction import EGraph, Solution
from workbench.extraction.alternatives import k_best
from workbench.extraction.rebuild import rebuild
from workbench.graph import Graph
from workbench.timing import paired_speedup, rounds

if TYPE_CHECKING:
    from onnx import ModelProto

#: So many rounds at least: in fewer the interval of the median is the range of all rounds.
_LEAST, _MOST = 9, 500


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hold a graph that may replace the original, and the extraction it comes from."""

    graph: Graph = field(repr=False)
    solution: Solution = field(repr=False)

    @property
    def cost(self) -> float:
        """Return what the cost model says it costs, in microseconds."""
        return self.solution.cost


@dataclass(frozen=True, slots=True)
class Entrant:
    """Hold how a graph did: medians and quartiles in microseconds, the speed-up over the original.

    ``cost`` is what the cost model says. ``speedup`` is the median ratio of the original to the graph in
    the same round, ``interval`` holds it with 95 % for all entrants at once.
    """

    cost: float
    median: float
    quartiles: tuple[float, float]
    speedup: float = 1.0
    interval: tuple[float, float] = (1.0, 1.0)

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "cost": self.cost,
            "median": self.median,
            "quartiles": list(self.quartiles),
            "speedup": self.speedup,
            "interval": list(self.interval),
        }


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hold how candidates did against the original, in the order in which they were given.

    ``noise`` is how far the original is from a second copy of itself, as a part of its time. ``winner``
    is the candidate that was taken, None where the original stays.
    """

    original: Entrant
    candidates: tuple[Entrant, ...]
    noise: float
    rounds: int
    target: str
    seconds: float
    winner: int | None = None

    def order(self) -> list[int]:
        """Return the candidates that beat the original beyond the noise, the fastest first."""
        faster = [i for i, c in enumerate(self.candidates) if c.interval[0] > 1 + self.noise]
        return sorted(faster, key=lambda i: (-self.candidates[i].speedup, i))

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "target": self.target,
            "original": self.original.summary(),
            "candidates": [c.summary() for c in self.candidates],
            "winner": self.winner,
            "noise": self.noise,
            "rounds": self.rounds,
        }

    def __str__(self) -> str:
        count = f"{len(self.candidates)} candidate{'s' if len(self.candidates) != 1 else ''}"
        within = f"{self.rounds} rounds in alternation, noise {self.noise:.1%}, {self.target}"
        if not self.candidates:
            return f"no candidate differs from the original, {self.target}"
        if self.winner is None:
            best = max(c.speedup for c in self.candidates)
            return f"the original stays: the best of {count} is {best:.3f}× as fast, {within}"
        won = self.candidates[self.winner]
        low, high = won.interval
        return (
            f"{self.original.median / 1000:.3g} → {won.median / 1000:.3g} ms, {won.speedup:.3f}× "
            f"({low:.3f} to {high:.3f}): number {self.winner + 1} of {count} by cost, {within}"
        )


def candidates(
    graph: Graph,
    egraph: EGraph,
    costs: np.ndarray,
    solution: Solution,
    k: int,
    *,
    seconds: float = 60.0,
) -> list[Candidate]:
    """Return the graphs of the ``k`` cheapest distinct extractions that are not the graph itself.

    ``solution`` is the first of them. Extractions that make one graph count once; fewer than ``k`` are
    returned where there are no more, or where ``seconds`` end.
    """
    found = [solution, *k_best(egraph, costs, k + 1, seconds=seconds)]
    distinct: dict[str, Candidate] = {}
    for other in found:
        rebuilt = rebuild(graph, egraph, other.choice)
        distinct.setdefault(rebuilt.structural_hash(), Candidate(rebuilt, other))
    distinct.pop(_as_built(graph).structural_hash(), None)
    return sorted(distinct.values(), key=lambda c: c.cost)[:k]


def as_given(model: Any) -> Graph | ModelProto:
    """Return a model as it was given, not as it was imported: the rival of what was made of it."""
    import onnx

    if isinstance(model, bytes):
        return onnx.load_from_string(model)
    return onnx.load(os.fspath(model)) if isinstance(model, str | os.PathLike) else model


def _as_built(graph: Graph) -> Graph:
    """Return the graph with equal applications shared, as a saturation holds it."""
    from workbench.graph import GraphBuilder

    builder = GraphBuilder(graph.name)
    builder.weights, builder.opaques = dict(graph.weights), dict(graph.opaques)
    place: list[int] = []
    for node in graph.nodes:
        if node.op == "input":
            place.append(builder.input(node.attr("name"), node.tensor.shape, node.tensor.dtype))
        else:
            place.append(builder.apply(node.op, [place[j] for j in node.inputs], node.attrs))
    return builder.graph([(name, place[i]) for name, i in graph.outputs])


def rank(
    original: Graph | ModelProto,
    given: Sequence[Candidate],
    target: Target,
    *,
    original_cost: float,
    seconds: float = 10.0,
    seed: int = 0,
) -> Ranking:
    """Time candidates against the original on a target, all in alternation, for ``seconds``.

    The original runs twice in each round: what its two copies differ by is the noise that a candidate has
    to beat.
    """
    began = time.perf_counter()
    if not given:
        nothing = Entrant(original_cost, 0.0, (0.0, 0.0))
        return Ranking(nothing, (), 0.0, 0, target.title, 0.0)
    models = [original, *(c.graph for c in given), original]
    with target.timers(models, seed) as timers:
        first, *others, again = rounds(timers, seconds=seconds, least=_LEAST, most=_MOST)
    _, apart = paired_speedup(first, again)
    return Ranking(
        original=_entrant(original_cost, first),
        candidates=tuple(
            _entrant(c.cost, taken, first, len(given)) for c, taken in zip(given, others, strict=True)
        ),
        noise=max(abs(1 - edge) for edge in apart),
        rounds=len(first),
        target=target.title,
        seconds=time.perf_counter() - began,
    )


def _entrant(
    cost: float, taken: Sequence[float], reference: Sequence[float] | None = None, comparisons: int = 1
) -> Entrant:
    low, median, high = np.percentile(taken, [25, 50, 75]).tolist()
    if reference is None:
        return Entrant(cost, median, (low, high))
    speedup, interval = paired_speedup(reference, taken, comparisons=comparisons)
    return Entrant(cost, median, (low, high), speedup, interval)
