"""Make the proof of a run: equations from the e-graph of a result to its file, and only those that are needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from workbench.egraph import EGraph
from workbench.egraph.rebuild import eclasses_of
from workbench.graph import Graph
from workbench.graph.graph import numbers_in
from workbench.graph.weights import Weight
from workbench.laws.matching import Bindings
from workbench.laws.proof_graph import CONGRUENT, Applied, ProofGraph, Reason, TooManyTerms
from workbench.laws.run_proofs import proof
from workbench.laws.run_proofs.congruence import Congruence
from workbench.laws.run_proofs.constants import Constants
from workbench.laws.run_proofs.derivation import Derivations, Match
from workbench.laws.run_proofs.instance import Instance, NoInstance
from workbench.laws.run_proofs.sizes import Sized
from workbench.laws.theorems.store import rules_of
from workbench.ops import TensorType, TypeMismatch
from workbench.rules.interpret import is_number, number_key
from workbench.rules.pattern import App, Rule, starred
from workbench.rules.verdicts import law_of
from workbench.support.orders import postorder
from workbench.symbolic import Generic

#: Limit on the rounds in which e-classes are connected by all rules that fired.
ROUNDS: Final = 8
#: Limit on the terms of a proof that is sought.
MOST_TERMS: Final = 400_000
#: Files of the rules that connect a graph with its file, and the most terms between two graphs that are looked at.
NEAR: Final = ("recognition", "elementwise", "constants", "fusion", "conversions")
MOST_BETWEEN: Final = 80
#: Steps times terms up to which each step is tried to be left out.
MOST_TRIED: Final = 400_000


class NotProved(ValueError):
    """Raised when no proof was found; the message names what is not connected."""


class Prover(ProofGraph):
    """Terms of both graphs and of an e-graph, with the steps that make them equal.

    Rules become steps where a search applies them.
    """

    def __init__(self, given: Sized | None = None) -> None:
        super().__init__(most=MOST_TERMS)
        self.given = given
        self.generic = Generic({}) if given is None else given.generic
        self.steps: list[proof.ProofStep] = []
        self.laws: dict[str, Rule] = {}
        self.stored: dict[str, Weight] = {}
        self._noted: list[tuple[Rule, Bindings, Sequence[Mapping[str, int]]]] = []
        self._done: set[str] = set()

    def apply(self, rule: Rule, bindings: Bindings) -> Applied:
        """Return a rule at a match as its substitution, which :meth:`record` states."""
        if len(self) > self.most:
            raise TooManyTerms
        return self._later(rule, bindings, ())

    def _merged(self, rule: Rule, members: Sequence[tuple[int, Bindings]]) -> Applied:
        stars = starred(rule)
        own = [{n: m[n] for n in stars} for _, m in members]
        return self._later(rule, {k: v for k, v in members[0][1].items() if k not in stars}, own)

    def _later(self, rule: Rule, bindings: Bindings, members: Sequence[Mapping[str, int]]) -> Applied:
        self._noted.append((rule, bindings, members))
        return Applied(rule, ((len(self._noted) - 1, 0),))

    def record(self, applied: Applied) -> bool:
        """State the equations of a rule at a match; return whether that makes terms equal."""
        rule, given, members = self._noted[applied.pairs[0][0]]
        # The numbers of the left side first, as a proof has them.
        bindings = dict(sorted(given.items(), key=lambda item: item[0][0] != "="))
        key = repr((rule.name, sorted(bindings.items(), key=str), members))
        if key in self._done:
            return False
        self._done.add(key)
        before = len(self.steps)
        self.state_match(rule, bindings, members)
        return len(self.steps) > before

    def state_match(
        self, rule: Rule, bindings: Mapping[str, Any], members: Sequence[Mapping[str, int]] = ()
    ) -> None:
        """Make the sides of a law equal at a match, if it applies; it may read tensors as numbers.

        ``bindings`` are terms by tensor variable and by number of the left side, and attributes.
        """
        reads = {k: v for k, v in bindings.items() if k[0] == "="}
        kinds = {k: cast("TensorType", self.types[v]).dtype for k, v in reads.items()}
        pairs = self.state_law(rule, {**bindings, **kinds}, members)
        if reads and pairs:
            changed = [s for s, t in zip(rule.sources, rule.targets, strict=True) if s != t]
            for source, (left, _) in zip(changed, pairs, strict=True):
                self._read_numbers(source, left, reads)

    def state_law(
        self, rule: Rule, substitution: Mapping[str, Any], members: Sequence[Mapping[str, int]]
    ) -> tuple[tuple[int, int], ...]:
        """Make the sides of a law equal at a substitution; return them, or nothing if it does not apply."""
        try:
            pairs = Instance(self.build, self.types, substitution, members).equations(rule)
        except NoInstance:
            return ()
        self.laws[rule.name] = rule
        self.state(proof.ProofStep(proof.LAW, pairs, rule.name, substitution, tuple(members)))
        return pairs

    def _read_numbers(self, pattern: App, term: int, reads: Mapping[str, int]) -> None:
        """State that the tensors ``reads`` stand for the numbers of a law's left side."""
        entry = self.entries[term]
        for k, arg in enumerate(pattern.args):
            if not isinstance(arg, App):
                continue
            if not is_number(arg):
                self._read_numbers(arg, entry.inputs[k], reads)
            elif (tensor := reads[number_key(arg)]) != entry.inputs[k]:
                inputs = (*entry.inputs[:k], tensor, *entry.inputs[k + 1 :])
                other = self.build(entry.op, entry.attrs, inputs)
                if self.types[other] == entry.type:
                    self.state(proof.ProofStep(proof.NUMBER, ((other, term),)))

    def state(self, step: proof.ProofStep) -> None:
        """Make the terms of a step equal, unless they are."""
        if not self.equal(step.pairs):
            because = Reason(str(len(self.steps)))
            self.steps.append(step)
            for a, b in step.pairs:
                self.union(a, b, because)

    def enter_graph(self, graph: Graph) -> list[int]:
        """Add the nodes of a graph; return their terms."""
        names = proof.contents(Sized(graph, self.generic))
        found = self.enter([replace(n, attrs=proof.by_content(names, n.op, n.attrs)) for n in graph.nodes])
        self.numbers |= {found[i]: number for i, number in numbers_in(graph).items()}
        self.stored |= {names["weight", name]: w for name, w in graph.weights.items()}
        return found

    @property
    def constants(self) -> Constants:
        """Return the terms so far, to compute those of weights alone."""
        return Constants([(e.op, e.attrs, e.inputs) for e in self.entries], self.types, self.stored)

    def rounded(self, steps: Sequence[proof.ProofStep]) -> list[proof.ProofStep]:
        """Return steps with the roundings with which tensors are read as numbers."""
        read = self.constants.read_as_number
        return [
            replace(s, rounding=max(read(a, b) for a, b in s.pairs)) if s.kind == proof.NUMBER else s
            for s in steps
        ]

    def fold(self, *sides: Side) -> None:
        """State which constants of graphs are equal up to rounding: those that the rest of a graph reads."""
        constants = self.constants
        alike: dict[TensorType, list[tuple[int, float]]] = {}
        for graph, terms in ((side.graph, side.terms) for side in sides):
            constant, ends = graph.constant(), set(graph.output_ids)
            read = {j for i, n in enumerate(graph.nodes) if not constant[i] for j in n.inputs} | ends
            for i in sorted(read):
                term, kind = terms[i], graph.nodes[i].type
                if not constant[i] or not isinstance(kind, TensorType):
                    continue
                try:
                    sketch = float(np.abs(constants.value(term).astype(np.float64, copy=False)).mean())
                except (TypeMismatch, IndexError, TypeError, ValueError):
                    continue
                known = alike.setdefault(kind, [])
                for other, size in known:
                    if self.find(other) == self.find(term):
                        break
                    if abs(size - sketch) <= 1e-4 * abs(sketch):
                        with contextlib.suppress(TypeMismatch):
                            error = constants.rounding(other, term)
                            self.state(proof.ProofStep(proof.FOLD, ((other, term),), rounding=error))
                            break
                else:
                    known.append((term, sketch))


