"""Cutting planes before branch and bound: rows that dual ascents find, and candidates that they rule out.

The relaxation of the integer program is weak, because half of a candidate can be built from halves of
others. Every dual ascent names sets of candidates of which one is always taken. An ascent that begins with
the reduced costs of the relaxation names rows that its solution violates entirely, and adds to its bound.
What the bound rules out is dropped, the rest is reduced again, and begins anew; branch and bound gets what is
left with all rows. Now and then the relaxation is probed (:mod:`~workbench.extraction.exact.probing`).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from workbench.extraction.exact.cycle_constraints import Separator, pair_formulas, unfounded
from workbench.extraction.exact.highs import SCALED_COST, SMALL_SIZE, solve_highs
from workbench.extraction.exact.ilp import Program, highs_model, program
from workbench.extraction.exact.probing import TRIAL_TIME_SHARE, Probing
from workbench.extraction.exact.types import Hear, Solved, Tell, met, selection_cost
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.dominators import Must, must_sets
from workbench.extraction.reduce.dual_ascent import Ascent, Layout, ascend
from workbench.extraction.reduce.presolve import REDUCTIONS, presolve, pull_up, pull_up_costs

#: The share of the time for cutting planes, and of what is left of it for each restart.
TIME_SHARE: Final = 0.8
RESTART_TIME_SHARE: Final = 0.8
#: Cutting planes restart if at most this share of the candidates is left.
RESTART_SHRINK: Final = 0.9
MAX_RESTARTS: Final = 40
#: They end when the bound has risen by less than this share of the gap in the last STALL_ROUNDS rounds.
MIN_BOUND_GAIN: Final = 0.005
STALL_ROUNDS: Final = 10
#: Rounds before the relaxation is probed for the first time, and their factor after probing in vain.
PROBE_PERIOD: Final = 5
PROBE_BACKOFF: Final = 2
#: Problems with more candidates are not probed.
MAX_PROBED_SIZE: Final = 5_000
#: The reductions on the way: without those that merge candidates, as rows found before name candidates.
UNMERGED_REDUCTIONS: Final = tuple(r for r in REDUCTIONS if r not in (pull_up, pull_up_costs))
#: The share of a row that a solution must lack for the row to be added.
MIN_VIOLATION: Final = 0.02
#: Rows that a solution exceeds by more than this are not kept at a restart.
TIGHTNESS_TOLERANCE: Final = 1e-6
#: Ascents before the first relaxation, and before that of each restart.
ROOT_ASCENTS: Final = 24
RESTART_ASCENTS: Final = 4
#: The rows of an ascent from random heights are added if its bound is at least this share of the best.
MIN_ASCENT_SHARE: Final = 0.97
#: The share of the time for these ascents, unless the problem is small: then what is done does not depend on
#: the time, unless it is up.
ASCENT_SHARE: Final = 0.1
#: Above this number of candidates the relaxation has no rows but those of ascents, so that it is solved soon.
MAX_FULL_RELAXATION_SIZE: Final = 15_000
#: Sets between two looks at heights in every third of these ascents.
HEIGHT_PERIOD: Final = 20
#: Ascents by the shares that the solution lacks, in each round.
SHORTFALL_ASCENTS: Final = 4


@dataclass(slots=True, eq=False)
class _Root:
    """The relaxation of a problem with the rows found so far."""

    problem: Problem
    layout: Layout
    rows: Program
    solver: Any
    rng: random.Random
    known: set[tuple[int, ...]] = field(default_factory=set)
    x: np.ndarray | None = None

    @classmethod
    def of(cls, problem: Problem, must: Must | None, scale: float, seconds: float) -> _Root:
        """Return the relaxation; it has the integer program's rows unless it is large. Scale its costs."""
        import highspy

        needed = must.needed() if must is not None else ()
        large = len(problem.nodes) > MAX_FULL_RELAXATION_SIZE
        rows = Program.of(problem, needed) if large else program(problem, needed)
        rows.cost = [c * scale for c in rows.cost]
        if must is not None and not large:
            rows.add_formulas(pair_formulas(problem, must))
        solver = highspy.Highs()
        for name, option in {"output_flag": False, "threads": 1, "random_seed": 0}.items():
            solver.setOptionValue(name, option)
        solver.setOptionValue("time_limit", max(0.01, seconds))
        solver.passModel(highs_model(rows, integer=False))
        return cls(problem, Layout.of(problem), rows, solver, random.Random(0))

    def solve(self, until: float) -> tuple[float, np.ndarray, np.ndarray] | None:
        """Return the relaxation's value, its solution and its reduced costs, or None if time is up."""
        import highspy

        self.solver.setOptionValue(
            "time_limit", self.solver.getRunTime() + max(0.01, until - time.perf_counter())
        )
        self.solver.run()
        if self.solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        found = self.solver.getSolution()
        value = float(self.solver.getInfo().objective_function_value)
        self.x = np.array(found.col_value)
        return value, np.array(found.col_value), np.array(found.col_dual)

    def add(self, sets: Sequence[tuple[int, ...]]) -> int:
        """Add rows that are new; return their number."""
        fresh = [by for by in dict.fromkeys(sets) if by not in self.known]
        self.known.update(fresh)
        first = len(self.rows.row_lower)
        for by in fresh:
            self.rows.add(by, [1.0] * len(by), 1.0, math.inf)
        if fresh:
            low, high, starts, index, value = self.rows.rows_from(first)
            self.solver.addRows(len(low), low, high, len(index), starts, index, value)
        return len(fresh)

    def tight(self) -> list[tuple[int, ...]]:
        """Return the rows that the last solution meets exactly; all rows if there is none."""
        x = self.x
        return [by for by in self.known if x is None or x[list(by)].sum() < 1 + TIGHTNESS_TOLERANCE]

    def violated(self, x: np.ndarray, until: float) -> list[tuple[int, ...]]:
        """Return rows that a solution violates, found by ascents from the shares that it lacks."""
        found: list[tuple[int, ...]] = []
        for turn in range(SHORTFALL_ASCENTS):
            noise = np.array([1 + 0.1 * self.rng.random() for _ in range(len(x))])
            price = (np.maximum(0.0, 1.0 - x) * noise).tolist()
            rng = self.rng if turn else None
            sets = ascend(self.layout, price, rng, smallest=False, until=until).sets
            found += [by for by in sets if by not in self.known and x[list(by)].sum() < 1 - MIN_VIOLATION]
        return found


