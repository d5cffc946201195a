"""Ranking of equal graphs by speed: they and the original are timed end to end in alternation.

A cost model adds up operators, while a runtime fuses them, chooses layouts and fills caches. The k best
extractions have similar costs, so the fastest of them is found by measuring.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from workbench.devices.targets import OnnxRuntime, Target
from workbench.devices.timing import Timing, paired_speedup, rounds
from workbench.graph import Graph
from workbench.support.formatting import span, times

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.devices.ort_sessions import Loaded
    from workbench.frontends.onnx.file import Apart

#: The least and largest number of rounds; below nine, the interval of the median is the range of all rounds.
_LEAST, _MOST = 9, 500

#: The least number of rounds in a quick ranking.
_FEWEST = 3

#: The number of blocks in which huge models are timed, and the rounds in one block.
_BLOCKS, _RUNS = 4, 3

#: The largest number of rounds of the model as given: they show the gain of cleaning, and decide nothing.
_CLEANING = 5

#: The gain from which a quick ranking goes on after its time if disturbances hide it, and the gain up to which
#: it is timed once more with new sessions: those of one model differ by their places in memory.
GAIN, BORDER = 0.02, 0.25
#: The most sittings of a quick ranking, each of which takes its time.
PATIENCE: Final = 3

#: A quick ranking stops looking for gains below this fraction of the time and does not count them, because
#: two copies of one model in memory differ by as much.
WORTH: Final = 0.01


class Timed(Protocol):
    """A graph that may replace the original."""

    @property
    def graph(self) -> Graph:
        """Return the graph."""

    @property
    def cost(self) -> float:
        """Return the cost according to the cost model, in microseconds."""

    @property
    def saved(self) -> ModelProto | None:
        """Return the model that is saved in its place, or None for the graph itself."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """The timing of one graph: median and quartiles in microseconds, and the speed-up over the original.

    ``cost`` is the cost according to the cost model, in microseconds. ``speedup`` is the median ratio of the
    original to the graph in the same round; ``interval`` contains it with 95 %, for all entrants at once.
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
    """The timings of candidates and the original, in the order in which the candidates were given.

    ``noise`` is the difference between the original and a second copy of it, as a fraction of its time.
    ``winner`` is the candidate taken, or None if the original stays. ``given`` is the model as given,
    if the original is its cleaned form; its speed-up is relative to the original, and ``cleaned`` says what
    was done. If ``decided`` is false,
    the figures are for information: the result was chosen by costs of another device. ``failure`` says why
    nothing could be timed. ``alike`` are the candidates of which the runtime makes the same kernels as of the
    original: they are not timed, and their speed-up is 1.
    """

    original: Entrant
    candidates: tuple[Entrant, ...]
    noise: float
    rounds: int
    target: str
    seconds: float
    winner: int | None = None
    given: Entrant | None = None
    cleaned: str = "initialisers taken out of the inputs"
    decided: bool = True
    failure: str = ""
    alike: tuple[int, ...] = ()

    def order(self) -> list[int]:
        """Return the candidates that are faster than the original beyond the noise, the fastest first."""
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
            "alike": list(self.alike),
            "given": None if self.given is None else self.given.summary(),
        }

    def timing(self) -> Timing | None:
        """Return the timing of the result, or of the best candidate if the original stays, if any."""
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
        """Return the speed-up of the cleaned model over the given one, or None if they are the same."""
        return None if self.given is None or self.given.speedup <= 0 else 1 / self.given.speedup

    def cleaning_line(self) -> str:
        """Return one line on the speed-up by cleaning alone; empty if there was nothing to clean."""
        if self.given is None or self.cleaning is None:
            return ""
        figures = f"{times(self.cleaning)} ({span(self.given.median, self.given.median / self.cleaning)})"
        gained = 1.0 if self.winner is None else self.candidates[self.winner].speedup
        slower = f"the result takes {times(self.given.speedup / gained)} the time of the file as given; "
        return (
            f"{self.cleaned}, which alone gives {figures}; "
            f"{slower if self.given.interval[0] > gained * (1 + WORTH) else ''}"
            "the following is relative to the cleaned model"
        )

    def __str__(self) -> str:
        count = f"{len(self.candidates)} candidate{'s' if len(self.candidates) != 1 else ''}"
        within = f"{self.rounds} rounds in alternation, noise {self.noise:.1%}, {self.target}"
        if self.failure:
            return self.failure
        if not self.candidates:
            return f"no candidate differs from the original, {self.target}"
        if len(self.alike) == len(self.candidates):
            what = "the result runs" if len(self.alike) == 1 else "all candidates run"
            stays = "the original stays: " if self.decided and self.winner is None else ""
            return f"{stays}{what} the same kernels as the original, {self.target}"
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