@dataclass(frozen=True, slots=True)
class Side:
    """A graph, and its nodes as terms."""

    graph: Graph
    terms: Sequence[int]


class EClasses(Derivations):
    """The e-classes of an ``egraph`` as terms of a ``prover``: each is one of its terms, the oldest.

    The e-graph grew from the graph ``searched`` by ``rules``.
    """

    def __init__(self, prover: Prover, searched: Graph, egraph: EGraph, rules: Iterable[Rule]) -> None:
        super().__init__(egraph, searched, list(rules))
        self.prover = prover
        self.chosen = self._oldest()
        self._place: dict[int, int] = {}
        self._stated: set[str] = set()
        self._traced: set[int] = set()
        self._names = proof.contents(Sized(searched, prover.generic))

    def _oldest(self) -> list[int]:
        """Return for every e-class the e-node that is there first, with all that it reads."""
        chosen = [-1] * self.egraph.n_classes
        readers: list[list[int]] = [[] for _ in chosen]
        missing = [len(set(operands)) for operands in self.operands]
        for i, operands in enumerate(self.operands):
            for c in set(operands):
                readers[c].append(i)
        queue = [(self.birth(i), i) for i, n in enumerate(missing) if n == 0]
        heapify(queue)
        while queue:
            when, i = heappop(queue)
            c = self.eclass[i]
            if chosen[c] >= 0:
                continue
            chosen[c] = i
            for reader in readers[c]:
                missing[reader] -= 1
                if missing[reader] == 0:
                    heappush(queue, (max(when, self.birth(reader)), reader))
        return chosen

    def term_of(self, eclass: int) -> int:
        """Return the term of an e-class."""
        for c in postorder((eclass,), lambda c: () if c in self._place else self.operands[self.chosen[c]]):
            if c not in self._place:
                self._place[c] = self.node(self.chosen[c])
        return self._place[eclass]

    def node(self, e_node: int) -> int:
        """Return an e-node as a term over those of its operands."""
        op = self.egraph.ops[e_node]
        attrs = proof.by_content(self._names, op, self.egraph.attrs[e_node])
        operands = tuple([self.term_of(c) for c in self.operands[e_node]])
        return self.prover.add(op, attrs, operands, self.egraph.types[self.eclass[e_node]])

    def trace(self, e_nodes: Iterable[int]) -> None:
        """State the rule applications that made e-nodes, and those behind their left sides."""
        waiting = list(e_nodes)
        while waiting:
            i = waiting.pop()
            if i in self._traced:
                continue
            self._traced.add(i)
            self.node(i)
            waiting += [self.chosen[self.eclass[i]], *(self.chosen[c] for c in self.operands[i])]
            for match in self.making(i):
                waiting += self.state_derived(match)

    def state_derived(self, match: Match) -> list[int]:
        """State the equations of a match; return the e-nodes that it needs."""
        if match.key in self._stated:
            return []
        self._stated.add(match.key)
        bindings = {k: v if k[0] in "@#" else self.term_of(v) for k, v in match.bindings.items()}
        self.prover.state_match(
            match.rule, bindings, [{n: self.term_of(c) for n, c in m.items()} for m in match.members]
        )
        classes = [c for n, c in match.bindings.items() if n[0] not in "@#="]
        classes += [c for m in match.members for c in m.values()]
        return [*match.left, *match.right, *(self.chosen[c] for c in classes)]

    def connect(self) -> bool:
        """Connect the traced e-nodes of one e-class by all rules that fired; return whether that changed anything."""
        prover = self.prover
        split: dict[int, None] = {}
        for i in list(self._traced):
            c = self.eclass[i]
            if prover.find(self.node(i)) != prover.find(self.term_of(c)):
                split.setdefault(c)
        before = len(self._stated)
        for c in split:
            for match in self.connecting(c):
                if match.key not in self._stated:
                    self.trace(self.state_derived(match))
        return len(self._stated) > before


