"""Verification of rules as a stepwise object: search for counterexamples, prove in batch, test the rest."""

from __future__ import annotations

import math
import signal
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from workbench.laws.pool import kill, process_pool
from workbench.laws.verification.evidence import (
    Answer,
    Effort,
    Question,
    Settings,
    cases_of,
    decide,
    refuted_by,
    screen,
)
from workbench.laws.verification.proving import Prover
from workbench.laws.verification.refuting.refute import Findings
from workbench.laws.verification.verdict import Verdict, verdict_counts
from workbench.ops import Trait, with_trait
from workbench.ops.serialization import install, packed
from workbench.rules.pattern import Rule, canonical, operators_of
from workbench.rules.verdicts import VERDICTS
from workbench.run.stepper import Stepwise
from workbench.run.trace import Step, StepKind, StopReason, Trace
from workbench.saturation import Limits
from workbench.support import deadline

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    import pandas as pd

    from workbench.rules.ruleset import Contents, Rejected


T = TypeVar("T")

#: A pass ends at this number of e-nodes: the next round would cost more than a new pass with the open cases.
CROWDED: Final = 12_000
#: Number of rules screened or decided in one step.
BATCH: Final = 24
#: The kinds of steps that have the work of each axiom.
PROVING: Final = (StepKind.SEPARATE, StepKind.PASS, StepKind.ROUND, StepKind.UNPROVED)


#: The kind of a step, its numbers, and a text for people that has them.
Done = tuple[StepKind, Mapping[str, int], str]


