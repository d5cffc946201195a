"""Ranking of equal graphs by speed: they and the original are timed end to end in alternation.

A cost model adds up operators, while a runtime fuses them, chooses layouts and fills caches. The k best
extractions have similar costs, so the fastest of them is found by measuring.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from workbench.devices.targets import OnnxRuntime, Target
from workbench.devices.timing import Timing, paired_speedup, rounds
from workbench.graph import Graph
from workbench.support.formatting import span, times

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.frontends.onnx.file import Apart

#: The least and largest number of rounds; below nine, the interval of the median is the range of all rounds.
_LEAST, _MOST = 9, 500

#: The largest number of rounds of the model as given: they show the gain of cleaning, and decide nothing.
_CLEANING = 5

#: A candidate wins a round if it is faster than the mean of both copies of the original by this fraction.
WORTH: Final = 0.01

#: The sequential test of a quick ranking, Wald's ratio test on the rounds won. A candidate that wins no more than
#: half of all rounds, as one whose median gain is at most ``WORTH``, is accepted in one sitting with a probability of
#: at most ``ERROR``. One that wins ``MOSTLY`` of them or more is refused with at most the same.
MOSTLY, ERROR = 0.8, 0.05
_WON, _LOST, _BOUND = math.log(MOSTLY / 0.5), math.log((1 - MOSTLY) / 0.5), math.log((1 - ERROR) / ERROR)

#: The rounds of a sitting before which its time does not end it, since fewer cannot accept a candidate, and the most,
#: so that what is near the border does not take longest. A round that takes longer than all should counts as ``_SLOW``.
_FEWEST, _LOOKS, _SLOW = 7, 24, 4

#: The gain from which a quick ranking that is undecided goes on after its time, and the gain up to which two of three
#: sittings must accept: sessions of one model differ by their places in memory.
GAIN, BORDER = 0.02, 0.25
#: The most sittings of a quick ranking, each of which takes its time.
PATIENCE: Final = 3


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
        return asdict(self) | {"quartiles": list(self.quartiles), "interval": list(self.interval)}


@dataclass(frozen=True, slots=True)
class Ranking:
    """The timings of candidates and the original, in the order in which the candidates were given.

    ``noise`` is the difference between the original and a second copy of it, as a fraction of its time. ``winner`` is
    the candidate taken, or None if the original stays. ``given`` is the model as given, if the original is its
    cleaned form; its speed-up is relative to the original, and ``cleaned`` says what was done. If ``decided`` is
    false, the figures are for information: the result was chosen by costs of another device. ``failure`` says why
    nothing could be timed. ``accepted`` are the candidates that the sequential test of a quick ranking found to be
    faster; it is None if intervals decide. ``seed`` is that of the inputs and of the order of the runs. ``alike`` are
    the candidates of which the runtime makes the same kernels as of the original: they are not timed, and their
    speed-up is 1. ``places`` is the number of rewritten places if these alone were timed, one of each kind, and not
    whole models; otherwise 0.
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
    accepted: tuple[int, ...] | None = None
    seed: int = 0
    places: int = 0

    def order(self) -> list[int]:
        """Return the candidates that are faster than the original beyond the noise, the fastest first."""
        faster = self.accepted
        if faster is None:
            faster = tuple(i for i, c in enumerate(self.candidates) if c.interval[0] > 1 + self.noise)
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
            "seed": self.seed,
            "accepted": None if self.accepted is None else list(self.accepted),
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
        figures = (self.original.median, one.median, self.original.quartiles, one.quartiles)
        return Timing(*figures, self.rounds, self.target, self.seconds)

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

    def __repr__(self) -> str:
        return f"Ranking: {self}"

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
) -> Ranking:
    """Time candidates against the original on a target, all in alternation.

    The original runs twice in each round. The difference between its two copies is the noise that a
    candidate has to beat.

    A quick ranking is a sequential test: it ends as soon as the best candidate is accepted or all are refused
    (see :data:`ERROR`), mostly after four to ten rounds. It times models with the same kernels once. A gain of at
    most :data:`BORDER` must be accepted in two of three sittings, which have sessions of their own, and beyond the
    difference of both copies; one of less than :data:`WORTH` ends them. If time is up before the test ends, and a
    candidate seems to gain at least :data:`GAIN`, it goes on with new sessions: up to :data:`PATIENCE` times as long.
    If runs take longer than all time, two rounds are enough.
    Candidates with large weights run against the original one after another.

    Args:
        original: The original.
        given: The candidates.
        target: The program that runs the models.
        original_cost: The cost of the original according to the cost model, in microseconds.
        seconds: The time limit of all rounds.
        seed: The seed of the inputs and of the order of the runs.
        uncleaned: The model as it was given, which is timed against the original first.
        quick: Whether the ranking is quick.
    """
    began = time.perf_counter()
    if not given and uncleaned is None:
        nothing = Entrant(original_cost, 0.0, (0.0, 0.0))
        return Ranking(nothing, (), 0.0, 0, target.title, 0.0)
    models: list[Any] = [original, *(c.saved or c.graph for c in given), original]
    models += [] if uncleaned is None else [uncleaned]
    as_given: Entrant | None = None
    with target.timers(models, seed) as timers:
        first: Any = timers[0]
        again = timers[len(given) + 1]
        entrants: list[Any] = list(timers[1 : len(given) + 1])
        kernels = [getattr(timer, "kernels", None) if quick else None for timer in (first, *entrants)]
        # For each model the first one of which the runtime makes the same kernels, if it says so.
        stands_for = [i if k is None else kernels.index(k) for i, k in enumerate(kernels)]
        run = [i for i, other in enumerate(stands_for) if i == other and i]  # candidates to be timed
        figures = _Figures(
            target.title, original_cost, given, stands_for, max(1, len(run)), quick, seed, began
        )
        one_by_one = quick and getattr(first, "large", False)
        groups = [[i] for i in run] if one_by_one and run else [run]
        share = seconds / max(1, len(groups))
        if uncleaned is not None:
            cleaned, as_it_came = rounds(
                [first, timers[-1]], seconds=seconds / 4, least=3, most=_CLEANING, slow=1e6 * seconds
            )
            as_given = _entrant(original_cost, as_it_came, cleaned)
            _unload(timers[-1:] if one_by_one else ())
        found: list[Ranking] = []
        if quick and not run:
            found.append(figures.ranking([[first()]] * 2, (), ()))
        for group in groups if run or not quick else ():
            _unload([entrants[i - 1] for i in run if i not in group] if one_by_one else ())
            timed = [first, *(entrants[i - 1] for i in group), again]
            if quick:
                taken, accepted = _sittings(timed, figures, share)
            else:
                taken = rounds(timed, seconds=share, least=_LEAST, most=_MOST, seed=seed)
                accepted = ()
            found.append(figures.ranking(taken, group, [group[i - 1] for i in accepted]))
            _unload([entrants[i - 1] for i in group] if one_by_one else ())
    return replace(_merged(found, groups, stands_for), given=as_given)


