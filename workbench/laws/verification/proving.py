"""Prove rules in batch: the sides of all rules in one typed e-graph, with axioms applied round by round.

A rule is proved at a generic instance: extents are distinct primes if its typing leaves them open, so that
extents that the axioms' guards find equal there are equal in every instance. Alternatives that are not
numbers (activation, one group or several, rank) are separate cases, all of which must be proved. The method
is Tensat's, whose verifier has neither types nor shapes.

egglog shows that two sides are equal, but not why. The proof graph does, and its chain of terms, each obtained
from the previous one by one axiom at one place, is replayed without it: an application that people can read.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from workbench.graph import Builder
from workbench.laws import proof_graph
from workbench.laws.explain.egraph_index import text_of
from workbench.laws.proof_graph import NotAStep, ProofGraph, Step, Terms
from workbench.laws.verification.instances import boundary_values, spaces
from workbench.laws.verification.instances.linear import Inconsistent, NotLinear
from workbench.laws.verification.instances.typings import Choices, Enumeration, Menu, RandomChoices
from workbench.ops import Trait, TypeMismatch, with_trait
from workbench.rules.pattern import Rule, applications
from workbench.rules.ruleset import RuleSet, load_rules
from workbench.rules.verdicts import library
from workbench.run.trace import StepKind, StopReason
from workbench.saturation import Limits, Saturation
from workbench.saturation.encoding import encoding_for
from workbench.saturation.engine import Program
from workbench.saturation.process import RemoteEngine
from workbench.support import deadline

#: Alternatives that are proved one by one; extents and similar numbers are filled in generically.
GENERIC: Final = Menu(
    ranks=(1, 2, 3, 4),
    strides=((2, 3),),
    dilations=((3, 2),),
    groups=(1, 5, 6),
    acts=("none", "relu", "sigmoid", "tanh"),
    flags=(0, 1),
    steps=(1, 3),
    eps=(0.5, 1e-5),
    numbers=(0.0, 0.375),
    members=(2, 3),
    broadcast=False,
    decide_few=True,
    remainders=True,
)
#: Other alternatives than those that are proved one by one, for one more case.
OTHERS: Final = replace(
    GENERIC,
    strides=((5, 4),),
    dilations=((4, 5),),
    groups=(7,),
    steps=(4,),
    eps=(2.0,),
    numbers=(-7.0,),
    members=(5,),
)
#: If there are more cases than this, they are sampled.
CASES: Final = 24
#: Largest number of cases next to the literals of a rule.
LITERALS: Final = 12
#: Number of randomly drawn cases in which operands broadcast, and largest number of those with a given axis.
BROADCASTING: Final = 4
AXES_SPREAD: Final = 8
#: Number of nodes from which on no further cases enter a pass: they wait for the next one.
LOAD: Final = 3_000
#: Attributes of which proofs take few values.
_ALTERNATIVES: Final = frozenset({"strides", "dilations", *spaces.GROUPED, "step", "eps"})
_BROADCASTS: Final = with_trait(Trait.BROADCASTS)
#: Assignments of generic numbers tried for a family of instances before it counts as empty.
ATTEMPTS: Final = 64
_PRIMES: Final = [p for p in range(11, 1000) if all(p % q for q in range(2, 32) if q < p)]


@lru_cache(maxsize=1)
def axioms() -> RuleSet:
    """Return the axioms of the library."""
    return load_rules(library() / "axioms.rules")


@dataclass(frozen=True, slots=True)
class Cases:
    """The generic instances of a rule.

    ``complete`` means that no alternative was left out. ``sampled`` is the number of instances that were
    drawn at random, such as those whose operands broadcast.
    """

    instances: tuple[spaces.Instance, ...]
    complete: bool
    reason: str = ""
    sampled: int = 0


def generic_cases(rule: Rule, *, broadcast: bool) -> Cases:
    """Return one generic instance per alternative of a rule's typing, or a sample of :data:`CASES` of them.

    Instances next to the literals of the rule are added, one with other strides, groups and so on, and if
    ``broadcast``, some with broadcasting operands.
    """
    found: list[spaces.Instance] = []
    walk = Enumeration()
    complete, reason = False, ""
    sampled = 0
    for _ in range(40 * CASES):
        deadline.check()
        try:
            instance = _generic(rule, walk, GENERIC)
            if instance is not None:
                found.append(instance)
        except NotLinear as error:
            reason = str(error)
        except (Inconsistent, TypeMismatch):
            pass
        if not walk.advance():
            complete = not reason
            break
        if len(found) > CASES:
            found = _drawn(rule, GENERIC, CASES)
            sampled = len(found)
            break
    own = len(found)
    if found:
        found += _unusual(rule, broadcast)
    if broadcast and spreads(rule):
        menu = replace(GENERIC, broadcast=True)
        found += _drawn(rule, menu, BROADCASTING, broadcasting=True)
        for corner in boundary_values.spread_axes(rule)[:AXES_SPREAD]:
            found += _drawn(rule, corner.within(menu), 1)
    return Cases(tuple(found), complete, reason, sampled + len(found) - own)


def _unusual(rule: Rule, broadcast: bool) -> list[spaces.Instance]:
    """Return generic instances with other strides, groups and so on, and next to the literals of a rule."""
    found: list[spaces.Instance] = []
    if (
        any(attr.name in _ALTERNATIVES for attr in boundary_values.attribute_coordinates(rule).values())
        or rule.each
    ):
        found += _drawn(rule, OTHERS, 1)
    for corner in boundary_values.beside_literals(rule)[:LITERALS]:
        if broadcast or not corner.broadcasts:
            found += _drawn(rule, corner.within(GENERIC), 1)
    for corner in boundary_values.of_more_axes(rule):
        found += [i for i in _drawn(rule, corner.within(GENERIC), 1) if i not in found]
    return found


def spreads(rule: Rule) -> bool:
    """Return whether a rule has operators whose operands may broadcast."""
    return any(t.op in _BROADCASTS for t in applications(*rule.sources))


def _drawn(rule: Rule, menu: Menu, count: int, *, broadcasting: bool = False) -> list[spaces.Instance]:
    """Return generic instances of random alternatives, or only broadcasting ones."""
    rng = random.Random(count)
    drawn: list[spaces.Instance] = []
    for _ in range(15 * count):
        deadline.check()
        if len(drawn) >= count:
            break
        try:
            instance = _generic(rule, RandomChoices(rng), menu)
        except (NotLinear, Inconsistent, TypeMismatch):
            continue
        if instance is not None and (instance.broadcasts or not broadcasting):
            drawn.append(instance)
    return drawn


def _generic(rule: Rule, choices: Choices, menu: Menu) -> spaces.Instance | None:
    space = spaces.open_space(rule, choices, menu)
    for attempt in range(ATTEMPTS):
        values = space.system.complete(_numbers(space, attempt))
        if values is None:
            continue
        instance = spaces.instance_of(space, values)
        spaces.Ground().add(instance)
        return instance
    return None


@lru_cache(maxsize=64)
def _ordered(attempt: int) -> tuple[int, ...]:
    """Return distinct primes, larger ones first, as a kernel is smaller than the input that it slides over.

    Later attempts use other orders. Most of them begin with three or four large primes for an input:
    sometimes the second of two kernels must be the larger one, or positions must follow each other.
    """
    left = list(_PRIMES)
    rng = random.Random(attempt)
    if attempt >= ATTEMPTS // 8 and attempt % 4 == 0:
        return tuple(rng.sample(left, len(left)))
    if attempt >= ATTEMPTS // 8:
        large = left[80 : 77 - attempt // 4 % 2 : -1]
        small = left[attempt % 8 : 60 : 2 + attempt % 3]
        return (*large, *(small if attempt % 4 == 1 else rng.sample(small, len(small))))
    ideal, factor = ((900.0, 0.75), (900.0, 0.6), (400.0, 0.85), (900.0, 0.5))[attempt % 4]
    found: list[int] = []
    while left and len(found) < 60:
        found.append(min(left, key=lambda p: abs(p - ideal)))
        left.remove(found[-1])
        ideal *= factor
    return tuple(found)


def _numbers(space: spaces.Space, attempt: int) -> dict[int, int]:
    rng = random.Random(attempt)
    primes = iter(_ordered(attempt))
    small = rng.sample(range(1, 8), 7)
    numbers: dict[int, int] = {}
    kinds = space.system.kinds
    of_pads = {u for d, _, u in space.system.divisions if all(kinds[v] == "pad" for v in d.terms)}
    for k, unknown in enumerate(space.system.free()):
        kind = "pad" if unknown in of_pads else kinds[unknown]
        number = next(primes) if kind in ("extent", "quotient") else small[k % 7]
        if kind == "kernel":
            number += 2
        elif kind == "remainder":
            number %= space.system.top[unknown] + 1
        elif kind == "pad":
            number %= (4, 4, 2)[attempt % 3]
        numbers[unknown] = min(number, space.system.top.get(unknown, number))
    return numbers


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof of a rule: its cases, whether they are complete, the round of the last, and how many were drawn."""

    cases: int
    complete: bool
    round: int
    sampled: int = 0


