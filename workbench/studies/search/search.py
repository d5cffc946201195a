"""TASO's cost-based backtracking search as a stepwise object: the baseline of equality saturation."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from workbench.costs import CostModel
from workbench.graph import Graph
from workbench.rules.pattern import Rule
from workbench.run.stepper import Stepwise
from workbench.run.trace import RuleStep, Step, StepKind, StopReason, Trace
from workbench.studies.search.candidates import Candidates
from workbench.studies.search.modes import MODES
from workbench.studies.search.states import PER_MICROSECOND, Edit, NodeTable, State
from workbench.support.formatting import gain


@dataclass(frozen=True, slots=True, order=True)
class _Queued:
    """A graph that was found but not built yet, as a graph and its edit; ties of cost go to the one found first."""

    cost: int
    number: int
    before: State = field(compare=False)
    edit: Edit | None = field(compare=False)

    def state(self) -> State:
        if self.edit is None:
            return self.before
        made = self.before.edited(self.edit)
        self.before.release()
        return made


@dataclass(slots=True)
class _Counts:
    matches: int = 0
    found: int = 0
    seconds: float = 0.0


class BacktrackingSearch(Stepwise):
    """TASO's search for the cheapest graph that rules lead to; a step takes one graph from the queue.

    The algorithm is TASO's (SOSP 2019, algorithm 2, as released). The cheapest graph in the queue is
    replaced by every graph that one application of one rule makes of it, provided that the new graph costs
    less than ``alpha`` times the best graph taken so far, has fewer than ``growth`` times the nodes of the
    start graph, and was not met before. One more graph than the ``budget`` is expanded, and a last one is compared.
    Ties go to the graph found first. ``mode`` is

    - ``"sound"``: the rules as given; every application is type-checked, so sound rules stay sound.
    - ``"taso-release"``: TASO's 18 hand-written rules come before the given ones (which should be those of
      its ``graph_subst.pb``); an operator below the root of a match must have no reader outside the match;
      both orders of symmetric pairs are tried. Some of these rules are wrong: certify the result.
    - ``"tensat-fork"``: the same with the 6 hand-written rules that remain in Tensat's comparison.

    In every mode, four things differ from TASO. An edit of another type or with a cycle is skipped, whereas
    TASO ends the process. Equal operators are one node and cost once. The queue keeps only as many graphs as
    the budget allows to take, which changes no result. Graphs count as met before if they are equal in
    structure, by a digest of 128 bits. TASO sums a hash over the edges that does not distinguish which of
    two operators of one shape feeds a reader (and changes from run to run), and drops a new graph when two
    hashes collide.

    ``seconds`` limits the run; a step that is running is then cut short. The best graph is kept when a run
    is stopped or interrupted, and the run can be resumed. ``graph`` is the start graph, ``rules`` are given in
    order, and ``cost_model`` prices all graphs.

    >>> from workbench.studies.benchmarks import benchmark
    >>> from workbench.costs.analytic import AnalyticCost
    >>> from workbench.rules import rule_set
    >>> search = BacktrackingSearch(benchmark("bert", layers=1), rule_set("default"), AnalyticCost())
    >>> search.run().value
    'finished'
    >>> search.best.operators()["matmul"]
    3
    """

    def __init__(
        self,
        graph: Graph,
        rules: Iterable[Rule],
        cost_model: CostModel,
        *,
        alpha: float = 1.05,
        budget: int = 100,
        mode: str = "sound",
        seconds: float = 600.0,
        growth: float = 2.0,
    ) -> None:
        if not isinstance(graph, Graph):
            raise TypeError(
                f"the model must be a Graph, got {type(graph).__name__} (try load_onnx to read one)"
            )
        if not isinstance(budget, int):
            raise TypeError(f"budget must be a whole number of graphs, got {budget!r}")
        for name, value, least in (("alpha", alpha, 1), ("budget", budget, 0), ("growth", growth, 1)):
            if not value >= least:
                raise ValueError(f"{name} must be {least} or more, got {value}")
        if not seconds > 0:
            raise ValueError(f"the time limit must be positive, got {seconds} (try seconds=600)")
        super().__init__()
        self.graph, self.alpha, self.budget, self.mode = graph, alpha, budget, mode
        self.time_limit, self.growth = seconds, growth
        own = MODES[mode]()
        names = {r.name for r in own}
        self.rules = (*own, *(r for r in rules if r.name not in names))
        self._table = NodeTable(cost_model)
        self._start = State.of(graph, self._table)
        released = bool(own)
        self._candidates = Candidates(self.rules, self._table, exclusive=released, ordered=released)
        self._best = self._start
        self._queue: list[_Queued] = [_Queued(self._start.cost, 0, self._start, None)]
        self._seen = {self._start.key}
        self._under_way: State | None = None
        self.taken = 0
        self.seconds = 0.0
        self.trace = Trace(
            {
                "kind": "search",
                "graph": graph.name,
                "rules": len(self.rules),
                "mode": mode,
                "alpha": alpha,
                "budget": budget,
                # Graphs must have fewer nodes; inputs and weights count, as in TASO.
                "node_limit": int(growth * self._start.size),
                "time_limit": seconds,
                "cost_source": cost_model.source,
                "cost_before": self._start.cost / PER_MICROSECOND,
                "sizes": ["graphs found", "graphs in the queue"],
            }
        )
        self._note(StepKind.START, 0.0, (), f"start graph: {self._start.cost / PER_MICROSECOND:.6g} µs")

    # -- figures ----------------------------------------------------------------------------------
    @property
    def cost(self) -> float:
        """Return the least known cost, in microseconds."""
        head = self._queue[0].cost if self._queue else self._best.cost
        return min(head, self._best.cost) / PER_MICROSECOND

    @property
    def found(self) -> int:
        """Return the number of distinct graphs queued, including the start graph."""
        return len(self._seen)

    @property
    def expanded(self) -> int:
        """Return the number of graphs on which every rule was tried."""
        return min(self.taken, self.budget + 1) - (self._under_way is not None)

    def _least(self) -> State:
        # After a run that was cut short, the queue may contain a better graph.
        if self._queue and self._queue[0].cost < self._best.cost:
            return self._queue[0].state()
        return self._best

    @property
    def best(self) -> Graph:
        """Return the cheapest known graph."""
        return self._least().graph(self.graph)

    @property
    def history(self) -> tuple[str, ...]:
        """Return the rules that lead from the start graph to the best one, in order."""
        return self._least().history

    def path(self) -> list[Graph]:
        """Return the graphs from the start graph to the best one, one more than :attr:`history` has."""
        states: list[State] = []
        state: State | None = self._least()
        while state is not None:
            states.append(state)
            state = state.parent
        return [p.graph(self.graph) for p in reversed(states)]

    # -- stepping ---------------------------------------------------------------------------------
    def step(self) -> Step:
        """Take the cheapest graph and apply every rule at every match; raise StopIteration if none is left to take."""
        if not self.unfinished:
            raise StopIteration(f"the search has stopped: {self.stop_reason and self.stop_reason.value}")
        if self._under_way is None and not self._queue:
            self.stop_reason = StopReason.FINISHED
            raise StopIteration("every graph within reach was taken")
        self.stop_reason = None
        began = time.perf_counter()
        try:
            return self._take(began)
        except KeyboardInterrupt:
            self.seconds += time.perf_counter() - began
            self.stop_reason = StopReason.INTERRUPTED
            raise

    def _take(self, began: float) -> Step:
        # An interrupted step begins again with the same graph; the graphs it has found remain known.
        state = self._under_way
        if state is None:
            state = self._under_way = self._queue[0].state()
            del self._queue[0]
            self.taken += 1
        if state.cost < self._best.cost:
            self._best = state
        note = f"took {state.cost / PER_MICROSECOND:.6g} µs"
        if self.taken > self.budget + 1:
            self._under_way = None
            self.stop_reason = StopReason.ITERATION_LIMIT
            return self._finish(StepKind.COMPARISON, began, {}, f"{note}, only compared")
        counts: dict[str, _Counts] = {}
        whole = self._expand(state, counts, began + self.time_limit - self.seconds)
        if whole:
            self._under_way = None
            state.release()
            if not self._queue:
                self.stop_reason = StopReason.FINISHED
        else:
            self.stop_reason = StopReason.TIME_LIMIT
            note += ", cut short: the time was up"
        return self._finish(StepKind.EXPANSION if whole else StepKind.CUT, began, counts, note)

    def _expand(self, state: State, counts: dict[str, _Counts], until: float) -> bool:
        """Queue every graph that one application makes of a graph; return whether time sufficed for all."""
        limit = self._best.cost * self.alpha
        room = self.budget + 2 - self.taken
        last = time.perf_counter()
        for edit in self._candidates.edits(state):
            now = time.perf_counter()
            if now > until:
                return False
            count = counts.setdefault(edit.rule, _Counts())
            count.matches += 1
            count.found += self._offer(state, edit, limit, room)
            done = time.perf_counter()
            count.seconds += done - last
            last = done
        return True

    def _offer(self, state: State, edit: Edit, limit: float, room: int) -> bool:
        """Queue the graph that an edit makes, unless it is too expensive, too large, or known."""
        change = state.change(edit)
        if change is None:
            return False
        cost = state.cost + change.cost
        if not cost < limit or not state.size + change.size < self.growth * self._start.size:
            return False
        # At most ``room`` more graphs are taken, so a graph behind that many cheaper ones is never reached.
        if len(self._queue) >= room and (not room or cost >= self._queue[-1].cost):
            return False
        key = change.digest()
        if key in self._seen:
            return False
        insort(self._queue, _Queued(cost, self.found, state, edit))
        del self._queue[room:]
        self._seen.add(key)
        return True

    def _finish(self, kind: StepKind, began: float, counts: dict[str, _Counts], note: str) -> Step:
        spent = time.perf_counter() - began
        self.seconds += spent
        rules = tuple(RuleStep(name, c.matches, c.seconds, c.found) for name, c in counts.items())
        return self._note(kind, spent, rules, f"{note}, {len(self._queue)} in the queue")

    def _note(self, kind: StepKind, seconds: float, rules: tuple[RuleStep, ...], note: str) -> Step:
        sizes = (self.found, len(self._queue))
        step = Step(len(self.trace), kind, seconds, *sizes, rules, cost=self.cost, note=note)
        self.trace.add(step)
        self.trace.meta["cost_after"] = self.cost
        return step

    run = Stepwise.drive

    def __repr__(self) -> str:
        state = self.stop_reason.value if self.stop_reason else "not finished"
        start = self._start.cost / PER_MICROSECOND
        lines = [
            f"BacktrackingSearch of {self.graph.name!r} ({self.mode}, alpha {self.alpha:g}): {state}",
            f"  {gain(start, self.cost)} in {len(self.history)} substitutions",
            f"  {self.expanded} graphs expanded (budget {self.budget}), {self.found} found, "
            f"{len(self._queue)} in the queue, {self.seconds:.3f} s",
        ]
        lines += [f"  step {step.index}: {step.note}" for step in self.trace.steps[-4:]]
        return "\n".join(lines)
