"""Derivability among the terms of an enumeration: laws rewrite one term into another, without an e-graph.

The operands of a term are classes of smaller terms. A law is matched against a term's root, and below it
against all terms of a class, so equations of smaller terms count as known. That derives equations which the laws
alone do not (:mod:`~workbench.laws.synthesis.derivation` asks that), and suits the many candidates of one size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from workbench.laws.synthesis.derivation import backwards, grounded
from workbench.laws.synthesis.enumeration import Enumeration, Node
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.rules.interpret import holds, spread
from workbench.rules.pattern import Compare, DimOf, Literal, Rule, Term, Var, tensor_variables

#: Terms that are rewritten to derive one equation; one that is not derived by then counts as open.
VISITED: Final = 400
#: Terms that are rewritten to find that an operand is equal to a smaller term.
SHRINKING: Final = 24

#: Two terms that may be equal.
Pair = tuple[Term, Term]
#: A variable's name, or the number of a form with patterns for its operands.
_Pattern = str | tuple[int, tuple["_Pattern", ...]]


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """One direction of an instance of a law."""

    source: tuple[int, tuple[_Pattern, ...]]
    target: _Pattern
    conditions: tuple[Compare, ...]


@dataclass(slots=True)
class _Work:
    """The rewrites of one call by the form at their root, and the results known so far.

    ``steps`` are the terms that come from a term in one step, ``smaller`` the classes of operands that are
    equal to a smaller term.
    """

    rewrites: dict[int, list[_Rewrite]] = field(default_factory=dict)
    steps: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    smaller: dict[Node, int | None] = field(default_factory=dict)
    inside: bool = False


@dataclass(slots=True)
class Rewriting:
    """The laws as rewrites of an enumeration's terms; ``halt`` says whether to stop before the next pair."""

    enumeration: Enumeration
    halt: Callable[[], bool] = lambda: False
    _made: dict[Rule, list[_Rewrite]] = field(default_factory=dict)
    _members: dict[int, dict[int, list[Node]]] = field(default_factory=dict)
    _level: int = -1
    _forms: dict[tuple[str, int, tuple[Any, ...]], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        grammar = self.enumeration.grammar
        for number, form in enumerate(grammar.forms):
            self._forms.setdefault((form.op, form.arity, form.values(grammar.sizes[0])), number)

    def derived(self, pairs: Sequence[Pair], laws: Sequence[Rule], lemmas: Sequence[Pair] = ()) -> list[bool]:
        """Return for each pair of terms whether the laws, read both ways, rewrite one into the other.

        The terms are those of the enumeration, or applications to such terms. Laws with several sources are left out.
        The ``lemmas`` are pairs that are known to be equal, with all that their variables stand for.
        """
        work = self._work(laws, lemmas)
        return [not self.halt() and self._meet(a, b, work) for a, b in pairs]

    def chosen(self, pairs: Sequence[Pair], laws: Sequence[Rule], lemmas: Sequence[Pair]) -> Iterator[int]:
        """Yield the places of pairs of which none is rewritten by the laws and the earlier ones of them."""
        work = self._work(laws, lemmas)
        for place, (left, right) in enumerate(pairs):
            if self.halt():
                break
            if not self._meet(left, right, work):
                yield place
                work = _Work(work.rewrites)
                self._add(work, self._equation(left, right))

    def _work(self, laws: Sequence[Rule], lemmas: Sequence[Pair]) -> _Work:
        self._collect()
        work = _Work()
        for law in laws:
            if law not in self._made:
                self._made[law] = [] if law.multi else self._rewrites(law)
            self._add(work, self._made[law])
        for left, right in lemmas:
            self._add(work, self._equation(left, right))
        return work

    @staticmethod
    def _add(work: _Work, rewrites: Sequence[_Rewrite]) -> None:
        for rewrite in rewrites:
            work.rewrites.setdefault(rewrite.source[0], []).append(rewrite)

    # -- the search ----------------------------------------------------------------------------------
    def _meet(self, left: Term, right: Term, work: _Work) -> bool:
        """Return whether rewriting one term, the terms that come from it, and so on leads to the other."""
        a, b = self.enumeration.node_of(left), self.enumeration.node_of(right)
        if a is None or b is None:
            return False
        goal = self._known(b)
        if a == b:
            return True
        return any(
            other == b or (goal is not None and self._known(other) == goal)
            for other in self._reached(a, VISITED, work)
        )

    def _reached(self, node: Node, most: int, work: _Work) -> Iterator[Node]:
        """Yield the terms to which a term is rewritten, those of few steps first."""
        seen, queue = {node}, deque([node])
        while queue and len(seen) < most:
            node = queue.popleft()
            found = None if work.inside else work.steps.get(node)
            if found is None:
                found = tuple(dict.fromkeys(self._steps(node, work)))
                if not work.inside:
                    work.steps[node] = found
            for other in found:
                if other not in seen:
                    yield other
                    seen.add(other)
                    queue.append(other)

    def _smaller(self, node: Node, work: _Work) -> int | None:
        """Return the class of an operand, found by rewriting it into a smaller term if it is not small."""
        known = self._known(node)
        if known is not None or work.inside or self._size(node) < self._level:
            return known
        if node not in work.smaller:
            work.inside = True
            reached = (self._known(other) for other in self._reached(node, SHRINKING, work))
            work.smaller[node] = next((n for n in reached if n is not None), None)
            work.inside = False
        return work.smaller[node]

    def _known(self, node: Node) -> int | None:
        """Return the class of a term that is smaller than those of the last size, or None for others."""
        return self.enumeration.nodes.get(node) if self._size(node) < self._level else None

    def _size(self, node: Node) -> int:
        form, operands = node
        return 0 if form < 0 else 1 + sum(map(self.enumeration.size_of, operands))

    def _steps(self, node: Node, work: _Work) -> Iterator[Node]:
        kind = self.enumeration.kind_of(node)
        for rewrite in work.rewrites.get(node[0], ()):
            for binding in self._matched(rewrite.source, node, {}):
                found = (
                    self._built(rewrite.target, binding, work) if self._allowed(rewrite, binding) else None
                )
                if found is not None and self.enumeration.kind_of(found) == kind:
                    yield found

    def _collect(self) -> None:
        """List the terms of each class that are smaller than those of the last size."""
        level = len(self.enumeration.levels) - 1
        if self._level != level:
            self._level = level
            self._members.clear()
            for node, number in self.enumeration.nodes.items():
                if self._size(node) < level:
                    self._members.setdefault(number, {}).setdefault(node[0], []).append(node)

    def matches(self, terms: Sequence[Term], classes: Sequence[int]) -> Iterator[dict[str, int]]:
        """Yield the classes for variables with which terms are in given classes."""
        self._collect()
        patterns = [p for p in map(self._pattern, terms) if p is not None]
        if len(patterns) == len(terms):
            yield from self._operands(patterns, classes, {})

    # -- matching ------------------------------------------------------------------------------------
    def _matched(
        self, pattern: tuple[int, tuple[_Pattern, ...]], node: Node, binding: dict[str, int]
    ) -> Iterator[dict[str, int]]:
        form, operands = node
        if len(pattern[1]) != len(operands):
            return  # the rule has another number of optional operands
        yield from self._operands(pattern[1], operands, binding)
        if form in self.enumeration.commutative and operands[0] != operands[1]:
            yield from self._operands(pattern[1], operands[::-1], binding)

    def _operands(
        self, patterns: Sequence[_Pattern], classes: Sequence[int], binding: dict[str, int]
    ) -> Iterator[dict[str, int]]:
        if not patterns:
            yield binding
            return
        first = patterns[0]
        if isinstance(first, str):
            if binding.get(first, classes[0]) == classes[0]:
                yield from self._operands(patterns[1:], classes[1:], {**binding, first: classes[0]})
            return
        for node in self._members.get(classes[0], {}).get(first[0], ()):
            for found in self._matched(first, node, binding):
                yield from self._operands(patterns[1:], classes[1:], found)

    def _allowed(self, rewrite: _Rewrite, binding: Mapping[str, int]) -> bool:
        def kind(name: str) -> TensorType:
            return self.enumeration.types_of(binding[name])[0]

        try:
            return all(holds(c, lambda name: None, kind) for c in rewrite.conditions)
        except TypeMismatch:
            return False

    def _built(self, pattern: _Pattern, binding: Mapping[str, int], work: _Work) -> Node | None:
        if isinstance(pattern, str):
            return self.enumeration.first(binding[pattern])
        operands = []
        for arg in pattern[1]:
            inner = None if isinstance(arg, str) else self._built(arg, binding, work)
            number = binding[arg] if isinstance(arg, str) else inner and self._smaller(inner, work)
            if number is None:
                return None
            operands.append(number)
        return self.enumeration.ordered(pattern[0], operands)

    # -- laws ----------------------------------------------------------------------------------------
    def _rewrites(self, law: Rule) -> list[_Rewrite]:
        grammar = self.enumeration.grammar
        rules = grounded(law, grammar.forms, grammar.sizes[0])
        both = (one for rule in rules for one in (rule, backwards(rule)) if one is not None)
        return [r for one in both for r in self._rewrite(one.sources[0], one.targets[0], one.conditions)]

    def _equation(self, left: Term, right: Term) -> list[_Rewrite]:
        """Return an equation of terms as rewrites; its variables stand for all terms of their types."""
        names = {side: {*tensor_variables(side)} for side in (left, right)}
        grammar = self.enumeration.grammar
        shapes = {o.name: o.type(grammar.sizes[0]).shape for o in grammar.operands}
        conditions = tuple(
            Compare("=", DimOf(name, axis), Literal(shapes[name][axis]))
            for name in sorted(names[left] | names[right])
            for axis in range(-len(shapes[name]), 0)
        )
        ways = ((a, b) for a, b in ((left, right), (right, left)) if names[b] <= names[a])
        return [rewrite for way in ways for rewrite in self._rewrite(*way, conditions)]

    def _rewrite(self, left: Term, right: Term, conditions: tuple[Compare, ...]) -> list[_Rewrite]:
        source, target = self._pattern(left), self._pattern(right)
        if source is None or target is None or isinstance(source, str):
            return []
        return [_Rewrite(source, target, conditions)]

    def _pattern(self, term: Term) -> _Pattern | None:
        """Return a term as a pattern, or None if an operator is not a form of the grammar."""
        if isinstance(term, Var):
            return term.name
        given = {name: expr.value for name, expr in term.attrs if isinstance(expr, Literal)}
        if len(given) < len(term.attrs):
            return None
        spec = spec_of(term.op)
        values = spec.pack({a.name: spread(given[a.name], a) for a in spec.attrs if a.name in given})
        form = self._forms.get((term.op, len(term.args), values))
        args = [self._pattern(a) for a in term.args]
        if form is None or None in args:
            return None
        return form, tuple(a for a in args if a is not None)
