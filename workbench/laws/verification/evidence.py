"""Decide one rule from its findings and proof: the verdict and the evidence for it.

The functions are pure functions of plain data, so that many rules can be decided in separate processes.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from workbench.laws.theorems.check import check
from workbench.laws.theorems.prove import attempt
from workbench.laws.theorems.steps import Rejected
from workbench.laws.verification import proving
from workbench.laws.verification.instances.boundary_values import OPEN, Corner, decisions_of
from workbench.laws.verification.instances.linear import Inconsistent, NotLinear
from workbench.laws.verification.instances.spaces import Instance, broadcasting_mismatch
from workbench.laws.verification.refuting.cases import replays
from workbench.laws.verification.refuting.exact_arithmetic import NEAR
from workbench.laws.verification.refuting.models import corners_of
from workbench.laws.verification.refuting.refute import Findings, find_region, search
from workbench.ops import TypeMismatch
from workbench.rules.pattern import Rule
from workbench.rules.verdicts import THEOREM, is_theorem
from workbench.support import deadline

T = TypeVar("T")

#: Largest number of generic instances without a proof that are searched for counterexamples of their own.
OPEN_CASES: Final = 24


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of a verification.

    ``screening`` instances of every rule are evaluated before any proof, ``draws`` of those that are not
    proved, and ``region`` more after a counterexample; fewer than ``enough`` do not decide. The prover's
    e-graph has at most ``e_nodes`` e-nodes and ``rounds`` rounds per pass, in at most ``passes`` passes.
    ``chain`` limits the number of terms made to explain a proof (0: no explanation), ``models`` the
    seconds in which a proof for all types is sought, so that its failure gives an instance to evaluate (0: no
    search), ``seconds`` the whole verification. ``kernel`` limits the seconds in which a proof for all types is
    sought before all others (0: none), after ``glance`` instances; a rule that has one is not tested further.
    """

    screening: int = 24
    draws: int = 200
    region: int = 80
    enough: int = 40
    e_nodes: int = 30_000
    rounds: int = 10
    passes: int = 4
    chain: int = 8000
    models: float = 3.0
    seconds: float = 300.0
    kernel: float = 0.0
    glance: int = 8


@dataclass(frozen=True, slots=True)
class Settings:
    """How rules are judged: the effort, whether broadcasting is judged apart, the seed, the axioms.

    ``axiom_set`` is None for the axioms of the library, which every process reads for itself. ``until`` is
    the end of the work in seconds since the epoch.
    """

    effort: Effort
    apart: bool
    seed: int
    axiom_set: tuple[Rule, ...] | None = None
    until: float = math.inf

    @property
    def axioms(self) -> Sequence[Rule]:
        """Return the axioms."""
        return tuple(proving.axioms()) if self.axiom_set is None else self.axiom_set


@dataclass(frozen=True, slots=True)
class Question:
    """The knowledge about a rule at the time of its decision.

    ``case`` is the generic instance on which a proof is explained. ``unproved`` is the reason if there is
    no proof, ``open_cases`` are the generic instances that are not proved.
    """

    rule: Rule
    findings: Findings
    proof: proving.Proof | None
    case: Instance | None
    unproved: str
    open_cases: tuple[Instance, ...] = ()


#: The verdict on a rule, its evidence, and the time in seconds that it took.
Answer = tuple[str, dict[str, Any], float]


def _kept(settings: Settings, work: Callable[[], T], failed: Callable[[str], T]) -> T:
    """Return the result of some work, or what stands for an error: one rule must not take the others' verdicts."""
    with deadline.ending(settings.until):
        try:
            return work()
        except deadline.OutOfTime:
            raise
        except Exception as error:
            return failed(f"{type(error).__name__}: {error}")


