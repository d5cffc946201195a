"""Explain a proof as a chain of terms, each obtained from the previous one by one axiom at one place.

The e-graph shows that two sides are equal, but not why. Here the axioms are applied to terms one at a time
from both sides until they meet. The chain is a second, independent application of the axioms that people can
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.graph import GraphBuilder
from workbench.laws.verification.instances.ground import Ground, Instance
from workbench.laws.verification.refuting.cases import text_of
from workbench.ops import TensorType, TypeMismatch
from workbench.rules.interpret import read_term
from workbench.rules.matching import Bindings, Matched, Matcher
from workbench.rules.pattern import App, Rule
from workbench.support import deadline


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a chain: the term it leads to, the axiom, and whether the axiom is read backwards."""

    term: str
    axiom: str
    backwards: bool = False

    def __str__(self) -> str:
        return f"= {self.term}   [{self.axiom}{', backwards' if self.backwards else ''}]"


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of equal terms, from a rule's left-hand side to its right-hand side."""

    start: str
    links: tuple[Link, ...]

    @property
    def axioms(self) -> tuple[str, ...]:
        """Return the axioms used, each once, in order."""
        return tuple(dict.fromkeys(link.axiom for link in self.links))

    def __str__(self) -> str:
        return "\n  ".join([self.start, *map(str, self.links)])


class _Operands:
    """The operands of a builder's nodes."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.nodes = builder.nodes

    def __getitem__(self, node: int) -> Sequence[int]:
        return self.nodes[node].inputs


class _Target(Matched):
    """The algebra that builds a rule's result for a term that it matches."""

    def __init__(self, bindings: Bindings, builder: GraphBuilder) -> None:
        super().__init__(bindings)
        self.builder = builder

    def kind(self, name: str) -> TensorType:
        return self.builder.type(self.bindings[name])

    def variable(self, name: str) -> int:
        node: int = self.bindings[name]
        return node

    def starred(self, name: str) -> list[int]:
        return [self.variable(name)]

    def apply(self, term: App, operands: list[int], attrs: dict[str, Any]) -> int:
        return self.builder.op(term.op, *operands, **attrs)


class Rewriter:
    """Single-pattern rules applied to ground terms of one builder, one place at a time."""

    def __init__(self, builder: GraphBuilder, axioms: Sequence[Rule]) -> None:
        self.builder = builder
        self.operands = _Operands(builder)
        self.by_root: dict[str, list[tuple[Rule, Matcher]]] = {}
        for axiom in axioms:
            if not axiom.multi:
                source = axiom.sources[0]
                self.by_root.setdefault(source.op, []).append((axiom, Matcher(axiom, source)))
        self._known: dict[int, list[tuple[int, str]]] = {}

    def rewrites(self, root: int) -> list[tuple[int, str]]:
        """Return the terms obtained from a term by one application of an axiom, with the axiom's name."""
        known = self._known.get(root)
        if known is None:
            known = self._known[root] = list(dict.fromkeys(self._all(root)))
        return known

    def _all(self, root: int) -> Iterator[tuple[int, str]]:
        node = self.builder.nodes[root]
        for axiom, source in self.by_root.get(node.op, ()):
            made = self._apply(axiom, source, root)
            if made is not None and made != root:
                yield made, axiom.name
        for at, operand in enumerate(node.inputs):
            for changed, name in self.rewrites(operand):
                inputs = [*node.inputs[:at], changed, *node.inputs[at + 1 :]]
                yield self.builder.apply(node.op, inputs, node.attrs), name

    def _apply(self, rule: Rule, source: Matcher, root: int) -> int | None:
        """Return the right-hand side of a rule for a term that it matches; None if it does not apply."""
        found = source.bind(root, self.builder.nodes, self.operands)
        if found is None:
            return None
        algebra = _Target(found[0], self.builder)
        try:
            if not all(algebra.holds(c) for c in rule.conditions):
                return None
            made = read_term(rule.targets[0], algebra)
        except (TypeMismatch, ZeroDivisionError):
            return None
        return made if self.builder.type(made) == self.builder.type(root) else None


def find_chain(instance: Instance, axioms: Sequence[Rule], effort: int = 3000) -> list[Chain] | None:
    """Return a chain for every output of an instance, or None if one is not found.

    ``effort`` is the largest number of terms that are rewritten per chain.
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
    # Breadth-first search from both sides; the smaller frontier is extended.
    origins: tuple[dict[int, tuple[int, str]], ...] = ({left: (-1, "")}, {right: (-1, "")})
    frontiers = [[left], [right]]
    while effort > 0 and any(frontiers):
        side = min((s for s in (0, 1) if frontiers[s]), key=lambda s: len(frontiers[s]))
        own, other = origins[side], origins[1 - side]
        reached: list[int] = []
        for term in frontiers[side]:
            effort -= 1
            deadline.check()
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
    """Return whether every link of a chain is one application of the axiom that it names.

    Each term is rewritten again by that axiom alone, forwards or, if the link is marked so, backwards.
    """
    ground = Ground()
    pairs = ground.add(instance)
    names = {i: name for name, i in ground.leaves.items()}
    by_name = {a.name: a for a in axioms}
    for (left, right), one in zip(pairs, chain, strict=True):
        current, texts = {one.start: left}, [(link, by_name.get(link.axiom)) for link in one.links]
        known = {text_of(ground.builder.nodes, right, names): right, one.start: left}
        # Links read backwards are checked from the right-hand side: they start from the term they lead to.
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