def compare(
    before: Graph | ModelProto, after: Graph | ModelProto, *, seconds: float = 5.0, seed: int = 0
) -> Timing:
    """Time two models on the same random inputs in ONNX Runtime on the CPU; raise RuntimeFailure if it refuses one.

    Args:
        before: The first model.
        after: The second model.
        seconds: The time for the rounds.
        seed: The seed of the inputs.
    """
    began, target = time.perf_counter(), OnnxRuntime()
    with target.timers([before, after], seed) as timers:
        taken = rounds(timers, seconds=seconds)
    first, second = (_entrant(0.0, figures) for figures in taken)
    figures = (first.median, second.median, first.quartiles, second.quartiles)
    return Timing(*figures, len(taken[0]), target.title, time.perf_counter() - began)


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
    seed: int
    began: float

    def ranking(
        self, taken: Sequence[Sequence[float]], group: Sequence[int], accepted: Sequence[int]
    ) -> Ranking:
        """Return the ranking by the figures of a group; ``accepted`` are the numbers of its fast candidates."""
        reference, *others, copy = taken
        gap, apart = paired_speedup(reference, copy)
        known = {0: reference} | dict(zip(group, others, strict=True))
        fast = tuple(i - 1 for i, j in enumerate(self.stands_for) if j in accepted)
        return Ranking(
            original=_entrant(self.original_cost, reference),
            candidates=tuple(
                _entrant(c.cost, known.get(self.stands_for[i], reference), reference, self.timed)
                for i, c in enumerate(self.given, 1)
            ),
            noise=max(WORTH, abs(1 - gap)) if self.quick else max(abs(1 - edge) for edge in apart),
            rounds=len(reference),
            target=self.title,
            seconds=time.perf_counter() - self.began,
            alike=tuple(i - 1 for i, other in enumerate(self.stands_for) if i and not other),
            accepted=fast if self.quick else None,
            seed=self.seed,
        )

    def leader(
        self, taken: Sequence[Sequence[float]], slow: float = math.inf, since: int = 0
    ) -> tuple[int, float]:
        """Return the fastest candidate not refused (0 if all are) and its :func:`evidence` from ``since`` on."""
        reference, *others, copy = (t[since:] for t in taken)
        found = {i: evidence(reference, one, copy, slow) for i, one in enumerate(others, 1)}
        left = [i for i, known in found.items() if known > -_BOUND]
        best = max(left, key=lambda i: paired_speedup(reference, others[i - 1])[0], default=0)
        return best, found.get(best, -math.inf)

    def ended(self, taken: Sequence[Sequence[float]], slow: float = math.inf, since: int = 0) -> bool:
        """Return whether the test ends: the fastest candidate is accepted, or all are refused."""
        best, known = self.leader(taken, slow, since)
        return len(taken[0]) > since + 1 and (not best or known >= _BOUND)


