"""The verdict on equations: the most general law of each that a verification proves or tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from workbench.laws.synthesis.anti_unification import Variants
from workbench.laws.synthesis.conditions import equal_extents, fixed_extents, same_extents
from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.refuting.refute import search
from workbench.laws.verification.verdict import Verdict
from workbench.laws.verification.verify import Verification
from workbench.rules.pattern import Compare, Rule
from workbench.rules.verdicts import TRUSTED

#: Instances of a first look at a law: most wrong laws fail here already.
LOOK: Final = 6
#: A law with fewer conditions is taken if it passes this many times as many instances as in the screening.
MINIMISING: Final = 5
#: The most screenings for one equation.
SCREENED: Final = 60


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome for one equation: the law that holds, if any, and the verdicts on the laws verified.

    ``decided`` is false if a limit came first.
    """

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
    waiting = [_promising(v, effort, seed, halt) for v in variants]
    found: list[Judged | None] = [None] * len(variants)
    failed = [False] * len(variants)
    while not halt():
        turn: list[int] = []
        rules: list[Rule] = []
        for n, laws in enumerate(waiting):
            law = next(laws, None) if found[n] is None else None
            if law is not None:
                turn.append(n)
                # Rules of one verification need different names, even if they get other names later.
                rules.append(replace(law, name=f"candidate-{n}"))
            elif found[n] is None and not halt():
                failed[n] = True
        if not turn:
            break
        verification = Verification(rules, effort=verifying, seed=seed, jobs=jobs)
        try:
            verification.run()
            verdicts = verification.verdicts
        finally:
            verification.close()
        for n, rule, verdict in zip(turn, rules, verdicts, strict=True):
            tried[n].append(verdict)
            if verdict.verdict in TRUSTED:
                found[n] = Judged(rule, verdict, tuple(tried[n]), True)
    return [one or Judged(None, None, tuple(tried[n]), failed[n]) for n, one in enumerate(found)]


def _promising(variants: Variants, effort: Effort, seed: int, halt: Callable[[], bool]) -> Iterator[Rule]:
    """Yield the laws that a few instances do not refute, with conditions if they need them."""
    left = SCREENED

    def passes(rule: Rule, times: int = 1) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            return False
        if times < MINIMISING:
            look = search(rule, LOOK, seed=seed, seconds=5.0, corners=())
            if look.counterexample is not None:
                return False
        found = search(rule, times * effort.screening, seed=seed, seconds=5.0)
        return found.counterexample is None and len(found.passed) > 0

    def guards(law: Rule) -> tuple[Compare, ...]:
        shapes = variants.shapes
        own = variants.guards.get(law, ())
        return tuple(dict.fromkeys((*fixed_extents(law, shapes), *same_extents(law, shapes), *own)))

    failed: list[Rule] = []

    def tried(laws: Sequence[Rule]) -> Iterator[Rule]:
        for law in laws:
            if halt():
                return
            if passes(law):
                yield law
            else:
                failed.append(law)
                yield from _guarded(law, guards(law), passes, halt)

    last = len(variants.laws) - bool(variants.pins)
    yield from tried(variants.laws[:last])
    least = _least_pinned(variants, guards, passes, halt) if variants.pins else None
    yield from tried([*([] if least is None else [least]), *variants.laws[last:]])
    for law in failed:
        if not halt():
            yield from _guarded(law, equal_extents(law, variants.shapes), passes, halt)


def _least_pinned(
    variants: Variants,
    guards: Callable[[Rule], tuple[Compare, ...]],
    passes: Callable[..., bool],
    halt: Callable[[], bool],
) -> Rule | None:
    """Return the law in which only those attributes keep their values that must; None if all must."""

    def holds(kept: frozenset[str], times: int = 1) -> bool:
        law = variants.pinned(kept)
        if law is None or halt():
            return False
        return passes(replace(law, conditions=law.conditions + guards(law)), times)

    kept = frozenset(variants.pins)
    if not holds(kept):
        return None
    for name in variants.pins:
        if holds(kept - {name}, MINIMISING):
            kept -= {name}
    return variants.pinned(kept)


def _guarded(
    law: Rule, conditions: tuple[Compare, ...], passes: Callable[..., bool], halt: Callable[[], bool]
) -> Iterator[Rule]:
    """Yield a law with those conditions that it needs, then with all of them."""
    guarded = replace(law, conditions=law.conditions + conditions)
    if not conditions or not passes(guarded):
        return
    least = guarded
    for condition in conditions:
        fewer = replace(least, conditions=tuple(c for c in least.conditions if c != condition))
        if not halt() and passes(fewer, MINIMISING):
            least = fewer
    yield least
    if least != guarded:
        yield guarded


#: The seed of the instances; it differs from the verification's, which draws other ones.
SEED: Final = 1_000_003


@dataclass(frozen=True, slots=True)
class Recheck:
    """The outcome of many instances of one law: how many agreed, and whether one did not.

    ``complete`` is false if fewer instances than wanted were met within the limits.
    """

    name: str
    passed: int
    refuted: bool
    complete: bool
    seconds: float


def recheck(
    laws: Iterable[Rule], instances: int = 2000, *, seed: int = SEED, seconds: float = 120.0
) -> Iterator[Recheck]:
    r"""Evaluate laws on random instances; yield the outcome for each of them.

    Args:
        laws: The laws.
        instances: Number of instances of each law.
        seed: Seed of the instances.
        seconds: Time limit for each law.

    >>> from workbench.rules import parse_rules
    >>> laws = parse_rules("right: relu(relu(x)) => relu(x)\nwrong: add(x, y) => add(x, x)")
    >>> [(r.name, r.passed >= 50, r.refuted) for r in recheck(laws, 50)]
    [('right', True, False), ('wrong', False, True)]
    """
    if instances < 1:
        raise ValueError(f"the number of instances must be positive, got {instances}")
    for law in laws:
        found = search(law, instances, seed=seed, seconds=seconds, corners=())
        wrong = found.counterexample is not None
        yield Recheck(law.name, len(found.passed), wrong, wrong or found.draws >= instances, found.seconds)
