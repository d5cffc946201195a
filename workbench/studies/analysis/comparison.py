"""A comparison of the original with the optimised graph by e-class, and the rules that led to each e-node."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.egraph.rebuild import eclasses_of
from workbench.graph import Graph
from workbench.ops import spec_of
from workbench.ops.inputs_and_opaque import REFERENCES
from workbench.rules.pattern import App, AttrVar, Literal, Rule, Term, Var, subterms
from workbench.run.display import Face
from workbench.support.formatting import microseconds
from workbench.support.orders import postorder

if TYPE_CHECKING:
    import pandas as pd

    from workbench.optimizer.result import Optimized


# -- derivations ------------------------------------------------------------------------------------------
#: Largest number of candidates examined before a birth is left unexplained.
PATIENCE: Final = 20_000

_Binding = dict[str, Any]
_Match = tuple[_Binding, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Birth:
    """The rule application that created an e-node.

    ``sources`` are the e-nodes of its left-hand side. They are empty if no match was found that explains
    the e-node. Attributes that a rule computes are not compared, and long searches are given up.
    """

    node: int
    rule: str
    step: int
    sources: tuple[int, ...] = ()


class Derivations:
    """Explanations of an e-graph's e-nodes by its births and the rules that grew it."""

    def __init__(self, egraph: EGraph, rules: Iterable[Rule]) -> None:
        self.egraph = egraph
        self._rules: Mapping[str, Rule] = {rule.name: rule for rule in rules}
        self._members = egraph.members()
        self._born: defaultdict[tuple[int, int, str], list[int]] = defaultdict(list)
        self._by_op: defaultdict[str, list[int]] = defaultdict(list)
        births = zip(egraph.birth_rule.tolist(), egraph.birth_step.tolist(), egraph.ops, strict=True)
        for i, (rule, step, op) in enumerate(births):
            self._born[rule, step, op].append(i)
            self._by_op[op].append(i)
        self._known: dict[int, Birth | None] = {}
        self._left = 0

    def chain(self, node: int) -> tuple[Birth, ...]:
        """Return the births that an e-node depends on, its own last; empty for one of the start graph."""

        def sources(i: int) -> tuple[int, ...]:
            birth = self.birth(i)
            return () if birth is None else birth.sources

        births = [birth for i in postorder([node], sources) if (birth := self.birth(i)) is not None]
        return tuple(sorted(births, key=lambda b: (b.step, b.node == node, b.node)))

    def birth(self, node: int) -> Birth | None:
        """Return the rule application that created an e-node, or None for one of the start graph."""
        if node not in self._known:
            number = int(self.egraph.birth_rule[node]) if len(self.egraph.birth_rule) else -1
            self._known[node] = None
            if number >= 0:
                name, step = self.egraph.rules[number], int(self.egraph.birth_step[node])
                rule, self._left = self._rules.get(name), PATIENCE
                sources = () if rule is None else next(self._explanations(node, step, rule, number), ())
                self._known[node] = Birth(node, name, step, sources)
        return self._known[node]

    def _explanations(self, node: int, step: int, rule: Rule, number: int) -> Iterator[tuple[int, ...]]:
        op = self.egraph.ops[node]
        for k, target in enumerate(rule.targets):
            if not isinstance(target, App):
                continue
            # The e-node may be the root of the target term, or below a root that was born with it.
            inner = any(isinstance(t, App) and t.op == op for arg in target.args for t in subterms(arg))
            born = self._born.get((number, step, target.op), []) if inner else []
            for root in [node, *born] if target.op == op else born:
                for binding, used in self._at(target, root, {}, step + 1):
                    if node in used:
                        yield from self._sources(rule, k, root, binding, step)

    def _sources(
        self, rule: Rule, k: int, root: int, binding: _Binding, step: int
    ) -> Iterator[tuple[int, ...]]:
        """Yield the e-nodes of all left-hand sides for a match whose right-hand side is at ``root``."""
        rest = [source for j, source in enumerate(rule.sources) if j != k]
        for bound, used in self._in(rule.sources[k], int(self.egraph.eclass[root]), binding, step):
            found = self._elsewhere(rest, bound, step)
            if found is not None:
                yield tuple(sorted(used | found))

    def _elsewhere(self, sources: list[App], binding: _Binding, step: int) -> frozenset[int] | None:
        if not sources:
            return frozenset()
        for i in self._by_op.get(sources[0].op, ()):
            for bound, used in self._at(sources[0], i, binding, step):
                rest = self._elsewhere(sources[1:], bound, step)
                if rest is not None:
                    return used | rest
        return None

    # -- matching ---------------------------------------------------------------------------------
    def _in(self, term: Term, eclass: int, binding: _Binding, before: int) -> Iterator[_Match]:
        if isinstance(term, Var):
            if term.starred:
                yield binding, frozenset()
            elif binding.get(term.name, eclass) == eclass:
                yield {**binding, term.name: eclass}, frozenset()
            return
        for i in self._members[eclass]:
            yield from self._at(term, i, binding, before)

    def _at(self, term: App, i: int, binding: _Binding, before: int) -> Iterator[_Match]:
        """Yield the bindings with which an e-node born before a step matches a term, and the e-nodes used."""
        egraph = self.egraph
        self._left -= 1
        if self._left < 0 or egraph.ops[i] != term.op or int(egraph.birth_step[i]) >= before:
            return
        bound = self._attrs(term, i, binding)
        operands = egraph.operands(i).tolist()
        if bound is None:
            return
        if len(term.args) == len(operands):
            pairs = list(zip(term.args, operands, strict=True))
            yield from self._operands(pairs, (bound, frozenset([i])), before)
        elif any(isinstance(arg, Var) and arg.starred for arg in term.args):
            # All members' operands match alike, so they are not recorded.
            yield bound, frozenset([i])

    def _operands(self, left: list[tuple[Term, int]], match: _Match, before: int) -> Iterator[_Match]:
        """Yield the matches of operands in their e-classes, each with those of the operator above."""
        if not left:
            yield match
            return
        (term, eclass), *rest = left
        for bound, more in self._in(term, eclass, match[0], before):
            yield from self._operands(rest, (bound, match[1] | more), before)

    def _attrs(self, term: App, i: int, binding: _Binding) -> _Binding | None:
        """Return the binding with the attributes that a term names directly, or None if they differ."""
        values = dict(zip(spec_of(term.op).attr_names, self.egraph.attrs[i], strict=True))
        bound = dict(binding)
        for name, expr in term.attrs:
            own = values[name]
            known = own
            if isinstance(expr, Literal):
                known = expr.value
            elif isinstance(expr, AttrVar):
                known = bound.setdefault(f"[{expr.name}]", own)
            if known != own:
                return None
        return bound