def minimal(prover: Prover, goals: Sequence[tuple[int, int]]) -> list[proof.ProofStep]:
    """Return the steps from which the equality of pairs of terms follows by congruence, those of inner terms first.

    A part that two terms share is explained once, so that a proof is not longer than the graphs are deep.
    """
    found: dict[int, None] = {}
    seen: set[tuple[int, int]] = set()
    waiting = list(goals)
    while waiting:
        a, b = pair = waiting.pop()
        if a == b or pair in seen:
            continue
        seen.add(pair)
        for before, after, (because, _) in prover.path(a, b):
            if because is CONGRUENT:
                sides = zip(prover.entries[before].inputs, prover.entries[after].inputs, strict=True)
                waiting += [(x, y) for x, y in sides if x != y]
            else:
                found.setdefault(int(because.rule))
    return [prover.steps[k] for k in reversed(found)]


def needed(
    prover: Prover, steps: Sequence[proof.ProofStep], goals: Sequence[tuple[int, int]]
) -> list[proof.ProofStep]:
    """Return steps without those that the others make superfluous, one after another.

    Proofs with too many steps and terms for this stay as they are.
    """
    entries = prover.entries
    ends = [t for pair in (*goals, *(p for s in steps for p in s.pairs)) for t in pair]
    terms = list(postorder(ends, lambda t: entries[t].inputs))
    kept = list(steps)
    for step in steps if len(steps) * len(terms) <= MOST_TRIED else ():
        rest = [s for s in kept if s is not step]
        closure, place = Congruence(), dict[int, int]()
        for t in terms:
            op, attrs, inputs = entries[t].op, entries[t].attrs, entries[t].inputs
            place[t] = closure.add(op, attrs, tuple([place[i] for i in inputs]), entries[t].type)
        for a, b in (pair for s in rest for pair in s.pairs):
            closure.equate(place[a], place[b])
        if all(closure.equal(place[a], place[b]) for a, b in goals):
            kept = rest
    return kept


