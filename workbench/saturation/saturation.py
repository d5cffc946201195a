"""Equality saturation as a stepwise object."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from workbench.egraph.egraph import EGraph
from workbench.graph import Graph
from workbench.graph.graph import numbers_in
from workbench.ops import Trait, with_trait
from workbench.ops.serialization import packed
from workbench.rules.pattern import App, Rule, format_rule, operators_of
from workbench.rules.ruleset import Rules, RuleSet, rules_of
from workbench.run.stepper import Stepwise
from workbench.run.trace import RuleStep, Step, StepKind, StopReason, Trace
from workbench.saturation.compile import MOVEMENT, CompiledRule, compile_rule
from workbench.saturation.encoding import Encoding, constructor_of, encoding_for
from workbench.saturation.engine import Outcome, Plan, Program
from workbench.saturation.limits import Limits
from workbench.saturation.process import OutOfMemory, RemoteEngine
from workbench.saturation.rule_prefilter import A_NUMBER
from workbench.support.deadline import OutOfTime
from workbench.support.disk_cache import Needed, remembered
from workbench.support.wings import offered

if TYPE_CHECKING:
    from workbench.laws.explain.report import Explanation, WhyNot
    from workbench.rules.pattern import Term

#: An iteration may take this many times as long as the one before it, as an estimate.
AT_RISK: Final = 10


def compile_rules(
    rules: RuleSet | Sequence[Rule], encoding: Encoding, running: bool, content: tuple[str, ...] | None = None
) -> tuple[CompiledRule, ...]:
    """Return the compiled rules that can apply under an encoding; those of a rule set are cached.

    Rules with an operator that is not built in are compiled anew, because its definition may change while
    the rule stays as it is.

    Args:
        rules: The rules.
        encoding: The encoding of the run.
        running: Whether rules rewrite only terms that depend on an input.
        content: Everything that the compiled rules depend on, if the caller has it already.
    """
    listed = tuple(rules)
    own_operators = with_trait(Trait.OWN)
    own = [i for i, r in enumerate(listed) if own_operators and not own_operators.isdisjoint(operators_of(r))]
    given = _content(rules, encoding, running) if content is None else content

    def compiled(chosen: Iterable[int]) -> tuple[CompiledRule, ...]:
        found = (compile_rule(listed[i], i + 1, encoding, running) for i in chosen)
        return tuple(c for c in found if c is not None)

    rest, key = sorted({*range(len(listed))} - {*own}), (*given, *map(str, own))
    known = remembered("compiled", key, lambda: compiled(rest)) if given else compiled(rest)
    return tuple(sorted((*known, *compiled(own)), key=lambda c: c.number)) if own else known


def _shipped(graph: Graph, rules: Iterable[CompiledRule]) -> bytes:
    """Return the operators that are not built in and that a program needs, for the engine's process."""
    own = with_trait(Trait.OWN)
    if not own:
        return b""
    used = {node.op for node in graph.nodes}.union(*(operators_of(c.rule) for c in rules))
    return packed(used & own, typed_only=True)


def _content(rules: RuleSet | Sequence[Rule], encoding: Encoding, running: bool) -> tuple[str, ...]:
    """Return everything that compiled rules depend on; empty for rules that are not a rule set."""
    if not isinstance(rules, RuleSet):
        return ()
    return f"{encoding} {running}", *(f"{format_rule(r)} {r.file} {r.line} {r.phase}" for r in rules)


#: The phase of the laws that bring operators together for other laws to merge; it follows their own merges.
LAST: Final = "last"

#: A snapshot of every step is kept while there are at most this many e-nodes.
KEPT: Final = 1000


def lifts(rule: Rule) -> bool:
    """Return whether a rule moves a view past the operator that reads it: ``f(view(x)) => view(f(x))``."""
    if rule.multi:
        return False
    (source,), (target,) = rule.sources, rule.targets
    views = with_trait(Trait.VIEW)
    return (
        isinstance(target, App)
        and target.op in views - {source.op}
        and all(isinstance(arg, App) and arg.op == target.op for arg in source.args)
    )