def warm_engine(memory: int) -> RemoteEngine:
    """Return an engine whose process is running already, with an almost empty e-graph."""
    builder = Builder()
    x = builder.input("x", (1,))
    graph = builder.graph({"y": builder.op("relu", x)})
    engine = RemoteEngine(Program(graph, encoding_for(graph), ()), memory)
    engine.start()
    return engine


@dataclass(slots=True)
class Prover:
    """A proof of many rules at once, one round of axioms per step.

    A pass loads unproved cases, as many as an e-graph holds, into a fresh one and applies axioms until
    everything is proved, nothing can change any more, or a limit is reached. Passes over all cases are a
    sweep. Another sweep follows if this one proved some cases and left others. ``rounds`` maps each proved
    case to the round in which its sides met. ``egraph_seconds`` is the time in which e-graphs are loaded and grown,
    without making instances and starting the engine's process.
    """

    rules: Sequence[Rule]
    axioms: Sequence[Rule]
    limits: Limits
    broadcast: bool = True
    cases: dict[int, Cases] = field(default_factory=dict)
    rounds: dict[tuple[int, int], int] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    egraph_seconds: float = 0.0
    passes: int = 0
    sweeps: int = 0
    saturation: Saturation | None = None
    #: By rule and case of the pass: the pairs of nodes that must be found equal.
    _goals: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    engine: RemoteEngine | None = None
    _waiting: list[tuple[int, int]] = field(default_factory=list)
    _met_in_sweep: int = 0
    _cut_in_sweep: bool = False

    def open_goals(self) -> list[tuple[int, int]]:
        """Return the pairs (rule, case) that are not proved yet."""
        found = []
        for number, rule in enumerate(self.rules):
            if number in self.dropped:
                continue
            if number not in self.cases:
                self.cases[number] = generic_cases(rule, broadcast=self.broadcast)
            count = len(self.cases[number].instances)
            found += [(number, case) for case in range(count) if (number, case) not in self.rounds]
        return found

    @property
    def loaded(self) -> set[int]:
        """Return the rules that have open cases in the current pass."""
        return {rule for rule, _ in self._goals}

    def proof(self, number: int) -> Proof | None:
        """Return the proof of a rule, or None if a case is open or the rule has no cases."""
        cases = self.cases.get(number)
        if cases is None or not cases.instances:
            return None
        keys = [(number, case) for case in range(len(cases.instances))]
        if not all(key in self.rounds for key in keys):
            return None
        return Proof(len(keys), cases.complete, max(self.rounds[key] for key in keys), cases.sampled)

    def begin(self) -> bool:
        """Start a pass with open cases, those that wait first; return whether there are any."""
        self._cut_in_sweep |= bool(self._goals) and self._unfinished
        open_ = self.open_goals()
        goals = sorted(set(open_) & set(self._waiting))
        if not goals:
            goals, self._met_in_sweep, self._cut_in_sweep = open_, 0, False
            self.sweeps += 1
        if self.engine is None and goals:
            self.engine = warm_engine(self.limits.memory)
        if self.engine is not None:
            self.engine.until = deadline.until()
        ready = time.perf_counter()
        ground = spaces.Ground(canonical=True)
        self._goals = {}
        self._waiting = []
        for place, (number, case) in enumerate(goals):
            if len(ground.builder.nodes) > LOAD:
                self._waiting = goals[place:]
                break
            deadline.check()
            self._goals[number, case] = ground.add(self.cases[number].instances[case])
        if not self._goals:
            return False
        roots = sorted({i for pairs in self._goals.values() for pair in pairs for i in pair})
        graph = ground.builder.graph([(f"r{i}", i) for i in roots])
        found = dict(zip(roots, graph.output_ids, strict=True))
        self._goals = {goal: [(found[a], found[b]) for a, b in pairs] for goal, pairs in self._goals.items()}
        # Every pass has the time that is left, not that of the first one.
        limits = replace(self.limits, seconds=max(0.001, min(self.limits.seconds, deadline.left())))
        self.saturation = Saturation(graph, self.axioms, limits, engine=self.engine, keep=0)
        self.engine = self.saturation.engine
        self.passes += 1
        self.saturation.start_engine()
        self._met_in_sweep += self._check(0)
        self.egraph_seconds += time.perf_counter() - ready
        return True

    def step(self) -> int:
        """Apply one round of axioms; return the number of cases that it proved."""
        began = time.perf_counter()
        assert self.saturation is not None
        self.saturation.engine.until = deadline.until()
        step = self.saturation.step()
        # Without the last iteration nothing is new; asking for it would repeat all others.
        undone = self.saturation.stop_reason in (StopReason.TIME_LIMIT, StopReason.MEMORY_LIMIT)
        met = 0 if undone and step.kind is StepKind.CUT else self._check(step.index)
        self._met_in_sweep += met
        self.egraph_seconds += time.perf_counter() - began
        return met

    def _check(self, index: int) -> int:
        assert self.saturation is not None
        classes = self.saturation.classes()
        met = [g for g, pairs in self._goals.items() if all(classes[a] == classes[b] for a, b in pairs)]
        for goal in met:
            self.rounds[goal] = index
            del self._goals[goal]
        return len(met)

    @property
    def pass_over(self) -> bool:
        """Return whether the pass can prove no more."""
        return not self._goals or self.saturation is None or self.saturation.stop_reason is not None

    @property
    def productive(self) -> bool:
        """Return whether another pass may prove more: cases wait, or a sweep that proved some was cut."""
        cut = self._cut_in_sweep or self._unfinished
        return self.waiting or (bool(self.open_goals()) and self._met_in_sweep > 0 and cut)

    @property
    def _unfinished(self) -> bool:
        return self.saturation is not None and self.saturation.stop_reason is not StopReason.SATURATED

    @property
    def waiting(self) -> bool:
        """Return whether cases wait for a pass of the sweep that has begun."""
        return bool(set(self._waiting) & set(self.open_goals()))

    def close(self) -> None:
        """End the engine's process."""
        if self.engine is not None:
            self.engine.kill()


# -- chains -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Chain:
    """The terms from a rule's left-hand side to its right-hand side, both included, and the steps between them."""

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


def find_chain(instance: spaces.Instance, axioms: Sequence[Rule], effort: int = 3000) -> list[Chain] | None:
    """Return a chain for every output of an instance, or None if ``effort`` further terms are not enough for one."""
    ground = spaces.Ground()
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


def replay(instance: spaces.Instance, chains: Sequence[Chain], axioms: Sequence[Rule]) -> bool:
    """Return whether chains lead from left to right, each step an application of its axiom, made again here."""
    ground = spaces.Ground()
    pairs = ground.add(instance)
    by_name = {axiom.name: axiom for axiom in axioms}
    try:
        for (left, right), chain in zip(pairs, chains, strict=True):
            terms = Terms(chain.terms.entries)
            place = terms.enter(ground.builder.nodes)
            if proof_graph.replay(terms, place[left], chain.steps, by_name)[-1] != place[right]:
                return False
    except NotAStep:
        return False
    return True