def written(prover: Prover, steps: Sequence[proof.ProofStep], given: Sequence[int]) -> proof.RunProof:
    """Return steps as a proof over symbols, whose terms are numbered after those that are given."""
    sized = prover.given
    assert sized is not None
    number: dict[int, int] = {}
    for position, term in enumerate(given):
        number.setdefault(term, position)
    terms: list[proof.GroundTerm] = []
    entries = prover.entries
    used: dict[int, None] = {}
    for step in steps:
        used |= dict.fromkeys(t for pair in step.pairs for t in pair)
        used |= dict.fromkeys(v for k, v in (step.bindings or {}).items() if k[0] not in "@#=")
        used |= dict.fromkeys(v for m in step.members for v in m.values())
    for i in postorder(used, lambda i: () if i in number else entries[i].inputs):
        if i not in number:
            number[i] = len(given) + len(terms)
            op, attrs = entries[i].op, entries[i].attrs
            terms.append(
                proof.GroundTerm(op, sized.attrs(op, attrs), tuple(number[j] for j in entries[i].inputs))
            )
    renamed = [s.moved(number.__getitem__, sized.extent) for s in steps]
    laws = {n: prover.laws[n] for n in dict.fromkeys(s.law for s in steps if s.kind == proof.LAW)}
    texts = {n: (r.file, law_of(r), proof.law_digest(r)) for n, r in laws.items()}
    return proof.RunProof(texts, tuple(terms), tuple(renamed))


def prove_graphs(
    given: Sized, saved: Sized, original: Graph, result: Graph, egraph: EGraph, rules: Iterable[Rule]
) -> proof.RunProof:
    """Return the proof that two graphs are equal, one of which was optimised to the other.

    All have the generic extents of the first. Raise NotProved, which names the part that is not connected.

    Args:
        given: What was optimised, as the checker reads it.
        saved: What was saved, as the checker reads it.
        original: The graph from which the e-graph grew.
        result: A term of the e-graph as a graph.
        egraph: The e-graph.
        rules: The rules of the run.
    """
    prover, rules = Prover(given), list(rules)
    graphs = given.graph, saved.graph, original, result
    before, after, first, second = (Side(graph, prover.enter_graph(graph)) for graph in graphs)
    prover.fold(before, first, after, second)
    wanted, ends = _goals(before, after), [*before.terms, *after.terms]
    if prover.equal(wanted):
        return written(prover, prover.rounded(minimal(prover, wanted)), ends)
    _link(prover, rules, before, first, "the original and its import")
    _link(prover, rules, after, second, "the result and its file")
    goals = _goals(first, second)
    classes = EClasses(prover, original, egraph, rules)
    known, found = classes.known, eclasses_of(result, egraph)
    chosen = [
        known[node.op, node.attrs, tuple(found[j] for j in node.inputs)]
        for node, c in zip(result.nodes, found, strict=True)
        if c >= 0
    ]
    classes.trace([*(int(i) for i in egraph.original.tolist() if i >= 0), *chosen])
    for _ in range(ROUNDS):
        if prover.equal(goals) or not classes.connect():
            break
    if not prover.equal(goals):
        raise NotProved("the rules that fired do not connect the original with the result")
    steps = needed(prover, minimal(prover, wanted), wanted)
    return written(prover, prover.rounded(steps), ends)