@dataclass(slots=True, eq=False)
class _Cutting:
    """Cutting planes for one problem: the bound so far, and the candidates that are not ruled out."""

    root: _Root
    scale: float
    cost: float
    bound: float
    alive: list[bool]

    def run(self, until: float) -> Iterator[float]:
        """Add rows until the bound rises no more; yield every new bound."""
        root, n = self.root, len(self.root.problem.nodes)
        now = time.perf_counter()
        for turn in range(RESTART_ASCENTS if root.known else ROOT_ASCENTS):
            if turn > 1 and n >= SMALL_SIZE and time.perf_counter() > now + ASCENT_SHARE * (until - now):
                break
            rng = None if turn < 2 else root.rng
            look = HEIGHT_PERIOD if turn % 3 == 1 else 0
            one = ascend(root.layout, root.rows.cost[:n], rng, smallest=not turn % 2, look=look, until=until)
            if turn < 2 or one.bound >= MIN_ASCENT_SHARE * self.bound * self.scale:
                root.add(one.sets)
            yield self._keep(0.0, one)
        if self.alive.count(True) < RESTART_SHRINK * n:
            return
        separator: Separator | None = None
        bounds, probe = [0.0], PROBE_PERIOD
        for turn in range(1_000_000):
            solved = root.solve(until)
            if solved is None or time.perf_counter() > until:
                return
            value, columns, reduced = solved
            x = columns[:n]
            one = ascend(
                root.layout, np.maximum(reduced[:n], 0.0).tolist(), smallest=bool(turn % 2), until=until
            )
            yield self._keep(value, one)
            # Rows of the reduced problem may first have to regain a bound that is known already.
            bounds.append(max(bounds[-1], (value + one.bound) / self.scale))
            gap = self.cost - self.bound
            if met(self.cost, self.bound) or self.alive.count(True) < RESTART_SHRINK * n:
                return
            stalled = len(bounds) > STALL_ROUNDS and bounds[-1] - bounds[-STALL_ROUNDS] < MIN_BOUND_GAIN * gap
            if stalled and n > MAX_PROBED_SIZE:
                return
            if stalled or (turn == probe and n <= MAX_PROBED_SIZE):
                least = (value + np.array(root.layout.at_least(one.price))).tolist()
                probing = self._probing()
                for _ in probing.run(x.tolist(), least, until):
                    yield self.bound
                    probing.most = self.cost * self.scale
                    if self.alive.count(True) < RESTART_SHRINK * n:
                        return
                if not probing.fruitful and stalled:
                    return
                probe = turn + PROBE_PERIOD if probing.fruitful else max(PROBE_BACKOFF * turn, PROBE_PERIOD)
                if probing.dropped:
                    bounds = [0.0]
                    continue
            added = root.add(one.sets)
            if not added and n > MAX_FULL_RELAXATION_SIZE:
                return  # formulas of e-classes would need the rows of the integer program
            if n <= MAX_FULL_RELAXATION_SIZE:
                added += root.add(root.violated(x, until))
            if not added:
                separator = Separator.of(root.problem, everywhere=True) if separator is None else separator
                y = {c: float(columns[k]) for c, k in root.rows.column.items()}
                first_row = len(root.rows.row_lower)
                formulas = separator(x.tolist(), y, until)
                if not root.rows.add_formulas(formulas):
                    return
                needed = set(root.problem.roots)
                root.known.update(f.by for f in formulas if not needed.isdisjoint(f.built))
                low, high, starts, index, values = root.rows.rows_from(first_row)
                root.solver.addRows(len(low), low, high, len(index), starts, index, values)

    def _probing(self) -> Probing:
        """Return what probes the relaxation just solved; candidates ruled out before are fixed in it."""
        root = self.root
        for i, alive in enumerate(self.alive):
            if not alive:
                root.solver.changeColBounds(i, 0.0, 0.0)
        rows, most = root.rows, self.cost * self.scale
        share = TRIAL_TIME_SHARE if len(root.problem.nodes) >= SMALL_SIZE else 1.0
        return Probing(root.solver, rows.members, rows.column, rows.lower, self.alive, most, share)

    def _keep(self, value: float, one: Ascent) -> float:
        """Adopt what an ascent from the reduced costs of a relaxation of this value proves."""
        self.bound = max(self.bound, (value + one.bound) / self.scale)
        most = self.cost * self.scale * (1 + 1e-9)
        least = self.root.layout.at_least(one.price)
        base = value + one.bound
        self.alive = [a and base + more <= most for a, more in zip(self.alive, least, strict=True)]
        return self.bound


