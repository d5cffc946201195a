"""Find out why a graph, a term, or the right-hand side of a rule is not in an e-graph.

The terms around the target grow until it meets the e-graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from workbench.egraph.rebuild import eclasses_of
from workbench.graph import Graph
from workbench.graph.graph import numbers_in
from workbench.laws.explain.egraph_index import DEPTH, Examined, written
from workbench.laws.explain.report import Cause, Gap, Move, Outcome, Represented, Tried, WhyNot
from workbench.laws.matching import compiled, depth
from workbench.laws.proof_graph import GIVEN, Applied, Index, ProofGraph, Step, TooManyTerms
from workbench.ops.inputs_and_opaque import NAMED
from workbench.rules.interpret import is_number
from workbench.rules.pattern import App, Rule, applications, format_term, subterms
from workbench.run.trace import StopReason
from workbench.saturation.compile import sinks
from workbench.support.orders import postorder

#: Rounds of growth by rules as they are read, by rules read backward too, and by other rules too.
ROUNDS: Final = (2, 3, 2)
#: Limit on the terms that are compared in one round.
WORK: Final = 20_000
#: Limits on the matches that are applied in one round: of all rules, and of one.
MOST_MATCHES, MOST_OF_ONE = 1_500, 150
#: Limit on the terms that a question adds to those that it brings in.
MOST_NEW: Final = 4_000
#: Limits on the e-classes that are brought in around the target, and on those next to the missing equality.
MOST_CLASSES, MOST_BESIDE = 150, 40
#: Limit on the matches of a rule that are examined when a rule is the target.
MOST_PLACES: Final = 20
#: Limit on the rules reported at the missing equality.
MOST_TRIED: Final = 30


@dataclass(frozen=True, slots=True)
class Run:
    """The facts about a saturation that decide why a rule did not apply.

    ``rules`` are its rules, ``more`` other rules that may fill a gap. ``multi_left`` says whether rules of
    several roots may still run, ``out`` names the rules that are out of their phase, ``resting`` those that
    rest because they matched too often.
    """

    graph: Graph
    rules: tuple[Rule, ...]
    more: tuple[Rule, ...]
    weights: bool
    stop_reason: StopReason | None
    multi_left: bool
    out: frozenset[str]
    resting: frozenset[str]


class Asking:
    """One question: the terms around a target, grown by rules until the target meets the e-graph."""

    def __init__(self, examined: Examined, run: Run) -> None:
        self.examined, self.run = examined, run
        self.graph = ProofGraph(
            constant=lambda term: self._flag(term, examined.constant, default=False),
            running=lambda term: self._flag(term, examined.running, default=True),
            weights=run.weights,
            made=self._made,
        )
        self.own = {r.name: r for r in run.rules}
        self._by_op: dict[str, list[int]] = {}
        self._brought: set[int] = set()
        for node, value in numbers_in(run.graph).items():
            e_node = int(examined.egraph.original[node]) if len(examined.egraph.original) else -1
            if e_node >= 0:
                leaf = examined.leaf(self.graph, int(examined.egraph.eclass[e_node]))
                self.graph.numbers[leaf] = value

    def _flag(self, term: int, flags: Sequence[bool], *, default: bool) -> bool:
        """Return a property of a term's e-class; of a term without one, whether its operands have it."""
        c = self._eclass(term)
        if c >= 0:
            return flags[c]
        operands = self.graph.entries[term].inputs
        found = [self._flag(i, flags, default=default) for i in operands]
        return any(found) if default else bool(found) and all(found)

    def _eclass(self, term: int) -> int:
        return self.examined.held(self.graph, term)

    def _made(self, term: int) -> None:
        """Unite a new term with its e-class if the e-graph represents it."""
        c = self._eclass(term)
        if c >= 0:
            self.graph.union(term, self.examined.leaf(self.graph, c), GIVEN)

    # -- the part of the e-graph that is looked at --------------------------------------------------
    def classes_with(self, op: str) -> list[int]:
        """Return the e-classes that have an e-node of an operator."""
        if not self._by_op:
            eclass = self.examined.egraph.eclass.tolist()
            found: dict[str, dict[int, None]] = {}
            for i, name in enumerate(self.examined.egraph.ops):
                found.setdefault(name, {}).setdefault(eclass[i])
            self._by_op = {name: list(classes) for name, classes in found.items()}
        return self._by_op.get(op, [])[:MOST_CLASSES]

    def bring(self, eclass: int) -> None:
        """Bring in the e-nodes of an e-class, once."""
        if eclass not in self._brought and len(self._brought) < 4 * MOST_CLASSES:
            self._brought.add(eclass)
            self.examined.bring(self.graph, eclass)

    def bring_below(self, eclass: int, depth: int) -> None:
        """Bring in an e-class and the operands of its e-nodes, down to a depth."""
        self.bring(eclass)
        if depth > 0:
            for i in self.examined.members[eclass][:8]:
                for c in self.examined.egraph.operands(i).tolist():
                    self.bring_below(c, depth - 1)

    def bring_beside(self, eclass: int) -> None:
        """Bring in e-nodes with the operator and the operands of an e-class's e-nodes."""
        egraph, seen = self.examined.egraph, 0
        for i in self.examined.members[eclass][:4]:
            for c in egraph.operands(i).tolist():
                for j in self.examined.readers[c]:
                    if egraph.ops[j] == egraph.ops[i] and seen < MOST_BESIDE:
                        seen += 1
                        self.examined.bring(self.graph, int(egraph.eclass[j]), only=[j])

    # -- the missing equality -----------------------------------------------------------------------
    def pairs(self, goal: int, target: int) -> list[tuple[int, int]]:
        """Return pairs of terms, any of which would make a goal equal to a target if it were equal.

        The pair with the deepest terms is last. If no single equality is enough, the last pair is the first
        of several.
        """
        found: dict[tuple[int, int], None] = {(goal, target): None}
        queue = [(goal, target)]
        several: tuple[int, int] | None = None
        for left, right in queue:
            if len(queue) > 60:
                break
            for c in map(self._eclass, (left, right)):
                if c >= 0:
                    self.bring_below(c, 2)
            classes = self.graph.classes()
            lefts, rights = (classes.get(self.graph.find(t), {}) for t in (left, right))
            fewest = 0
            for op in lefts:
                for a in lefts[op]:
                    for b in rights.get(op, ()):
                        x, y = self.graph.entries[a], self.graph.entries[b]
                        if x.attrs != y.attrs or len(x.inputs) != len(y.inputs):
                            continue
                        inputs = dict.fromkeys(zip(x.inputs, y.inputs, strict=True))
                        distinct = [p for p in inputs if not self.graph.equal([p])]
                        alike = all(self.graph.types[p] == self.graph.types[q] for p, q in distinct)
                        if not alike or len(distinct) == len(x.inputs) > 1:
                            continue
                        if len(distinct) == 1 and distinct[0] not in found:
                            found[distinct[0]] = None
                            queue.append(distinct[0])
                        elif distinct and (not fewest or len(distinct) < fewest):
                            fewest, several = len(distinct), distinct[0]
        return [*found, *([several] if several is not None and len(found) == 1 else [])]

    def held_equal(self, a: int, b: int) -> bool:
        """Return whether the e-graph holds an equality of two terms."""
        c = self._eclass(a)
        return c >= 0 and c == self._eclass(b)

    # -- growth ---------------------------------------------------------------------------------------
    def answer(self, target: int, goal: int, known: WhyNot, brought: Sequence[int]) -> WhyNot:
        """Grow until the target meets its goal; return the missing terms.

        Args:
            target: The number of the target's term.
            goal: The e-class that the target should be in.
            known: The answer so far: the names, and the parts of the target that the e-graph represents.
            brought: The e-classes of these parts.
        """
        root = self.examined.leaf(self.graph, goal)
        for c in dict.fromkeys(brought[-MOST_CLASSES:]):
            self.bring(c)
        fresh = {t for t, entry in enumerate(self.graph.entries) if self._eclass(t) < 0} | {target, root}
        pairs = self.pairs(root, target)
        for left, _ in pairs:
            if (c := self._eclass(left)) >= 0:
                self.bring_beside(c)
        self.graph.most = len(self.graph) + MOST_NEW
        rest = tuple(r for r in self.run.more if r.name not in self.own)
        closest = pairs[-1]

        def met() -> bool:
            return self.graph.equal([(root, target)])

        guarded: Applied | None = None
        try:
            stages = zip((self.run.rules, self.run.rules, rest), (False, True, True), ROUNDS, strict=True)
            for rules, back, rounds in stages:
                if rules is rest:
                    guarded = self._guarded(pairs := self.pairs(root, target))
                    if guarded is not None:
                        break
                for _ in range(rounds):
                    if met() or not self._round(rules, fresh, pairs, backward=back):
                        break
                    pairs = self.pairs(root, target)
                if met():
                    break
        except TooManyTerms:
            if guarded is None:
                self.graph.most *= 2
                with suppress(TooManyTerms):
                    guarded = self._guarded(pairs)
        if guarded is not None:
            self.graph.record(guarded)
        if met():
            return self._told(self.graph.chain(root, target), known)
        if guarded is not None:  # one of several missing equalities
            return self._told(self.graph.chain(*guarded.pairs[0]), known)
        gap, tried = self._gap(*closest), self._tried(closest[0])
        return replace(known, missing=gap, tried=tried, stop_reason=self.run.stop_reason)

    def _hot(self, fresh: set[int], pairs: Sequence[tuple[int, int]]) -> set[int]:
        return {self.graph.find(t) for t in (*fresh, *(t for pair in pairs for t in pair))}

    def _round(
        self, rules: Iterable[Rule], fresh: set[int], pairs: Sequence[tuple[int, int]], *, backward: bool
    ) -> bool:
        """Apply rules once around the target; return whether that changed anything."""
        index = Index(self.graph, WORK)
        hot = self.graph.near(self._hot(fresh, pairs), index)
        before = len(self.graph)
        changed, applied = False, 0
        for rule in rules:
            found = list(self._applications(rule, index, hot, backward=backward))
            applied += len(found)
            for one in found:
                changed |= one.holds and self.graph.record(one)
            if applied > MOST_MATCHES:
                break
        fresh.update(t for t in range(before, len(self.graph)) if self._eclass(t) < 0)
        return changed

    def _applications(self, rule: Rule, index: Index, hot: set[int], *, backward: bool) -> Iterator[Applied]:
        return self.graph.applications(rule, index, hot, backward=backward, most=MOST_OF_ONE)

    def _guarded(self, pairs: Sequence[tuple[int, int]]) -> Applied | None:
        """Return a rule of the run that would give a missing equality if its guards held."""
        index = Index(self.graph, WORK)
        hot = self._hot(set(), pairs)
        for rule in self.run.rules:
            if self.run.weights and not (rule.conditions or rule.constants or rule.running or rule.distinct):
                continue
            for one in list(self._applications(rule, index, hot, backward=True)):
                if one.guards and any(self._gives(one, pair) for pair in pairs):
                    return one
        return None

    def _gives(self, applied: Applied, pair: tuple[int, int]) -> bool:
        wanted = {self.graph.find(t) for t in pair}
        return any({self.graph.find(a), self.graph.find(b)} == wanted for a, b in applied.pairs)

    # -- the answer -----------------------------------------------------------------------------------
    def _say(self, term: int) -> str:
        return self.examined.text(self.graph, term)

    def moves(self, steps: Sequence[Step]) -> tuple[Move, ...]:
        """Return the steps of a chain as data, without those that the e-graph holds by itself."""
        return tuple(
            Move.of(step, self._say, held=self.held_equal(step.before, step.after))
            for step in steps
            if step.law
        )

    def _gap(self, present: int, wanted: int) -> Gap:
        return Gap(self._say(present), self._say(wanted), self._eclass(present))

    def _told(self, steps: Sequence[Step], known: WhyNot) -> WhyNot:
        chain = self.moves(steps)
        absent = [k for k in steps if k.law and not self.held_equal(k.before, k.after)]
        # If a guard does not hold, the other steps alone do not help.
        first = next((k for k in absent if k.guards), next(iter(absent), None))
        if first is None:  # every step is held: only the limit of a chain's length can hide the missing one
            return replace(known, chain=chain)
        return replace(
            known, cause=self._cause(first), missing=self._gap(first.before, first.after), rule=first.law,
            guards=first.guards, chain=chain, tried=self._tried(first.before), stop_reason=self.run.stop_reason,
        )  # fmt: skip

    def _cause(self, step: Step) -> Cause:
        if step.law not in self.own:
            return Cause.RULE
        if step.guards:
            return Cause.GUARD
        return self._unapplied(self.own[step.law]) if step.forwards else Cause.DIRECTION

    def _unapplied(self, rule: Rule) -> Cause:
        """Return why a rule of the run did not apply although it matches and its guards hold."""
        if rule.multi and not self.run.multi_left:
            return Cause.MULTI
        if rule.name in self.run.out:
            return Cause.PHASE
        if self.run.stop_reason is not StopReason.SATURATED or rule.name in self.run.resting:
            return Cause.LIMIT
        return Cause.WHOLE if sinks(rule) else Cause.EXCLUDED

    def single(self, rule: Rule, applied: Applied, target: str) -> WhyNot:
        """Return why one application of a rule is missing."""
        compared = f"matches of {rule.name}"
        stop = self.run.stop_reason
        if applied.misfit:
            tried = (self._judged(rule, applied),)
            return WhyNot(target, compared, Cause.GUARD, rule=rule.name, tried=tried, stop_reason=stop)
        a, b = next(p for p in applied.pairs if not self.held_equal(*p))
        own = rule.name in self.own
        cause = Cause.GUARD if applied.guards else self._unapplied(rule) if own else Cause.RULE
        return WhyNot(
            target, compared, cause, self._eclass(b) >= 0, (), self._gap(a, b), rule.name, applied.guards,
            tried=self._tried(a), stop_reason=stop,
        )  # fmt: skip

    def _tried(self, term: int) -> tuple[Tried, ...]:
        """Return the rules of the run whose left-hand sides match at a term of the e-graph."""
        c = self._eclass(term)
        # Among terms of the e-graph alone: this question has united some of them with others.
        return Asking(self.examined, self.run).tried_at(c) if c >= 0 else ()

    def tried_at(self, eclass: int) -> tuple[Tried, ...]:
        """Return the rules of the run whose left-hand sides match at an e-class."""
        found: dict[str, Tried] = {}
        self.bring_below(eclass, 2)
        self.bring_beside(eclass)
        index = Index(self.graph, WORK)
        self.graph.most = len(self.graph) + MOST_NEW
        hot = {self.graph.find(self.examined.leaf(self.graph, eclass))}
        for rule in self.run.rules:
            if len(found) >= MOST_TRIED:
                break
            try:
                for one in self._applications(rule, index, hot, backward=False):
                    tried = self._judged(rule, one)
                    if rule.name not in found or tried.outcome is Outcome.ABSENT:
                        found[rule.name] = tried
            except TooManyTerms:
                break
        return tuple(found.values())

    def _judged(self, rule: Rule, one: Applied) -> Tried:
        if one.misfit:
            return Tried(rule.name, Outcome.MISFIT, (), one.misfit)
        if one.guards:
            return Tried(rule.name, Outcome.GUARD, one.guards)
        held = all(self.held_equal(a, b) for a, b in one.pairs)
        return Tried(rule.name, Outcome.HELD if held else Outcome.ABSENT)


