"""Sketches: incomplete terms; an e-graph contains an instance of one or not (Koehler et al., POPL 2024)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.problem import tree_costs
from workbench.graph import Builder, Graph
from workbench.ops import AttrValue, spec_of
from workbench.rules.interpret import Lookup, attributes, value
from workbench.rules.language import parse_term
from workbench.rules.pattern import App, Literal, Rule, Term
from workbench.rules.ruleset import RuleSet
from workbench.run.trace import StopReason
from workbench.saturation.limits import Limits
from workbench.saturation.saturation import Saturation
from workbench.support.orders import postorder


@dataclass(frozen=True, slots=True)
class Anything:
    """The sketch of any term."""


ANY: Final = Anything()


@dataclass(frozen=True, slots=True)
class Op:
    """The sketch of an operator with operands; attributes that are not named may have any value."""

    op: str
    operands: tuple[Sketch, ...]
    attrs: tuple[tuple[str, AttrValue], ...] = ()


@dataclass(frozen=True, slots=True)
class Contains:
    """The sketch of a term that is, or has below it, an instance of another sketch."""

    inner: Sketch


@dataclass(frozen=True, slots=True)
class Either:
    """The sketch of a term that is an instance of one of several sketches."""

    sketches: tuple[Sketch, ...]


Sketch = Anything | Op | Contains | Either


def sketch_of(text: str) -> Sketch:
    """Return a sketch written as a term, in which every variable stands for any term.

    Attributes that are named must have their values. Raise
    :class:`~workbench.rules.language.RuleSyntaxError` for a text that is not a term.

    >>> sketch_of("relu(x)")
    Op(op='relu', operands=(Anything(),), attrs=())
    """
    return _read(parse_term(text))


def _read(term: Term) -> Sketch:
    if not isinstance(term, App):
        return ANY
    named = dict(term.attrs)
    given = [
        (attr.name, attr.check(value(expr, _CLOSED), term.op))
        for attr, expr in attributes(term)
        if attr.name in named and isinstance(expr, Literal)
    ]
    return Op(term.op, tuple(map(_read, term.args)), tuple(given))


#: An algebra in which no name has a value: a lookup raises KeyError.
_CLOSED: Final = Lookup({}.__getitem__, {}.__getitem__)  # type: ignore[arg-type]


class Instances:
    """The cheapest instance of a sketch, and of every part of it, in each e-class.

    There is one cost per e-node, 0 or more; an instance's cost counts an operator wherever it occurs.
    """

    def __init__(self, egraph: EGraph, sketch: Sketch, costs: np.ndarray) -> None:
        self.egraph, self.sketch = egraph, sketch
        self.costs = costs.tolist()
        self.operands = [egraph.operands(i).tolist() for i in range(len(egraph))]
        least, chosen = tree_costs(egraph, costs)
        #: For every sketch, the least cost in each e-class, and the e-node with the sketches of its operands.
        self.best: dict[Sketch, list[float]] = {ANY: least}
        self.choice: dict[Sketch, list[tuple[int, tuple[Sketch, ...]] | None]] = {
            ANY: [None if i < 0 else (i, (ANY,) * len(self.operands[i])) for i in chosen]
        }
        self._solve(sketch)

    def satisfied(self, eclass: int) -> bool:
        """Return whether an e-class contains an instance of the sketch."""
        return self.best[self.sketch][eclass] < math.inf

    def _solve(self, sketch: Sketch) -> None:
        if sketch in self.best:
            return
        n = self.egraph.n_classes
        if isinstance(sketch, Either):
            for one in sketch.sketches:
                self._solve(one)
            pairs = [min(((self.best[s][c], k) for k, s in enumerate(sketch.sketches))) for c in range(n)]
            self.best[sketch] = [cost for cost, _ in pairs]
            self.choice[sketch] = [self.choice[sketch.sketches[k]][c] for c, (_, k) in enumerate(pairs)]
        elif isinstance(sketch, Op):
            for one in sketch.operands:
                self._solve(one)
            best = [math.inf] * n
            choice: list[tuple[int, tuple[Sketch, ...]] | None] = [None] * n
            unpack = spec_of(sketch.op).unpack
            for i, (op, attrs) in enumerate(zip(self.egraph.ops, self.egraph.attrs, strict=True)):
                if op != sketch.op or len(self.operands[i]) != len(sketch.operands):
                    continue
                if any(unpack(attrs)[name] != wanted for name, wanted in sketch.attrs):
                    continue
                pairs_below = zip(sketch.operands, self.operands[i], strict=True)
                cost = self.costs[i] + sum(self.best[s][c] for s, c in pairs_below)
                at = int(self.egraph.eclass[i])
                if cost < best[at]:
                    best[at], choice[at] = cost, (i, sketch.operands)
            self.best[sketch], self.choice[sketch] = best, choice
        elif isinstance(sketch, Contains):
            self._solve(sketch.inner)
            self._spread(sketch)

    def _spread(self, sketch: Contains) -> None:
        """Settle the least costs of a sketch that goes from operands to operators, the cheapest first."""
        best, choice = list(self.best[sketch.inner]), list(self.choice[sketch.inner])
        readers: list[list[int]] = [[] for _ in range(self.egraph.n_classes)]
        for i, operands in enumerate(self.operands):
            for c in dict.fromkeys(operands):
                readers[c].append(i)
        heap = [(cost, c) for c, cost in enumerate(best) if cost < math.inf]
        heapq.heapify(heap)
        done: set[int] = set()
        while heap:
            _, c = heapq.heappop(heap)
            if c in done:
                continue
            done.add(c)
            for i in readers[c]:
                operands, at = self.operands[i], int(self.egraph.eclass[i])
                if at in done:
                    continue
                place = operands.index(c)
                parts = tuple(sketch if k == place else ANY for k in range(len(operands)))
                others = sum(self.best[ANY][d] for k, d in enumerate(operands) if k != place)
                cost = self.costs[i] + best[c] + others
                if cost < best[at]:
                    best[at], choice[at] = cost, (i, parts)
                    heapq.heappush(heap, (cost, at))
        self.best[sketch], self.choice[sketch] = best, choice

    def graph(self, start: Graph) -> Graph:
        """Return the cheapest graph whose first output is an instance of the sketch.

        The other outputs are the cheapest terms of their e-classes. Raise ValueError if there is none.
        """
        wanted: Sequence[tuple[int, Sketch]] = [
            (c, ANY if k else self.sketch) for k, c in enumerate(self.egraph.roots)
        ]

        chosen: dict[tuple[int, Sketch], tuple[int, list[tuple[int, Sketch]]]] = {}

        def below(key: tuple[int, Sketch]) -> list[tuple[int, Sketch]]:
            found = self.choice[key[1]][key[0]]
            if found is None:
                raise ValueError(f"e-class {key[0]} must contain an instance of {key[1]}, got none")
            chosen[key] = found[0], list(zip(self.operands[found[0]], found[1], strict=True))
            return chosen[key][1][::-1]

        builder = Builder.of(start)
        made: dict[tuple[int, Sketch], int] = {}
        for key in postorder(wanted, below):
            i, operands = chosen[key]
            made[key] = builder.apply(self.egraph.ops[i], [made[k] for k in operands], self.egraph.attrs[i])
        return builder.graph([(name, made[k]) for (name, _), k in zip(start.outputs, wanted, strict=True)])


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: whether its sketch was satisfied, the graph it ends with, and the size it took.

    If the sketch was not satisfied, ``graph`` is the graph that the stage began with.
    """

    sketch: Sketch
    satisfied: bool
    graph: Graph
    steps: int
    e_nodes: int
    stop_reason: StopReason | None


def staged(
    graph: Graph,
    rules: RuleSet | Sequence[Rule],
    sketches: Sequence[Sketch],
    costs: Callable[[EGraph], np.ndarray],
    limits: Limits | None = None,
) -> Iterator[Stage]:
    """Yield one stage for every sketch; the first that is not satisfied is the last.

    Each stage grows an e-graph until the first output is an instance of the sketch. The next one starts from the
    cheapest instance, so that everything else that was found is dropped.

    Args:
        graph: The start graph.
        rules: The rules.
        sketches: The sketches, in order.
        costs: The costs of an e-graph's e-nodes.
        limits: The limits of every stage.
    """
    engine = None
    for sketch in sketches:
        run = Saturation(graph, rules, limits, engine=engine, keep=0)
        engine = run.engine
        run.start_engine()
        while True:
            egraph = run.egraph()
            found = Instances(egraph, sketch, costs(egraph))
            satisfied = found.satisfied(egraph.roots[0])
            if satisfied or not run.unfinished:
                break
            try:
                run.step()
            except StopIteration:
                break
        if satisfied:
            graph = found.graph(graph)
        yield Stage(sketch, satisfied, graph, len(run.trace) - 1, run.e_nodes, run.stop_reason)
        if not satisfied:
            return
