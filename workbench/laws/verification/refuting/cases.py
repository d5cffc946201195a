"""Instances of a rule with values: the sides as nodes, their difference, a record that replays, a small one."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from workbench.graph import Node
from workbench.laws.explain.egraph_index import text_of
from workbench.laws.verification.instances import spaces
from workbench.laws.verification.instances.linear import Inconsistent, NotLinear
from workbench.laws.verification.instances.typings import Menu
from workbench.laws.verification.refuting import exact_arithmetic
from workbench.ops import TensorType, TypeMismatch
from workbench.ops.exact import Inexact
from workbench.rules.pattern import Rule, starred
from workbench.support import deadline

#: Largest number of elements of an instance's nodes together, with machine numbers and with others.
ELEMENTS: Final = 100_000
SLOW_ELEMENTS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Counterexample:
    """An instance on which the two sides differ.

    ``kinds`` and ``inputs`` are the types and the numbers, as nested lists, of every variable of the rule, of
    those too that only give context; ``settings`` are the attributes; ``left``
    and ``right`` are the values of the rule's output number ``output``, which differ at ``index``.
    """

    kinds: dict[str, TensorType]
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
            "inputs": {
                n: {"shape": list(k.shape), "dtype": k.dtype, "data": self.inputs[n]}
                for n, k in self.kinds.items()
            },
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
        shapes = ", ".join(f"{n}{list(k.shape)}" for n, k in self.kinds.items())
        return f"{shapes}: {self.at()[0]} on the left, {self.at()[1]} on the right"


@dataclass(slots=True)
class Case:
    """One instance with its nodes."""

    instance: spaces.Instance
    nodes: Sequence[Node]
    leaves: dict[str, int]
    pairs: list[tuple[int, int]]
    kind: str

    @property
    def live(self) -> exact_arithmetic.Live:
        """Return the nodes that the two sides depend on."""
        return exact_arithmetic.live_nodes(self.nodes, [i for pair in self.pairs for i in pair])

    @property
    def large(self) -> bool:
        """Return whether the nodes have too many elements to be evaluated in a moment."""
        most = ELEMENTS if self.kind in ("modular", "ordered", exact_arithmetic.MACHINE) else SLOW_ELEMENTS
        return sum(node.tensor.elements for node in self.live.values()) > most

    @property
    def left(self) -> exact_arithmetic.Live:
        """Return the nodes of the left-hand side."""
        return exact_arithmetic.live_nodes(self.nodes, [left for left, _ in self.pairs])

    def draw(self, rng: random.Random, kind: str = "", reach: int = 4) -> dict[int, np.ndarray]:
        """Return random values of the leaves, for the left-hand side to have a value."""
        return exact_arithmetic.draw_values(kind or self.kind, self.live, rng, reach, self.left)

    def results(self, kind: str, values: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        """Return the values of all nodes, no number for right-hand sides that have no value if the left ones do."""
        try:
            return exact_arithmetic.run(kind, self.live, values)
        except exact_arithmetic.NoValue:
            found = exact_arithmetic.run(kind, self.left, values)
        for _, right in self.pairs:
            try:
                found |= exact_arithmetic.run(kind, exact_arithmetic.live_nodes(self.nodes, [right]), values)
            except exact_arithmetic.NoValue:
                found[right] = np.full(self.nodes[right].tensor.shape, np.nan)
        return found

    def differs(self, kind: str, values: dict[int, np.ndarray]) -> tuple[int, tuple[int, ...]] | None:
        """Return the output and the index at which the two sides differ on some values, or None."""
        results = self.results(kind, values)
        for number, (left, right) in enumerate(self.pairs):
            where = self.place(kind, results[left], results[right])
            if where is not None:
                return number, where
        return None

    def place(self, kind: str, left: np.ndarray, right: np.ndarray) -> tuple[int, ...] | None:
        """Return the index at which two results differ, or None."""
        allowed = exact_arithmetic.ROUNDED_BY if exact_arithmetic.rounded(self.live) else Fraction(0)
        return exact_arithmetic.differs(kind, left, right, allowed=allowed)


def case_of(instance: spaces.Instance) -> Case:
    """Return an instance with both sides as nodes; raise TypeMismatch if the types do not fit."""
    ground = spaces.Ground()
    pairs = ground.add(instance)
    case = Case(instance, ground.builder.nodes, ground.leaves, pairs, "")
    case.kind = exact_arithmetic.arithmetic_for(case.live.values())
    return case


def plain_list(array: np.ndarray) -> list[Any] | int | str:
    """Return an array as nested lists of whole numbers; other numbers become text."""

    def number(x: Any) -> Any:
        with suppress(OverflowError, ValueError):
            if x == int(x):
                return int(x)
        return str(x)

    def nested(value: object) -> Any:
        return [nested(v) for v in value] if isinstance(value, list) else number(value)

    return nested(array.tolist())


# -- records ----------------------------------------------------------------------------------------
def replays(rule: Rule, record: Mapping[str, Any]) -> bool:
    """Return whether a rule's sides differ on the variables of a recorded counterexample, with the recorded values."""
    settings = {name: _tuples(value) for name, value in record["settings"].items()}
    rows: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        row, dot, attribute = name.partition(".")
        if dot:
            rows.setdefault(row, {})[attribute] = value
    inputs = record["inputs"]
    kinds = {n: TensorType(given["dtype"], tuple(given["shape"])) for n, given in inputs.items()}
    members = sum(name.rpartition("_")[0] == starred(rule)[0] for name in inputs) if rule.each else 0
    attrs = {name: value for name, value in settings.items() if "." not in name}
    case = case_of(spaces.Instance(rule, kinds, attrs, rows, members))
    kind = next(name for name, text in exact_arithmetic.ARITHMETICS.items() if text == record["arithmetic"])
    values = {
        case.leaves[name]: exact_arithmetic.filled(
            kind, [Fraction(v) for v in np.array(given["data"], object).flat], kinds[name].shape
        )
        for name, given in inputs.items()
    }
    results = case.results(kind, values)
    left, right = (results[i] for i in case.pairs[record["output"]])
    shown = [plain_list(left), plain_list(right)] == [record["left"], record["right"]]
    return shown and case.place(kind, left, right) == tuple(record["index"])


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# -- small counterexamples -------------------------------------------------------------------------
# They have a lower rank, smaller extents, and elements that are 0 or 1.
def small(case: Case, family: spaces.Family | None, rng: random.Random, menu: Menu) -> Counterexample | None:
    """Return a small counterexample from a case that is one, None if whole numbers do not show it.

    Args:
        case: An instance on which the two sides differ.
        family: The family of the instance, if it is known.
        rng: The source of random numbers.
        menu: The values to choose from.
    """
    return _of_lower_rank(case, rng, menu) or _shrunk(case, family, rng, menu)


