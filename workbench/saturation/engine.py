"""The egglog engine: loads a graph and rules, runs iterations under a hard limit, gives snapshots.

It runs in a process of its own (:mod:`workbench.saturation.remote`); nothing here knows of pipes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from workbench.graph import Graph
from workbench.saturation.base import Base, EngineError
from workbench.saturation.compile import CompiledRule, usable
from workbench.saturation.encoding import (
    Constructor,
    Encoding,
    constructor_of,
    declarations,
    load_graph,
)
from workbench.saturation.merging import collect, merge_members
from workbench.saturation.snapshot import columns_of

if TYPE_CHECKING:
    from workbench.extraction.egraph import EGraph


class UnsoundRule(EngineError):
    """Say that a rule would have given an e-class two types."""


@dataclass(frozen=True, slots=True)
class Program:
    """Hold what a run starts from; without ``weights`` the weight-only part is not rewritten.

    ``expected`` are the numbers of rules that such a run has needed before: they are loaded at once. What
    comes of the run does not depend on it.
    """

    graph: Graph
    encoding: Encoding
    rules: tuple[CompiledRule, ...]
    weights: bool = True
    expected: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Plan:
    """Say what one iteration does.

    ``multi`` runs the rules of several roots, ``banned`` are rule numbers to leave out, ``limit`` is
    the number of e-nodes never to exceed, ``profile`` times every rule by itself. With ``among``, numbers
    of e-classes in the last snapshot, the iteration does nothing but merge operators that are, with all
    they read, among these.
    """

    step: int
    multi: bool
    limit: int
    banned: frozenset[int] = frozenset()
    profile: bool = False
    among: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Say what an iteration did: sizes at its end, matches and seconds per rule number.

    ``loading`` are the seconds, not among ``seconds``, that it took to load rules that may match for the
    first time, and to start over with them. ``needed`` are the numbers of all rules that may match by now.
    """

    e_nodes: int
    e_classes: int
    changed: bool
    seconds: float
    rules: dict[int, tuple[int, float]]
    cut: str = ""
    loading: float = 0.0
    needed: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Tally:
    changed: bool = False
    rules: dict[int, list[float]] = field(default_factory=dict)

    def note(self, number: int, matches: int, seconds: float) -> None:
        entry = self.rules.setdefault(number, [0, 0.0])
        entry[0] += matches
        entry[1] += seconds


#: So many rules are loaded at once, before any of them may match: that takes less than to start over.
FEW = 80
#: Above this many e-nodes the matches of multi-pattern rules are counted before they are applied.
COUNT_ABOVE = 400


class _Missing(Exception):
    """Raised when an e-graph has come to hold the operators of rules that are not loaded."""

    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        super().__init__(*(r.rule.name for r in rules))
        self.rules = rules