# -- questions --------------------------------------------------------------------------------------------
def why_not_graph(
    examined: Examined, run: Run, target: Graph, equals: Sequence[int], name: str, compared: str
) -> WhyNot:
    """Return why the outputs of a graph are not equal to e-classes.

    Args:
        examined: The e-graph.
        run: The saturation that made it.
        target: The graph; its inputs and weights are found by name.
        equals: The e-class that each output should be in.
        name: The target's name in the answer.
        compared: The name of the term that the target is compared with.
    """
    classes = eclasses_of(target, examined.egraph)
    wrong = [k for k, (i, c) in enumerate(zip(target.output_ids, equals, strict=True)) if classes[i] != c]
    if not wrong:
        return WhyNot(name, compared, Cause.REPRESENTED, stop_reason=run.stop_reason)
    output, goal = target.output_ids[wrong[0]], equals[wrong[0]]
    asking = Asking(examined, run)
    place: list[int] = []
    for node, c in zip(target.nodes, classes, strict=True):
        if c >= 0:
            place.append(examined.leaf(asking.graph, c))
        else:
            operands = tuple([place[j] for j in node.inputs])
            place.append(asking.graph.add(node.op, node.attrs, operands, node.type))
    numbers = numbers_in(target)
    asking.graph.numbers.update({place[i]: value for i, value in numbers.items()})
    parts = _parts(target, classes, output)
    known = WhyNot(name, compared, Cause.UNKNOWN, classes[output] >= 0, parts)
    return asking.answer(place[output], goal, known, [c for c in classes if c >= 0])