def screen(settings: Settings, rule: Rule) -> Findings:
    """Return the findings of a first, short search for counterexamples; an error in it is one of them."""

    def screened() -> Findings:
        if settings.effort.kernel:
            found = _searched(settings, rule, settings.effort.glance, corners=())
            found.theorem = 0 if found.decided else _cases_proved(rule, settings.effort.kernel)
            if found.decided:
                return found
        return _searched(settings, rule, settings.effort.screening)

    return _kept(settings, screened, lambda fault: Findings(failure=fault))


def _cases_proved(rule: Rule, seconds: float) -> int:
    """Return the number of cases of a proof for all types that the checker accepts, 0 if none is found."""
    proof = attempt(rule, min(seconds, deadline.left())).proof
    try:
        return 0 if proof is None else check(rule, proof).cases
    except Rejected:
        return 0


def cases_of(settings: Settings, rule: Rule) -> proving.Cases:
    """Return the generic instances that a proof must cover, none after an error."""
    made = partial(proving.generic_cases, rule, broadcast=not settings.apart)
    return _kept(settings, made, lambda fault: proving.Cases((), False, fault))


def _searched(settings: Settings, rule: Rule, draws: int, **options: Any) -> Findings:
    seconds = min(20.0, settings.effort.seconds)
    return search(rule, draws, seed=settings.seed, broadcast=not settings.apart, seconds=seconds, **options)


def decide(settings: Settings, question: Question) -> Answer:
    """Return the verdict on one rule, unknown after an error; raise OutOfTime if the time is up."""
    began = time.perf_counter()
    verdict, evidence = _kept(
        settings,
        partial(_decided, settings, question),
        lambda fault: ("unknown", {"reason": f"not judged: {fault}"}),
    )
    return verdict, evidence, time.perf_counter() - began


def _decided(settings: Settings, question: Question) -> tuple[str, dict[str, Any]]:
    deadline.check()
    rule, found, effort = question.rule, question.findings, settings.effort
    if rule.sources == rule.targets:
        return "vacuous", {"reason": "both sides are the same term"}
    if found.failure:
        return "unknown", {"reason": f"not judged: {found.failure}"}
    if found.empty:
        place = f"{rule.file}, line {rule.line}: " if rule.line else ""
        return "rejected", {"reason": f"{place}the two sides have no type in common: {found.reason}"}
    if found.theorem:
        return THEOREM, _agreed(settings, rule, found) | {"theorem": found.theorem, "all_cases": True}
    cases = [Corner(decisions_of(i), OPEN) for i in question.open_cases]
    corners = list(dict.fromkeys(cases))[:OPEN_CASES]
    if found.counterexample is None and question.proof is None:
        found = _searched(settings, rule, effort.draws)
        if found.counterexample is None and corners:
            # A case that the axioms do not prove may be one in which the rule is wrong.
            more = _searched(settings, rule, 0, corners=corners)
            found = more if more.counterexample is not None else found.joined(more)
    modelled = found.counterexample is None and effort.models > 0 and not is_theorem(rule)
    if modelled and (at := corners_of(rule, min(effort.models, deadline.left()))):
        # The solver's numbers are not a counterexample before both sides are evaluated on them.
        more = _searched(settings, rule, 0, corners=at)
        if more.counterexample is not None:
            # A proof in generic cases is none for these numbers, so the axioms do not contradict themselves.
            known = {} if question.proof is None else {"beyond": f"by axioms in {question.proof.cases} cases"}
            evidence = _refutation(settings, replace(question, proof=None), more, at)
            # Draws seldom have such numbers, so they do not show in which region the rule holds.
            evidence.pop("region", None)
            return "refuted", known | evidence
        found = found.joined(more)
    if found.counterexample is not None:
        return "refuted", _refutation(settings, question, found, corners)
    evidence = _agreed(settings, rule, found)
    if (proof := question.proof) is not None:
        evidence |= {"round": proof.round, "cases": proof.cases, "sampled": proof.sampled}
        return "tested", evidence | {"all_cases": proof.complete} | _explained(settings, question)
    if len(found.passed) < min(effort.enough, effort.draws):
        reason = f"{len(found.passed)} instances met in {found.tries} tries ({found.reason})"
        return "unknown", evidence | {"reason": reason}
    return "tested", evidence | {"reason": question.unproved}


