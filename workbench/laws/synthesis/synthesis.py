"""Synthesis of laws as a stepwise object: enumerate terms, choose and verify laws, reduce them."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from workbench._version import __version__
from workbench.laws.synthesis.anti_unification import Variants, repeats, variants_of
from workbench.laws.synthesis.derivation import Coverage, backwards, derivable, instances, readable
from workbench.laws.synthesis.enumeration import Enumeration, Equation, candidates, generality
from workbench.laws.synthesis.grammar import Grammar, Operand
from workbench.laws.synthesis.judge import Journal, Judged, judge
from workbench.laws.synthesis.naming import joint_name, proposed_name, tidied, unique_name
from workbench.laws.synthesis.outputs import Parts, parts_of, variants_of_parts
from workbench.laws.synthesis.rewriting import Pair, Rewriting
from workbench.laws.synthesis.shards import Mapper
from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.verdict import Verdict, verdict_counts
from workbench.ops import TensorType
from workbench.rules.pattern import App, Rule, applications, canonical, format_rule, tensor_variables
from workbench.rules.ruleset import RuleSet
from workbench.run.stepper import Stepwise
from workbench.run.trace import Step, StepKind, StopReason, Trace

if TYPE_CHECKING:
    import pandas as pd

#: Candidates verified in one step: those that the first of them imply are found only afterwards.
JUDGED: Final = 6
#: The limits of a verification of a few candidates.
EFFORT: Final = Effort(chain=0, seconds=20.0)
#: Rounds in which a law is derived from the others; its proof graph has the instances of one law only.
REDUCING: Final = 6


@dataclass(frozen=True, slots=True)
class Law:
    """A law that a synthesis keeps: the rule, its verdict, and the equation that proposed it.

    ``types`` are those of the rule's variables in the grammar, under its first assignment of sizes.
    """

    rule: Rule
    verdict: Verdict
    equation: Equation
    types: Mapping[str, TensorType]


#: The outcomes of candidates, which are counted by size.
OUTCOMES: Final = ("derived", "kept", "refuted", "special")


def _pairs(equations: Sequence[Equation]) -> list[Pair]:
    return [(e.left, e.right) for e in equations]


class Synthesis(Stepwise):
    """A search for the laws of a grammar's operators: terms, classes, candidates, laws.

    One step enumerates all terms of the next size, or verifies some candidates of that size, or drops laws
    that the others imply. A candidate is an equation of two terms whose values agree under every assignment
    of sizes. It is dropped if the laws kept so far make its two sides meet in an e-graph. Otherwise it is
    generalised and verified, and becomes a law if it is proved or tested.

    Args:
        grammar: The terms.
        known: Laws that are known already; laws that follow from them are not reported.
        seconds: Limit on all work in seconds; laws found by then are kept.
        seed: Seed of the values and of the verification.
        jobs: Number of processes of the verification.
        effort: The limits of each verification.
        mapper: The way to evaluate shards of terms; by default in this process. The laws do not depend on it.
        journal: A file that keeps verdicts: a run that was ended continues from there.

    >>> s = Synthesis(Grammar.of("add relu", "matrix: 2", operators=2))  # doctest: +SKIP
    >>> s.run().value  # doctest: +SKIP
    'finished'
    >>> len(s.rules)  # doctest: +SKIP
    3
    """

    def __init__(
        self,
        grammar: Grammar,
        known: Sequence[Rule] | RuleSet | None = None,
        *,
        seconds: float = 600.0,
        seed: int = 0,
        jobs: int = 1,
        effort: Effort | None = None,
        mapper: Mapper | None = None,
        journal: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        if not seconds > 0:
            raise ValueError(f"time limit must be positive, got {seconds} (try 600)")
        self.grammar = grammar
        self.known = tuple(known or ())
        self.limit = seconds
        self.seed, self.jobs = seed, jobs
        self.effort = effort or EFFORT
        self.seconds = 0.0
        self.enumeration = Enumeration(grammar, seed=seed, mapper=mapper)
        self._journal = None if journal is None else Journal(Path(journal), grammar, self.effort, seed)
        self.laws: list[Law] = []
        #: Laws of several outputs; the other laws imply that each of their sides are equal.
        self.joint: list[Law] = []
        self.refuted: list[tuple[Equation, tuple[Verdict, ...]]] = []
        self.dropped: list[Law] = []
        self.counts: dict[int, Counter[str]] = {}
        self.trace = Trace(
            {
                "kind": "synthesis",
                "sizes": ("terms", "classes"),
                "grammar": grammar.name,
                "operators": [str(f) for f in grammar.forms],
                "operands": [f"{o.name}: {' '.join(o.shape)}" for o in grammar.operands],
                "assignments": [dict(s) for s in grammar.sizes],
                "size": grammar.operators,
                "arithmetic": self.enumeration.arithmetic.name.lower(),
                "known": len(self.known),
                "seed": seed,
                "seconds": seconds,
                "versions": {"workbench": __version__},
            }
        )
        self._rewriting = Rewriting(self.enumeration, self._late)
        self._pending: list[Equation] = []
        #: Equations of this size that the laws imply, found in an e-graph.
        self._lemmas: list[Pair] = []
        self._parts: list[Parts] | None = None
        self._reduced = False
        self._began = 0.0

    # -- stepping -----------------------------------------------------------------------------------
    def step(self) -> Step:
        """Do one step; raise StopIteration if nothing is left to do."""
        if not self.unfinished:
            raise StopIteration("the synthesis has stopped")
        self.stop_reason = None
        self._began = time.perf_counter()
        try:
            kind, counts, note = self._work()
        except KeyboardInterrupt:
            self.stop_reason = StopReason.INTERRUPTED
            self.seconds += time.perf_counter() - self._began
            raise
        spent = time.perf_counter() - self._began
        self.seconds += spent
        terms = sum(level.terms for level in self.enumeration.levels)
        classes = sum(level.classes for level in self.enumeration.levels)
        note = note.format(**counts)
        step = Step(len(self.trace.steps), kind, spent, terms, classes, note=note, counts=counts)
        self.trace.add(step)
        if self._reduced:
            self.stop_reason = StopReason.FINISHED
        elif self.seconds > self.limit:
            self.stop_reason = StopReason.TIME_LIMIT
        return step

    def run(self, progress: Callable[[Step], None] | None = None) -> StopReason:
        """Step until all sizes are done or a limit is reached; Ctrl-C stops and keeps the laws."""
        return self.drive(progress)

    def _late(self) -> bool:
        return self.seconds + time.perf_counter() - self._began > self.limit or self._halt.is_set()

    def _work(self) -> tuple[StepKind, dict[str, int], str]:
        if self._pending:
            return self._choose()
        if self.size < self.grammar.operators:
            return self._enumerate()
        if self._parts is None:
            self._parts = parts_of(self.enumeration)
        return self._join(self._parts) if self._parts else self._reduce()

    @property
    def size(self) -> int:
        """Return the number of operators of the largest terms enumerated."""
        return len(self.enumeration.levels) - 1

    def _enumerate(self) -> tuple[StepKind, dict[str, int], str]:
        deadline = self._began + self.limit - self.seconds
        last = self.size + 1 == self.grammar.operators
        level, equations = self.enumeration.extend(deadline, last=last)
        self._pending = candidates(self.enumeration, equations)
        self._lemmas = []
        self.counts[level.size] = Counter(candidates=len(self._pending))
        counts = asdict(level)
        counts |= {"candidates": len(self._pending), "complete": int(counts.pop("complete"))}
        cut = "" if level.complete else " (cut by a limit)"
        note = (
            f"terms of {{size}} operators{cut}: {{terms}}, {{classes}} new classes, {{candidates}} candidates"
        )
        return StepKind.ENUMERATION, counts, note

    # -- laws ---------------------------------------------------------------------------------------
    def _choose(self) -> tuple[StepKind, dict[str, int], str]:
        """Drop candidates that the laws imply, and verify the most general of the others."""
        found = dict.fromkeys(OUTCOMES, 0)
        laws = [*self.known, *self.law_rules]
        met = self._rewriting.derived(_pairs(self._pending), laws, self._lemmas)
        found["derived"] = sum(met)
        self._pending = [e for e, implied in zip(self._pending, met, strict=True) if not implied]
        if not (self.grammar.repeats or self._late()):  # laws that all repeat a variable on both sides
            sizes, shapes, before = self.grammar.sizes[0], self.grammar.types, len(self._pending)
            self._pending = [
                e for e in self._pending if not all(map(repeats, variants_of(e, shapes, sizes).laws))
            ]
            found["special"] = before - len(self._pending)
        turn = self._turn()
        types = {o.name: o.type(self.grammar.sizes[0]) for o in self.grammar.operands}
        met = derivable(_pairs(turn), types, self._both_ways(self.law_rules))
        implied = [e for e, known in zip(turn, met, strict=True) if known]
        self._lemmas += _pairs(implied)
        found["derived"] += len(implied)
        self._pending = [e for e in self._pending if e not in turn]
        for outcome in self._judged([e for e in turn if e not in implied]):
            found[outcome] += 1
        self.counts[self.size].update(found)
        if found["kept"] and self.size == 1:
            self._find_commutative()
        counts = {"size": self.size, **found, "laws": len(self.laws), "open": len(self._pending)}
        note = "{derived} candidates follow, {kept} laws kept, {refuted} refuted, {open} candidates open"
        return StepKind.CHOICE, counts, note

    def _turn(self) -> list[Equation]:
        """Take the most general candidates that do not imply each other and have different operators.

        Candidates with the same operators are often instances of one law.
        """
        chosen: dict[tuple[str, ...], Equation] = {}
        for equation in self._pending:
            operators = sorted(t.op for t in applications(equation.left, equation.right))
            chosen.setdefault(tuple(operators), equation)
        first = list(chosen.values())
        places = self._rewriting.chosen(_pairs(first), [*self.known, *self.law_rules], self._lemmas)
        return [first[n] for n in itertools.islice(places, JUDGED)]

    def _judged(self, equations: Sequence[Equation]) -> Iterator[str]:
        """Verify candidates; yield ``kept`` for one that becomes a law, else its outcome if it is decided."""
        sizes, shapes = self.grammar.sizes[0], self.grammar.types
        variants = [variants_of(e, shapes, sizes) for e in equations]
        left_out = [not self.grammar.repeats and any(map(repeats, v.laws)) for v in variants]
        if not self.grammar.repeats:
            variants = [replace(v, laws=tuple(w for w in v.laws if not repeats(w))) for v in variants]
        outcome = self._outcomes(equations, variants)
        for equation, one, variant, fewer in zip(equations, outcome, variants, left_out, strict=True):
            if one.law is not None and one.verdict is not None:
                if not self._has(one.law):  # another candidate of this step may have given the same law
                    self.laws.append(self._law(equation, one.law, variant.shapes, one.verdict))
                    yield "kept"
            elif one.decided and fewer:
                yield "special"
            elif one.decided:
                self.refuted.append((equation, one.tried))
                yield "refuted"
            else:  # the time limit came first
                self._pending.append(equation)

    def _outcomes(self, equations: Sequence[Equation], variants: Sequence[Variants]) -> list[Judged]:
        """Return the outcomes of equations: those in the journal, and those of the others, which it keeps."""
        known = [None if self._journal is None else self._journal.of(e) for e in equations]
        new = [n for n, outcome in enumerate(known) if outcome is None]
        for n, outcome in zip(new, self._judge([variants[n] for n in new]), strict=True):
            known[n] = outcome
            if self._journal is not None:
                self._journal.add(equations[n], outcome)
        return [outcome for outcome in known if outcome is not None]

    def _judge(self, variants: Sequence[Variants]) -> list[Judged]:
        return judge(variants, effort=self.effort, seed=self.seed, jobs=self.jobs, halt=self._late)

    def _has(self, rule: Rule) -> bool:
        known = (*self.laws, *self.joint)
        forms = (canonical([*law.rule.sources, *law.rule.targets], law.rule.conditions) for law in known)
        return canonical([*rule.sources, *rule.targets], rule.conditions) in forms

    def _law(
        self, equation: Equation, found: Rule, shapes: Mapping[str, Sequence[str]], verdict: Verdict
    ) -> Law:
        rule, sizes = tidied(found, shapes), self.grammar.sizes[0]
        before, after = (tensor_variables(*r.sources, *r.targets) for r in (found, rule))
        # Occurrences of a variable that got names of their own have its name with a number.
        kinds = {o.name: o.dtype for o in self.grammar.operands}
        types = {
            new: Operand(
                new, tuple(shapes[old]), kinds[old if old in kinds else old.rpartition("_")[0]]
            ).type(sizes)
            for old, new in zip(before, after, strict=True)
        }
        taken = {law.rule.name for law in (*self.laws, *self.joint)}
        joint = len(rule.sources) > 1
        name = joint_name(rule) if joint else proposed_name(rule.sources[0], rule.targets[0])
        name = unique_name(name, taken)
        origin = (f"synthesised from {self.grammar.name}",)
        named = replace(rule, name=name, provenance=origin)
        return Law(named, replace(verdict, index=len(self.laws), name=name, rule=named), equation, types)

    def _find_commutative(self) -> None:
        """Let the enumeration skip operands in the other order if exchanging them is a law."""
        for law in self.laws:
            left, right = law.equation.left, law.equation.right
            if not isinstance(left, App) or not isinstance(right, App):
                continue
            if left.op == right.op and len(left.args) == 2 and left.args == right.args[::-1]:
                self.enumeration.commute(left)

    def _join(self, waiting: list[Parts]) -> tuple[StepKind, dict[str, int], str]:
        """Verify some laws that make several terms parts of one."""
        turn, sizes, shapes = waiting[:JUDGED], self.grammar.sizes[0], self.grammar.types
        variants = [variants_of_parts(parts, shapes, sizes) for parts in turn]
        kept = 0
        for parts, one, variant in zip(turn, self._judge(variants), variants, strict=True):
            if one.decided:
                waiting.remove(parts)
            if one.law is not None and one.verdict is not None and not self._has(one.law):
                first = Equation(parts.sources[0], parts.targets[0], self.size)
                self.joint.append(self._law(first, one.law, variant.shapes, one.verdict))
                kept += 1
        counts = {"joint": len(self.joint), "kept": kept, "open": len(waiting)}
        return StepKind.REDUCTION, counts, "{kept} laws of several outputs kept, {open} open"

    def _reduce(self) -> tuple[StepKind, dict[str, int], str]:
        """Drop the laws all of whose instances in the grammar the others imply, the most special first."""
        dropped = 0
        for law in sorted(self.laws, key=lambda law: generality(law.equation), reverse=True):
            others = self._both_ways([x.rule for x in self.laws if x is not law])
            if self._late():
                break
            pairs = instances(law.rule, self.grammar, law.types) if len(self.laws) > 1 else []
            if pairs and all(derivable(pairs, law.types, others, rounds=REDUCING)):
                self.laws.remove(law)
                self.dropped.append(law)
                dropped += 1
        self._reduced = True
        counts = {"dropped": dropped, "kept": len(self.laws)}
        return StepKind.REDUCTION, counts, "{dropped} laws follow from the others, {kept} stay"

    def _both_ways(self, laws: Sequence[Rule]) -> list[Rule]:
        """Return laws with the known ones, and with the instances needed to read them from right to left."""
        return [*self.known, *laws, *readable(laws, self.grammar)]

    # -- results ------------------------------------------------------------------------------------
    @property
    def law_rules(self) -> tuple[Rule, ...]:
        """Return the laws of one output kept so far, the most general first."""
        return tuple(law.rule for law in sorted(self.laws, key=lambda law: generality(law.equation)))

    @property
    def rules(self) -> RuleSet:
        """Return the laws kept so far as a rule set with their verdicts."""
        verdicts = {law.rule.name: law.verdict.verdict for law in (*self.laws, *self.joint)}
        joint = (law.rule for law in self.joint)
        return RuleSet(f"synthesised from {self.grammar.name}", (*self.law_rules, *joint), verdicts)

    def funnel(self) -> pd.DataFrame:
        """Return one row per size: terms, classes, equal pairs, candidates, and their outcomes.

        A ``special`` candidate is left out because both of its sides repeat a variable.
        """
        import pandas as pd

        rows = []
        for level in self.enumeration.levels[1:]:
            count = self.counts.get(level.size, Counter())
            left = count["candidates"] - sum(count[name] for name in OUTCOMES)
            known = {name: count[name] for name in ("candidates", *OUTCOMES)}
            rows.append(asdict(level) | known | {"laws": count["kept"], "open": left})
        columns = "size terms classes pairs candidates derived refuted special laws open complete"
        return pd.DataFrame(rows, columns=columns.split())

    def covers(
        self,
        rules: Sequence[Rule] | RuleSet,
        *,
        seed: int = 0,
        progress: Callable[[str], object] | None = None,
    ) -> Coverage:
        """Return which of the given rules the laws imply; the arguments are those of :class:`Coverage`."""
        return Coverage(tuple(rules), [*self.known, *self.law_rules], seed, progress)

    def __repr__(self) -> str:
        state = self.stop_reason.value if self.stop_reason else "not finished"
        verdicts = verdict_counts([law.verdict for law in self.laws])
        terms = sum(level.terms for level in self.enumeration.levels)
        return (
            f"Synthesis {self.grammar.name!r}, {state}: {terms} terms of up to {self.size} operators, "
            f"{len(self.laws)} laws{': ' if verdicts else ''}{verdicts}, "
            f"{len(self.refuted)} candidates refuted, {self.seconds:.1f} s"
        )


def rules_text(synthesis: Synthesis) -> str:
    """Return the laws as the text of a rule file: a header, then the laws, each with its evidence.

    A law that can be read in both directions is written with ``<=>``.
    """
    grammar, made = synthesis.grammar, synthesis.trace.meta
    levels = synthesis.enumeration.levels[1:]
    stop = synthesis.stop_reason.value if synthesis.stop_reason else "not finished"
    lines = [
        f"# Laws of {', '.join(map(str, grammar.forms))}",
        f"# over {', '.join(made['operands'])},",
        f"# found among {sum(level.terms for level in levels)} terms of at most {synthesis.size} operators; "
        f"synthesis {stop}, seed {synthesis.seed}, workbench {made['versions']['workbench']}.",
    ]
    if synthesis.known:
        lines.append(f"# Not repeated here: what {len(synthesis.known)} known laws imply.")
    by_rule = {law.rule: law for law in synthesis.laws}
    for rule in synthesis.law_rules:
        text = format_rule(rule)
        both_ways = text.replace(" => ", " <=> ", 1) if backwards(rule) is not None else text
        lines += ["", f"# {_evidence(by_rule[rule])}", both_ways]
    if synthesis.joint:
        lines += ["", "# Laws of several outputs; those above imply each of their equations."]
    for law in synthesis.joint:
        lines += ["", f"# {_evidence(law)}", format_rule(law.rule)]
    return "\n".join(lines) + "\n"


def _evidence(law: Law) -> str:
    return f"{law.verdict.verdict}: {law.verdict.reason()}"