class Verification(Stepwise):
    """A verification of rules: proved, refuted with a counterexample, tested, or unknown, with evidence.

    A step screens some rules for counterexamples, applies one round of axioms to all unproved rules, or
    decides some of the remaining rules. ``run()`` steps until all rules are decided. Rules that are
    renamings of each other are decided once.

    Args:
        rules: The rules.
        indices: The places of the rules in their file; by default 0, 1, ….
        rejected: Entries of the file that are not rules.
        apart: Whether broadcasting is judged apart, for systems whose element-wise operands broadcast
            without the rules showing it. The verdict then holds for operands of equal shape, and
            broadcasting is reported separately.
        axiom_set: The axioms; by default those of the library.
        one_by_one: Whether each rule is proved in its own e-graph instead of in a batch.
        jobs: Number of processes. With several, a script needs the usual guard around its main part.
        effort: The limits.
        seed: Seed of the random instances.
        name: The name of the rules.

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
        jobs: int = 1,
        effort: Effort | None = None,
        seed: int = 0,
        name: str = "rules",
    ) -> None:
        super().__init__()
        self.rules = tuple(rules)
        self.indices = tuple(range(len(self.rules)) if indices is None else indices)
        self.rejected = tuple(rejected)
        self.settings = Settings(
            effort or Effort(), apart, seed, None if axiom_set is None else tuple(axiom_set)
        )
        self.jobs = jobs
        self.name = name
        self.seconds = 0.0
        self.prove_seconds = 0.0
        self.one_by_one = one_by_one
        self.trace = Trace(
            {
                "kind": "verification",
                "rules": len(self.rules),
                "axioms": len(self.settings.axioms),
                "seed": seed,
                "mode": "one by one" if one_by_one else "batch",
            }
        )
        seen: dict[Any, int] = {}
        #: The first rule of which each is a renaming.
        self._first = [
            seen.setdefault((canonical([*r.sources, *r.targets], r.conditions), len(r.sources), r.each), n)
            for n, r in enumerate(self.rules)
        ]
        self._findings: dict[int, Findings] = {}
        self._verdicts: dict[int, Verdict] = {}
        distinct = sorted(set(self._first))
        self._pending = [n for n in distinct if self.rules[n].sources != self.rules[n].targets]
        self._pool: ProcessPoolExecutor | None = None
        limits = self.settings.effort
        self._prover = Prover(
            self.rules,
            self.settings.axioms,
            Limits(e_nodes=limits.e_nodes, seconds=limits.seconds, iterations=limits.rounds, k_multi=0),
            broadcast=not apart,
            dropped=set(range(len(self.rules))).difference(self._pending),
        )
        self._queue: list[int] = list(self._pending)
        self._phase = "screening"
        self._idle = 0

    @classmethod
    def of(cls, contents: Contents, **options: Any) -> Verification:
        """Return the verification of the rules in a file."""
        return cls(
            contents.rules,
            indices=contents.indices,
            rejected=contents.rejected,
            apart=contents.foreign,
            name=contents.name,
            **options,
        )

    # -- stepping -----------------------------------------------------------------------------------
    def step(self) -> Step:
        """Do one step; raise StopIteration if everything is decided."""
        if not self.unfinished:
            raise StopIteration("the verification has stopped")
        self.stop_reason = None
        began = time.perf_counter()
        work = {"screening": self._screen, "proving": self._prove, "settling": self._settle}[self._phase]
        late = False
        try:
            with deadline.ending(time.time() + self.settings.effort.seconds - self.seconds):
                kind, counts, note = work()
        except deadline.OutOfTime:
            late, kind, counts, note = True, StepKind.CUT, {}, "its time was up"
        except KeyboardInterrupt:
            self.stop_reason = StopReason.INTERRUPTED
            raise
        spent = time.perf_counter() - began
        self.seconds += spent
        saturation = self._prover.saturation
        sizes = (0, 0) if saturation is None else (saturation.e_nodes, saturation.e_classes)
        last = saturation.trace.steps[-1:] if saturation is not None and kind in PROVING else []
        rules = last[0].rules if last and last[0].index else ()
        note = note.format(**counts)
        step = Step(len(self.trace.steps), kind, spent, *sizes, rules, note=note, counts=counts)
        self.trace.add(step)
        if self._phase == "done":
            self.stop_reason = StopReason.FINISHED
            self.close()
        elif late or self.seconds >= self.settings.effort.seconds:
            self.stop_reason = StopReason.TIME_LIMIT
            self.close()
        return step

    def run(self, progress: Callable[[Step], None] | None = None) -> StopReason:
        """Step until all is decided or a limit is reached, and end all processes; Ctrl-C keeps the verdicts."""
        try:
            return self.drive(progress)
        finally:
            self.close()

    @property
    def egraph_seconds(self) -> float:
        """Return the time in seconds in which e-graphs were loaded and grown."""
        return self._prover.egraph_seconds

    def close(self) -> None:
        """End the engine's process and the other processes; they start again when needed."""
        self._prover.close()
        pool, self._pool = self._pool, None
        if pool is not None:
            kill(pool)

    def _map(self, job: Callable[[Settings, Any], T], items: Sequence[Any]) -> list[T | None]:
        """Apply a job to every item, in several processes if there are enough; None for what is late."""
        work = partial(job, replace(self.settings, until=deadline.until()))
        if self.jobs < 2 or len(items) < 4:
            return [_in_time(work, item) for item in items]
        if self._pool is None:
            used = frozenset[str]().union(*map(operators_of, (*self.rules, *self.settings.axioms)))
            self._pool = process_pool(self.jobs, _begin, packed(used & with_trait(Trait.OWN)))
        try:
            futures = [self._pool.submit(work, item) for item in items]
            wait(futures, None if deadline.until() == math.inf else max(0.0, deadline.left()))
            return [_in_time(future.result, 0) for future in futures]
        except BrokenProcessPool:
            # The script has no guard around its main part, or is read from standard input.
            warnings.warn("further processes cannot start here: going on with one", stacklevel=4)
            self.jobs, self._pool = 1, None
            return [_in_time(work, item) for item in items]

    def _screen(self) -> Done:
        batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
        found = self._map(screen, [self.rules[n] for n in batch])
        self._findings |= {n: f for n, f in zip(batch, found, strict=True) if f is not None}
        if not self._queue:
            self._phase = "proving"
        refuted = sum(f is not None and f.counterexample is not None for f in found)
        counts = {"screened": len(self._findings), "rules": len(self._pending), "refuted": refuted}
        note = "screened {screened} of {rules}: {refuted} counterexamples in this step"
        return StepKind.SCREENING, counts, note

    def _prove(self) -> Done:
        began = time.perf_counter()
        kind, counts, note = self._proved()
        if kind in (StepKind.SEPARATE, StepKind.UNPROVED):
            self._phase, self._queue = "settling", list(range(len(self.rules)))
        self.prove_seconds += time.perf_counter() - began
        return kind, counts, note

    def _proved(self) -> Done:
        prover = self._prover
        if self.one_by_one:
            self._prove_one_by_one()
            return StepKind.SEPARATE, {}, "each rule in an e-graph of its own"
        if prover.saturation is not None and not prover.pass_over and not self._hopeless():
            met = prover.step()
            self._idle = 0 if met else self._idle + 1
            counts = {"proved": met, "open": len(prover.open_goals())}
            return StepKind.ROUND, counts, "{proved} cases proved, {open} open"
        # Another pass has a smaller e-graph and gets further; refuted rules are not tried again.
        if prover.passes:
            prover.dropped |= {n for n in self._pending if self._findings[n].counterexample is not None}
        prover.dropped |= {n for n in self._pending if self._findings[n].fruitless}
        if not prover.passes:
            wanted = [n for n in self._pending if n not in prover.dropped]
            found = self._map(cases_of, [self.rules[n] for n in wanted])
            prover.cases |= {n: c for n, c in zip(wanted, found, strict=True) if c is not None}
            deadline.check()
        more = prover.waiting or prover.sweeps < self.settings.effort.passes
        again = self.settings.axioms and (prover.passes == 0 or (prover.productive and more))
        self._idle = 0
        if again and prover.begin():
            counts = {"pass": prover.passes, "open": len(prover.open_goals())}
            return StepKind.PASS, counts, "pass {pass}: {open} cases to prove"
        return StepKind.UNPROVED, {"open": len(prover.open_goals())}, "{open} cases stay unproved"

    def _hopeless(self) -> bool:
        """Return whether only refuted rules are open, or a round costs more than it would in another pass."""
        left = self._prover.loaded
        refuted = all(self._findings[n].counterexample is not None for n in left)
        crowded = self._prover.saturation is not None and self._prover.saturation.e_nodes > CROWDED
        return crowded or (refuted and self._idle >= 1)

    def _prove_one_by_one(self) -> None:
        for number in self._pending:
            self._prover.dropped = set(range(len(self.rules))) - {number}
            if self._findings[number].fruitless or not self._prover.begin():
                continue
            idle = 0
            while not self._prover.pass_over and idle < 3:
                idle = 0 if self._prover.step() else idle + 1
        self._prover.dropped = set()

    def _settle(self) -> Done:
        batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
        share = self.prove_seconds / max(1, len(self._pending))
        for number, (verdict, evidence, seconds) in self._answers([n for n in batch if self._first[n] == n]):
            screened = self._findings.get(number)
            seconds += 0.0 if screened is None else screened.seconds + share
            self._verdicts[number] = self._verdict(number, verdict, evidence, seconds)
        again = []
        for number in (n for n in batch if self._first[n] != n):
            known = self._verdicts.get(self._first[number])
            if known is not None and known.verdict in VERDICTS[:3]:
                evidence = {"renaming_of": known.name} | known.evidence
                self._verdicts[number] = self._verdict(number, known.verdict, evidence, 0.0)
            elif known is not None:  # with a counterexample and a region, or a place in the file, of its own
                again.append(number)
        for number, (verdict, evidence, seconds) in self._answers(again):
            evidence = {"renaming_of": self.rules[self._first[number]].name} | evidence
            self._verdicts[number] = self._verdict(number, verdict, evidence, seconds)
        if not self._queue:
            self._phase = "done"
        counts = {"decided": len(self._verdicts), "rules": len(self.rules)}
        return StepKind.DECISION, counts, "decided {decided} of {rules}"

    def _answers(self, numbers: Sequence[int]) -> list[tuple[int, Answer]]:
        """Return the decisions on rules, without those for which there was no time."""
        found = self._map(decide, [self._question(n) for n in numbers])
        return [(n, answer) for n, answer in zip(numbers, found, strict=True) if answer is not None]

    # -- verdicts -----------------------------------------------------------------------------------
    def _question(self, number: int) -> Question:
        """Return the knowledge about a rule; a renaming has that of the first one, in its own names."""
        rule, first = self.rules[number], self._first[number]
        proof, cases = self._prover.proof(first), self._prover.cases.get(first)
        instances = () if cases is None else cases.instances
        if first != number and instances:
            instances = cases_of(self.settings, rule).instances
        return Question(
            rule,
            self._findings.get(first, Findings()),
            proof,
            instances[0] if proof is not None else None,
            "" if proof is not None else self._unproved(first),
            tuple(i for k, i in enumerate(instances) if (first, k) not in self._prover.rounds),
        )

    def _verdict(self, number: int, verdict: str, evidence: dict[str, Any], seconds: float) -> Verdict:
        rule = self.rules[number]
        return Verdict(self.indices[number], rule.name, verdict, seconds, evidence, rule)

    def _unproved(self, number: int) -> str:
        cases = self._prover.cases.get(number)
        if cases is None or not cases.instances:
            return "no generic instance" + (f" ({cases.reason})" if cases and cases.reason else "")
        met = sum((number, case) in self._prover.rounds for case in range(len(cases.instances)))
        saturation = self._prover.saturation
        why = saturation.stop_reason.value if saturation and saturation.stop_reason else "no progress"
        return f"{met} of {len(cases.instances)} cases proved, then {why}"

    @property
    def verdicts(self) -> list[Verdict]:
        """Return the verdicts in the order of the file; a rule that is not decided yet is unknown."""
        found: list[Verdict] = []
        for number in range(len(self.rules)):
            known, screened = self._verdicts.get(number), self._findings.get(number)
            if known is not None:
                found.append(known)
            elif screened is not None and screened.counterexample is not None:
                found.append(self._verdict(number, "refuted", refuted_by(screened), screened.seconds))
            else:
                stop = self.stop_reason
                reason = "not decided yet" if stop is None else f"stopped: {stop.value}"
                found.append(self._verdict(number, "unknown", {"reason": reason}, 0.0))
        found += [Verdict(r.index, r.name, "rejected", 0.0, {"reason": r.reason}) for r in self.rejected]
        return sorted(found, key=lambda v: v.index)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of rules per verdict."""
        found = self.verdicts
        return {v: n for v in VERDICTS if (n := sum(x.verdict == v for x in found))}

    @property
    def by_axioms(self) -> int:
        """Return the number of tested rules that follow from axioms."""
        return sum(v.by_axioms for v in self.verdicts)

    @property
    def contradictions(self) -> list[Verdict]:
        """Return the rules that follow from axioms in their cases and are refuted in another."""
        return [v for v in self.verdicts if v.contradiction]

    def __getitem__(self, name: str) -> Verdict:
        for verdict in self.verdicts:
            if verdict.name == name:
                return verdict
        raise KeyError(f"the name must be that of a rule of {self.name}, got {name!r}")

    def frame(self) -> pd.DataFrame:
        """Return one row per rule: place, name, verdict, seconds, evidence in one line, law."""
        import pandas as pd

        rows = [(v.index, v.name, v.verdict, v.seconds, v.reason(), v.law) for v in self.verdicts]
        return pd.DataFrame(rows, columns=["rule", "name", "verdict", "seconds", "evidence", "law"])

    def __repr__(self) -> str:
        state = self.stop_reason.value if self.stop_reason else "not finished"
        counts = verdict_counts(self.verdicts)
        lines = [
            f"Verification of {self.name!r}: {state}, {self.seconds:.1f} s, "
            f"of them proving {self.prove_seconds:.2f} s",
            f"  {len(self.rules) + len(self.rejected)} rules: {counts}",
        ]
        shown = [v for v in self.verdicts if v.verdict in ("refuted", "rejected")][:8]
        lines += [f"  {v!r}"[:150] for v in shown]
        return "\n".join(lines)


def _in_time(work: Callable[[Any], T], item: Any) -> T | None:
    """Return the result of some work, None if it is not done when the time is up."""
    try:
        return work(item)
    except TimeoutError:
        return None


def _begin(operators: bytes) -> None:
    install(operators)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