def _agreed(settings: Settings, rule: Rule, found: Findings) -> dict[str, Any]:
    """Return the evidence of the instances on which the sides of a rule agree."""
    evidence: dict[str, Any] = {
        "draws": len(found.passed),
        "unusual": found.unusual,
        "arithmetic": dict(found.arithmetics),
    }
    if found.arithmetics["float64"]:
        evidence["floating"] = {"instances": found.arithmetics["float64"], "tolerance": NEAR}
    if found.bound is not None:
        evidence["error_bound"] = found.bound
    if settings.apart and proving.spreads(rule):
        evidence["broadcasting"] = _broadcasting(settings, rule, proved=found.theorem > 0)
    return evidence


def refuted_by(found: Findings) -> dict[str, Any]:
    """Return the evidence of a counterexample alone."""
    assert found.counterexample is not None
    return {
        "summary": str(found.counterexample),
        "counterexample": found.counterexample.record(),
        "failed": len(found.failed),
        "passed": len(found.passed),
    }


def _refutation(
    settings: Settings, question: Question, first: Findings, corners: Sequence[Corner]
) -> dict[str, Any]:
    found = first
    effort = settings.effort
    for further in (None, corners):
        again = _searched(settings, question.rule, effort.screening, go_on=effort.region, corners=further)
        if again.counterexample is not None:
            found = again
            break
    assert found.counterexample is not None
    evidence = refuted_by(found)
    evidence["replays"] = replays(question.rule, evidence["counterexample"])
    if effort.region:
        limits = {"draws": effort.enough, "seed": settings.seed}
        with contextlib.suppress(deadline.OutOfTime):
            region = find_region(question.rule, found, broadcast=not settings.apart, **limits)
            if region is not None:
                evidence["region"] = {"condition": str(region), "draws": region.draws}
    if (proof := question.proof) is not None:
        evidence["contradiction"] = f"by axioms at {proof.cases} instances in round {proof.round}"
    return evidence


def _broadcasting(settings: Settings, rule: Rule, *, proved: bool) -> dict[str, Any]:
    """Return the outcome on instances whose element-wise operands broadcast, apart from the verdict.

    If the rule is proved for all types, these included, only the types may differ.
    """
    draws = 0 if proved else settings.effort.screening // 2
    corners = () if proved else None
    found = search(rule, draws, seed=settings.seed, broadcast=True, seconds=5.0, corners=corners)
    if (example := found.counterexample) is not None:
        return {"verdict": "refuted", "summary": str(example), "counterexample": example.record()}
    try:
        mismatch = broadcasting_mismatch(rule, settings.seed)
    except (Inconsistent, NotLinear, TypeMismatch):
        mismatch = ""
    if mismatch:
        return {"verdict": "ill-typed", "summary": mismatch}
    return {"verdict": "holds", "summary": "for all sizes" if proved else f"{len(found.passed)} instances"}


def _explained(settings: Settings, question: Question) -> dict[str, Any]:
    """Return a chain of terms that has been replayed; the proof may be too deep for one to be found."""
    case = question.case
    unexplained: dict[str, Any] = {"axioms": [], "chain": None}
    if not settings.effort.chain or case is None:
        return {}
    with contextlib.suppress(deadline.OutOfTime):
        chains = proving.find_chain(case, settings.axioms, settings.effort.chain)
        if chains is None:
            return unexplained
        if not proving.replay(case, chains, settings.axioms):
            return unexplained | {"replays": False}
        used = dict.fromkeys(name for chain in chains for name in chain.axioms)
        shown = [str(chain).split("\n  ") for chain in chains]
        return {"axioms": list(used), "chain": shown, "replays": True}
    return unexplained