class Engine:
    """An e-graph in egglog that runs a program.

    A rule is loaded when there is an e-node of every operator that it matches, not before: egglog takes a
    millisecond or two to type-check and plan each, and most can never match. The run then starts over.
    ``bases`` are what earlier programs have left, for this one to start from if one fits.
    """

    def __init__(self, program: Program, bases: Iterable[Base] = ()) -> None:
        self.program = program
        start = {constructor_of(program.graph, i) for i in range(len(program.graph))}
        self.rules = usable(program.rules, start)
        self.by_name = {r.rule.name: r for r in self.rules}
        self.declared = sorted(start.union(*(r.needs for r in self.rules), *(r.makes for r in self.rules)))
        self.dependent = not program.weights or any(r.rule.constants or r.rule.running for r in self.rules)
        parts = [declarations(self.declared)]
        for constructor in self.declared:
            parts += self._bookkeeping(constructor)
        text, rules = "\n".join(parts), _texts(self.rules)
        self.base = next((b for b in bases if b.fits(text, rules)), None) or Base(text)
        self.history: list[Plan] = []
        self.wanted = _texts(
            r
            for r in self.rules
            if len(self.rules) <= FEW or r.number in program.expected or start.issuperset(r.needs)
        )
        self._begin()

    # -- the e-graph ----------------------------------------------------------------------------
    def _begin(self) -> None:
        self.base.begin(self.wanted)
        self.constructors = list(self.declared)
        self.handles = len(self.program.graph)
        self.applied: dict[str, int] = {}
        self.merged: set[tuple[Any, ...]] = set()
        self.made_by_merge: set[int] = set()
        self.among: frozenset[Any] | None = None
        self.combined: dict[tuple[int, ...], str] = {}
        self.base.include(load_graph(self.program.graph, self.program.encoding))
        self._settle_weights()
        self.e_nodes, self.e_classes = self.sizes()

    def run(self, text: str) -> list[Any]:
        """Run commands; raise :class:`EngineError` with the engine's message."""
        return self.base.run(text)

    @property
    def egraph(self) -> Any:
        """Return egglog's e-graph."""
        return self.base.egraph

    def _ready(self, rules: Sequence[CompiledRule]) -> list[CompiledRule]:
        """Return the rules that may match, as there are e-nodes of all their operators.

        Raise :class:`_Missing` where some are not loaded.
        """
        able = self._able()
        missing = self.base.missing(_texts(able))
        if missing:
            raise _Missing([r for r in able if r.ruleset in missing])
        numbers = {r.number for r in able}
        return [r for r in rules if r.number in numbers]

    def _able(self) -> list[CompiledRule]:
        """Return the rules for all of whose operators there are e-nodes."""
        table = self._table()
        present = {c for c in self.constructors if table.get(c.name, 0)}
        return [r for r in self.rules if present.issuperset(r.needs)]

    def _table(self) -> dict[str, int]:
        (output,) = self.run("(print-size)")
        return dict(output.sizes)

    def sizes(self) -> tuple[int, int]:
        """Return the numbers of e-nodes and e-classes."""
        table = self._table()
        tuples = [c.name for c in self.constructors if c.many]
        return (
            sum(table.get(c.name, 0) for c in self.constructors),
            table.get("ty_", 0) + sum(table.get(name, 0) for name in tuples),
        )

    # -- one iteration ----------------------------------------------------------------------------
    def iterate(self, plan: Plan) -> Outcome:
        """Run one iteration; at its end the e-graph has at most ``plan.limit`` e-nodes."""
        began = time.perf_counter()
        while True:
            try:
                outcome = self._iterate(plan)
            except _Missing as error:
                self.wanted |= _texts(error.rules)
                self._restart()
            else:
                break
        needed = frozenset(r.number for r in self._able())
        return replace(outcome, loading=time.perf_counter() - began - outcome.seconds, needed=needed)

    def _iterate(self, plan: Plan) -> Outcome:
        started = time.perf_counter()
        tally = _Tally()
        pushed = self.e_nodes * 8 > plan.limit
        if pushed:
            self.base.push()
        marks = self._marks()
        notes: list[str] = []
        self.among = self._values(plan.among)
        try:
            self._all_at_once(plan, tally, notes)
            over = self.sizes()[0] > plan.limit
        except EngineError as error:
            self.base.discard()
            self._restart()
            self._blame(plan, error)
        if over:
            if pushed:
                self._undo(marks)
            else:
                self._restart()
            tally = _Tally()
            notes = []
            self._one_by_one(plan, tally, notes)
        self.run(f"(clock_ {plan.step}) (run stamp_ 1) (run tick_ 1)")
        self._settle_weights()
        self.e_nodes, self.e_classes = self.sizes()
        self.history.append(plan)
        return Outcome(
            self.e_nodes,
            self.e_classes,
            tally.changed,
            time.perf_counter() - started,
            {n: (int(m), s) for n, (m, s) in tally.rules.items()},
            "; ".join(notes),
        )

    def _values(self, among: frozenset[int] | None) -> frozenset[Any] | None:
        """Return the engine's names of e-classes that are numbered as in a snapshot of this very state."""
        if among is None:
            return None
        rows = self.egraph.freeze().functions["ty_"].rows
        return frozenset(row.inputs[0] for k, row in enumerate(rows) if k in among)

    def _settle_weights(self) -> None:
        """Find what is new and depends on weights alone, and leave one of the e-nodes that differ in them."""
        if self.dependent:
            self.run("(run-schedule (saturate depends_)) (run duplicates_ 1)")

    def _bookkeeping(self, constructor: Constructor) -> list[str]:
        rules = constructor.dependence() if self.dependent else []
        return rules if self.program.weights else rules + constructor.duplicates()

    def _marks(self) -> tuple[Any, ...]:
        """Return what is known beside the e-graph and must be undone with it, declarations included."""
        return (
            dict(self.applied),
            set(self.merged),
            set(self.made_by_merge),
            list(self.constructors),
            dict(self.combined),
        )

    def _undo(self, marks: tuple[Any, ...]) -> None:
        self.base.pop()
        self.applied, self.merged, self.made_by_merge, self.constructors, self.combined = marks

    def _active(self, plan: Plan, *, multi: bool) -> list[CompiledRule]:
        return [r for r in self.rules if r.rule.multi == multi and r.number not in plan.banned]

    def _merging(self, plan: Plan) -> list[CompiledRule]:
        return self._ready([r for r in self._active(plan, multi=True) if r.member is not None])

    def _all_at_once(self, plan: Plan, tally: _Tally, notes: list[str]) -> None:
        if plan.among is not None:
            merges = [(r, collect(self, r)) for r in self._merging(plan)]
            for rule, found in merges:
                merge_members(self, rule, plan, tally, found)
            return
        if plan.multi:
            rules = self._hold_back(self._active(plan, multi=True), plan, notes)
            # First what only makes operators alike (a kernel enlarged beside a larger one), then the
            # members are collected, before any rule of this iteration adds merged operators.
            self._run_rules([r for r in rules if r.rule.contextual], plan, tally)
            merges = [(r, collect(self, r)) for r in self._ready(rules) if r.member is not None]
            self._run_rules([r for r in rules if r.member is None and not r.rule.contextual], plan, tally)
            for rule, found in merges:
                merge_members(self, rule, plan, tally, found)
        self._run_rules(self._active(plan, multi=False), plan, tally)

    def _hold_back(self, rules: list[CompiledRule], plan: Plan, notes: list[str]) -> list[CompiledRule]:
        """Leave out rules whose matches, counted beforehand, would not fit under the limit."""
        if self.e_nodes < COUNT_ABOVE:
            return rules
        room = plan.limit - self.e_nodes
        ready = {r.number for r in self._ready(rules)}
        kept = []
        for rule in rules:
            if not rule.counting or rule.number not in ready:
                kept.append(rule)
                continue
            self.run(f"(run count_rs_{rule.ruleset} 1)")
            (output,) = self.run(f"(print-size count_{rule.ruleset})")
            total = int(output.size)
            fresh = max(0, total - self.applied.get(rule.ruleset, 0))
            if fresh * rule.growth > room:
                notes.append(
                    f"{rule.rule.name} held back: {fresh} matches could add "
                    f"{fresh * rule.growth} e-nodes, {room} fit"
                )
                continue
            self.applied[rule.ruleset] = total
            room -= fresh * rule.growth
            kept.append(rule)
        return kept

    def _run_rules(self, rules: Sequence[CompiledRule], plan: Plan, tally: _Tally) -> None:
        rules = self._ready(rules)
        if not rules:
            return
        if plan.profile:
            for rule in rules:
                self._run_one(rule, tally)
            return
        numbers = tuple(r.number for r in rules)
        if numbers not in self.combined:
            self.combined[numbers] = f"group{len(self.combined)}_"
            sets = " ".join(r.ruleset for r in rules)
            self.run(f"(unstable-combined-ruleset {self.combined[numbers]} {sets})")
        (output,) = self.run(f"(run {self.combined[numbers]} 1)")
        report = output.report
        tally.changed |= report.updated
        times = report.search_and_apply_time_per_rule
        for name, matches in report.num_matches_per_rule.items():
            if matches:
                # The engine hands milliseconds over as microseconds.
                seconds = times[name].total_seconds() * 1000 if name in times else 0.0
                tally.note(self.by_name[name].number, matches, seconds)

    def _run_one(self, rule: CompiledRule, tally: _Tally) -> None:
        started = time.perf_counter()
        (output,) = self.run(f"(run {rule.ruleset} 1)")
        tally.changed |= output.report.updated
        matches = sum(output.report.num_matches_per_rule.values())
        tally.note(rule.number, matches, time.perf_counter() - started)

    def _one_by_one(self, plan: Plan, tally: _Tally, notes: list[str]) -> None:
        """Run the iteration rule by rule; undo and name those that would break the limit."""
        rules = self._active(plan, multi=False) if plan.among is None else self._merging(plan)
        if plan.multi:
            rules = self._hold_back(self._active(plan, multi=True), plan, notes) + rules
        for rule in rules:
            if not self._ready([rule]):
                continue
            self.base.push()
            marks = self._marks()
            trial = _Tally()
            if rule.member is not None:
                merge_members(self, rule, plan, trial)
            else:
                self._run_one(rule, trial)
            size = self.sizes()[0]
            if size > plan.limit:
                self._undo(marks)
                notes.append(f"{rule.rule.name} undone: it would have made {size} e-nodes")
                continue
            tally.changed |= trial.changed
            for number, (matches, seconds) in trial.rules.items():
                tally.note(number, int(matches), seconds)

    def _restart(self) -> None:
        """Start over and repeat the iterations done: the engine is deterministic."""
        done, self.history = self.history, []
        self._begin()
        for plan in done:
            self._iterate(plan)

    def _blame(self, plan: Plan, error: EngineError) -> None:
        """Find the rule behind an engine error and raise for it."""
        rules = self._active(plan, multi=False)
        if plan.multi:
            rules = self._active(plan, multi=True) + rules
        for rule in rules:
            try:
                self.base.include("\n".join(self.base.missing(_texts([rule])).values()))
                if rule.member is not None:
                    merge_members(self, rule, plan, _Tally())
                else:
                    self._run_one(rule, _Tally())
            except EngineError as inner:
                if "Illegal merge" in str(inner):
                    raise UnsoundRule(
                        f"rule {rule.rule.name} would give an e-class two types: {rule.rule}"
                    ) from None
                raise EngineError(f"rule {rule.rule.name}: {inner}") from None
        raise error

    # -- reading ----------------------------------------------------------------------------------
    def classes(self) -> list[int]:
        """Return a number for the e-class of every node of the graph: equal where the nodes are equal."""
        numbers: dict[Any, int] = {}
        found = [-1] * len(self.program.graph)
        functions = self.egraph.freeze().functions
        for name in ("h_", "ht_"):
            for row in functions[name].rows:
                at = self.egraph.value_to_i64(row.inputs[0])
                if at < len(found):
                    found[at] = numbers.setdefault((name, row.output), len(numbers))
        return found

    def columns(self) -> dict[str, Any]:
        """Return the columns of the e-graph."""
        return columns_of(self)

    def snapshot(self) -> EGraph:
        """Return the e-graph as columns."""
        from workbench.extraction.egraph import EGraph

        return EGraph(**self.columns())

    def declare(self, constructor: Constructor) -> None:
        """Declare a constructor that a merge of many members needs."""
        if constructor not in self.constructors:
            stamp = constructor.stamp(len(self.constructors))
            self.run("\n".join([constructor.declaration(), stamp, *self._bookkeeping(constructor)]))
            self.constructors.append(constructor)


def _texts(rules: Iterable[CompiledRule]) -> dict[str, str]:
    """Return rules as texts by the name of their rule set."""
    return {r.ruleset: f"{r.text}\n{r.counting}" for r in rules}
