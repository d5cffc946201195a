"""Verification of rules as a stepwise object: search for counterexamples, prove in batch, test the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.ops import TypeMismatch
from workbench.rules.pattern import Rule
from workbench.rules.symmetry import canonical
from workbench.saturation import Limits
from workbench.trace import RuleStep, Step, StopReason, Trace
from workbench.verification.chain import find_chain
from workbench.verification.linear import Inconsistent, NotLinear
from workbench.verification.prove import Prover, axioms, spreads
from workbench.verification.refute import Findings, search
from workbench.verification.region import find_region
from workbench.verification.verdict import VERDICTS, Verdict

if TYPE_CHECKING:
    import pandas as pd

    from workbench.rules.foreign import Rejected
    from workbench.rules.reading import Contents


@dataclass(frozen=True, slots=True)
class Effort:
    """Bound a verification.

    ``screening`` instances of every rule before anything is proved, ``draws`` of those that are not
    proved, ``region`` more after a counterexample; fewer than ``enough`` say nothing. The prover's
    e-graph has at most ``e_nodes`` and ``rounds`` rounds a pass; ``chain`` bounds the terms rewritten to
    explain a proof (0: none), ``seconds`` the whole.
    """

    screening: int = 24
    draws: int = 200
    region: int = 120
    enough: int = 40
    e_nodes: int = 30_000
    rounds: int = 6
    passes: int = 3
    chain: int = 2000
    seconds: float = 300.0


class Verification:
    """Decide rules: proved, refuted with a counterexample, tested, or unknown, each with evidence.

    A step screens a number of rules for counterexamples, or applies one round of axioms to everything
    that is not proved, or settles a number of the rest. ``run()`` steps until all are decided.
    ``apart`` judges rules of systems whose element-wise operands broadcast without the rules' knowing:
    the verdict is on operands of one shape, and broadcasting is reported beside it. Rules that are
    renamings of each other are decided once.

    >>> from workbench.rules import parse_rules
    >>> wrong = parse_rules("square: mul(matmul(x, y), matmul(x, z)) => matmul(x, mul(y, z))")
    >>> Verification(wrong).run().value  # doctest: +SKIP
    'finished'
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        indices: Sequence[int] | None = None,
        rejected: Sequence[Rejected] = (),
        apart: bool = False,
        axiom_set: Sequence[Rule] | None = None,
        one_by_one: bool = False,
        effort: Effort | None = None,
        seed: int = 0,
        name: str = "rules",
    ) -> None:
        self.rules = tuple(rules)
        self.indices = tuple(range(len(self.rules)) if indices is None else indices)
        self.rejected = tuple(rejected)
        self.apart = apart
        self.axioms = tuple(axioms() if axiom_set is None else axiom_set)
        self.effort = effort or Effort()
        self.seed = seed
        self.name = name
        self.stop_reason: StopReason | None = None
        self.seconds = 0.0
        self.prove_seconds = 0.0
        self.one_by_one = one_by_one
        self.trace = Trace(
            {
                "kind": "verification",
                "rules": len(self.rules),
                "axioms": len(self.axioms),
                "seed": seed,
                "mode": "one by one" if one_by_one else "batch",
            }
        )
        self._first = self._renamings()
        self._distinct = sorted(set(self._first))
        self._findings: dict[int, Findings] = {}
        self._own: dict[int, float] = dict.fromkeys(self._distinct, 0.0)
        self._verdicts: dict[int, Verdict] = {}
        self._pending = [n for n in self._distinct if self.rules[n].sources != self.rules[n].targets]
        self._prover = self._new_prover(self._pending)
        self._queue: list[int] = list(self._pending)
        self._phase = "screening"
        self._idle = 0

    @classmethod
    def of(cls, contents: Contents, **options: Any) -> Verification:
        """Return the verification of what a file of rules holds."""
        return cls(
            contents.rules,
            indices=contents.indices,
            rejected=contents.rejected,
            apart=contents.foreign,
            name=contents.name,
            **options,
        )

    def _renamings(self) -> list[int]:
        seen: dict[Any, int] = {}
        first = []
        for number, rule in enumerate(self.rules):
            size = len(rule.sources)
            key = (canonical([*rule.sources, *rule.targets], rule.conditions), size, rule.each)
            first.append(seen.setdefault(key, number))
        return first

    def _new_prover(self, numbers: Sequence[int]) -> Prover:
        left = max(1.0, self.effort.seconds - self.seconds)
        limits = Limits(e_nodes=self.effort.e_nodes, seconds=left, iterations=self.effort.rounds, k_multi=0)
        prover = Prover(self.rules, self.axioms, limits, broadcast=not self.apart)
        prover.dropped = set(range(len(self.rules))) - set(numbers)
        return prover

    # -- stepping -----------------------------------------------------------------------------------
    def step(self) -> Step:
        """Do one step; raise StopIteration where everything is decided."""
        if self.stop_reason not in (None, StopReason.INTERRUPTED):
            raise StopIteration(f"the verification has stopped: {self.stop_reason.value}")
        self.stop_reason = None
        began = time.perf_counter()
        try:
            note, rules = {"screening": self._screen, "proving": self._prove, "settling": self._settle}[
                self._phase
            ]()
        except KeyboardInterrupt:
            self.stop_reason = StopReason.INTERRUPTED
            raise
        spent = time.perf_counter() - began
        self.seconds += spent
        saturation = self._prover.saturation
        step = Step(
            len(self.trace.steps),
            spent,
            0 if saturation is None else saturation.e_nodes,
            0 if saturation is None else saturation.e_classes,
            rules,
            note=note,
        )
        self.trace.add(step)
        if self._phase == "done":
            self.stop_reason = StopReason.FINISHED
            self._prover.close()
        elif self.seconds > self.effort.seconds:
            self.stop_reason = StopReason.TIME_LIMIT
            self._prover.close()
        return step

    def __iter__(self) -> Iterator[Step]:
        while self.stop_reason in (None, StopReason.INTERRUPTED):
            yield self.step()

    def run(self, progress: Callable[[Step], None] | None = None) -> StopReason:
        """Step until everything is decided or a limit; Ctrl-C stops and keeps what is decided."""
        try:
            for step in self:
                if progress is not None:
                    progress(step)
        except KeyboardInterrupt:
            self.stop_reason = StopReason.INTERRUPTED
        assert self.stop_reason is not None
        return self.stop_reason

    def close(self) -> None:
        """End the engine's process."""
        self._prover.close()

    def _screen(self) -> tuple[str, tuple[RuleStep, ...]]:
        batch, self._queue = self._queue[:25], self._queue[25:]
        found = 0
        for number in batch:
            self._search(number, self.effort.screening)
            found += self._findings[number].counterexample is not None
        if not self._queue:
            self._phase = "proving"
        screened = len(self._findings)
        return f"screened {screened} of {len(self._pending)}: {found} counterexamples in this step", ()

    def _search(self, number: int, draws: int, go_on: int = 0) -> Findings:
        began = time.perf_counter()
        found = search(
            self.rules[number],
            draws,
            seed=self.seed,
            broadcast=not self.apart,
            go_on=go_on,
            seconds=min(20.0, self.effort.seconds),
        )
        self._findings[number] = found
        self._own[number] += time.perf_counter() - began
        return found

    def _open(self) -> list[int]:
        return [n for n in self._pending if not self._findings[n].empty and self._prover.proof(n) is None]

    def _prove(self) -> tuple[str, tuple[RuleStep, ...]]:
        began = time.perf_counter()
        prover = self._prover
        if self.one_by_one:
            self._prove_one_by_one()
            note = "each rule in an e-graph of its own"
        elif prover.saturation is None or prover.pass_over or self._hopeless():
            # A further pass has less to carry and gets further; refuted rules are not tried again.
            if prover.passes:
                prover.dropped |= {n for n in self._pending if self._findings[n].counterexample is not None}
            prover.dropped |= {n for n in self._pending if self._findings[n].empty}
            again = prover.passes == 0 or (prover.productive and prover.passes < self.effort.passes)
            if not again or not prover.begin():
                self._phase = "settling"
                self._queue = list(self._distinct)
            note = f"pass {prover.passes}: {len(prover.open_goals())} cases to prove"
        else:
            met = prover.step()
            self._idle = 0 if met else self._idle + 1
            note = f"{met} cases proved, {len(prover.open_goals())} open"
        if self.one_by_one:
            self._phase = "settling"
            self._queue = list(self._distinct)
        self.prove_seconds += time.perf_counter() - began
        saturation = prover.saturation
        steps = saturation.trace.steps if saturation is not None else []
        return note, steps[-1].rules if steps and steps[-1].index else ()

    def _hopeless(self) -> bool:
        """Say whether going on is idle: what is left is refuted, or nothing was proved for three rounds."""
        left = {rule for rule, _ in self._prover.open_goals()}
        refuted = all(self._findings[n].counterexample is not None for n in left)
        return (refuted and self._idle >= 1) or self._idle >= 3

    def _prove_one_by_one(self) -> None:
        for number in self._pending:
            self._prover.dropped = set(range(len(self.rules))) - {number}
            if self._findings[number].empty or not self._prover.begin():
                continue
            idle = 0
            while not self._prover.pass_over and idle < 3:
                idle = 0 if self._prover.step() else idle + 1
        self._prover.dropped = set()

    def _settle(self) -> tuple[str, tuple[RuleStep, ...]]:
        batch, self._queue = self._queue[:12], self._queue[12:]
        for number in batch:
            self._decide(number)
        if not self._queue:
            self._phase = "done"
        return f"decided {len(self._verdicts)} of {len(self._distinct)}", ()

    # -- verdicts -----------------------------------------------------------------------------------
    def _decide(self, number: int) -> None:
        began = time.perf_counter()
        rule = self.rules[number]
        if rule.sources == rule.targets:
            verdict, evidence = "vacuous", {"reason": "both sides are the same term"}
        else:
            verdict, evidence = self._evidence(number, rule)
        self._own[number] += time.perf_counter() - began
        share = self.prove_seconds / max(1, len(self._pending))
        self._verdicts[number] = Verdict(
            self.indices[number], rule.name, verdict, self._own[number] + share, evidence, rule
        )

    def _evidence(self, number: int, rule: Rule) -> tuple[str, dict[str, Any]]:
        found, proof = self._findings[number], self._prover.proof(number)
        if found.empty:
            return "rejected", {
                "reason": f"{_place(rule)}the two sides have no type in common: {found.reason}"
            }
        if found.counterexample is not None:
            return "refuted", self._refutation(number, rule, proof)
        if proof is None:
            found = self._search(number, self.effort.draws)
            if found.counterexample is not None:
                return "refuted", self._refutation(number, rule, None)
        evidence: dict[str, Any] = {"draws": len(found.passed), "arithmetic": dict(found.arithmetics)}
        if found.bound is not None:
            evidence["error_bound"] = found.bound
        if self.apart and spreads(rule):
            evidence["broadcasting"] = self._broadcasting(rule)
        if proof is not None:
            evidence |= {"round": proof.round, "cases": proof.cases, "all_cases": proof.complete}
            return "proved", evidence | self._chain(number)
        if len(found.passed) < min(self.effort.enough, self.effort.draws):
            return "unknown", evidence | {
                "reason": f"{len(found.passed)} instances met in {found.tries} tries ({found.reason})"
            }
        return "tested", evidence | {"reason": self._unproved(number)}

    def _unproved(self, number: int) -> str:
        cases = self._prover.cases.get(number)
        if cases is None or not cases.instances:
            return (
                f"no generic instance ({cases.reason})" if cases and cases.reason else "no generic instance"
            )
        met = sum((number, case) in self._prover.rounds for case in range(len(cases.instances)))
        saturation = self._prover.saturation
        why = saturation.stop_reason.value if saturation and saturation.stop_reason else "no progress"
        return f"{met} of {len(cases.instances)} cases proved, then {why}"

    def _refutation(self, number: int, rule: Rule, proof: Any) -> dict[str, Any]:
        found = search(
            rule,
            self.effort.screening,
            seed=self.seed,
            broadcast=not self.apart,
            go_on=self.effort.region,
            seconds=min(20.0, self.effort.seconds),
        )
        if found.counterexample is None:
            found = self._findings[number]
        assert found.counterexample is not None
        evidence: dict[str, Any] = {
            "summary": str(found.counterexample),
            "counterexample": found.counterexample.record(),
            "failed": len(found.failed),
            "passed": len(found.passed),
        }
        region = find_region(rule, found, broadcast=not self.apart, seed=self.seed)
        if region is not None:
            evidence["region"] = {"condition": str(region), "draws": region.draws}
        if proof is not None:
            evidence["contradiction"] = f"proved in round {proof.round} in {proof.cases} cases"
        return evidence

    def _broadcasting(self, rule: Rule) -> dict[str, Any]:
        """Return what happens where element-wise operands broadcast, apart from the verdict."""
        from workbench.verification.instances import broadcasting_mismatch

        found = search(rule, self.effort.screening // 2, seed=self.seed, broadcast=True, seconds=2.0)
        if found.counterexample is not None:
            return {
                "verdict": "refuted",
                "summary": str(found.counterexample),
                "counterexample": found.counterexample.record(),
            }
        try:
            mismatch = broadcasting_mismatch(rule, self.seed)
        except (Inconsistent, NotLinear, TypeMismatch):
            mismatch = ""
        if mismatch:
            return {"verdict": "ill-typed", "summary": mismatch}
        return {"verdict": "holds", "summary": f"{len(found.passed)} instances"}

    def _chain(self, number: int) -> dict[str, Any]:
        if not self.effort.chain:
            return {}
        instance = self._prover.cases[number].instances[0]
        chains = find_chain(instance, self.axioms, self.effort.chain)
        if chains is None:
            return {"axioms": [], "chain": None}
        used = dict.fromkeys(name for chain in chains for name in chain.axioms)
        return {"axioms": list(used), "chain": [str(chain).split("\n  ") for chain in chains]}

    @property
    def verdicts(self) -> list[Verdict]:
        """Return the verdicts known, in the order of the file; what is not decided is unknown."""
        found: list[Verdict] = []
        for number, rule in enumerate(self.rules):
            known = self._verdicts.get(self._first[number])
            if known is None:
                reason = (
                    "not decided yet" if self.stop_reason is None else f"stopped: {self.stop_reason.value}"
                )
                found.append(
                    Verdict(self.indices[number], rule.name, "unknown", 0.0, {"reason": reason}, rule)
                )
                continue
            if self._first[number] != number:
                other = {"renaming_of": known.name} | known.evidence
                known = replace(known, evidence=other, seconds=0.0)
            found.append(replace(known, index=self.indices[number], name=rule.name, rule=rule))
        found += [Verdict(r.index, r.name, "rejected", 0.0, {"reason": r.reason}) for r in self.rejected]
        return sorted(found, key=lambda v: v.index)

    @property
    def counts(self) -> dict[str, int]:
        """Return how many rules have each verdict."""
        found = self.verdicts
        return {v: n for v in VERDICTS if (n := sum(x.verdict == v for x in found))}

    @property
    def contradictions(self) -> list[Verdict]:
        """Return the rules that were proved and refuted."""
        return [v for v in self.verdicts if v.contradiction]

    def __getitem__(self, name: str) -> Verdict:
        for verdict in self.verdicts:
            if verdict.name == name:
                return verdict
        raise KeyError(f"no rule of {self.name} is called {name!r}")

    def frame(self) -> pd.DataFrame:
        """Return one row per rule: place, name, verdict, seconds, evidence in a line, law."""
        import pandas as pd

        rows = [(v.index, v.name, v.verdict, v.seconds, v.reason(), v.law) for v in self.verdicts]
        return pd.DataFrame(rows, columns=["rule", "name", "verdict", "seconds", "evidence", "law"])

    def __repr__(self) -> str:
        state = self.stop_reason.value if self.stop_reason else "not finished"
        counts = ", ".join(f"{n} {v}" for v, n in self.counts.items())
        lines = [
            f"Verification of {self.name!r}: {state}, {self.seconds:.1f} s, "
            f"of them proving {self.prove_seconds:.2f} s",
            f"  {len(self.rules) + len(self.rejected)} rules: {counts}",
        ]
        shown = [v for v in self.verdicts if v.verdict in ("refuted", "rejected")][:8]
        lines += [f"  {v!r}"[:150] for v in shown]
        return "\n".join(lines)


def _place(rule: Rule) -> str:
    return f"{rule.file}, line {rule.line}: " if rule.line else ""