def solve_by_cuts(
    problem: Problem,
    must: Must | None,
    start: Mapping[int, int] | None,
    seconds: float,
    *,
    tell: Tell = lambda picked, bound, cuts: None,
    hear: Hear = lambda: None,
) -> Solved:
    """Solve a problem by cutting planes, then by branch and bound.

    Args:
        problem: The problem.
        must: Its must-sets, if they are known.
        start: A selection to begin with (e-class → candidate); without one, branch and bound begins at once.
        seconds: Time limit.
        tell: Callback for better selections and bounds.
        hear: Callback that returns better selections of other solvers.

    Returns:
        The best selection with a lower bound.
    """
    if start is None:
        return solve_highs(problem, must, start, seconds, tell=tell, hear=hear)
    until = time.perf_counter() + seconds
    last = time.perf_counter() + TIME_SHARE * seconds
    within = _Within(problem, dict(start), selection_cost(problem, start), tell, hear)
    part, sets = problem, list[tuple[int, ...]]()
    bound = 0.0
    for turn in range(MAX_RESTARTS):
        within.listen()
        scale = SCALED_COST / within.cost if 0.0 < within.cost < math.inf else 1.0
        now = time.perf_counter()
        root = _Root.of(part, must, scale, until - now)
        root.add(sets)
        cutting = _Cutting(root, scale, within.cost, bound, [True] * len(part.nodes))
        for risen in cutting.run(now + RESTART_TIME_SHARE * max(0.0, last - now)):
            if risen > bound:
                bound = min(risen, within.cost)
                tell(None, bound, len(root.known))
            within.listen()
            cutting.cost = within.cost
        sets = root.tight()
        if met(within.cost, bound):
            return Solved(within.best, bound, proved=True)
        kept = part.keep(cutting.alive, always=False)
        if time.perf_counter() > last or turn == MAX_RESTARTS - 1:
            break
        kept, _ = presolve(kept, within.cost, until=last, reductions=UNMERGED_REDUCTIONS)
        if len(kept.nodes) > RESTART_SHRINK * len(part.nodes):
            break
        part, sets = kept, _carried(part, kept, sets)
        if not part.roots:
            within.offer({}, part)
            return Solved(within.best, within.cost, proved=True)
        must = must_sets(part, last)
    inner = within.start(part)
    found = solve_highs(
        part,
        must,
        inner,
        until - time.perf_counter(),
        tell=lambda picked, value, cuts: within.report(part, picked, max(bound, value), cuts),
        hear=lambda: within.heard(part),
        sets=sets,
    )
    if found.picked is not None:
        within.offer(found.picked, part)
    bound = max(bound, min(found.bound, within.cost))
    return Solved(within.best, within.cost if found.proved else bound, found.proved, found.endings)


