"""Explain a proof as a chain of terms, each made from the one before by one axiom at one place.

The e-graph says that two sides are equal, not why. Here the axioms are applied to terms one at a time
from both sides until they meet: a second, independent application of the axioms, and one to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.graph import GraphBuilder
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.rules.expressions import evaluate, holds
from workbench.rules.pattern import AttrVar, Literal, Rule, Term, Var, Vector
from workbench.verification.instances import Ground, Instance
from workbench.verification.refute import text_of


@dataclass(frozen=True, slots=True)
class Link:
    """Hold one step of a chain: the term it leads to, the axiom, and whether it is read backwards."""

    term: str
    axiom: str
    backwards: bool = False

    def __str__(self) -> str:
        return f"= {self.term}   [{self.axiom}{', backwards' if self.backwards else ''}]"


@dataclass(frozen=True, slots=True)
class Chain:
    """Hold a chain of equal terms, from a rule's left-hand side to its right-hand side."""

    start: str
    links: tuple[Link, ...]

    @property
    def axioms(self) -> tuple[str, ...]:
        """Return the axioms used, each once, in order."""
        return tuple(dict.fromkeys(link.axiom for link in self.links))

    def __str__(self) -> str:
        return "\n  ".join([self.start, *map(str, self.links)])


@dataclass(slots=True)
class _Binding:
    tensors: dict[str, int] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)


class Rewriter:
    """Apply single-pattern rules to ground terms of one builder, one place at a time."""

    def __init__(self, builder: GraphBuilder, axioms: Sequence[Rule]) -> None:
        self.builder = builder
        self.by_root: dict[str, list[Rule]] = {}
        for axiom in axioms:
            if not axiom.multi:
                self.by_root.setdefault(axiom.sources[0].op, []).append(axiom)
        self._known: dict[int, list[tuple[int, str]]] = {}

    def rewrites(self, root: int) -> list[tuple[int, str]]:
        """Return the terms that one application of an axiom makes of a term, and the axiom's name."""
        known = self._known.get(root)
        if known is None:
            known = self._known[root] = list(dict.fromkeys(self._all(root)))
        return known

    def _all(self, root: int) -> Iterator[tuple[int, str]]:
        node = self.builder.nodes[root]
        for axiom in self.by_root.get(node.op, ()):
            made = self.apply(axiom, root)
            if made is not None and made != root:
                yield made, axiom.name
        for at, operand in enumerate(node.inputs):
            for changed, name in self.rewrites(operand):
                inputs = [*node.inputs[:at], changed, *node.inputs[at + 1 :]]
                yield self.builder.apply(node.op, inputs, node.attrs), name

    def apply(self, rule: Rule, root: int) -> int | None:
        """Return the right-hand side of a rule for a term that it matches; None where it does not apply."""
        binding = _Binding()
        if not self._match(rule.sources[0], root, binding):
            return None

        def kind(name: str) -> TensorType:
            return self.builder.type(binding.tensors[name])

        try:
            if not all(holds(c, binding.attrs.__getitem__, kind) for c in rule.conditions):
                return None
            made = self._build(rule.targets[0], binding, kind)
        except (TypeMismatch, ZeroDivisionError):
            return None
        return made if self.builder.type(made) == self.builder.type(root) else None

    def _match(self, pattern: Term, root: int, binding: _Binding) -> bool:
        if isinstance(pattern, Var):
            return binding.tensors.setdefault(pattern.name, root) == root
        node = self.builder.nodes[root]
        if node.op != pattern.op or len(node.inputs) != len(pattern.args):
            return False
        given = dict(pattern.attrs)
        for attr, value in zip(spec_of(node.op).attrs, node.attrs, strict=True):
            if attr.name in given:
                fits = self._match_attr(given[attr.name], value, binding)
            elif pattern.row is not None:
                row = binding.rows.setdefault(pattern.row, {})
                fits = row.setdefault(attr.name, value) == value
            else:
                fits = value == attr.default
            if not fits:
                return False
        return all(self._match(p, i, binding) for p, i in zip(pattern.args, node.inputs, strict=True))

    def _match_attr(self, expr: Any, value: Any, binding: _Binding) -> bool:
        if isinstance(expr, Literal):
            one = isinstance(value, tuple) and not isinstance(expr.value, tuple)
            return bool(value == ((expr.value,) * len(value) if one else expr.value))
        if isinstance(expr, AttrVar):
            return bool(binding.attrs.setdefault(expr.name, value) == value)
        assert isinstance(expr, Vector), expr
        return all(self._match_attr(e, v, binding) for e, v in zip(expr.items, value, strict=True))

    def _build(self, term: Term, binding: _Binding, kind: Any) -> int:
        if isinstance(term, Var):
            return binding.tensors[term.name]
        operands = [self._build(arg, binding, kind) for arg in term.args]
        attrs = {name: evaluate(e, binding.attrs.__getitem__, kind) for name, e in term.attrs}
        if term.row is not None:
            row = binding.rows[term.row]
            attrs |= {n: row[n] for n in spec_of(term.op).attr_names if n not in attrs and n in row}
        return self.builder.op(term.op, *operands, **attrs)


