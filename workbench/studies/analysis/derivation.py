"""The chain of rules that led to an e-node, read from births and from matches that explain them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from workbench.egraph.egraph import EGraph
from workbench.ops import spec_of
from workbench.rules.pattern import App, AttrVar, Literal, Rule, Term, Var, subterms

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
        self._born: dict[tuple[int, int, str], list[int]] = {}
        self._by_op: dict[str, list[int]] = {}
        births = zip(egraph.birth_rule.tolist(), egraph.birth_step.tolist(), egraph.ops, strict=True)
        for i, (rule, step, op) in enumerate(births):
            self._born.setdefault((rule, step, op), []).append(i)
            self._by_op.setdefault(op, []).append(i)
        self._known: dict[int, Birth | None] = {}
        self._left = 0

    def chain(self, node: int) -> tuple[Birth, ...]:
        """Return the births that an e-node depends on, its own last; empty for one of the start graph."""
        found: dict[int, Birth] = {}
        stack = [node]
        while stack:
            i = stack.pop()
            birth = self.birth(i)
            if birth is not None and i not in found:
                found[i] = birth
                stack += birth.sources
        return tuple(sorted(found.values(), key=lambda b: (b.step, b.node == node, b.node)))

    def birth(self, node: int) -> Birth | None:
        """Return the rule application that created an e-node, or None for one of the start graph."""
        if node not in self._known:
            rule = int(self.egraph.birth_rule[node]) if len(self.egraph.birth_rule) else -1
            self._known[node] = None if rule < 0 else self._explained(node, self.egraph.rules[rule])
        return self._known[node]

    def _explained(self, node: int, name: str) -> Birth:
        step = int(self.egraph.birth_step[node])
        rule = self._rules.get(name)
        self._left = PATIENCE
        sources = next(self._explanations(node, step, rule), ()) if rule is not None else ()
        return Birth(node, name, step, sources)

    def _explanations(self, node: int, step: int, rule: Rule) -> Iterator[tuple[int, ...]]:
        number = int(self.egraph.birth_rule[node])
        for k, target in enumerate(rule.targets):
            if not isinstance(target, App):
                continue
            for root in self._roots(target, node, number, step):
                for binding, used in self._at(target, root, {}, step + 1):
                    if node in used:
                        yield from self._sources(rule, k, root, binding, step)

    def _roots(self, target: App, node: int, number: int, step: int) -> Iterable[int]:
        """Return the e-nodes that may be the root of the target term that contains ``node``."""
        op = self.egraph.ops[node]
        inner = any(isinstance(t, App) and t.op == op for arg in target.args for t in subterms(arg))
        outer = (node,) if target.op == op else ()
        return (*outer, *(self._born.get((number, step, target.op), ()) if inner else ()))

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
        if any(isinstance(arg, Var) and arg.starred for arg in term.args) and len(term.args) != len(operands):
            # All members' operands match alike, so they are not recorded.
            yield bound, frozenset([i])
            return
        if len(term.args) == len(operands):
            yield from self._operands(term.args, operands, bound, frozenset([i]), before)

    def _operands(
        self,
        terms: tuple[Term, ...],
        classes: list[int],
        binding: _Binding,
        used: frozenset[int],
        before: int,
    ) -> Iterator[_Match]:
        if not terms:
            yield binding, used
            return
        for bound, more in self._in(terms[0], classes[0], binding, before):
            yield from self._operands(terms[1:], classes[1:], bound, used | more, before)

    def _attrs(self, term: App, i: int, binding: _Binding) -> _Binding | None:
        """Return the binding with the attributes that a term names directly, or None if they differ."""
        values = dict(zip(spec_of(term.op).attr_names, self.egraph.attrs[i], strict=True))
        bound = dict(binding)
        for name, expr in term.attrs:
            if isinstance(expr, Literal):
                if expr.value != values[name]:
                    return None
            elif (
                isinstance(expr, AttrVar) and bound.setdefault(f"[{expr.name}]", values[name]) != values[name]
            ):
                return None
        return bound
