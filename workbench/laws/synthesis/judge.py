"""The verdict on equations: the most general law of each that a verification proves or tests.

A file of the verdicts lets a run that was ended continue without verifying them again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from workbench._version import __version__
from workbench.laws.synthesis.anti_unification import Variants, equal_extents, fixed_extents, same_extents
from workbench.laws.synthesis.enumeration import Equation
from workbench.laws.synthesis.grammar import Grammar
from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.refuting.refute import search
from workbench.laws.verification.verdict import Verdict
from workbench.laws.verification.verify import Verification
from workbench.ops.serialization import definition_of
from workbench.rules.pattern import Compare, Rule, format_term
from workbench.rules.verdicts import TRUSTED
from workbench.support.disk_cache import DataReader

#: Instances of a first look at a law: most wrong laws fail here already.
LOOK: Final = 6
#: A law with fewer conditions is taken if it passes this many times as many instances as in the screening.
MINIMISING: Final = 5
#: The most screenings for one equation.
SCREENED: Final = 60


@dataclass(frozen=True, slots=True)
class Judged:
    """The law of an equation that holds, if any, the verdicts on those verified, and whether no limit came first."""

    law: Rule | None
    verdict: Verdict | None
    tried: tuple[Verdict, ...]
    decided: bool


def judge(
    variants: Sequence[Variants],
    *,
    effort: Effort,
    seed: int,
    jobs: int,
    halt: Callable[[], bool] = lambda: False,
) -> list[Judged]:
    """Return for each list of laws the first one that holds.

    Each law is screened with a few instances. One that fails is tried with conditions, of which it keeps
    those that it needs: that operands do not broadcast; and finally that all extents are equal to which the
    equation gives one symbol. The first law that passes is verified.

    Args:
        variants: The laws of each equation, the most general first.
        effort: The limits of the verifications.
        seed: Seed of the random instances.
        jobs: Number of processes.
        halt: Whether to stop before the next verification.
    """
    tried: list[list[Verdict]] = [[] for _ in variants]
    # A law that is verified has passed a screening already.
    verifying = replace(effort, screening=min(LOOK, effort.screening))
    waiting = [_Screening(v, effort, seed, halt).laws() for v in variants]
    found: dict[int, Judged] = {}
    failed: set[int] = set()
    while not halt():
        turn: dict[int, Rule] = {}
        for n, laws in enumerate(waiting):
            law = next(laws, None) if n not in found else None
            if law is not None:
                # Rules of one verification need different names, even if they get other names later.
                turn[n] = replace(law, name=f"candidate-{n}")
            elif not halt():
                failed.add(n)
        if not turn:
            break
        verification = Verification(list(turn.values()), effort=verifying, seed=seed, jobs=jobs)
        verification.run()
        for n, verdict in zip(turn, verification.verdicts, strict=True):
            tried[n].append(verdict)
            if verdict.verdict in TRUSTED:
                found[n] = Judged(turn[n], verdict, tuple(tried[n]), True)
    return [found.get(n) or Judged(None, None, tuple(t), n in failed) for n, t in enumerate(tried)]


@dataclass(slots=True)
class _Screening:
    """The laws of one equation that a few instances do not refute, with conditions if they need them."""

    variants: Variants
    effort: Effort
    seed: int
    halt: Callable[[], bool]
    left: int = SCREENED
    failed: list[Rule] = field(default_factory=list)

    def laws(self) -> Iterator[Rule]:
        last = len(self.variants.laws) - bool(self.variants.pins)
        yield from self.tried(self.variants.laws[:last])
        least = self.least_pinned() if self.variants.pins else None
        yield from self.tried([*([] if least is None else [least]), *self.variants.laws[last:]])
        for law in self.failed:
            if not self.halt():
                yield from self.guarded(law, equal_extents(law, self.variants.shapes))

    def passes(self, rule: Rule, times: int = 1) -> bool:
        self.left -= 1
        if self.left < 0:
            return False
        if times < MINIMISING:
            look = search(rule, LOOK, seed=self.seed, seconds=5.0, corners=())
            if look.counterexample is not None:
                return False
        found = search(rule, times * self.effort.screening, seed=self.seed, seconds=5.0)
        return found.counterexample is None and len(found.passed) > 0

    def guards(self, law: Rule) -> tuple[Compare, ...]:
        shapes = self.variants.shapes
        own = self.variants.guards.get(law, ())
        return tuple(dict.fromkeys((*fixed_extents(law, shapes), *same_extents(law, shapes), *own)))

    def tried(self, laws: Sequence[Rule]) -> Iterator[Rule]:
        for law in laws:
            if self.halt():
                return
            if self.passes(law):
                yield law
            else:
                self.failed.append(law)
                yield from self.guarded(law, self.guards(law))

    def least_pinned(self) -> Rule | None:
        """Return the law in which only those attributes keep their values that must; None if all must."""

        def holds(kept: frozenset[str], times: int = 1) -> bool:
            law = self.variants.pinned(kept)
            if law is None or self.halt():
                return False
            return self.passes(replace(law, conditions=law.conditions + self.guards(law)), times)

        kept = frozenset(self.variants.pins)
        if not holds(kept):
            return None
        for name in self.variants.pins:
            if holds(kept - {name}, MINIMISING):
                kept -= {name}
        return self.variants.pinned(kept)

    def guarded(self, law: Rule, conditions: tuple[Compare, ...]) -> Iterator[Rule]:
        """Yield a law with those conditions that it needs, then with all of them."""
        guarded = least = replace(law, conditions=law.conditions + conditions)
        if not conditions or not self.passes(guarded):
            return
        for condition in conditions:
            fewer = replace(least, conditions=tuple(c for c in least.conditions if c != condition))
            if not self.halt() and self.passes(fewer, MINIMISING):
                least = fewer
        yield least
        if least != guarded:
            yield guarded


#: The seed of the instances; it differs from the verification's, which draws other ones.
SEED: Final = 1_000_003


def recheck(law: Rule, instances: int = 2000, *, seconds: float = 120.0) -> tuple[int, bool, bool]:
    r"""Return how many instances of a law agree, whether one does not, and whether that many were met in time.

    >>> from workbench.rules import parse_rules
    >>> right, wrong = parse_rules("right: relu(relu(x)) => relu(x)\nwrong: add(x, y) => add(x, x)")
    >>> recheck(right, 50), recheck(wrong, 50)[1]
    ((50, False, True), True)
    """
    if instances < 1:
        raise ValueError(f"the number of instances must be positive, got {instances}")
    found = search(law, instances, seed=SEED, seconds=seconds, corners=())
    wrong = found.counterexample is not None
    return len(found.passed), wrong, wrong or found.draws >= instances


# -- the journal --------------------------------------------------------------------------------------
#: The modules whose classes an entry is made of.
_CLASSES: Final = (
    "fractions",
    "workbench.laws.synthesis.judge",
    "workbench.laws.verification.verdict",
    "workbench.rules.pattern",
)


class Journal:
    """The outcomes of equations in a file, which is extended after every verification.

    A journal of another grammar, effort, seed or version is begun anew. One whose last entry was cut off is
    read up to there. Enumeration is repeated in a new run: it is the same, and takes little time.

    Nothing in the file ``path`` is run; raise ValueError if it is no journal. ``effort`` and ``seed`` are those of the
    verifications of a ``grammar``.
    """

    def __init__(self, path: Path, grammar: Grammar, effort: Effort, seed: int) -> None:
        self.path = path
        operators = sorted({f.op for f in grammar.forms})
        head = (
            __version__,
            [str(f) for f in grammar.forms],
            [(o.name, o.shape, o.dtype) for o in grammar.operands],
            [sorted(s.items()) for s in grammar.sizes],
            grammar.repeats,
            [definition_of(op) for op in operators],
            repr(effort),
            seed,
        )
        self.known: dict[str, Judged] = {}
        end = self._read(head) if path.is_file() else 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("r+b" if end else "wb") as file:
            file.truncate(end)
            if not end:
                pickle.dump(head, file)

    def _read(self, head: tuple[object, ...]) -> int:
        """Read the entries and return the place at which the last whole one ends, 0 for another head."""
        end = 0
        with self.path.open("rb") as file:
            try:
                found = DataReader(file, ()).load()
            except Exception:  # whatever pickle makes of other data
                found = None
            if not (isinstance(found, tuple) and found and isinstance(found[0], str)):
                file.seek(0)
                if pickle.dumps(head).startswith(file.read()):  # ended while the first entry was written
                    return 0
                raise ValueError(f"{self.path} must be a journal of a synthesis, or a new file")
            if found != head:
                return 0
            end = file.tell()
            while True:
                try:
                    key, one = DataReader(file, _CLASSES).load()
                except Exception:  # the end, or an entry that was cut off
                    return end
                self.known[key] = one
                end = file.tell()

    def of(self, equation: Equation) -> Judged | None:
        """Return the outcome of an equation, or None if it is not known."""
        return self.known.get(_key(equation))

    def add(self, equation: Equation, outcome: Judged) -> None:
        """Keep the outcome of an equation if it is decided."""
        if outcome.decided:
            self.known[_key(equation)] = outcome
            with self.path.open("ab") as file:
                pickle.dump((_key(equation), outcome), file)


def _key(equation: Equation) -> str:
    return f"{format_term(equation.left)} = {format_term(equation.right)}"