def _carried(before: Problem, after: Problem, sets: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the sets in terms of a reduced problem, without those of which a candidate was pulled up."""
    place = {node: i for i, node in enumerate(after.nodes)}
    merged = set(after.fixed.values())
    found = ([before.nodes[i] for i in by] for by in sets)
    return [tuple(place[n] for n in by if n in place) for by in found if merged.isdisjoint(by)]


@dataclass(slots=True, eq=False)
class _Within:
    """The best selection of the whole problem, while a reduced part of it is solved."""

    problem: Problem
    best: dict[int, int]
    cost: float
    tell: Tell
    hear: Hear
    place: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.place = {node: i for i, node in enumerate(self.problem.nodes)}

    def listen(self) -> bool:
        """Adopt a better selection of another solver; return whether there was one."""
        heard = self.hear()
        if heard is None or selection_cost(self.problem, heard) >= self.cost:
            return False
        self.best, self.cost = dict(heard), selection_cost(self.problem, heard)
        return True

    def offer(self, picked: Mapping[int, int], part: Problem) -> bool:
        """Adopt a selection of the part if it is better; return whether it is."""
        nodes = [*part.fixed.values(), *(part.nodes[i] for i in picked.values())]
        whole = {self.problem.eclass[self.place[i]]: self.place[i] for i in nodes if i in self.place}
        cost = selection_cost(self.problem, whole)
        if cost >= self.cost or unfounded(self.problem, whole):
            return False
        self.best, self.cost = whole, cost
        return True

    def report(self, part: Problem, picked: Mapping[int, int] | None, bound: float, cuts: int) -> None:
        """Pass a solver's report about the part on as one about the whole."""
        if picked is not None and self.offer(picked, part):
            self.tell(self.best, bound, cuts)
        self.tell(None, min(bound, self.cost), cuts)

    def start(self, part: Problem) -> dict[int, int] | None:
        """Return the best selection within the part, or None if it has an e-node that the part lacks."""
        kept = {self.problem.nodes[i] for i in self.best.values()}
        picked = {
            c: k for k, (c, node) in enumerate(zip(part.eclass, part.nodes, strict=True)) if node in kept
        }
        whole = selection_cost(part, picked) < math.inf and not unfounded(part, picked)
        return picked if whole else None

    def heard(self, part: Problem) -> dict[int, int] | None:
        """Return a better selection of another solver within the part, if there is one."""
        return self.start(part) if self.listen() else None