def why_not_rule(examined: Examined, run: Run, rule: Rule) -> WhyNot:
    """Return why the right-hand side of a rule is not equal to a match of its left-hand side.

    Every match is examined until one is found whose right-hand side is missing.
    """
    target = "; ".join(map(format_term, rule.targets))
    asking = Asking(examined, run)
    found = 0
    source = rule.sources[0]
    for c in asking.classes_with(source.op):
        asking.bring_below(c, depth(source) - 1)
    index = Index(asking.graph, WORK)
    hot = {asking.graph.find(examined.leaf(asking.graph, c)) for c in asking.classes_with(source.op)}
    asking.graph.most = len(asking.graph) + MOST_NEW
    missing: Applied | None = None
    for applied in asking.graph.applications(rule, index, hot, backward=False):
        found += 1
        held = bool(applied.pairs) and all(asking.held_equal(a, b) for a, b in applied.pairs)
        # A place at which every guard holds says more than one at which some guard does not.
        if not held and (missing is None or (missing.guards and not applied.guards and applied.pairs)):
            missing = applied
        if found >= MOST_PLACES and missing is not None:
            break
    if missing is not None:
        return asking.single(rule, missing, target)
    cause = Cause.REPRESENTED if found else Cause.NO_MATCH
    parts = () if found else _matched_parts(asking, rule)
    compared = f"matches of {rule.name}"
    return WhyNot(target, compared, cause, parts=parts, rule=rule.name, stop_reason=run.stop_reason)


