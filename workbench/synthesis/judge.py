"""The verdict on equations: the most general law of each that a verification proves or tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.ops import TensorType
from workbench.rules.expressions import holds
from workbench.rules.language import parse_rule
from workbench.rules.pattern import Compare, Rule, names_in
from workbench.verification.evidence import Effort
from workbench.verification.verdict import Verdict
from workbench.verification.verify import Verification

#: Verdicts with which a law is kept.
HOLDS = ("proved", "tested")


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome for one equation: the law that holds, if any, and the verdicts on all laws tried."""

    law: Rule | None
    verdict: Verdict | None
    tried: tuple[Verdict, ...]


def judge(
    variants: Sequence[Sequence[Rule]],
    types: Mapping[str, TensorType],
    *,
    effort: Effort,
    seed: int,
    jobs: int,
    halt: Callable[[], bool] = lambda: False,
) -> list[Judged]:
    """Return for each list of laws the first one that holds.

    If none holds, but a law that is refuted holds in a region, that law with the region as a condition is
    tried last.

    Args:
        variants: Lists of laws, the most general first.
        types: The types of the variables in the equations: a condition must hold for them.
        effort: The limits of the verifications.
        seed: Seed of the random instances.
        jobs: Number of processes.
        halt: Whether to stop before the next verification.
    """
    tried: list[list[Verdict]] = [[] for _ in variants]
    waiting = [list(v) for v in variants]
    found: list[Judged | None] = [None] * len(variants)
    guarded = [False] * len(variants)
    while not halt():
        turn = [n for n, laws in enumerate(waiting) if laws and found[n] is None]
        if not turn:
            break
        # Rules of one verification need different names, whatever they are called later.
        rules = [replace(waiting[n].pop(0), name=f"candidate-{n}") for n in turn]
        verification = Verification(rules, effort=effort, seed=seed, jobs=jobs)
        try:
            verification.run()
            verdicts = verification.verdicts
        finally:
            verification.close()
        for n, rule, verdict in zip(turn, rules, verdicts, strict=True):
            tried[n].append(verdict)
            if verdict.verdict in HOLDS:
                found[n] = Judged(rule, verdict, tuple(tried[n]))
            elif not waiting[n] and not guarded[n]:
                guarded[n] = True
                waiting[n] += _guarded(tried[n], types)
    return [one or Judged(None, None, tuple(tried[n])) for n, one in enumerate(found)]


def _guarded(verdicts: Sequence[Verdict], types: Mapping[str, TensorType]) -> list[Rule]:
    """Return the first refuted law that holds in a region that has the equation, with the region as condition."""
    for verdict in verdicts:
        region = verdict.evidence.get("region")
        if verdict.verdict == "refuted" and verdict.rule is not None and region:
            law = str(replace(verdict.rule, conditions=(), provenance=()))
            (one,) = parse_rule(f"{law} where {region['condition']}")
            if all(_holds(c, types) for c in one.conditions):
                return [replace(verdict.rule, conditions=verdict.rule.conditions + one.conditions)]
    return []


def _holds(condition: Compare, types: Mapping[str, TensorType]) -> bool:
    """Return whether a condition holds; one on attributes, which an equation has fixed, counts as true."""
    kinds = {kind for side in (condition.left, condition.right) for kind, _ in names_in(side)}
    if "attr" in kinds:
        return True
    return holds(condition, lambda name: 0, types.__getitem__)
