"""Equality saturation as a stepwise object."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from workbench.extraction.egraph import EGraph
from workbench.graph import Graph
from workbench.remembered import Needed, remembered
from workbench.rules.language import format_rule
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import RuleSet
from workbench.saturation.compile import CompiledRule, compile_rule
from workbench.saturation.encoding import Encoding, constructor_of, encoding_for
from workbench.saturation.engine import Outcome, Plan, Program
from workbench.saturation.remote import OutOfMemory, OutOfTime, RemoteEngine
from workbench.stepwise import Stepwise
from workbench.trace import RuleStep, Step, StopReason, Trace


@dataclass(frozen=True, slots=True)
class Limits:
    """Bound a saturation.

    ``e_nodes`` is hard: no step ends above it. ``seconds`` counts the engine's work, not its start.
    ``k_multi`` is the number of iterations in which multi-pattern rules run (Tensat's k_multi); they
    run in the first ones, or with ``settle`` after the other rules have had that many iterations or
    have stopped changing anything. A rule that finds more than ``match_limit`` matches in an iteration
    rests for the next ones, longer each time. With ``weights=False`` terms of weights alone are rewritten
    only where that makes them smaller, and of the e-nodes of an e-class that differ in weights alone one is
    matched: weights are computed once, whatever form they have. ``None`` leaves it to the
    rule set; with rules that are no set it is ``True``.
    """

    e_nodes: int = 50_000
    seconds: float = 60.0
    iterations: int = 15
    k_multi: int = 1
    memory: int = 8 << 30
    settle: int = 0
    match_limit: int = 20_000
    weights: bool | None = None

    def __post_init__(self) -> None:
        for name in ("e_nodes", "seconds", "iterations", "memory", "match_limit"):
            if getattr(self, name) <= 0:
                raise ValueError(f"the limit {name} is positive, not {getattr(self, name)}")
        for name in ("k_multi", "settle"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is 0 or more, not {getattr(self, name)}")


def compile_rules(
    rules: RuleSet | Sequence[Rule], encoding: Encoding, running: bool
) -> tuple[CompiledRule, ...]:
    """Return the rules that can hold under an encoding, compiled; those of a set are remembered."""
    given = _content(rules, encoding, running)

    def compiled() -> tuple[CompiledRule, ...]:
        found = (compile_rule(rule, i + 1, encoding, running) for i, rule in enumerate(rules))
        return tuple(c for c in found if c is not None)

    return remembered("compiled", given, compiled) if given else compiled()


def _content(rules: RuleSet | Sequence[Rule], encoding: Encoding, running: bool) -> tuple[str, ...]:
    """Return what compiled rules depend on; nothing for rules that are no set."""
    if not isinstance(rules, RuleSet):
        return ()
    return f"{encoding} {running}", *(f"{format_rule(r)} {r.file} {r.line}" for r in rules)


#: E-nodes up to which a snapshot is kept of every step.
KEPT: Final = 1000


class Saturation(Stepwise):
    """Grow an e-graph from a graph by rewrite rules, one iteration a step.

    ``step()`` runs one iteration and returns its :class:`~workbench.trace.Step`; ``run()`` steps until
    a reason to stop, and iterating yields the steps. Ctrl-C leaves a valid object that continues.
    ``snapshots`` are the e-graphs of the first steps, as long as they have at most ``keep`` e-nodes.

    >>> from workbench.benchmarks import benchmark
    >>> from workbench.rules import rule_set
    >>> saturation = Saturation(benchmark("bert", layers=1), rule_set("default"))  # doctest: +SKIP
    >>> saturation.run().value  # doctest: +SKIP
    'saturated'
    """

    def __init__(
        self,
        graph: Graph,
        rules: RuleSet | Sequence[Rule],
        limits: Limits | None = None,
        *,
        profile: bool = False,
        engine: RemoteEngine | None = None,
        keep: int = KEPT,
    ) -> None:
        super().__init__()
        self.keep = keep
        self.snapshots: list[EGraph] = []
        self.graph = graph
        self.limits = limits or Limits()
        self.profile = profile
        began = time.perf_counter()
        weights = self.limits.weights
        if weights is None:
            weights = rules.weights if isinstance(rules, RuleSet) else True
        encoding = encoding_for(graph)
        self.rules = tuple(rules)
        compiled = compile_rules(rules, encoding, not weights)
        # Which rules runs of these rules and operators have needed: the engine then loads them at once.
        content = _content(rules, encoding, not weights)
        operators = sorted({constructor_of(graph, i) for i in range(len(graph))})
        self._needed = Needed((*content, *(c.name for c in operators))) if content else None
        expected = frozenset() if self._needed is None else self._needed.known
        program = Program(graph, encoding, compiled, weights, expected)
        # An engine that another saturation has done with is used again: starting one takes longest.
        self._engine = engine or RemoteEngine(program, self.limits.memory)
        if engine is not None:
            engine.load(program)
        self.compile_seconds = time.perf_counter() - began
        self.trace = Trace(
            {
                "kind": "saturation",
                "graph": graph.name,
                "rules": len(self.rules),
                "e_node_limit": self.limits.e_nodes,
                "time_limit": self.limits.seconds,
                "iteration_limit": self.limits.iterations,
                "k_multi": self.limits.k_multi,
            }
        )
        self.seconds = 0.0
        self._multi_done = 0
        self._calm = False
        self._rests: dict[int, tuple[int, int]] = {}  # rule -> (last step of rest, times rested)
        self._egraph: EGraph | None = None

    # -- figures ----------------------------------------------------------------------------------
    @property
    def engine(self) -> RemoteEngine:
        """Return the engine, for another saturation to use when this one is done with."""
        return self._engine

    @property
    def engine_seconds(self) -> float:
        """Return the seconds spent on compiling rules and starting the engine."""
        return self.compile_seconds + self._engine.start_seconds

    @property
    def e_nodes(self) -> int:
        """Return the number of e-nodes."""
        return self._engine.e_nodes

    @property
    def e_classes(self) -> int:
        """Return the number of e-classes."""
        return self._engine.e_classes

    # -- stepping ---------------------------------------------------------------------------------
    def start_engine(self) -> None:
        """Start the engine and load the graph; the first step does so otherwise."""
        self._engine.start()
        if not self.trace.steps:
            self.trace.add(Step(0, 0.0, self.e_nodes, self.e_classes, note="start graph"))
            self._remember()
            if self.e_nodes > self.limits.e_nodes:
                self.stop_reason = StopReason.E_NODE_LIMIT

    def step(self) -> Step:
        """Run one iteration; raise StopIteration where the run has stopped for good."""
        self.start_engine()
        if not self.unfinished:
            raise StopIteration(f"the saturation has stopped: {self.stop_reason}")
        self.stop_reason = None
        index = self.trace.steps[-1].index + 1
        left = self.limits.seconds - self.seconds
        plan = self._plan(index)
        began = time.perf_counter()
        try:
            outcome = self._engine.iterate(plan, left)
        except OutOfTime:
            self.seconds += time.perf_counter() - began
            return self._cut(index, StopReason.TIME_LIMIT, "iteration undone: its time was up")
        except OutOfMemory as error:
            self.seconds += time.perf_counter() - began
            return self._cut(index, StopReason.MEMORY_LIMIT, f"iteration undone: {error}")
        except KeyboardInterrupt:
            self.seconds += time.perf_counter() - began
            self.stop_reason = StopReason.INTERRUPTED
            raise
        self.seconds += outcome.seconds
        self._egraph = None
        if self._needed is not None:
            self._needed.note(outcome.needed)
        self._record(index, plan, outcome)
        self._remember()
        return self.trace.steps[-1]

    def _plan(self, index: int) -> Plan:
        due = index > self.limits.settle or self._calm
        multi = due and self._multi_done < self.limits.k_multi
        banned = frozenset(rule for rule, (until, _) in self._rests.items() if until >= index)
        return Plan(index, multi, self.limits.e_nodes, banned, self.profile)

    def _remember(self) -> None:
        """Keep a snapshot of every step while the e-graph is small; the trace then has its births too."""
        if self.e_nodes <= self.keep and len(self.snapshots) == len(self.trace) - 1:
            self.snapshots.append(self.egraph())

    def _record(self, index: int, plan: Plan, outcome: Outcome, note: str = "") -> None:
        names = {c.number: c.rule.name for c in self._engine.program.rules}
        for number, (matches, _) in outcome.rules.items():
            times = self._rests.get(number, (0, 0))[1]
            if matches > self.limits.match_limit << times:
                self._rests[number] = (index + (2 << times), times + 1)
        rules = tuple(
            RuleStep(names[n], matches, seconds) for n, (matches, seconds) in sorted(outcome.rules.items())
        )
        step = Step(
            index, outcome.seconds, outcome.e_nodes, outcome.e_classes, rules, note=outcome.cut or note
        )
        self.trace.add(step)
        self._multi_done += plan.multi
        waiting = self._multi_done < self.limits.k_multi and any(r.multi for r in self.rules)
        self._calm = not outcome.changed
        if outcome.cut:
            self.stop_reason = StopReason.E_NODE_LIMIT
        elif not outcome.changed and not plan.banned and not waiting:
            self.stop_reason = StopReason.SATURATED
        elif index >= self.limits.iterations:
            self.stop_reason = StopReason.ITERATION_LIMIT
        elif self.seconds >= self.limits.seconds:
            self.stop_reason = StopReason.TIME_LIMIT
        elif not outcome.changed and plan.banned:
            # Nothing else is left to do: the resting rules go on.
            self._rests = {n: (index, times) for n, (_, times) in self._rests.items()}

    def _cut(self, index: int, reason: StopReason, note: str) -> Step:
        step = Step(index, 0.0, self.e_nodes, self.e_classes, note=note)
        self.trace.add(step)
        self.stop_reason = reason
        return step

    def __iter__(self) -> Iterator[Step]:
        self.start_engine()
        yield from super().__iter__()

    def run(self, progress: Callable[[Step], None] | None = None) -> StopReason:
        """Step until a reason to stop, and return it; Ctrl-C stops and keeps what is there."""
        return self.drive(progress)

    def merge_among(self, classes: Iterable[int], progress: Callable[[Step], None] | None = None) -> bool:
        """Merge operators that share an operand once more, among some e-classes only, and go on.

        A merge takes whole groups, and a group holds every form that rules have found: those that a good
        graph takes together may never be a group of their own. ``classes`` are those that an extraction
        builds, numbered as in :meth:`egraph`. Return whether that added anything; it does not where a
        limit has ended the run.
        """
        self.start_engine()
        over = self.stop_reason not in (StopReason.SATURATED, StopReason.ITERATION_LIMIT)
        if over or not self._multi_done:
            return False
        index = self.trace.steps[-1].index + 1
        plan = Plan(index, False, self.limits.e_nodes, frozenset(), self.profile, frozenset(classes))
        try:
            outcome = self._engine.iterate(plan, self.limits.seconds - self.seconds)
        except (OutOfTime, OutOfMemory):
            return False
        self.seconds += outcome.seconds
        if not outcome.changed:
            return False
        self._egraph, self.stop_reason = None, None
        self._record(index, plan, outcome, "merges among what was extracted")
        if self.unfinished:
            self.drive(progress)
        return True

    # -- result -----------------------------------------------------------------------------------
    def egraph(self) -> EGraph:
        """Return the e-graph as columns, and complete the trace's birth records."""
        if self._egraph is None:
            self.start_engine()
            self._egraph = self._engine.snapshot()
            births: Counter[tuple[int, str]] = Counter()
            rules = self._egraph.rules
            for rule, step in zip(
                self._egraph.birth_rule.tolist(), self._egraph.birth_step.tolist(), strict=True
            ):
                if rule >= 0:
                    births[step, rules[rule]] += 1
            self.trace.set_births(births)
        return self._egraph

    def classes(self) -> list[int]:
        """Return for every node of the start graph the number of its e-class: equal for equal nodes."""
        self.start_engine()
        return self._engine.classes()

    def close(self) -> None:
        """Let another run have the engine's process; this one takes a process again when it needs one."""
        self._engine.release()
        if self._needed is not None:
            self._needed.keep()

    def __enter__(self) -> Saturation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self.stop_reason.value if self.stop_reason else "not finished"
        lines = [
            f"Saturation of {self.graph.name!r}: {state}",
            f"  {self.e_nodes} e-nodes of at most {self.limits.e_nodes}, {self.e_classes} e-classes",
            f"  {max(0, len(self.trace) - 1)} iterations in {self.seconds:.3f} s "
            f"(engine start {self.engine_seconds:.2f} s)",
        ]
        for step in self.trace.steps[-4:]:
            matches = sum(r.matches for r in step.rules)
            lines.append(f"  step {step.index}: {step.e_nodes} e-nodes, {matches} matches {step.note}")
        return "\n".join(lines)
