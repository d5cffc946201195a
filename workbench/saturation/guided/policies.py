"""Policies: interchangeable objects that decide, step by step, which rules run next."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from workbench.saturation.guided.schedule import Repeat, Run, Schedule, Sequence, chosen

#: A function from a sequence of steps, each the names of the rules that run, to the cost of the cheapest
#: term after them, and whether the last of them changed anything.
Trial = Callable[[tuple[frozenset[str], ...]], tuple[float, bool]]


@dataclass(frozen=True, slots=True)
class Progress:
    """The knowledge of a policy when it decides: the rules, the steps taken, and the effect of the last one.

    ``matches`` are the matches of the last step by rule; ``changed`` says whether it changed anything.
    """

    names: tuple[str, ...]
    steps: tuple[frozenset[str], ...]
    e_nodes: int
    limit: int
    changed: bool
    matches: Mapping[str, int]


class Policy(ABC):
    """An object that is asked before every step which rules run; it is used for one run."""

    @abstractmethod
    def choose(self, progress: Progress) -> frozenset[str] | None:
        """Return the names of the rules that run next, or None if the run is over."""


class Scheduled(Policy):
    """A policy that follows a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._progress: Progress | None = None
        self._steps: Generator[frozenset[str], None, bool] | None = None

    def choose(self, progress: Progress) -> frozenset[str] | None:
        """Return the rules of the next step of the schedule."""
        self._progress = progress
        if self._steps is None:
            self._steps = self._walk(self.schedule)
        return next(self._steps, None)

    def _walk(self, schedule: Schedule) -> Generator[frozenset[str], None, bool]:
        """Yield the rules of every step, and return whether any step changed something."""
        assert self._progress is not None
        changed = False
        if isinstance(schedule, Run):
            rules = chosen(schedule.patterns, self._progress.names)
            taken = 0
            while schedule.times is None or taken < schedule.times:
                yield rules
                taken += 1
                changed |= self._progress.changed
                if not self._progress.changed:
                    break
        elif isinstance(schedule, Sequence):
            for part in schedule.parts:
                changed |= yield from self._walk(part)
        else:
            assert isinstance(schedule, Repeat)
            taken = 0
            while schedule.times is None or taken < schedule.times:
                again = yield from self._walk(schedule.part)
                taken += 1
                changed |= again
                if not again:
                    break
        return changed


@dataclass(slots=True)
class Backoff(Policy):
    """Egg's policy: a rule with more than ``limit`` matches rests; both limit and rest double each time."""

    limit: int = 1000
    rest: int = 5
    _until: dict[str, int] = field(default_factory=dict)
    _times: dict[str, int] = field(default_factory=dict)

    def choose(self, progress: Progress) -> frozenset[str] | None:
        """Return the rules that do not rest; the run is over when nothing changed and nothing rests."""
        step = len(progress.steps)
        for name, matches in progress.matches.items():
            times = self._times.get(name, 0)
            if matches > self.limit << times:
                self._times[name] = times + 1
                self._until[name] = step + (self.rest << times)
        active = frozenset(n for n in progress.names if self._until.get(n, 0) <= step)
        if step and not progress.changed:
            if active >= progress.steps[-1] and active != progress.steps[-1]:
                return active
            resting = frozenset(progress.names) - progress.steps[-1]
            if not resting:
                return None
            self._until.clear()
            return frozenset(progress.names)
        return active or frozenset(progress.names)


@dataclass(slots=True)
class MatchLimited(Policy):
    """A policy that runs the rules with the fewest matches first, at most ``limit`` matches in one step.

    A rule's matches are those of its last step. A rule that has not run yet counts as one match.
    """

    limit: int = 2000
    _matches: dict[str, int] = field(default_factory=dict)
    _idle: set[str] = field(default_factory=set)

    def choose(self, progress: Progress) -> frozenset[str] | None:
        """Return the rules that fit; the run is over when every rule has run without a change."""
        if progress.steps:
            last = progress.steps[-1]
            self._matches |= {n: progress.matches.get(n, 0) for n in last}
            self._idle = set() if progress.changed else self._idle | last
            if len(self._idle) == len(progress.names):
                return None
        waiting = [n for n in progress.names if n not in self._idle]
        order = sorted(waiting, key=lambda n: self._matches.get(n, 1))
        taken: list[str] = []
        total = 0
        for name in order:
            total += self._matches.get(name, 1)
            if taken and total > self.limit:
                break
            taken.append(name)
        return frozenset(taken)


