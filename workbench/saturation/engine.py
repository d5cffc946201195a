"""The egglog engine: it loads a graph and rules, runs iterations under a hard limit, and makes snapshots.

It runs in its own process (:mod:`workbench.saturation.process`); this module does not depend on pipes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.graph import Graph
from workbench.graph.dataflow import read_whole
from workbench.saturation.compile import CompiledRule, sinks
from workbench.saturation.egglog_session import Base, EngineError, gives_two_types
from workbench.saturation.encoding import Constructor, Encoding, constructor_of, declarations, load_graph
from workbench.saturation.group_merge import Candidate, collect, merge_members
from workbench.saturation.node_budget import MANY, bursting, fitting, hold_joins
from workbench.saturation.rule_prefilter import A_NUMBER, Pair, pairs_in, pairs_of, usable
from workbench.saturation.state import Record, State, columns_of


class UnsoundRule(EngineError):
    """Raised when a rule would give an e-class two types."""


@dataclass(frozen=True, slots=True)
class Program:
    """The input of a run; if ``weights`` is false, the weight-only part is not rewritten.

    ``expected`` are the numbers of rules that such runs have needed before; they are loaded at once. The
    result of the run does not depend on them. ``operators`` are those that are not built in, packed
    (:mod:`workbench.ops.serialization`). ``numbers`` are the nodes whose elements are all one number, which the
    graph itself may not show because it comes without its weights' data.
    """

    graph: Graph
    encoding: Encoding
    rules: tuple[CompiledRule, ...]
    weights: bool = True
    expected: frozenset[int] = frozenset()
    operators: bytes = b""
    numbers: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """The instructions for one iteration.

    If ``multi``, rules with several roots run. ``banned`` are the numbers of rules to leave out, ``limit``
    is the number of e-nodes that is never exceeded, ``profile`` times every rule separately. ``among`` are
    numbers of e-classes in the last snapshot; if they are given, the iteration only merges operators that
    are, together with everything they read, in these e-classes.
    """

    step: int
    multi: bool
    limit: int
    banned: frozenset[int] = frozenset()
    profile: bool = False
    among: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an iteration: sizes at its end, and matches and seconds by rule number.

    ``loading`` is the time, not part of ``seconds``, for loading rules that may match for the first time and
    for starting over with them. ``needed`` are the numbers of all rules that ran, because they might match.
    ``phases`` are the seconds by phase: the engine's (:data:`~workbench.saturation.egglog_session.PHASES`) and
    ``own code``.
    """

    e_nodes: int
    e_classes: int
    changed: bool
    seconds: float
    rules: dict[int, tuple[int, float]]
    cut: str = ""
    loading: float = 0.0
    needed: frozenset[int] = frozenset()
    phases: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Tally:
    changed: bool = False
    rules: dict[int, tuple[int, float]] = field(default_factory=dict)

    def note(self, number: int, matches: int, seconds: float) -> None:
        known, spent = self.rules.get(number, (0, 0.0))
        self.rules[number] = known + matches, spent + seconds


#: Up to this many rules are loaded at once, before any of them may match: that is faster than starting over.
FEW = 80
#: Above this many e-nodes the matches of multi-pattern rules are counted before the rules are applied.
COUNT_ABOVE = 400


class _Missing(Exception):
    """Raised when an e-graph contains the pairs of operators of rules that are not loaded, whose texts it has."""