def rank(
    original: Graph | ModelProto | Apart,
    given: Sequence[Timed],
    target: Target,
    *,
    original_cost: float,
    seconds: float = 10.0,
    seed: int = 0,
    uncleaned: ModelProto | Apart | None = None,
    quick: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> Ranking:
    """Time candidates against the original on a target, all in alternation.

    The original runs twice in each round. The difference between its two copies is the noise that a
    candidate has to beat.

    A quick ranking ends when a candidate is clearly faster, or when none can be expected to turn out faster
    in the rounds that are left. It times models with the same kernels once, and few long rounds are enough:
    two if one takes longer than all of them should. If time is up and disturbances hide a gain of at least
    :data:`GAIN`, and once if a gain is at most :data:`BORDER`, it goes on with new sessions: up to
    :data:`PATIENCE` times as long.
    Candidates with large weights run against the original one after another, so that at most two models are
    loaded; of models with huge weights, one.

    Args:
        original: The original.
        given: The candidates.
        target: The program that runs the models.
        original_cost: The cost of the original according to the cost model, in microseconds.
        seconds: The time limit of all rounds.
        seed: The seed of the inputs.
        uncleaned: The model as it was given, which is timed against the original first.
        quick: Whether the ranking is quick.
        clock: The clock of the time limit, in seconds.
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
    as_given: Entrant | None = None
    with target.timers(models, seed) as timers:
        first: Any = timers[0]
        again = timers[len(given) + 1]
        entrants: list[Any] = list(timers[1 : len(given) + 1])
        stands_for = _same_kernels([first, *entrants]) if quick else list(range(len(given) + 1))
        run = [i for i, other in enumerate(stands_for) if i == other and i]  # candidates to be timed
        figures = _Figures(target.title, original_cost, given, stands_for, max(1, len(run)), quick, began)
        one_by_one = quick and getattr(first, "large", False)
        groups = [[i] for i in run] if one_by_one else [run]
        share = seconds / max(1, len(groups))
        if uncleaned is not None:
            cleaned, as_it_came = rounds(
                [first, timers[-1]], seconds=seconds / 4, least=_FEWEST, most=_CLEANING, slow=1e6 * seconds
            )
            as_given = _entrant(original_cost, as_it_came, cleaned)
            _unload(timers[-1:] if one_by_one else ())
        if quick and not run:
            taken = rounds([first], seconds=seconds / 4, least=_FEWEST, most=_CLEANING, slow=1e6 * seconds)
            return replace(figures.ranking([*taken, *taken], ()), given=as_given)
        found: list[Ranking] = []
        for group in groups:
            if one_by_one and first.huge:
                enough = partial(figures.decided, group=group, seconds=share)
                taken = blocks(first, entrants[group[0] - 1], seconds=share, enough=enough)
            else:
                timed = [first, *(entrants[i - 1] for i in group), again]
                taken = _sittings(timed, figures, group, share, clock)
            found.append(figures.ranking(taken, group))
            _unload([entrants[i - 1] for i in group] if one_by_one else ())
    return replace(_merged(found, groups, stands_for), given=as_given)


def compare(
    before: Graph | ModelProto,
    after: Graph | ModelProto,
    *,
    seconds: float = 5.0,
    threads: int | None = None,
    seed: int = 0,
) -> Timing:
    """Time two models on the same random inputs in ONNX Runtime on the CPU.

    Args:
        before: The first model.
        after: The second model.
        seconds: The time for the rounds.
        threads: The number of threads of an operator; by default all cores.
        seed: The seed of the inputs.

    Raises:
        RuntimeFailure: The runtime refuses a model. (:class:`~workbench.frontends.RuntimeFailure`)
    """
    began, target = time.perf_counter(), OnnxRuntime(threads)
    with target.timers([before, after], seed) as timers:
        taken = rounds(timers, seconds=seconds)
    figures = [np.percentile(t, [25, 50, 75]).tolist() for t in taken]
    return Timing(
        before=figures[0][1],
        after=figures[1][1],
        before_quartiles=(figures[0][0], figures[0][2]),
        after_quartiles=(figures[1][0], figures[1][2]),
        rounds=len(taken[0]),
        executor=target.title,
        seconds=time.perf_counter() - began,
    )


@dataclass(frozen=True, slots=True)
class _Figures:
    """The reading of figures: original, group of candidates and original again, in alternation.

    ``stands_for`` is for each model the one whose figures count for it, ``timed`` the number of candidates
    that are timed, ``began`` the time at which the ranking began.
    """

    title: str
    original_cost: float
    given: Sequence[Timed]
    stands_for: Sequence[int]
    timed: int
    quick: bool
    began: float

    def ranking(self, taken: list[list[float]], group: Sequence[int]) -> Ranking:
        """Return the ranking by the figures of a group."""
        reference, *others, copy = taken
        _, apart = paired_speedup(reference, copy)
        known = {0: reference} | dict(zip(group, others, strict=True))
        return Ranking(
            original=_entrant(self.original_cost, reference),
            candidates=tuple(
                _entrant(c.cost, known.get(self.stands_for[i], reference), reference, self.timed)
                for i, c in enumerate(self.given, 1)
            ),
            noise=max(WORTH if self.quick else 0.0, *(abs(1 - edge) for edge in apart)),
            rounds=len(reference),
            target=self.title,
            seconds=time.perf_counter() - self.began,
            alike=tuple(i - 1 for i, other in enumerate(self.stands_for) if i and not other),
        )

    def decided(self, taken: list[list[float]], group: Sequence[int], seconds: float, least: int = 0) -> bool:
        """Return whether a candidate is clearly faster after ``least`` rounds, or none can be in the time left."""
        spent = sum(map(sum, taken)) / 1e6
        found = self.ranking(taken, group)
        whole = seconds * (PATIENCE if _hidden(found) else 1)
        left = min(_MOST / len(taken[0]), whole / spent if spent else math.inf)
        return len(taken[0]) >= least and (_clear(found) or _hopeless(found, left))

    def settled(self, taken: list[list[float]], group: Sequence[int], seconds: float, sitting: int) -> bool:
        """Return whether the figures suffice after a sitting of ``seconds``; the first sitting is number 0."""
        found = self.ranking(taken, group)
        if not _clear(found):
            return not _hidden(found) or self.decided(taken, group, seconds)
        return sitting > 0 or not found.order() or found.candidates[found._best()].speedup > 1 + BORDER


def _sittings(
    timers: Sequence[Any], figures: _Figures, group: Sequence[int], seconds: float, clock: Callable[[], float]
) -> list[list[float]]:
    """Time the original, a group of candidates and the original again, if need be with new sessions too.

    Both copies of the original change places from sitting to sitting: the one that is loaded first may be slower.

    Args:
        timers: Their timers, in this order.
        figures: The reading of the figures.
        group: The numbers of the candidates.
        seconds: The time limit of one sitting.
        clock: The clock of the time limit, in seconds.
    """
    taken: list[list[float]] = [[] for _ in timers]
    quick = figures.quick
    for sitting in range(PATIENCE if quick else 1):
        before = len(taken[0])
        least = before + before // max(1, sitting)  # every sitting weighs as much
        rounds(
            timers,
            seconds=seconds,
            clock=clock,
            least=_FEWEST if quick else _LEAST,
            most=_MOST,
            enough=partial(figures.decided, group=group, seconds=seconds, least=least) if quick else None,
            slow=1e6 * seconds if quick else math.inf,
            taken=taken,
        )
        if figures.settled(taken, group, seconds, sitting):
            break
        _unload(timers)
        timers = [timers[-1], *timers[1:-1], timers[0]]
    return taken


def blocks(
    first: Loaded, other: Loaded, *, seconds: float, enough: Callable[[list[list[float]]], bool]
) -> list[list[float]]:
    """Time two models in blocks of runs; one is unloaded before the other is loaded.

    The models change places from block to block. One run after each loading is a warm-up and not counted.

    Args:
        first: The timer of the original.
        other: The timer of the candidate.
        seconds: The time limit on the runs that count; there are at least two blocks of each model.
        enough: Whether these figures decide, so that no further block is needed.

    Returns:
        The figures of the original, of the candidate, and of the original as it was loaded for the next block,
        in microseconds.
    """
    reference: list[float] = []
    others: list[float] = []
    taken: list[list[float]] = []
    loaded: Any = None
    for block in range(_BLOCKS):
        for timer in (first, other) if block % 2 == 0 else (other, first):
            if timer is not loaded:
                if loaded is not None:
                    loaded.unload()
                timer()
                loaded = timer
            for _ in range(_RUNS):
                (reference if timer is first else others).append(timer())
        taken = [reference, others, reference[_RUNS:] + reference[:_RUNS]]
        if block and (sum(reference) + sum(others) > 1e6 * seconds or enough(taken)):
            break
    loaded.unload()
    return taken


def _merged(found: Sequence[Ranking], groups: Sequence[Sequence[int]], stands_for: Sequence[int]) -> Ranking:
    """Return one ranking of groups of candidates that ran against the original one after another.

    Args:
        found: The ranking of each group.
        groups: The numbers of the candidates in each group, from 1 on.
        stands_for: For each model the first one with the same kernels; the original is number 0.
    """
    own = {i: ranking for ranking, group in zip(found, groups, strict=True) for i in group}
    return replace(
        found[0],
        candidates=tuple(own.get(j, found[0]).candidates[i] for i, j in enumerate(stands_for[1:])),
        noise=max(ranking.noise for ranking in found),
        rounds=min(ranking.rounds for ranking in found),
        seconds=found[-1].seconds,
    )


def _unload(timers: Sequence[Any]) -> None:
    """Drop the models of timers that can load them again."""
    for timer in timers:
        if hasattr(timer, "unload"):
            timer.unload()


def _same_kernels(timers: Sequence[Any]) -> list[int]:
    """Return for each model the first one of which the runtime makes the same kernels, if it says so."""
    kernels = [getattr(timer, "kernels", None) for timer in timers]
    return [i if k is None else kernels.index(k) for i, k in enumerate(kernels)]


def _clear(ranking: Ranking) -> bool:
    """Return whether more rounds would not change which candidate is taken."""
    if not ranking.candidates or ranking.order()[:1] == [ranking._best()]:
        return True
    return all(c.interval[1] < 1 + WORTH for c in ranking.candidates)


def _hidden(ranking: Ranking) -> bool:
    """Return whether disturbances may hide a considerable gain."""
    return not _clear(ranking) and any(c.speedup >= 1 + GAIN for c in ranking.candidates)


def _hopeless(ranking: Ranking, more: float) -> bool:
    """Return whether no candidate can be expected to beat the noise after ``more`` times as many rounds.

    Intervals shrink by the root of ``more``. The true speed-up of a candidate is taken to be the upper end of
    its interval, and the two copies of the original are expected to come together.
    """
    shrinks = 1 / math.sqrt(max(1.0, more))
    noise = max(WORTH, ranking.noise * shrinks)

    def expected(one: Entrant) -> float:
        half = (one.interval[1] - one.interval[0]) / 2
        return one.speedup + half - half * shrinks

    return all(expected(c) <= 1 + noise for c in ranking.candidates)


def _entrant(
    cost: float, taken: Sequence[float], reference: Sequence[float] | None = None, comparisons: int = 1
) -> Entrant:
    low, median, high = np.percentile(taken, [25, 50, 75]).tolist()
    if reference is None:
        return Entrant(cost, median, (low, high))
    speedup, interval = paired_speedup(reference, taken, comparisons=comparisons)
    return Entrant(cost, median, (low, high), speedup, interval)
