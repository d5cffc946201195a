"""Search for a counterexample: both sides of a rule on small instances, in exact arithmetic."""

from __future__ import annotations

import random
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from workbench.graph import Node
from workbench.ops import TypeMismatch
from workbench.ops.exact import Inexact
from workbench.rules.pattern import Rule
from workbench.verification.instances.choices import Enumeration, RandomChoices
from workbench.verification.instances.ground import Ground, Instance, instance_of, options, sample
from workbench.verification.instances.linear import Inconsistent, NotLinear
from workbench.verification.instances.spaces import Space, open_space
from workbench.verification.instances.typings import Menu
from workbench.verification.refuting.exact_arithmetic import (
    ARITHMETICS,
    PRIME,
    arithmetic_for,
    degree,
    differs,
    draw_values,
    filled,
    live_nodes,
    run,
    whole_numbers,
)

#: The menu of the first draws, so that a counterexample found among them is already small.
TINY: Final = Menu(
    strides=((1, 1),),
    dilations=((1, 1),),
    groups=(1, 2),
    members=(2,),
    extents=(1, 1, 2),
    kernels=(1, 1, 2),
    pads=(0, 0, 1),
    steps=(1,),
)
FULL: Final = Menu()


@dataclass(frozen=True, slots=True)
class Counterexample:
    """An instance on which the two sides differ.

    ``inputs`` are whole numbers by variable, as nested lists; ``settings`` are the attributes; ``left``
    and ``right`` are the values of the rule's output number ``output``, which differ at ``index``.
    """

    shapes: dict[str, tuple[int, ...]]
    settings: dict[str, Any]
    inputs: dict[str, Any]
    output: int
    index: tuple[int, ...]
    left: Any
    right: Any
    arithmetic: str
    left_text: str
    right_text: str

    def record(self) -> dict[str, Any]:
        """Return the counterexample as plain data, ready for JSON."""
        return {
            "inputs": {n: {"shape": list(s), "data": self.inputs[n]} for n, s in self.shapes.items()},
            "settings": {n: list(v) if isinstance(v, tuple) else v for n, v in self.settings.items()},
            "output": self.output,
            "index": list(self.index),
            "left": self.left,
            "right": self.right,
            "left_term": self.left_text,
            "right_term": self.right_text,
            "arithmetic": self.arithmetic,
        }

    def at(self) -> tuple[Any, Any]:
        """Return the two values at the index at which they differ."""
        a, b = self.left, self.right
        for i in self.index:
            a, b = a[i], b[i]
        return a, b

    def __str__(self) -> str:
        shapes = ", ".join(f"{n}{list(s)}" for n, s in self.shapes.items())
        return f"{shapes}: {self.at()[0]} on the left, {self.at()[1]} on the right"


@dataclass(slots=True)
class Findings:
    """The findings of a search for counterexamples.

    The instances in ``passed`` agreed, counted by arithmetic in ``arithmetics``; those in ``failed`` did
    not. ``bound`` is the chance that one polynomial instance passed although its sides differ
    (Schwartz-Zippel: degree over field size). ``empty`` means that the two sides have no type in common;
    ``reason`` is the last reason why an instance could not be made.
    """

    passed: list[Instance] = field(default_factory=list)
    failed: list[Instance] = field(default_factory=list)
    arithmetics: Counter[str] = field(default_factory=Counter)
    counterexample: Counterexample | None = None
    degree: int = 0
    tries: int = 0
    seconds: float = 0.0
    empty: bool = False
    reason: str = ""

    @property
    def draws(self) -> int:
        """Return the number of instances evaluated."""
        return len(self.passed) + len(self.failed)

    @property
    def bound(self) -> float | None:
        """Return the error bound per polynomial instance, or None if no instance was polynomial."""
        return self.degree / PRIME if self.arithmetics["modular"] else None


@dataclass(slots=True)
class _Case:
    """One instance with its nodes."""

    instance: Instance
    nodes: Sequence[Node]
    leaves: dict[str, int]
    pairs: list[tuple[int, int]]
    kind: str

    @property
    def live(self) -> list[int]:
        return live_nodes(self.nodes, [i for pair in self.pairs for i in pair])

    def differs(self, kind: str, values: dict[int, np.ndarray]) -> tuple[int, tuple[int, ...]] | None:
        results = run(kind, self.nodes, self.live, values)
        for number, (left, right) in enumerate(self.pairs):
            where = differs(kind, results[left], results[right])
            if where is not None:
                return number, where
        return None


def case_of(instance: Instance) -> _Case:
    """Return an instance with both sides as nodes; raise TypeMismatch if the types do not fit."""
    ground = Ground()
    pairs = ground.add(instance)
    nodes = ground.builder.nodes
    live = live_nodes(nodes, [i for pair in pairs for i in pair])
    kind = arithmetic_for(nodes[i] for i in live)
    return _Case(instance, nodes, ground.leaves, pairs, kind)