def find_chain(instance: Instance, axioms: Sequence[Rule], effort: int = 3000) -> list[Chain] | None:
    """Return a chain for every output of an instance; None where none is found with this effort.

    ``effort`` bounds the number of terms that are rewritten.
    """
    ground = Ground()
    pairs = ground.add(instance)
    rewriter = Rewriter(ground.builder, axioms)
    names = {i: name for name, i in ground.leaves.items()}
    chains: list[Chain] = []
    for left, right in pairs:
        found = _meet(rewriter, left, right, effort)
        if found is None:
            return None
        nodes = ground.builder.nodes
        chains.append(
            Chain(
                text_of(nodes, left, names),
                tuple(Link(text_of(nodes, i, names), axiom, back) for i, axiom, back in found),
            )
        )
    return chains


def _meet(rewriter: Rewriter, left: int, right: int, effort: int) -> list[tuple[int, str, bool]] | None:
    if left == right:
        return []
    # Breadth first from both sides; the smaller frontier grows.
    origins: tuple[dict[int, tuple[int, str]], ...] = ({left: (-1, "")}, {right: (-1, "")})
    frontiers = [[left], [right]]
    while effort > 0 and any(frontiers):
        side = min((s for s in (0, 1) if frontiers[s]), key=lambda s: len(frontiers[s]))
        own, other = origins[side], origins[1 - side]
        reached: list[int] = []
        for term in frontiers[side]:
            effort -= 1
            if effort <= 0:
                break
            for made, axiom in rewriter.rewrites(term):
                if made in own:
                    continue
                own[made] = (term, axiom)
                reached.append(made)
                if made in other:
                    return _joined(origins, made)
        frontiers[side] = reached
    return None


def _joined(origins: tuple[dict[int, tuple[int, str]], ...], middle: int) -> list[tuple[int, str, bool]]:
    links: list[tuple[int, str, bool]] = []
    term = middle
    while origins[0][term][0] >= 0:
        before, axiom = origins[0][term]
        links.append((term, axiom, False))
        term = before
    links.reverse()
    term = middle
    while origins[1][term][0] >= 0:
        after, axiom = origins[1][term]
        links.append((after, axiom, True))
        term = after
    return links


def replay(instance: Instance, chain: Sequence[Chain], axioms: Sequence[Rule]) -> bool:
    """Say whether every link of a chain is one application of the axiom it names.

    Each term is rewritten again by that axiom alone, forwards or, where the link says so, backwards.
    """
    ground = Ground()
    pairs = ground.add(instance)
    names = {i: name for name, i in ground.leaves.items()}
    by_name = {a.name: a for a in axioms}
    for (left, right), one in zip(pairs, chain, strict=True):
        current, texts = {one.start: left}, [(link, by_name.get(link.axiom)) for link in one.links]
        known = {text_of(ground.builder.nodes, right, names): right, one.start: left}
        # Links read backwards start from what they lead to: those terms are made from the right.
        for k in range(len(texts) - 1, -1, -1):
            link, axiom = texts[k]
            if axiom is None:
                return False
            if not link.backwards:
                continue
            source = known.get(link.term)
            before = one.links[k - 1].term if k else one.start
            made = None if source is None else _made(ground, names, [axiom], source, before)
            if made is None:
                return False
            known[before] = made
        for k, (link, axiom) in enumerate(texts):
            if link.backwards:
                current = {link.term: known[link.term]}
                continue
            before = one.links[k - 1].term if k else one.start
            source = current.get(before)
            if source is None or axiom is None:
                return False
            made = _made(ground, names, [axiom], source, link.term)
            if made is None:
                return False
            if link.term in known and known[link.term] != made:
                return False
            current = {link.term: made}
        end = next(iter(current.values()))
        if end != right:
            return False
    return True


def _made(
    ground: Ground, names: dict[int, str], axioms: Sequence[Rule], source: int, text: str
) -> int | None:
    for made, _ in Rewriter(ground.builder, axioms).rewrites(source):
        if text_of(ground.builder.nodes, made, names) == text:
            return made
    return None
