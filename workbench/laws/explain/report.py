"""Answers to questions about an e-graph, as data."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from workbench.laws.proof_graph import Guard, Step
from workbench.run.display import Face
from workbench.run.trace import StopReason


class Cause(enum.Enum):
    """The reason why a target is not represented."""

    REPRESENTED = "it is represented"
    GUARD = "a guard said no"
    DIRECTION = "the rule is only read in the other direction"
    RULE = "the rule is not in the set"
    LIMIT = "a limit ended the run before the rule applied"
    MULTI = "rules of several roots had used up their iterations (k_multi)"
    PHASE = "the rule was out of its phase"
    WHOLE = "the part is taken from a value that is needed whole in any case"
    EXCLUDED = "the match was excluded: another form stands for it"
    NO_MATCH = "the left-hand side matches nothing"
    UNKNOWN = "no chain of rules was found"


class Outcome(enum.Enum):
    """The outcome of a rule at a place where its left-hand side matches."""

    HELD = "its result is there"
    GUARD = "a guard said no"
    MISFIT = "its result has no type there"
    ABSENT = "its result is not there"


@dataclass(frozen=True, slots=True)
class Represented:
    """A part of a target that the e-graph represents: its term, its number of operators, its e-class."""

    term: str
    operators: int
    eclass: int


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a chain of equalities.

    ``rule`` is empty if the e-graph holds the equality by itself. ``held`` says whether the e-graph holds
    it, for any reason. ``forward`` says whether the rule was read from left to right. ``guards`` are
    those that do not hold.
    """

    before: str
    after: str
    rule: str
    forward: bool
    held: bool
    guards: tuple[Guard, ...] = ()

    @classmethod
    def of(cls, step: Step, text: Callable[[int], str], *, held: bool = True) -> Move:
        """Return a step of a proof graph, whose terms ``text`` writes."""
        return cls(text(step.before), text(step.after), step.law, step.forwards, held, step.guards)


@dataclass(frozen=True, slots=True)
class Gap:
    """The missing equality: a term of the e-graph, its e-class, and the term that it should be equal to."""

    present: str
    wanted: str
    eclass: int


@dataclass(frozen=True, slots=True)
class Tried:
    """A rule whose left-hand side matches at the missing equality, and its outcome."""

    rule: str
    outcome: Outcome
    guards: tuple[Guard, ...] = ()
    misfit: str = ""


@dataclass(frozen=True, slots=True)
class WhyNot(Face):
    """The answer to the question why a target is not in an e-graph.

    ``elsewhere`` says whether the e-graph holds the target in another e-class than the compared term.
    ``parts`` are the largest parts that are represented. ``chain`` leads from the e-graph to the target,
    and ``missing`` is the first equality on it that the e-graph does not hold; ``rule`` would give it.
    ``tried`` are the rules that match there. ``stop_reason`` is why the saturation stopped; it is None if
    the saturation was not finished.
    """

    target: str
    compared: str
    cause: Cause
    elsewhere: bool = False
    parts: tuple[Represented, ...] = ()
    missing: Gap | None = None
    rule: str = ""
    guards: tuple[Guard, ...] = ()
    chain: tuple[Move, ...] = ()
    tried: tuple[Tried, ...] = ()
    stop_reason: StopReason | None = None

    @property
    def represented(self) -> bool:
        """Return whether the e-graph represents the target where it should be."""
        return self.cause is Cause.REPRESENTED

    def __repr__(self) -> str:
        rule = f" ({self.rule})" if self.rule else ""
        return f"WhyNot {self.target}: {self.cause.value}{rule}"


@dataclass(frozen=True, slots=True)
class Explanation(Face):
    """The chain of rules between two terms of one e-class, or between two equal outputs of a proved run.

    ``eclass`` is None if there is no e-graph. ``complete`` is false if no chain was found within the limits; ``moves``
    is empty then.
    """

    left: str
    right: str
    eclass: int | None
    moves: tuple[Move, ...]
    complete: bool = True

    def __repr__(self) -> str:
        rules = " → ".join(m.rule + ("" if m.forward else " (backward)") for m in self.moves)
        found = rules or ("the same term" if self.complete else "no chain was found")
        return f"Explanation of {self.left} = {self.right}: {found}"