def _whole(case: Case) -> str:
    """Return an arithmetic in which small whole numbers are exact."""
    return exact_arithmetic.whole_numbers(case.live.values()) if case.kind == "modular" else case.kind


def _witness(case: Case, rng: random.Random, tries: int) -> dict[int, np.ndarray] | None:
    for attempt in range(tries):
        values = case.draw(rng, _whole(case), 2 if attempt < tries // 2 else 4)
        with suppress(Inexact):
            if case.differs(_whole(case), values) is not None:
                return values
    return None


def _of_lower_rank(case: Case, rng: random.Random, menu: Menu) -> Counterexample | None:
    """Return a counterexample of smaller rank than a case that is one, or None."""
    most = max((case.nodes[i].tensor.rank for i in case.leaves.values()), default=0)
    for rank in range(most):
        lower = replace(menu, ranks=(rank,))
        for _ in range(12):
            deadline.check()
            try:
                family = spaces.draw_family(case.instance.rule, rng, lower)
                if family is None:
                    continue
                found = case_of(spaces.instance_of(*family))
                if found.large or found.differs(found.kind, found.draw(rng)) is None:
                    continue
            except (Inexact, Inconsistent, NotLinear, TypeMismatch):
                continue
            ranks = [found.nodes[i].tensor.rank for i in found.leaves.values()]
            if max(ranks, default=0) < most:
                shown = _shrunk(found, family, rng, lower)
                if shown is not None:
                    return shown
    return None


def _shrunk(
    case: Case, family: spaces.Family | None, rng: random.Random, menu: Menu
) -> Counterexample | None:
    """Return a counterexample whose extents and elements no single step makes smaller."""
    best, witness = case, _witness(case, rng, 20)
    if family is not None:
        space, values = family
        current = {u: values[u] for u in space.system.free()}
        changed = True
        while changed:
            changed = False
            for unknown in current:
                deadline.check()
                for smaller in sorted({1, *spaces.options(space, unknown, menu)}):
                    if smaller >= current[unknown]:
                        break
                    complete = space.system.complete(current | {unknown: smaller})
                    if complete is None:
                        continue
                    with suppress(TypeMismatch):
                        smaller_case = case_of(spaces.instance_of(space, complete))
                        found = _witness(smaller_case, rng, 6)
                        if found is not None:
                            best, witness, changed = smaller_case, found, True
                            current[unknown] = smaller
                            break
    return None if witness is None else _shown(best, *_simple(best, witness))


def _simple(case: Case, values: dict[int, np.ndarray]) -> tuple[dict[int, np.ndarray], int, tuple[int, ...]]:
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
                values[i][index] = exact_arithmetic.filled(kind, [simple], ()).item()
                trial = None
                with suppress(Inexact):
                    trial = case.differs(kind, values)
                if trial is not None:
                    outcome = trial
                    break
                values[i][index] = old
    return values, *outcome


def _shown(case: Case, values: dict[int, np.ndarray], output: int, index: tuple[int, ...]) -> Counterexample:
    kind = _whole(case)
    results = case.results(kind, values)
    left, right = case.pairs[output]
    names = {i: name for name, i in case.leaves.items()}
    kinds = {name: case.nodes[i].tensor for name, i in case.leaves.items()}
    # A variable that only gives context does not enter the values, but without it the rule does not match.
    ones = {name: exact_arithmetic.filled(kind, [1] * k.elements, k.shape) for name, k in kinds.items()}
    return Counterexample(
        kinds,
        case.instance.settings(),
        {name: plain_list(values.get(i, ones[name])) for name, i in case.leaves.items()},
        output,
        index,
        plain_list(results[left]),
        plain_list(results[right]),
        exact_arithmetic.ARITHMETICS[kind],
        text_of(case.nodes, left, names),
        text_of(case.nodes, right, names),
    )