class Saturation(Stepwise):
    """An e-graph that grows from a graph by rewrite rules, one iteration per step.

    ``step()`` runs one iteration and returns its :class:`~workbench.run.trace.Step`; ``run()`` steps until
    there is a reason to stop, and iterating yields the steps. Ctrl-C leaves a valid object that can continue.
    ``snapshots`` are the e-graphs of the first steps.

    Args:
        graph: The start graph.
        rules: Names of rule sets, files or rules, as for :func:`workbench.optimize`. A list of rules alone also
            rewrites terms of weights.
        limits: The limits; by default those of :class:`Limits`.
        profile: Whether every rule is timed separately.
        engine: An engine that another saturation no longer needs; by default a new one.
        keep: Number of e-nodes up to which snapshots are kept.
        background: Work for other threads, begun once when this process first waits for the engine.

    >>> from workbench.studies.benchmarks import benchmark
    >>> from workbench.rules import rule_set
    >>> saturation = Saturation(benchmark("bert", layers=1), rule_set("default"))  # doctest: +SKIP
    >>> saturation.run().value  # doctest: +SKIP
    'saturated'
    """

    def __init__(
        self,
        graph: Graph,
        rules: Rules = "default",
        limits: Limits | None = None,
        *,
        profile: bool = False,
        engine: RemoteEngine | None = None,
        keep: int = KEPT,
        background: Sequence[Callable[[], object]] = (),
    ) -> None:
        super().__init__()
        plain = isinstance(rules, Sequence) and all(isinstance(rule, Rule) for rule in rules)
        chosen = cast("Sequence[Rule]", rules) if plain else rules_of(rules)
        self.keep = keep
        self.snapshots: list[EGraph] = []
        self.graph = graph
        self.limits = limits or Limits()
        self.profile = profile
        began = time.perf_counter()
        weights = self.limits.weights
        if weights is None:
            weights = chosen.weights if isinstance(chosen, RuleSet) else True
        encoding = encoding_for(graph)
        self.rules = chosen
        content = _content(chosen, encoding, not weights)
        compiled = compile_rules(chosen, encoding, not weights, content)
        # The rules that earlier runs of these rules and operators needed: the engine loads them at once.
        operators = sorted({constructor_of(graph, i) for i in range(len(graph))})
        self._needed = Needed((*content, *(c.name for c in operators))) if content else None
        expected = frozenset() if self._needed is None else self._needed.known
        shipped = _shipped(graph, compiled)
        numbers = numbers_in(graph) if any(A_NUMBER in c.needs for c in compiled) else {}
        program = Program(graph, encoding, compiled, weights, expected, shipped, numbers)
        #: The engine: starting one is slow, so another saturation may use it when this one no longer needs it.
        self.engine = engine or RemoteEngine(program, self.limits.memory)
        if engine is not None:
            engine.load(program)
        self.engine.background.extend(background)
        self.compile_seconds = time.perf_counter() - began
        most = self.limits
        about = {"kind": "saturation", "graph": graph.name, "rules": len(self.rules)}
        bounds = {
            "e_node_limit": most.e_nodes,
            "time_limit": most.seconds,
            "iteration_limit": most.iterations,
        }
        self.trace = Trace({**about, **bounds, "k_multi": most.k_multi})
        self.seconds = 0.0
        self._multi_done = 0
        self._calm = False
        self._movers = frozenset(c.number for c in compiled if c.rule.phase == MOVEMENT)
        self._lifters = frozenset(c.number for c in compiled if lifts(c.rule)) - self._movers
        self._late = frozenset(c.number for c in compiled if c.rule.phase == LAST)
        self._moving = self._moved = self._merged = False
        self._rests: dict[int, tuple[int, int]] = {}  # rule -> (last step of rest, times rested)
        self._egraph: EGraph | None = None
        #: The tables that questions about the e-graph have made.
        self.examined: object = None

    # -- figures ----------------------------------------------------------------------------------
    @property
    def e_nodes(self) -> int:
        """Return the number of e-nodes."""
        return self.engine.e_nodes

    @property
    def e_classes(self) -> int:
        """Return the number of e-classes."""
        return self.engine.e_classes

    # -- stepping ---------------------------------------------------------------------------------
    def start_engine(self) -> None:
        """Start the engine and load the graph; otherwise the first step does so."""
        with self.engine.turn:
            self.engine.start()
            if self.trace.steps:
                return
            start = Step(0, StepKind.START, 0.0, self.e_nodes, self.e_classes, note="start graph")
            self.trace.add(start)
            self._remember()
            if self.e_nodes > self.limits.e_nodes:
                self.stop_reason = StopReason.E_NODE_LIMIT

    def step(self) -> Step:
        """Run one iteration, after that of any other thread; raise StopIteration if the run has stopped for good."""
        with self.engine.turn:
            return self._iterated()

    def _iterated(self) -> Step:
        self.start_engine()
        if not self.unfinished:
            raise StopIteration(f"the saturation has stopped: {self.stop_reason}")
        self.stop_reason = None
        index = self.trace.steps[-1].index + 1
        left = self.limits.seconds - self.seconds
        plan = self._plan(index)
        if self.trace.steps[-1].seconds * AT_RISK > left:
            self.egraph()  # if the iteration is cut, the e-graph can be seen without repeating the others
        began = time.perf_counter()
        try:
            outcome = self.engine.iterate(plan, left)
        except (OutOfTime, OutOfMemory, KeyboardInterrupt) as error:
            self.seconds += time.perf_counter() - began
            if isinstance(error, KeyboardInterrupt):
                self.stop_reason = StopReason.INTERRUPTED
                raise
            late = isinstance(error, OutOfTime)
            self.stop_reason = StopReason.TIME_LIMIT if late else StopReason.MEMORY_LIMIT
            why = f"iteration undone: {'its time was up' if late else error}"
            self.trace.add(Step(index, StepKind.CUT, 0.0, self.e_nodes, self.e_classes, note=why))
            return self.trace.steps[-1]
        self.seconds += outcome.seconds
        self._egraph = None
        if self._needed is not None:
            self._needed.note(outcome.needed)
        self._record(index, plan, outcome)
        self._remember()
        return self.trace.steps[-1]

    def _plan(self, index: int) -> Plan:
        due = (index > self.limits.settle and not self._moving) or self._calm
        # Once a law of movement matched, an operator is there with all its rows, with some, and in other forms:
        # operators are then merged only among those that an extraction chose.
        multi = due and self._multi_done < self.limits.k_multi and not self._moved
        self._merged |= multi
        banned = frozenset(rule for rule, (until, _) in self._rests.items() if until >= index)
        banned |= self._out() | (frozenset() if self._calm else self._late)
        return Plan(index, multi, self.limits.e_nodes, banned, self.profile)

    def _remember(self) -> None:
        """Keep a snapshot of every step while the e-graph is small; it also completes the trace's births."""
        if self.e_nodes <= self.keep and len(self.snapshots) == len(self.trace) - 1:
            self.snapshots.append(self.egraph())

    def _record(
        self, index: int, plan: Plan, outcome: Outcome, kind: StepKind = StepKind.ITERATION, note: str = ""
    ) -> None:
        names = {c.number: c.rule.name for c in self.engine.program.rules}
        for number, (matches, _) in outcome.rules.items():
            times = self._rests.get(number, (0, 0))[1]
            if matches > self.limits.match_limit << times:
                self._rests[number] = (index + (2 << times), times + 1)
        rules = tuple(RuleStep(names[n], *figures) for n, figures in sorted(outcome.rules.items()))
        kind, note = (StepKind.CUT, outcome.cut) if outcome.cut else (kind, note)
        figures = outcome.seconds, outcome.e_nodes, outcome.e_classes, rules
        self.trace.add(Step(index, kind, *figures, note=note, phases=outcome.phases))
        self._multi_done += plan.multi
        self._moving = any(outcome.rules.get(n, (0, 0.0))[0] for n in self._movers)
        self._moved |= self._moving
        multi = self._multi_done < self.limits.k_multi and not self._moved
        waiting = multi and any(r.multi for r in self.rules)
        self._calm = not outcome.changed
        if outcome.cut:
            self.stop_reason = StopReason.E_NODE_LIMIT
        elif not outcome.changed and not self._resting(plan) and not waiting and not self._late & plan.banned:
            self.stop_reason = StopReason.SATURATED
        elif index >= self.limits.iterations:
            self.stop_reason = StopReason.ITERATION_LIMIT
        elif self.seconds >= self.limits.seconds:
            self.stop_reason = StopReason.TIME_LIMIT
        elif not outcome.changed and self._resting(plan):
            # The other rules have nothing left to do: the resting rules continue.
            self._rests = {n: (index, times) for n, (_, times) in self._rests.items()}

    def _out(self) -> frozenset[int]:
        """Return the rules that have no part in this phase: laws of movement, or those that undo them."""
        return self._movers if self._merged else self._lifters if self._moved else frozenset()

    def _resting(self, plan: Plan) -> bool:
        return not plan.banned <= self._movers | self._lifters | self._late

    def __iter__(self) -> Iterator[Step]:
        self.start_engine()
        yield from super().__iter__()

    def run(self, progress: Callable[[Step], None] | None = None) -> StopReason:
        """Step until there is a reason to stop, and return it; Ctrl-C stops and keeps the e-graph."""
        return self.drive(progress)

    def merge_among(self, classes: Iterable[int], progress: Callable[[Step], None] | None = None) -> bool:
        """Merge operators that share an operand once more, only among some e-classes, and continue.

        A merge takes whole groups, and a group contains every form that rules have found. The forms that a
        good graph combines may therefore never be a group of their own. ``classes`` are the e-classes that
        an extraction builds, numbered as in :meth:`egraph`. Return whether anything was added; nothing is if
        a limit has ended the run.
        """
        over = self.stop_reason not in (StopReason.SATURATED, StopReason.ITERATION_LIMIT)
        if over or not (self._multi_done or (self._moved and self.limits.k_multi)):
            return False
        self._merged = True
        self.start_engine()
        index = self.trace.steps[-1].index + 1
        plan = Plan(index, False, self.limits.e_nodes, frozenset(), self.profile, frozenset(classes))
        try:
            outcome = self.engine.iterate(plan, self.limits.seconds - self.seconds)
        except (OutOfTime, OutOfMemory):
            return False
        self.seconds += outcome.seconds
        if not outcome.changed:
            return False
        self._egraph, self.stop_reason = None, None
        self._record(index, plan, outcome, StepKind.MERGE, "merges among what was extracted")
        if self.unfinished:
            self.drive(progress)
        return True

    # -- result -----------------------------------------------------------------------------------
    def egraph(self) -> EGraph:
        """Return the e-graph as columns, and complete the trace's birth records."""
        if self._egraph is None:
            self.start_engine()
            self._egraph = self.engine.snapshot()
            rules, born = self._egraph.rules, (self._egraph.birth_rule, self._egraph.birth_step)
            pairs = zip(*(column.tolist() for column in born), strict=True)
            self.trace.set_births(Counter((step, rules[rule]) for rule, step in pairs if rule >= 0))
        return self._egraph

    def classes(self) -> list[int]:
        """Return the number of the e-class of every node of the start graph: equal for equal nodes."""
        self.start_engine()
        return self.engine.classes()

    # -- questions --------------------------------------------------------------------------------
    def why_not(
        self, target: Graph | Term | Rule | str, *, equals: str | None = None, more: Iterable[Rule] = ()
    ) -> WhyNot:
        """Return why a target is not in the e-graph, or that it is.

        The answer is data: the largest parts that are represented, the first missing equality on a chain of
        rules from the e-graph to the target, the rules that match there, and the guard, the direction or the
        limit that keeps the equality out.

        Args:
            target: A graph with the inputs and weights of the start graph; a term over their names, or over
                ``n0``, ``n1``, … for nodes of the start graph; a rule, or its name: its right-hand side.
            equals: The term that a target term should be equal to; by default the first output of its type.
            more: Rules that the saturation does not have but that may fill the gap.

        Raises:
            TargetError: (a ValueError) if the target cannot be read.

        >>> saturation.why_not("relu(matmul(x, w))")  # doctest: +SKIP
        WhyNot relu(matmul(x, w)): a guard said no (relu-of-matmul)
        """
        return offered("why_not")(self, target, equals, more)

    def explain(self, left: Graph | Term | Rule | str, right: Graph | Term | Rule | str) -> Explanation:
        """Return the chain of rules that makes two terms, or the first outputs of graphs, equal.

        They are given as for :meth:`why_not`. Raise TargetError, a ValueError, if a term cannot be read, or the
        e-graph does not hold the equality.
        """
        return offered("explain")(self, left, right)

    def withheld(self) -> tuple[bool, frozenset[str], frozenset[str]]:
        """Return whether rules of several roots may still run, and the rules out of phase and at rest."""
        names = {c.number: c.rule.name for c in self.engine.program.rules}
        index = len(self.trace)
        multi = self._multi_done < self.limits.k_multi and not self._moved
        resting = (n for n, (until, _) in self._rests.items() if until >= index)
        return multi, frozenset(names[n] for n in self._out()), frozenset(names[n] for n in resting)

    def close(self) -> None:
        """Let another run use the engine's process; this one takes a process again when it needs one."""
        self.engine.release()
        if self._needed is not None:
            self._needed.keep()

    def __enter__(self) -> Saturation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self.stop_reason.value if self.stop_reason else "not finished"
        start = f"(engine start {self.compile_seconds + self.engine.start_seconds:.2f} s)"
        lines = [
            f"Saturation of {self.graph.name!r}: {state}",
            f"  {self.e_nodes} e-nodes of at most {self.limits.e_nodes}, {self.e_classes} e-classes",
            f"  {max(0, len(self.trace) - 1)} iterations in {self.seconds:.3f} s {start}",
        ]
        for step in self.trace.steps[-4:]:
            matches = sum(r.matches for r in step.rules)
            lines.append(f"  step {step.index}: {step.e_nodes} e-nodes, {matches} matches {step.note}")
        return "\n".join(lines)