@dataclass(slots=True)
class BestFirst(Policy):
    """A policy that tries every group of rules and takes the one after which the extracted cost is least.

    Args:
        groups: The groups, by name.
        trial: The function that tries a sequence of steps.
        patience: Number of steps without a lower cost after which the run is over.
    """

    groups: Mapping[str, frozenset[str]]
    trial: Trial
    patience: int = 3
    _best: float = math.inf
    _without: int = 0

    def choose(self, progress: Progress) -> frozenset[str] | None:
        """Return the group with the cheapest outcome; groups that change nothing are left out."""
        found = [(self.trial((*progress.steps, g)), name) for name, g in sorted(self.groups.items())]
        useful = [(cost, name) for (cost, changed), name in found if changed]
        if not useful:
            return None
        cost, name = min(useful)
        self._without = 0 if cost < self._best else self._without + 1
        self._best = min(self._best, cost)
        return None if self._without > self.patience else self.groups[name]


#: The weight of exploration in the upper confidence bound.
EXPLORE: Final = math.sqrt(2)


@dataclass(slots=True)
class _Branch:
    visits: int = 0
    reward: float = 0.0
    below: dict[str, _Branch] = field(default_factory=dict)


@dataclass(slots=True)
class TreeSearch(Policy):
    """Monte-Carlo tree search over groups of rules, as in arXiv 2410.05534 (MCTS-GEB).

    Before each step, ``rollouts`` sequences of at most ``depth`` groups are tried from the present one on,
    chosen by upper confidence bounds and then at random. The reward of a sequence is the share of the cost
    of the start that it saves. The group that was visited most is taken.

    Args:
        groups: The groups, by name.
        trial: The function that tries a sequence of steps.
        rollouts: Number of sequences tried before each step.
        depth: Length of a sequence.
        steps: Number of steps of the run.
        seed: Seed of the random choices.
    """

    groups: Mapping[str, frozenset[str]]
    trial: Trial
    rollouts: int = 12
    depth: int = 4
    steps: int = 8
    seed: int = 0
    _random: random.Random | None = None
    _start: float = 0.0

    def choose(self, progress: Progress) -> frozenset[str] | None:
        """Return the group that the search prefers."""
        if len(progress.steps) >= self.steps:
            return None
        if self._random is None:
            self._random = random.Random(self.seed)
            self._start = self.trial(())[0]
        names = sorted(n for n, g in self.groups.items() if self.trial((*progress.steps, g))[1])
        if not names:
            return None
        root = _Branch()
        for _ in range(self.rollouts):
            self._rollout(root, progress.steps, names)
        best = max(names, key=lambda n: (root.below[n].visits if n in root.below else 0, n))
        return self.groups[best]

    def _rollout(self, root: _Branch, steps: tuple[frozenset[str], ...], first: Iterable[str]) -> None:
        assert self._random is not None
        path, branch, sequence = [root], root, steps
        names = sorted(first)
        depth = min(self.depth, self.steps - len(steps))
        while len(path) <= depth:
            untried = [n for n in names if n not in branch.below]
            if untried:
                name = self._random.choice(untried)
                branch.below[name] = _Branch()
            else:
                name = max(names, key=lambda n, b=branch: (self._bound(b, n), n))  # type: ignore[misc]
            branch = branch.below[name]
            path.append(branch)
            sequence = (*sequence, self.groups[name])
            names = sorted(self.groups)
            if branch.visits == 0:
                break
        while len(sequence) < len(steps) + depth:
            sequence = (*sequence, self.groups[self._random.choice(sorted(self.groups))])
        cost, _ = self.trial(sequence)
        reward = (self._start - cost) / self._start if self._start > 0 else 0.0
        for one in path:
            one.visits += 1
            one.reward = max(one.reward, reward)

    def _bound(self, branch: _Branch, name: str) -> float:
        below = branch.below[name]
        return below.reward + EXPLORE * math.sqrt(math.log(branch.visits + 1) / max(1, below.visits)) / 10