def evidence(
    reference: Sequence[float], taken: Sequence[float], copy: Sequence[float], slow: float = math.inf
) -> float:
    """Return the logarithm of how many times likelier rounds are if ``MOSTLY`` of them are won than half.

    Args:
        reference: The figures of the original.
        taken: The figures of the candidate.
        copy: The figures of the original's second copy.
        slow: A round whose figures are together larger counts as ``_SLOW``.

    >>> evidence([2.0] * 7, [1.0] * 7, [2.0] * 7) > math.log(19)
    True
    """
    found = 0.0
    for a, one, b in zip(reference, taken, copy, strict=True):
        found += (_WON if one * (1 + WORTH) < (a + b) / 2 else _LOST) * (_SLOW if a + one + b > slow else 1)
    return found


def _sittings(
    timers: Sequence[Any], figures: _Figures, seconds: float
) -> tuple[list[list[float]], tuple[int, ...]]:
    """Time the original, candidates and the original again until the test ends, if need be with new sessions too.

    Both copies of the original change places from sitting to sitting: the one that is loaded first may be slower.
    ``seconds`` is the time limit of one. Return the figures, and the place of the candidate that is accepted, if any.
    """
    taken: list[list[float]] = [[] for _ in timers]
    places, slow, since, won = list(range(len(timers))), 1e6 * seconds, 0, 0
    for later in reversed(range(PATIENCE)):
        shown = [taken[i] for i in places]
        rounds(
            timers,
            seconds=seconds,
            least=_FEWEST,
            most=_LOOKS,
            enough=partial(figures.ended, slow=slow, since=since),
            slow=slow,
            taken=shown,
            seed=figures.seed,
        )
        best, known = figures.leader(shown, slow, since)
        reference, *others, copy = (t[since:] for t in shown)
        mean = [(a + b) / 2 for a, b in zip(reference, copy, strict=True)]
        gains = [paired_speedup(mean, one)[0] - 1 for one in others]
        gain = gains[best - 1] if best else max(gains)
        apart = abs(paired_speedup(reference, copy)[0] - 1)
        won += known >= _BOUND and gain > apart
        if won == 2 or (won and gain > BORDER):
            return taken, (places[best],)
        least = WORTH if known >= _BOUND or not best else GAIN
        if gain < least or (gain <= BORDER and won + later < 2):
            break
        _unload(timers)
        kept = [best] if won and best else range(1, len(timers) - 1)
        timers = [timers[-1], *(timers[i] for i in kept), timers[0]]
        places = [places[0], *(places[i] for i in kept), places[-1]]
        since = len(taken[0]) if known >= _BOUND or not best else since
    return taken, ()


def _merged(found: Sequence[Ranking], groups: Sequence[Sequence[int]], stands_for: Sequence[int]) -> Ranking:
    """Return one ranking of groups of candidates, numbered from 1 on, that ran against the original in turn."""
    own = {i: ranking for ranking, group in zip(found, groups, strict=True) for i in group}
    return replace(
        found[0],
        candidates=tuple(own.get(j, found[0]).candidates[i] for i, j in enumerate(stands_for[1:])),
        noise=max(ranking.noise for ranking in found),
        rounds=min(ranking.rounds for ranking in found),
        accepted=None if found[0].accepted is None else tuple({i for r in found for i in r.accepted or ()}),
        seconds=found[-1].seconds,
    )


def _unload(timers: Sequence[Any]) -> None:
    """Drop the models of timers that can load them again."""
    for timer in timers:
        if hasattr(timer, "unload"):
            timer.unload()


def _entrant(
    cost: float, taken: Sequence[float], reference: Sequence[float] | None = None, comparisons: int = 1
) -> Entrant:
    low, median, high = np.percentile(taken, [25, 50, 75]).tolist()
    paired = (
        () if reference is None else paired_speedup(reference[: len(taken)], taken, comparisons=comparisons)
    )
    return Entrant(cost, median, (low, high), *paired)