def _goals(a: Side, b: Side) -> list[tuple[int, int]]:
    outputs = zip(a.graph.output_ids, b.graph.output_ids, strict=True)
    return [(a.terms[i], b.terms[j]) for i, j in outputs]


@lru_cache(maxsize=1)
def definitions() -> tuple[Rule, ...]:
    """Return the axioms that say what an operator is, or a norm without its scale or shift."""
    return tuple(
        r for r in rules_of("axioms") if "definition" in r.provenance or r.name.startswith("layernorm-")
    )


def _link(prover: Prover, rules: Sequence[Rule], a: Side, b: Side, what: str) -> None:
    """Connect a graph with its file: where one operator stands for several, and values that have one name."""
    goals = _goals(a, b)
    if prover.equal(goals):
        return
    fusion = [r for r in rules if Path(r.file).stem == "fusion" and not r.multi]
    prover.run(fusion, goals)
    named: dict[str, int] = {label.value: a.terms[i] for i, label in a.graph.labels.items() if label.value}
    pairs = [(named[x.value], b.terms[i]) for i, x in sorted(b.graph.labels.items()) if x.value in named]
    for one, other in [*pairs, *goals]:
        if prover.find(one) != prover.find(other):
            _connect(prover, rules, one, other, a, b)
    if not prover.equal(goals):
        raise NotProved(f"the rules do not connect {what}")


def _connect(prover: Prover, rules: Sequence[Rule], one: int, other: int, a: Side, b: Side) -> None:
    """Make two terms equal by a search among the terms between them and those that both graphs have."""
    whole = prover
    both = {whole.find(t) for t in a.terms} & {whole.find(t) for t in b.terms}
    small, leaves, down = Prover(), dict[int, int](), dict[int, int]()

    def copied(term: int) -> int:
        for t in postorder((term,), lambda t: () if t in down or ends(t) else whole.entries[t].inputs):
            if t in down:
                continue
            entry, c = whole.entries[t], whole.find(t)
            if ends(t):
                down[t] = small.add("input", (f"{c}",), (), whole.entries[c].type)
                leaves.setdefault(down[t], t)
                if (number := whole.numbers.get(t)) is not None:
                    small.numbers[down[t]] = number
            else:
                down[t] = small.add(entry.op, entry.attrs, tuple(down[i] for i in entry.inputs), entry.type)
        return down[term]

    def ends(t: int) -> bool:
        return whole.find(t) in both or not whole.entries[t].inputs or len(down) > MOST_BETWEEN

    goal = copied(one), copied(other)
    near = [*(r for r in rules if Path(r.file).stem in NEAR), *definitions()]
    if not (small.run(near, [goal]) or small.run(rules, [goal])):
        return
    up = dict(leaves)

    def raised(term: int) -> int:
        for t in postorder((term,), lambda t: () if t in up else small.entries[t].inputs):
            if t not in up:
                entry = small.entries[t]
                up[t] = whole.build(entry.op, entry.attrs, [up[i] for i in entry.inputs])
        return up[term]

    for step in minimal(small, [goal]):
        if step.kind == proof.LAW:
            found = replace(step, pairs=()).moved(raised)
            prover.state_law(small.laws[step.law], found.bindings or {}, found.members)
        else:
            prover.state(step.moved(raised))