def search(
    rule: Rule,
    draws: int = 60,
    *,
    seed: int = 0,
    broadcast: bool = True,
    go_on: int = 0,
    seconds: float = 20.0,
) -> Findings:
    """Evaluate both sides of a rule on random instances, small ones first.

    The search stops at the first counterexample, or ``go_on`` instances later: further failures and passes
    show in which region the rule holds. The same seed gives the same search unless the time limit ends it.

    Args:
        rule: The rule.
        draws: Number of instances.
        seed: Seed of the random instances.
        broadcast: Whether the shapes of element-wise operands may differ.
        go_on: Number of instances after the first counterexample.
        seconds: Time limit.
    """
    began = time.perf_counter()
    rng = random.Random(seed * 1_000_003 + zlib.crc32(rule.name.encode()))
    found = Findings()
    tiny = replace(TINY, broadcast=broadcast)
    full = replace(FULL, broadcast=broadcast)
    left = draws
    curved = 0
    while left > 0 and found.tries < 60 * (draws + go_on) and time.perf_counter() - began < seconds:
        found.tries += 1
        # Small instances first, unless hardly any of them is well-typed.
        rare = found.tries > 20 * (found.draws + 10)
        menu = full if rare or found.draws >= draws // 3 else tiny
        space: Space | None = None
        values: dict[int, int] | None = None
        try:
            if curved < 12 or (found.draws and curved < found.tries // 2):
                space = open_space(rule, RandomChoices(rng), menu)
                values = sample(space, rng, menu)
                if values is None:
                    continue
                case = case_of(instance_of(space, values))
            else:
                drawn = _drawn(rule, rng)
                if drawn is None:
                    continue
                case = case_of(drawn)
        except NotLinear as error:
            # Some sequences of decisions are not linear (ceil_mode), or all of them (a reshape).
            curved, found.reason = curved + 1, str(error)
            continue
        except (Inconsistent, TypeMismatch) as error:
            found.reason = str(error)
            if found.tries == 200 and not found.draws and not curved and never_typed(rule, full):
                found.empty = True
                break
            continue
        try:
            outcome = _evaluated(case, rng)
        except Inexact as error:
            found.reason = str(error)
            continue
        left -= 1
        found.arithmetics[case.kind] += 1
        if case.kind == "modular" and not found.degree:
            found.degree = max(max(degree(case.nodes, a), degree(case.nodes, b)) for a, b in case.pairs)
        if outcome is None:
            found.passed.append(case.instance)
            continue
        if found.counterexample is None:
            shown = _flat(rule, case, rng, menu) or _shrunk(case, space, values, rng, menu)
            if shown is None:  # whole numbers of this size do not show the difference: try another instance
                found.arithmetics[case.kind] -= 1
                continue
            found.counterexample = shown
            left = go_on
        found.failed.append(case.instance)
    found.seconds = time.perf_counter() - began
    return found


def _evaluated(case: _Case, rng: random.Random) -> tuple[int, tuple[int, ...]] | None:
    """Return the place at which the sides of an instance differ on random values, or None.

    Other values are tried if a divisor is 0, and the weaker arithmetic if a root is not a fraction. Raise
    Inexact if that does not help.
    """
    for attempt in range(6):
        if attempt >= 3 and case.kind == "rational":
            case.kind = "digits"
        try:
            return case.differs(case.kind, draw_values(case.kind, case.nodes, case.live, rng))
        except Inexact as error:
            reason = error
    raise reason


def never_typed(rule: Rule, menu: Menu, limit: int = 3000) -> bool:
    """Return whether the two sides of a rule have no type in common under any sequence of decisions."""
    walk = Enumeration()
    for _ in range(limit):
        try:
            open_space(rule, walk, menu)
        except (Inconsistent, TypeMismatch):
            if not walk.advance():
                return True
            continue
        return False
    return False


def _drawn(rule: Rule, rng: random.Random) -> Instance | None:
    """Draw an instance of a rule whose typing is not linear: shapes are proposed and may not fit."""
    from workbench.verification.refuting import draws

    return draws.draw_instance(rule, rng)


# -- making a counterexample small ------------------------------------------------------------------
def _whole(case: _Case) -> str:
    """Return an arithmetic in which small whole numbers are exact."""
    return whole_numbers(case.nodes[i] for i in case.live) if case.kind == "modular" else case.kind


def _witness(
    case: _Case, rng: random.Random, tries: int
) -> tuple[dict[int, np.ndarray], int, tuple[int, ...]] | None:
    for attempt in range(tries):
        values = draw_values(_whole(case), case.nodes, case.live, rng, 2 if attempt < tries // 2 else 4)
        try:
            outcome = case.differs(_whole(case), values)
        except Inexact:
            continue
        if outcome is not None:
            return values, *outcome
    return None


def _flat(rule: Rule, case: _Case, rng: random.Random, menu: Menu) -> Counterexample | None:
    """Return a counterexample of smaller rank than a case that is one, or None."""
    most = max((case.nodes[i].tensor.rank for i in case.leaves.values()), default=0)
    for rank in range(most):
        lower = replace(menu, ranks=(rank,))
        for _ in range(12):
            try:
                space = open_space(rule, RandomChoices(rng), lower)
                values = sample(space, rng, lower)
                if values is None:
                    continue
                found = case_of(instance_of(space, values))
                if found.differs(found.kind, draw_values(found.kind, found.nodes, found.live, rng)) is None:
                    continue
            except (Inexact, Inconsistent, NotLinear, TypeMismatch):
                continue
            ranks = [found.nodes[i].tensor.rank for i in found.leaves.values()]
            if max(ranks, default=0) < most:
                shown = _shrunk(found, space, values, rng, lower)
                if shown is not None:
                    return shown
    return None


def _shrunk(
    case: _Case, space: Space | None, values: dict[int, int] | None, rng: random.Random, menu: Menu
) -> Counterexample | None:
    """Return a counterexample whose extents and elements no single step makes smaller."""
    best, witness = case, _witness(case, rng, 20)
    if space is not None and values is not None:
        free = space.system.free()
        current = {u: values[u] for u in free}
        changed = True
        while changed:
            changed = False
            for unknown in free:
                for smaller in sorted({1, *options(space, unknown, menu)}):
                    if smaller >= current[unknown]:
                        break
                    complete = space.system.complete(current | {unknown: smaller})
                    if complete is None:
                        continue
                    try:
                        smaller_case = case_of(instance_of(space, complete))
                        found = _witness(smaller_case, rng, 6)
                    except TypeMismatch:
                        continue
                    if found is not None:
                        best, witness, changed = smaller_case, found, True
                        current[unknown] = smaller
                        break
    return None if witness is None else _shown(best, *_simple(best, witness[0], rng))


def _simple(
    case: _Case, values: dict[int, np.ndarray], rng: random.Random
) -> tuple[dict[int, np.ndarray], int, tuple[int, ...]]:
    """Set elements to 0 or 1 as long as the two sides still differ."""
    kind = _whole(case)
    outcome = case.differs(kind, values)
    assert outcome is not None
    budget = 400
    for i in values:
        for index in np.ndindex(values[i].shape):
            for simple in (0, 1):
                old = values[i][index]
                if budget <= 0 or old == simple:
                    break
                budget -= 1
                values[i][index] = filled(kind, [simple], ()).item()
                try:
                    trial = case.differs(kind, values)
                except Inexact:
                    trial = None
                if trial is not None:
                    outcome = trial
                    break
                values[i][index] = old
    return values, *outcome


def _shown(case: _Case, values: dict[int, np.ndarray], output: int, index: tuple[int, ...]) -> Counterexample:
    kind = _whole(case)
    results = run(kind, case.nodes, case.live, values)
    left, right = case.pairs[output]
    names = {i: name for name, i in case.leaves.items()}
    return Counterexample(
        {name: case.nodes[i].tensor.shape for name, i in case.leaves.items() if i in values},
        case.instance.settings(),
        {name: plain_list(values[i]) for name, i in case.leaves.items() if i in values},
        output,
        index,
        plain_list(results[left]),
        plain_list(results[right]),
        ARITHMETICS[kind],
        text_of(case.nodes, left, names),
        text_of(case.nodes, right, names),
    )


def plain_list(array: np.ndarray) -> Any:
    """Return an array as nested lists of whole numbers; other numbers become text."""

    def number(x: Any) -> Any:
        try:
            if x == int(x):
                return int(x)
        except (OverflowError, ValueError):
            return str(x)
        return str(x)

    def nested(value: Any) -> Any:
        return [nested(v) for v in value] if isinstance(value, list) else number(value)

    return nested(array.tolist())


def text_of(nodes: Sequence[Node], root: int, names: dict[int, str]) -> str:
    """Return a ground term as text in the rule language."""
    from workbench.graph.text import format_attr
    from workbench.ops import spec_of

    node = nodes[root]
    if root in names:
        return names[root]
    given = [
        f"{attr.name}={format_attr(value)}"
        for attr, value in zip(spec_of(node.op).attrs, node.attrs, strict=True)
        if value != attr.default
    ]
    inside = ", ".join(text_of(nodes, i, names) for i in node.inputs)
    return f"{node.op}{'[' + ', '.join(given) + ']' if given else ''}({inside})"