# -- comparison -------------------------------------------------------------------------------------------
#: The marks of operators and their meanings.
MARKS: Final = {
    "kept": "the same operator on both sides",
    "rewritten": "the same value, by another operator",
    "removed": "a value that the second graph does not compute",
    "added": "a value that the first graph does not compute",
}


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One of the two graphs, with figures by node.

    The figures are its e-class and e-node (-1 if the e-graph has none), its mark, its cost in
    microseconds, and the rule application that made it (None if it is part of the original).
    """

    graph: Graph = field(repr=False)
    classes: tuple[int, ...] = field(repr=False)
    e_nodes: tuple[int, ...] = field(repr=False)
    marks: tuple[str, ...] = field(repr=False)
    costs: tuple[float, ...] = field(repr=False)
    births: tuple[Birth | None, ...] = field(repr=False)

    def running(self) -> list[int]:
        """Return the operators that run; those of weights alone are folded."""
        folded = self.graph.constant()
        return [i for i, node in enumerate(self.graph) if not folded[i] and node.op not in REFERENCES]

    def counts(self) -> dict[str, int]:
        """Return the number of running operators by mark."""
        counts = Counter(self.marks[i] for i in self.running())
        return {mark: counts[mark] for mark in MARKS if mark in counts}


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Face):
    """Two graphs with their operators marked, and the derivations by rules.

    The graphs, called ``sides``, are an original and its optimised form, of which operators are related ``by``
    e-class; or two models of any origin, of which they are related by value. Then no rule is known.
    """

    before: Side
    after: Side
    derivations: Derivations | None = field(repr=False)
    cost_source: str
    name: str = ""
    sides: tuple[str, str] = ("original", "optimised")
    by: str = "e-class"

    def rules(self) -> dict[str, tuple[int, ...]]:
        """Return the operators of the optimised graph by the rule that made them, most productive first."""
        made: defaultdict[str, list[int]] = defaultdict(list)
        for i, birth in enumerate(self.after.births):
            if birth is not None:
                made[birth.rule].append(i)
        return {r: tuple(made[r]) for r in sorted(made, key=lambda r: (-len(made[r]), r))}

    def partners(self, i: int) -> tuple[int, ...]:
        """Return the operators of the original in the e-class of operator ``i`` of the optimised graph."""
        c = self.after.classes[i]
        return tuple(j for j, d in enumerate(self.before.classes) if d == c >= 0)

    def chain(self, i: int) -> tuple[Birth, ...]:
        """Return the rule applications that led to operator ``i`` of the optimised graph, in order."""
        e_node = self.after.e_nodes[i]
        return self.derivations.chain(e_node) if self.derivations is not None and e_node >= 0 else ()

    def stories(self) -> tuple[tuple[int, tuple[Birth, ...]], ...]:
        """Return the running operators that rules made, each with its chain, the longest chain first.

        Among chains of equal length, the one with more rules comes first, then the one of the costlier
        operator. A chain is left out if all its rules appear in one chain before it.
        """
        constant = self.after.graph.constant()
        chains = {
            i: self.chain(i)
            for i, birth in enumerate(self.after.births)
            if birth is not None and not constant[i]
        }
        rules = {i: {link.rule for link in chain} for i, chain in chains.items()}
        order = sorted(chains, key=lambda i: (-len(chains[i]), -len(rules[i]), -self.after.costs[i], i))
        told = [i for k, i in enumerate(order) if not any(rules[i] <= rules[j] for j in order[:k])]
        return tuple((i, chains[i]) for i in told)

    def frame(self) -> pd.DataFrame:
        """Return the running operators of both graphs: side, node, operator, mark, rule, e-class, cost in µs."""
        import pandas as pd

        return pd.DataFrame(
            {
                "side": name,
                "node": i,
                "op": side.graph.nodes[i].op,
                "mark": side.marks[i],
                "rule": "" if birth is None else birth.rule,
                "e_class": side.classes[i],
                "cost": side.costs[i],
            }
            for name, side in (("before", self.before), ("after", self.after))
            for i in side.running()
            for birth in [side.births[i]]
        )

    def __repr__(self) -> str:
        other = "its optimised form" if self.derivations is not None else self.sides[1]
        lines = [f"Comparison of {self.name!r} with {other}, by {self.by}"]
        width = max(map(len, self.sides))
        for what, side in zip(self.sides, (self.before, self.after), strict=True):
            counts = ", ".join(f"{n} {mark}" for mark, n in side.counts().items())
            lines.append(f"  {what:{width}}: {microseconds(sum(side.costs))}; {counts or 'no operators'}")
        if self.derivations is None:
            return "\n".join([*lines, f"  costs: {self.cost_source}"])
        rules = [f"{rule} ({len(made)})" for rule, made in self.rules().items()]
        lines.append(f"  rules: {', '.join(rules[:8]) or 'none'}{', …' if len(rules) > 8 else ''}")
        return "\n".join([*lines, f"  costs: {self.cost_source}"])


#: A graph with the e-class and the e-node of each node.
_Placed = tuple[Graph, tuple[int, ...], tuple[int, ...]]


def compare(optimized: Optimized) -> Comparison:
    """Compare an optimised graph with its original.

    Both are terms of the e-graph that the optimisation grew, so the correspondence is exact: an operator
    with the same e-node is kept; another e-node of the same e-class computes the same value differently.
    """
    egraph, original = optimized.egraph, optimized.original
    nodes_before = tuple(egraph.original.tolist())
    before = (original, tuple(int(egraph.eclass[i]) if i >= 0 else -1 for i in nodes_before), nodes_before)
    if optimized.graph is original:
        after = before
    else:
        classes = eclasses_of(optimized.graph, egraph)
        chosen = optimized.solution.choice
        after = (optimized.graph, classes, tuple(int(chosen[c]) if c >= 0 else -1 for c in classes))
    costs, derivations = optimized.costs, Derivations(egraph, optimized.ruleset)
    return Comparison(
        _side(before, after, derivations, costs, "removed"),
        _side(after, before, derivations, costs, "added"),
        derivations,
        optimized.cost_source,
        original.name,
    )


def _side(own: _Placed, other: _Placed, derivations: Derivations, costs: np.ndarray, alone: str) -> Side:
    (graph, classes, e_nodes), there, same = own, set(other[1]), set(other[2])
    marks, births, prices = [], [], []
    for node, c, i in zip(graph, classes, e_nodes, strict=True):
        kept = node.op == "input" or (i >= 0 and i in same)
        marks.append("kept" if kept else "rewritten" if c >= 0 and c in there else alone)
        births.append(derivations.birth(i) if i >= 0 else None)
        prices.append(float(costs[i]) if i >= 0 else 0.0)
    return Side(graph, classes, e_nodes, tuple(marks), tuple(prices), tuple(births))
