"""Explain a proof as a chain of terms, each obtained from the previous one by one axiom at one place.

egglog shows that two sides are equal, but not why. The proof graph does, and its chain is replayed without it: an
application of the axioms that people can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.laws import proof_graph
from workbench.laws.proof_graph import NotAStep, ProofGraph, Step, Terms
from workbench.laws.verification.instances.ground import Ground, Instance
from workbench.laws.verification.refuting.cases import text_of
from workbench.rules.pattern import Rule


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of equal terms, from a rule's left-hand side to its right-hand side.

    ``passed`` are the terms through which the ``steps`` lead, the first and the last included.
    """

    terms: Terms
    steps: tuple[Step, ...]
    passed: tuple[int, ...]

    @property
    def axioms(self) -> tuple[str, ...]:
        """Return the axioms used, each once, in order."""
        return tuple(dict.fromkeys(step.law for step in self.steps))

    def __str__(self) -> str:
        names = {i: str(e.attrs[0]) for i, e in enumerate(self.terms.entries) if e.op == "input"}
        first, *others = (text_of(self.terms.entries, i, names) for i in self.passed)
        lines = [first]
        for text, step in zip(others, self.steps, strict=True):
            lines.append(f"= {text}   [{step.law}{'' if step.forwards else ', backwards'}]")
        return "\n  ".join(lines)


def find_chain(instance: Instance, axioms: Sequence[Rule], effort: int = 3000) -> list[Chain] | None:
    """Return a chain for every output of an instance, or None if one is not found.

    ``effort`` is the largest number of terms that are made of the instance's.
    """
    ground = Ground()
    pairs = ground.add(instance)
    graph = ProofGraph(constant=lambda term: True, most=effort + len(ground.builder.nodes))
    place = graph.enter(ground.builder.nodes)
    goals = [(place[left], place[right]) for left, right in pairs]
    if not graph.run([axiom for axiom in axioms if not axiom.multi], goals):
        return None
    by_name = {axiom.name: axiom for axiom in axioms}
    try:
        return [
            _shortest(graph, left, graph.chain(left, right, everywhere=True), by_name)
            for left, right in goals
        ]
    except NotAStep:
        return None


def _shortest(graph: ProofGraph, start: int, steps: list[Step], axioms: dict[str, Rule]) -> Chain:
    """Return a chain without the steps between two occurrences of one term."""
    terms = Terms(graph.entries)
    passed = proof_graph.replay(terms, start, steps, axioms)
    last = {term: n for n, term in enumerate(passed)}
    kept = []
    n = last[start]
    while n < len(steps):
        kept.append(n)
        n = last[passed[n + 1]]
    return Chain(terms, tuple(steps[n] for n in kept), (start, *(passed[n + 1] for n in kept)))


def replay(instance: Instance, chains: Sequence[Chain], axioms: Sequence[Rule]) -> bool:
    """Return whether chains lead from the left to the right of an instance, each step by the axiom that it names.

    Each step is one application of its axiom, which is matched and built again without the proof graph.
    """
    ground = Ground()
    pairs = ground.add(instance)
    by_name = {axiom.name: axiom for axiom in axioms}
    for (left, right), chain in zip(pairs, chains, strict=True):
        terms = Terms(chain.terms.entries)
        place = terms.enter(ground.builder.nodes)
        try:
            passed = proof_graph.replay(terms, place[left], chain.steps, by_name)
        except NotAStep:
            return False
        if passed[-1] != place[right]:
            return False
    return True
