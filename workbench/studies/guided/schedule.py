"""Schedules of rules as data and as text, policies, and the saturation whose rules a policy chooses, step by step.

The text of a schedule is, for example, ``run matmul-* until saturated, then merge-* 2 times``.
"""

from __future__ import annotations

import fnmatch
import re
from abc import ABC, abstractmethod
from collections import abc
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from workbench.graph import Graph
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import RuleSet
from workbench.run.trace import Step, StopReason
from workbench.saturation.engine import Plan
from workbench.saturation.limits import Limits
from workbench.saturation.process import RemoteEngine
from workbench.saturation.saturation import Saturation
from workbench.support.messages import UnknownName, nearest


class ScheduleError(ValueError):
    """Raised when the text of a schedule cannot be read, or a pattern of it matches no rule."""


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a schedule: rules that run together, some iterations or until they change nothing.

    ``patterns`` are names of rules, or patterns such as ``merge-*``. ``times`` is None for until saturated.
    """

    patterns: tuple[str, ...]
    times: int | None = None

    def __str__(self) -> str:
        often = "until saturated" if self.times is None else f"{self.times} times"
        return f"{' '.join(self.patterns)} {often}"


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts of a schedule, one after another."""

    parts: tuple[Schedule, ...]

    def __str__(self) -> str:
        texts = (f"({p})" if not isinstance(p, Run) else str(p) for p in self.parts)
        return ", then ".join(texts)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part of a schedule that is repeated, some times or until it changes nothing (``times`` None)."""

    part: Schedule
    times: int | None = None

    def __str__(self) -> str:
        often = "" if self.times is None else f" {self.times} times"
        return f"({self.part}), repeat{often}"


Schedule = Run | Sequence | Repeat

#: A token, or the rest of a text in which none begins.
_TOKEN: Final = re.compile(r"([(),]|[\w*?\-\[\]]+)|(\S.*)", re.DOTALL)
_WORDS: Final = {"once": 1, "twice": 2}


def parse_schedule(text: str) -> Schedule:
    """Return the schedule that a text describes.

    A schedule is ``run RULES HOW, then RULES HOW, …``, and may end in ``, repeat`` or ``, repeat 3 times``.
    RULES are names or patterns; HOW is ``until saturated``, ``once``, ``twice`` or ``3 times``. Parentheses
    group. Raise :class:`ScheduleError` for any other text.

    >>> print(parse_schedule("run matmul-* until saturated, then merge-* twice, repeat"))
    (matmul-* until saturated, then merge-* 2 times), repeat
    """
    found = _TOKEN.findall(text)
    if found and (rest := found[-1][1]):
        raise ScheduleError(f"a schedule must be of rules and words, got {rest.strip()!r}")
    reader = _Reader([token for token, _ in found])
    schedule = reader.sequence()
    if reader.next():
        rest = " ".join(reader.tokens[reader.at :])
        raise ScheduleError(f"a schedule must continue with ', then', ', repeat' or the end, got {rest!r}")
    return schedule


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = tokens, 0

    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def accept(self, *words: str) -> bool:
        if tuple(self.tokens[self.at : self.at + len(words)]) != words:
            return False
        self.at += len(words)
        return True

    def sequence(self) -> Schedule:
        self.accept("run")
        parts = [self.part()]
        while self.accept(",", "then"):
            parts.append(self.part())
        whole: Schedule = parts[0] if len(parts) == 1 else Sequence(tuple(parts))
        while self.accept(",", "repeat"):
            whole = Repeat(whole, self.times())
        return whole

    def part(self) -> Schedule:
        if self.accept("("):
            inner = self.sequence()
            if not self.accept(")"):
                raise ScheduleError(f"a group must end with ')', got {self.next() or 'the end'!r}")
            return inner
        patterns = []
        while self.next() and self.next() not in (*_WORDS, "until", ",", ")") and not self.counted():
            patterns.append(self.next())
            self.at += 1
        if not patterns:
            raise ScheduleError(f"a part must name rules, got {self.next() or 'the end'!r}")
        if self.accept("until", "saturated"):
            return Run(tuple(patterns))
        times = self.times()
        if times is None:
            raise ScheduleError(
                f"a part must say how often its rules run, got {self.next() or 'the end'!r} after "
                f"{' '.join(patterns)!r} (try until saturated, once, or 2 times)"
            )
        return Run(tuple(patterns), times)

    def counted(self) -> bool:
        return self.next().isdigit() and self.tokens[self.at + 1 : self.at + 2] == ["times"]

    def times(self) -> int | None:
        for word, number in _WORDS.items():
            if self.accept(word):
                return number
        if not self.counted():
            return None
        number = int(self.next())
        if number < 1:
            raise ScheduleError(f"a number of times must be at least 1, got {number}")
        self.at += 2
        return number


def chosen(patterns: Iterable[str], names: Iterable[str]) -> frozenset[str]:
    """Return the names that match a pattern; raise :class:`ScheduleError` for a pattern without any."""
    known = tuple(names)
    found = {pattern: {n for n in known if fnmatch.fnmatchcase(n, pattern)} for pattern in patterns}
    for pattern, matched in found.items():
        if not matched:
            hint = nearest(pattern, known)
            raise ScheduleError(f"a pattern must match the name of a rule, got {pattern!r}{hint}")
    return frozenset[str]().union(*found.values())


@dataclass(frozen=True, slots=True)
class Progress:
    """What a policy knows when it decides: rules, steps taken, size, and what the last step matched and changed."""

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
        if isinstance(schedule, Sequence):
            for part in schedule.parts:
                changed |= yield from self._walk(part)
            return changed
        patterns = schedule.patterns if isinstance(schedule, Run) else ()
        rules = chosen(patterns, self._progress.names)
        for _ in count() if schedule.times is None else range(schedule.times):
            if isinstance(schedule, Repeat):
                again = yield from self._walk(schedule.part)
            else:
                yield rules
                again = self._progress.changed
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
            if active > progress.steps[-1]:
                return active
            if progress.steps[-1] >= frozenset(progress.names):
                return None
            self._until.clear()
            return frozenset(progress.names)
        return active or frozenset(progress.names)


class Guided(Saturation):
    """A saturation of ``graph`` in which a ``policy`` decides before every step which of the ``rules`` run.

    The ``limits`` still apply. Phases, rests and ``settle`` do not: the policy alone chooses the rules. A rule of
    several roots runs if it is chosen; ``k_multi`` limits the steps with such rules. ``engine`` is one that another
    saturation no longer needs; by default there is a new one.
    """

    def __init__(
        self,
        graph: Graph,
        rules: RuleSet | abc.Sequence[Rule],
        policy: Policy,
        limits: Limits | None = None,
        *,
        engine: RemoteEngine | None = None,
    ) -> None:
        super().__init__(graph, rules, limits, engine=engine, keep=0)
        self.policy = policy
        self.chosen: list[frozenset[str]] = []
        self._multi = frozenset(r.name for r in self.rules if r.multi)
        self._usable = frozenset(c.rule.name for c in self.engine.program.rules)

    def step(self) -> Step:
        """Run the step that the policy chooses; raise StopIteration if it chooses none."""
        self.start_engine()
        if self.unfinished:
            progress = Progress(
                tuple(sorted(self._usable)),
                tuple(self.chosen),
                self.e_nodes,
                self.limits.e_nodes,
                not self._calm,
                {r.rule: r.matches for r in self.trace.steps[-1].rules},
            )
            choice = self.policy.choose(progress)
            if choice is None:
                complete = bool(self.chosen) and self._calm and self.chosen[-1] >= self._usable
                self.stop_reason = StopReason.SATURATED if complete else StopReason.FINISHED
                raise StopIteration("the policy has ended the run")
            self.chosen.append(self._known(choice))
        return super().step()

    def _known(self, choice: object) -> frozenset[str]:
        """Return the names that a policy chose; a policy of a caller's own may be wrong about them."""
        if isinstance(choice, str) or not isinstance(choice, Iterable):
            raise TypeError(f"a policy must choose a set of names of rules, got {choice!r}")
        names = frozenset(choice)
        if strange := sorted(map(str, names - self._usable - {r.name for r in self.rules})):
            raise UnknownName("rule", strange[0], sorted(self._usable), listed=False)
        return names

    def _plan(self, index: int) -> Plan:
        choice = self.chosen[-1]
        multi = bool(choice & self._multi) and self._multi_done < self.limits.k_multi
        banned = frozenset(c.number for c in self.engine.program.rules if c.rule.name not in choice)
        return Plan(index, multi, self.limits.e_nodes, banned, self.profile)
