"""Which of several equal graphs runs fastest: timed end to end in alternation, the original among them.

A cost model adds up operators; a runtime fuses, chooses layouts and fills caches. The k best extractions
of a cost model are close to each other in its eyes, and what is fastest among them is measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.devices.targets import Target
from workbench.extraction import EGraph, Solution
from workbench.extraction.alternatives import k_best
from workbench.extraction.rebuild import rebuild
from workbench.graph import Graph
from workbench.timing import Timing, paired_speedup, rounds
from workbench.units import span, times

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.frontends.onnx_mapped import Apart

#: So many rounds at least: in fewer the interval of the median is the range of all rounds.
_LEAST, _MOST = 9, 500

#: Where there is no time for more, so many rounds are enough.
_FEWEST = 3

#: A gain of less than this part of the time is not looked for any longer in a quick ranking, and no gain:
#: two copies of one model in memory differ by as much.
WORTH: Final = 0.01


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hold a graph that may replace the original, and the extraction it comes from.

    ``saved`` is the model that is saved in its place, where that has symbolic dimensions.
    """

    graph: Graph = field(repr=False)
    solution: Solution = field(repr=False)
    saved: ModelProto | None = field(default=None, repr=False)

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
    is the candidate that was taken, None where the original stays. ``given`` is the model as it came, where
    the original is that model cleaned; its speed-up is that over the original. Where ``decided`` is false
    the figures are for information: the result was chosen by costs of another device. ``failure`` says why
    nothing could be timed.
    """

    original: Entrant
    candidates: tuple[Entrant, ...]
    noise: float
    rounds: int
    target: str
    seconds: float
    winner: int | None = None
    given: Entrant | None = None
    decided: bool = True
    failure: str = ""

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
            "decided": self.decided,
            "failure": self.failure,
            "given": None if self.given is None else self.given.summary(),
        }

    def timing(self) -> Timing | None:
        """Return the result against the original, or the best candidate where the original stays."""
        if not self.candidates:
            return None
        one = self.candidates[self.winner if self.winner is not None else self._best()]
        return Timing(
            before=self.original.median,
            after=one.median,
            before_quartiles=self.original.quartiles,
            after_quartiles=one.quartiles,
            rounds=self.rounds,
            executor=self.target,
            seconds=self.seconds,
        )

    @property
    def cleaning(self) -> float | None:
        """Return how many times as fast as the given model the cleaned one is, None where they are one."""
        return None if self.given is None or self.given.speedup <= 0 else 1 / self.given.speedup

    def cleaning_line(self) -> str:
        """Say what cleaning alone gives, empty where there was nothing to clean."""
        if self.given is None or self.cleaning is None:
            return ""
        figures = f"{times(self.cleaning)} ({span(self.given.median, self.given.median / self.cleaning)})"
        return (
            f"initialisers taken out of the inputs, which alone gives {figures}; "
            "what follows is over the cleaned model"
        )

    def __str__(self) -> str:
        count = f"{len(self.candidates)} candidate{'s' if len(self.candidates) != 1 else ''}"
        within = f"{self.rounds} rounds in alternation, noise {self.noise:.1%}, {self.target}"
        if self.failure:
            return self.failure
        if not self.candidates:
            return f"no candidate differs from the original, {self.target}"
        shown = self.winner if self.winner is not None else self._best()
        one = self.candidates[shown]
        low, high = one.interval
        figures = f"{times(one.speedup)} ({span(self.original.median, one.median)}; {low:.3f} to {high:.3f})"
        place = f", number {shown + 1} of {count} by cost" if len(self.candidates) > 1 else ""
        if not self.decided:
            return f"{figures} on this machine, which decided nothing: {within}"
        if self.winner is None:
            return f"the original stays, no result is faster beyond the noise: {figures}{place}, {within}"
        return f"{figures}{place}, {within}"

    def _best(self) -> int:
        return max(range(len(self.candidates)), key=lambda i: self.candidates[i].speedup)


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
    original: Graph | ModelProto | Apart,
    given: Sequence[Candidate],
    target: Target,
    *,
    original_cost: float,
    seconds: float = 10.0,
    seed: int = 0,
    uncleaned: ModelProto | Apart | None = None,
    quick: bool = False,
) -> Ranking:
    """Time candidates against the original on a target, all in alternation, for ``seconds``.

    The original runs twice in each round: what its two copies differ by is the noise that a candidate has
    to beat. ``uncleaned`` is timed beside it where it is given. With ``quick`` the rounds end when a
    candidate is clearly faster, or none can be by more than :data:`WORTH`; few long rounds are enough.
    """
    began = time.perf_counter()
    if not given and uncleaned is None:
        nothing = Entrant(original_cost, 0.0, (0.0, 0.0))
        return Ranking(nothing, (), 0.0, 0, target.title, 0.0)
    models: list[Any] = [
        original,
        *(c.saved or c.graph for c in given),
        original,
        *([] if uncleaned is None else [uncleaned]),
    ]

    def ranking(taken: list[list[float]]) -> Ranking:
        first, *others, again = taken[: len(given) + 2]
        _, apart = paired_speedup(first, again)
        return Ranking(
            original=_entrant(original_cost, first),
            candidates=tuple(
                _entrant(c.cost, taken, first, len(given)) for c, taken in zip(given, others, strict=True)
            ),
            noise=max(WORTH if quick else 0.0, *(abs(1 - edge) for edge in apart)),
            rounds=len(first),
            target=target.title,
            seconds=time.perf_counter() - began,
        )

    as_given: Entrant | None = None
    with target.timers(models, seed) as timers:
        if uncleaned is not None:
            # A few rounds say what cleaning gives: nothing is decided by it.
            cleaned, as_it_came = rounds(
                [timers[0], timers.pop()], seconds=seconds / 4, least=_FEWEST, most=_LEAST
            )
            as_given = _entrant(original_cost, as_it_came, cleaned)
        taken = rounds(
            timers,
            seconds=seconds,
            least=_FEWEST if quick else _LEAST,
            most=_MOST,
            enough=(lambda taken: _clear(ranking(taken))) if quick else None,
        )
    return replace(ranking(taken), given=as_given)


def _clear(ranking: Ranking) -> bool:
    """Say whether more rounds would not change which candidate is taken."""
    if not ranking.candidates or ranking.order()[:1] == [ranking._best()]:
        return True
    return all(c.interval[1] < 1 + WORTH for c in ranking.candidates)


def _entrant(
    cost: float, taken: Sequence[float], reference: Sequence[float] | None = None, comparisons: int = 1
) -> Entrant:
    low, median, high = np.percentile(taken, [25, 50, 75]).tolist()
    if reference is None:
        return Entrant(cost, median, (low, high))
    speedup, interval = paired_speedup(reference, taken, comparisons=comparisons)
    return Entrant(cost, median, (low, high), speedup, interval)
