"""TASO's cost-based backtracking search as a stepwise object: the baseline of equality saturation."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from workbench.costs import CostModel
from workbench.graph import Graph
from workbench.rules.pattern import Rule
from workbench.search.candidates import Candidates
from workbench.search.modes import mode_of
from workbench.search.nodes import PER_MICROSECOND, NodeTable
from workbench.search.program import Plan, Program
from workbench.stepwise import Stepwise
from workbench.trace import RuleStep, Step, StopReason, Trace
from workbench.units import gain


@dataclass(frozen=True, slots=True, order=True)
class _Queued:
    """Hold a graph that was found and not made yet: what to edit, and how.

    The least cost comes first, among equals the one found first.
    """

    cost: int
    number: int
    before: Program = field(compare=False)
    plan: Plan | None = field(compare=False)

    def program(self) -> Program:
        if self.plan is None:
            return self.before
        made = self.before.edited(self.plan)
        self.before.release()
        return made


@dataclass(slots=True)
class _Counts:
    matches: int = 0
    found: int = 0
    seconds: float = 0.0


class BacktrackingSearch(Stepwise):
    """Search the graphs that rules lead to for the cheapest one, one graph taken from the queue a step.

    The algorithm is TASO's (SOSP 2019, algorithm 2, as released): the cheapest graph in the queue is
    replaced by every graph that one application of one rule makes of it, if that costs less than
    ``alpha`` times the best graph taken so far, has fewer than ``growth`` times the nodes of the start
    graph, and was not met before. ``budget + 1`` graphs are expanded, and one more is compared. Ties go
    to what was found first. ``mode`` is

    - ``"sound"``: the rules as given; every application is type-checked, so sound rules stay sound.
    - ``"taso-release"``: with TASO's 18 hand-written rules before those given (which are meant to be
      those of its ``graph_subst.pb``); an operator below the root of a match must have no reader outside
      it; both orders of symmetric pairs are tried. Some of these rules are wrong: certify what comes out.
    - ``"tensat-fork"``: the same with the 6 hand-written rules that Tensat's comparison left in.

    What differs from TASO in every mode: an edit of another type or with a cycle is skipped where TASO
    ends the process; equal operators are one node and are paid for once; the queue keeps no more graphs
    than the budget lets it take, which changes no result; and graphs count as met before when they are
    equal in structure, by a digest of 128 bits. TASO adds up a hash over the edges that does not see
    which of two operators of one shape feeds a reader (nor repeats itself between runs), and drops a new
    graph where two collide.

    ``seconds`` bounds the run; a step under way is then cut short. The best graph is kept when a run is
    stopped or interrupted, and the run goes on from there.

    >>> from workbench.benchmarks import benchmark
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
                f"a Graph is searched, not {type(graph).__name__}; load_onnx reads a model as one"
            )
        if not isinstance(budget, int):
            raise TypeError(f"budget is a whole number of graphs, not {budget!r}")
        for name, value, least in (("alpha", alpha, 1), ("budget", budget, 0), ("growth", growth, 1)):
            if not value >= least:
                raise ValueError(f"{name} is {least} or more, not {value}")
        if not seconds > 0:
            raise ValueError(f"the time limit is positive, not {seconds}")
        super().__init__()
        self.graph, self.alpha, self.budget, self.mode = graph, alpha, budget, mode
        self.time_limit, self.growth = seconds, growth
        settled = mode_of(mode)
        own = settled.rules()
        names = {r.name for r in own}
        self.rules = (*own, *(r for r in rules if r.name not in names))
        self._table = NodeTable(cost_model)
        self._start = Program.of(graph, self._table)
        self._candidates = Candidates(
            self.rules, self._table, exclusive=settled.exclusive, ordered=settled.ordered
        )
        self._best = self._start
        self._queue: list[_Queued] = [_Queued(self._start.cost, 0, self._start, None)]
        self._seen = {self._start.key}
        self._under_way: Program | None = None
        self._found = 0
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
                "node_limit": self._node_limit,
                "time_limit": seconds,
                "cost_source": cost_model.source,
                "cost_before": self._start.cost / PER_MICROSECOND,
                "sizes": ["graphs found", "graphs in the queue"],
            }
        )
        self._note(0.0, (), f"start graph: {self._start.cost / PER_MICROSECOND:.6g} µs")

    # -- figures ----------------------------------------------------------------------------------
    @property
    def _node_limit(self) -> int:
        """Return the number of nodes below which graphs stay; inputs and weights count, as in TASO."""
        return int(self.growth * self._start.size)

    @property
    def cost(self) -> float:
        """Return the least cost known, in microseconds."""
        head = self._queue[0].cost if self._queue else self._best.cost
        return min(head, self._best.cost) / PER_MICROSECOND

    @property
    def found(self) -> int:
        """Return the number of distinct graphs that were queued, the start graph among them."""
        return len(self._seen)

    @property
    def expanded(self) -> int:
        """Return the number of graphs that every rule was tried on."""
        return min(self.taken, self.budget + 1) - (self._under_way is not None)

    def _least(self) -> Program:
        # The queue may hold a better graph when a run was cut short.
        if self._queue and self._queue[0].cost < self._best.cost:
            return self._queue[0].program()
        return self._best

    @property
    def best(self) -> Graph:
        """Return the cheapest graph known."""
        return self._least().graph(self.graph)

    @property
    def history(self) -> tuple[str, ...]:
        """Return the rules that lead from the start graph to the best, in order."""
        return self._least().history

    def path(self) -> list[Graph]:
        """Return the graphs from the start graph to the best, one more than :attr:`history` has rules."""
        programs: list[Program] = []
        program: Program | None = self._least()
        while program is not None:
            programs.append(program)
            program = program.parent
        return [p.graph(self.graph) for p in reversed(programs)]

    # -- stepping ---------------------------------------------------------------------------------
    def step(self) -> Step:
        """Take the cheapest graph from the queue and apply every rule to it wherever it matches.

        Raise StopIteration where nothing is left to take or the budget is spent.
        """
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
        # A step that is interrupted begins again with the same graph: what it has found by then is known.
        program = self._under_way
        if program is None:
            program = self._under_way = self._queue[0].program()
            del self._queue[0]
            self.taken += 1
        if program.cost < self._best.cost:
            self._best = program
        note = f"took {program.cost / PER_MICROSECOND:.6g} µs"
        if self.taken > self.budget + 1:
            self._under_way = None
            self.stop_reason = StopReason.ITERATION_LIMIT
            return self._finish(began, {}, f"{note}, only compared")
        counts: dict[str, _Counts] = {}
        whole = self._expand(program, counts, began + self.time_limit - self.seconds)
        if whole:
            self._under_way = None
            program.release()
            if not self._queue:
                self.stop_reason = StopReason.FINISHED
        else:
            self.stop_reason = StopReason.TIME_LIMIT
            note += ", cut short: the time was up"
        return self._finish(began, counts, note)

    def _expand(self, program: Program, counts: dict[str, _Counts], until: float) -> bool:
        """Queue what one application makes of a graph; return whether there was time for all."""
        limit = self._best.cost * self.alpha
        room = self.budget + 2 - self.taken
        last = time.perf_counter()
        for plan in self._candidates.plans(program):
            now = time.perf_counter()
            if now > until:
                return False
            count = counts.setdefault(plan.rule, _Counts())
            count.matches += 1
            count.found += self._offer(program, plan, limit, room)
            done = time.perf_counter()
            count.seconds += done - last
            last = done
        return True

    def _offer(self, program: Program, plan: Plan, limit: float, room: int) -> bool:
        """Queue the graph that an edit makes, unless it is too dear, too large, or known."""
        change = program.change(plan)
        if change is None:
            return False
        cost = program.cost + change.cost
        if not cost < limit or not program.size + change.size < self.growth * self._start.size:
            return False
        # No more graphs are taken than there is room for: one dearer than so many is never reached.
        if len(self._queue) >= room and (not room or cost >= self._queue[-1].cost):
            return False
        key = change.digest()
        if key in self._seen:
            return False
        self._found += 1
        insort(self._queue, _Queued(cost, self._found, program, plan))
        del self._queue[room:]
        self._seen.add(key)
        return True

    def _finish(self, began: float, counts: dict[str, _Counts], note: str) -> Step:
        spent = time.perf_counter() - began
        self.seconds += spent
        rules = tuple(RuleStep(name, c.matches, c.seconds, c.found) for name, c in counts.items())
        return self._note(spent, rules, f"{note}, {len(self._queue)} in the queue")

    def _note(self, seconds: float, rules: tuple[RuleStep, ...], note: str) -> Step:
        step = Step(len(self.trace), seconds, self.found, len(self._queue), rules, cost=self.cost, note=note)
        self.trace.add(step)
        self.trace.meta["cost_after"] = self.cost
        return step

    def run(self, progress: Callable[[Step], None] | None = None) -> StopReason:
        """Step until a reason to stop, and return it; Ctrl-C stops and keeps what is there."""
        return self.drive(progress)

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