def _matched_parts(asking: Asking, rule: Rule) -> tuple[Represented, ...]:
    """Return the largest parts of a rule's left-hand side that match something."""
    found: list[Represented] = []
    covered: set[int] = set()
    for source in rule.sources:
        for part in sorted(applications(source), key=lambda t: -_size(t)):
            if id(part) in covered:
                continue
            for c in asking.classes_with(part.op):
                asking.bring_below(c, depth(part) - 1)
            index = Index(asking.graph, WORK)
            places = index.by_op.get(part.op, [])
            pattern = compiled(part, is_number)
            index.begin()
            at = next((p for p in places if index.at(pattern, p)), None)
            if at is not None:
                covered.update(id(t) for t in subterms(part))
                eclass = asking.examined.held(asking.graph, at)
                found.append(Represented(format_term(part), _size(part), eclass))
    return tuple(found)


def _size(term: App) -> int:
    return sum(1 for _ in applications(term))


def _parts(target: Graph, classes: Sequence[int], output: int) -> tuple[Represented, ...]:
    """Return the largest represented parts below an output, each with at least one operator."""
    found: list[Represented] = []
    nodes, stack, seen = target.nodes, [output], set()
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if classes[i] < 0:
            stack += nodes[i].inputs
        elif operators := sum(nodes[j].op not in NAMED for j in postorder((i,), lambda j: nodes[j].inputs)):
            # Represented by the target's own term, which need not be the oldest of the e-class.
            found.append(Represented(_text(target, i), operators, classes[i]))
    return tuple(sorted(found, key=lambda part: -part.operators))


def _text(graph: Graph, i: int, depth: int = DEPTH) -> str:
    node = graph.nodes[i]
    if depth == 0 and node.inputs:
        return "…"
    return written(node.op, node.attrs, [_text(graph, j, depth - 1) for j in node.inputs])