class Engine:
    """An e-graph in egglog that runs a program.

    A rule runs once the e-graph has every pair of operators that it matches, and is loaded by then: egglog
    takes one or two milliseconds to type-check and plan a rule, and most rules can never match. If it is not
    loaded, the run starts over, with all rules whose operators are all there. ``bases`` are left over from
    earlier programs; if one fits, this program starts from it.
    """

    def __init__(self, program: Program, bases: Iterable[Base] = ()) -> None:
        self.program = program
        start = {constructor_of(program.graph, i) for i in range(len(program.graph))}
        start |= {A_NUMBER} if program.numbers else set()
        self.rules = usable(program.rules, start)
        self.by_name = {r.rule.name: r for r in self.rules}
        self.pairs = {r.number: pairs_of(r.rule.sources) for r in self.rules}
        self.needed: set[int] = set()
        self.declared = sorted(start.union(*(r.needs for r in self.rules), *(r.makes for r in self.rules)))
        sinking = any(sinks(r.rule) for r in self.rules)
        self.whole = read_whole(program.graph) if sinking else None
        limited = any(r.rule.constants or r.rule.running for r in self.rules)
        self.dependent = sinking or limited or not program.weights
        parts = [declarations(self.declared)]
        for constructor in self.declared:
            parts += self._bookkeeping(constructor)
        text = "\n".join(parts)
        rules = _texts(self.rules)
        self.base = next((b for b in bases if b.fits(text, rules)), None) or Base(text)
        self.history: list[Plan] = []
        few, expected = len(self.rules) <= FEW, program.expected
        likely = (r.number in expected if expected else start.issuperset(r.needs) for r in self.rules)
        self.wanted = _texts(r for r, loaded in zip(self.rules, likely, strict=True) if few or loaded)
        self._begin()

    # -- the e-graph ----------------------------------------------------------------------------
    def _begin(self) -> None:
        self.base.begin(self.wanted)
        graph, encoding = self.program.graph, self.program.encoding
        record = Record(list(self.declared))
        self.state = State(self.base, graph, encoding, self._bookkeeping, record, len(graph))
        self.among: frozenset[Any] | None = None
        self.base.include(load_graph(graph, encoding, self.program.numbers, self.whole or ()))
        self._settle_weights()
        self.e_nodes, self.e_classes = self.sizes()

    def _ready(self, rules: Sequence[CompiledRule]) -> list[CompiledRule]:
        """Return the rules whose operators read each other in the e-graph; raise ``_Missing`` for unloaded ones."""
        rules, known = self._present(rules), self.state.record.pairs
        if open_pairs := frozenset[Pair]().union(*(self.pairs[r.number] for r in rules)) - known:
            known |= pairs_in(self.state, open_pairs)
        able = [r for r in rules if known >= self.pairs[r.number]]
        texts = _texts(able)
        if self.base.missing(texts):
            # The rules whose operators are all there may match soon: they are loaded as well.
            raise _Missing(texts | _texts(self._present(self.rules)))
        self.needed.update(r.number for r in able)
        return able

    def _present(self, rules: Iterable[CompiledRule]) -> list[CompiledRule]:
        """Return those of the rules that have e-nodes for all their operators."""
        table = self._table()
        present = {c for c in self.state.record.constructors if table.get(c.name, 0)}
        present |= {A_NUMBER} if table.get("uniform_", 0) else set()
        return [r for r in rules if present.issuperset(r.needs)]

    def _table(self) -> dict[str, int]:
        (output,) = self.base.run("(print-size)")
        return dict(output.sizes)

    def sizes(self) -> tuple[int, int]:
        """Return the numbers of e-nodes and e-classes."""
        table = self._table()
        sizes = {c: table.get(c.name, 0) for c in self.state.record.constructors}
        return sum(sizes.values()), table.get("ty_", 0) + sum(n for c, n in sizes.items() if c.many)

    # -- one iteration ----------------------------------------------------------------------------
    def iterate(self, plan: Plan) -> Outcome:
        """Run one iteration; at its end the e-graph has at most ``plan.limit`` e-nodes."""
        began = time.perf_counter()
        while True:
            try:
                outcome = self._iterate(plan)
                break
            except _Missing as error:
                self.wanted |= error.args[0]
                self._restart()
        loading = time.perf_counter() - began - outcome.seconds
        return replace(outcome, loading=loading, needed=frozenset(self.needed))

    def _iterate(self, plan: Plan) -> Outcome:
        started, spent = time.perf_counter(), dict(self.base.spent)
        tally = _Tally()
        pushed = self.e_nodes * 8 > plan.limit
        if pushed:
            self.base.push()
        before = self.state.record.copy()
        notes: list[str] = []
        self.among = None
        if plan.among is not None:  # e-classes are numbered as in a snapshot of the present state
            rows = self.state.functions["ty_"].rows
            self.among = frozenset(row.inputs[0] for k, row in enumerate(rows) if k in plan.among)
        try:
            self._all_at_once(plan, tally, notes)
            over = self.sizes()[0] > plan.limit
        except EngineError as error:
            self.base.discard()
            self._restart()
            self._blame(plan, error)
        if over:
            room = plan.limit - self.e_nodes
            vain = bursting(self.state, self._making(tally, room), room)
            if pushed:
                self.base.pop()
                self.state.record = before
            else:
                self._restart()
            tally, notes = _Tally(), []
            self._one_by_one(plan, tally, notes, vain)
        if not self.program.weights:
            hold_joins(self.state, self._making(tally, plan.limit // MANY))
        self.base.run(f"(clock_ {plan.step}) (run stamp_ 1) (run tick_ 1)")
        self._settle_weights()
        self.e_nodes, self.e_classes = self.sizes()
        self.history.append(plan)
        seconds = time.perf_counter() - started
        phases = {name: s - spent[name] for name, s in self.base.spent.items()}
        phases["own code"] = max(0.0, seconds - sum(phases.values()))
        sizes = self.e_nodes, self.e_classes
        return Outcome(*sizes, tally.changed, seconds, tally.rules, "; ".join(notes), phases=phases)

    def _making(self, tally: _Tally, most: int) -> list[CompiledRule]:
        """Return the rules whose matches may have made more than a number of e-nodes."""
        return [r for r in self.rules if tally.rules.get(r.number, (0, 0.0))[0] * r.growth > most]

    def _settle_weights(self) -> None:
        """Derive which terms depend on weights alone; of e-nodes that differ in them, or became one, keep one."""
        if self.dependent:
            once = " ".join(f"(run {name}_ 1)" for name in ("lost", "found", "duplicates", "loops"))
            self.base.run(f"(run-schedule (saturate depends_)) {once}")

    def _bookkeeping(self, constructor: Constructor) -> list[str]:
        rules = constructor.dependence() if self.dependent else []
        rules += constructor.demand() if self.whole is not None else []
        if self.program.weights:
            return rules
        return rules + constructor.numbers() + constructor.loops() + constructor.duplicates()

    def _active(self, plan: Plan, *, multi: bool) -> list[CompiledRule]:
        return [r for r in self.rules if r.rule.multi == multi and r.number not in plan.banned]

    def _merging(self, plan: Plan) -> list[CompiledRule]:
        return self._ready([r for r in self._active(plan, multi=True) if r.member is not None])

    def _all_at_once(self, plan: Plan, tally: _Tally, notes: list[str]) -> None:
        if plan.among is not None:
            merges = [(r, collect(self.state, r)) for r in self._merging(plan)]
            for rule, found in merges:
                self._merge(rule, plan, tally, found)
            return
        if plan.multi:
            rules = self._hold_back(self._active(plan, multi=True), plan, notes)
            # First the rules that only make operators alike (say, enlarge a kernel to the size of another).
            # Then the members are collected, before any rule of this iteration adds merged operators.
            self._run_rules([r for r in rules if r.rule.contextual], plan, tally)
            merges = [(r, collect(self.state, r)) for r in self._ready(rules) if r.member is not None]
            self._run_rules([r for r in rules if r.member is None and not r.rule.contextual], plan, tally)
            for rule, found in merges:
                self._merge(rule, plan, tally, found)
        self._run_rules(self._active(plan, multi=False), plan, tally)

    def _hold_back(self, rules: list[CompiledRule], plan: Plan, notes: list[str]) -> list[CompiledRule]:
        """Leave out rules whose matches, counted beforehand, would exceed the limit."""
        if self.e_nodes < COUNT_ABOVE:
            return rules
        ready = {r.number for r in self._ready(rules)}
        kept, held = fitting(self.state, rules, ready, self.e_nodes, plan.limit)
        notes += held
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
        combined = self.state.record.combined
        if numbers not in combined:
            combined[numbers] = f"group{len(combined)}_"
            sets = " ".join(r.ruleset for r in rules)
            self.base.run(f"(unstable-combined-ruleset {combined[numbers]} {sets})")
        (output,) = self.base.run(f"(run {combined[numbers]} 1)")
        report = output.report
        tally.changed |= report.updated
        times = report.search_and_apply_time_per_rule
        for name, matches in report.num_matches_per_rule.items():
            if matches:
                # The engine reports milliseconds as if they were microseconds.
                seconds = times[name].total_seconds() * 1000 if name in times else 0.0
                tally.note(self.by_name[name].number, matches, seconds)

    def _run_alone(self, rule: CompiledRule, plan: Plan, tally: _Tally) -> None:
        if rule.member is not None:
            self._merge(rule, plan, tally, collect(self.state, rule))
        else:
            self._run_one(rule, tally)

    def _run_one(self, rule: CompiledRule, tally: _Tally) -> None:
        started = time.perf_counter()
        (output,) = self.base.run(f"(run {rule.ruleset} 1)")
        tally.changed |= output.report.updated
        matches = sum(output.report.num_matches_per_rule.values())
        tally.note(rule.number, matches, time.perf_counter() - started)

    def _merge(
        self, rule: CompiledRule, plan: Plan, tally: _Tally, collected: tuple[int, list[Candidate]]
    ) -> None:
        matches, rows = collected
        if matches:
            tally.note(rule.number, matches, 0.0)
        tally.changed |= merge_members(self.state, rule, plan.step, rows, self.among)

    def _one_by_one(
        self, plan: Plan, tally: _Tally, notes: list[str], vain: frozenset[int] = frozenset()
    ) -> None:
        """Run an iteration rule by rule; undo and name rules that exceed the limit, as those in ``vain`` would."""
        rules = self._active(plan, multi=False) if plan.among is None else self._merging(plan)
        if plan.multi:
            rules = self._hold_back(self._active(plan, multi=True), plan, notes) + rules
        for rule in rules:
            if not self._ready([rule]):
                continue
            if rule.number in vain:
                notes.append(f"{rule.rule.name} undone: it would have made more than {plan.limit} e-nodes")
                continue
            self.base.push()
            before = self.state.record.copy()
            trial = _Tally()
            self._run_alone(rule, plan, trial)
            size = self.sizes()[0]
            if size > plan.limit:
                self.base.pop()
                self.state.record = before
                notes.append(f"{rule.rule.name} undone: it would have made {size} e-nodes")
                continue
            tally.changed |= trial.changed
            for number, (matches, seconds) in trial.rules.items():
                tally.note(number, matches, seconds)

    def _restart(self) -> None:
        """Start over and repeat the earlier iterations; the engine is deterministic."""
        done, self.history = self.history, []
        self._begin()
        for plan in done:
            self._iterate(plan)

    def _blame(self, plan: Plan, error: EngineError) -> None:
        """Find the rule that causes an engine error and raise an error that names it."""
        rules = self._active(plan, multi=True) if plan.multi else []
        for rule in rules + self._active(plan, multi=False):
            try:
                self.base.include("\n".join(self.base.missing(_texts([rule])).values()))
                self._run_alone(rule, plan, _Tally())
            except EngineError as inner:
                if gives_two_types(inner):
                    raise UnsoundRule(
                        f"rule {rule.rule.name} would give an e-class two types: {rule.rule}"
                    ) from None
                raise EngineError(f"rule {rule.rule.name}: {inner}") from None
        raise error

    # -- reading ----------------------------------------------------------------------------------
    def classes(self) -> list[int]:
        """Return the number of the e-class of every node of the graph: equal for equal nodes."""
        numbers: dict[Any, int] = {}
        found = [-1] * len(self.program.graph)
        functions = self.state.functions
        for name in ("h_", "ht_"):
            for row in functions[name].rows:
                at = self.base.egraph.value_to_i64(row.inputs[0])
                if at < len(found):
                    found[at] = numbers.setdefault((name, row.output), len(numbers))
        return found

    def columns(self) -> dict[str, Any]:
        """Return the columns of the e-graph."""
        return columns_of(self.state, self.rules)


def _texts(rules: Iterable[CompiledRule]) -> dict[str, str]:
    """Return the texts of rules by the name of their rule set."""
    return {r.ruleset: r.text for r in rules}
