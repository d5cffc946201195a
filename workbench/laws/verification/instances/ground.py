"""Instances of a rule: numbers for the open unknowns of a space, and both sides as nodes of a graph."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.graph import Builder
from workbench.laws.verification.instances.linear import LEAST, Inconsistent
from workbench.laws.verification.instances.spaces import Space, open_space, plain, tensor_type
from workbench.laws.verification.instances.typings import Menu, RandomChoices
from workbench.ops import TensorType, TypeMismatch
from workbench.rules.interpret import Bound, Numbers, read_attributes, read_term
from workbench.rules.pattern import App, Rule, parts


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a rule: types by tensor variable, attributes by variable, and attributes by row."""

    rule: Rule
    types: Mapping[str, TensorType]
    attrs: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]]
    members: int = 0
    broadcasts: bool = False

    def settings(self) -> dict[str, Any]:
        """Return the attributes by name, those of a row as ``row.attribute``."""
        of_rows = {f"{row}.{name}": v for row, given in self.rows.items() for name, v in given.items()}
        return {**self.attrs, **of_rows}


def instance_of(space: Space, values: dict[int, int]) -> Instance:
    """Return the instance for an assignment of numbers to a space's unknowns."""
    return Instance(
        space.rule,
        {name: tensor_type(kind, values) for name, kind in space.variables.items()},
        {name: plain(x, values) for name, x in space.attrs.items()},
        {row: {name: plain(x, values) for name, x in given.items()} for row, given in space.rows.items()},
        space.members,
        space.typing.broadcasts,
    )


# -- numbers ----------------------------------------------------------------------------------------
def options(space: Space, unknown: int, menu: Menu) -> tuple[int, ...]:
    """Return the values to try for a free unknown."""
    kind = space.system.kinds[unknown]
    found = {"extent": menu.extents, "kernel": menu.kernels, "pad": menu.pads}.get(kind, (0, 1, 2, 3))
    top = space.system.top.get(unknown, 1 << 60)
    return tuple(v for v in found if LEAST[kind] <= v <= top) or (LEAST[kind],)


def sample(space: Space, rng: random.Random, menu: Menu, tries: int = 40) -> dict[int, int] | None:
    """Return random values of a menu for all unknowns of a space, or None if no attempt succeeds.

    Args:
        space: A family of instances.
        rng: The source of random numbers.
        menu: The values to choose from.
        tries: The number of attempts.
    """
    free = space.system.free()
    for _ in range(tries):
        found = space.system.complete({u: rng.choice(options(space, u, menu)) for u in free})
        if found is not None:
            return found
    return None


# -- both sides as nodes ------------------------------------------------------------------------------
@dataclass(slots=True)
class Ground:
    """The two sides of instances in one builder; equal terms are one node.

    If ``canonical``, a variable is named by its type and by the number of earlier variables of that type in
    its instance, so that the instances of many rules share their leaves.
    """

    builder: Builder = field(default_factory=Builder)
    canonical: bool = False
    leaves: dict[str, int] = field(default_factory=dict)

    def leaf(self, name: str, kind: TensorType) -> int:
        """Return the node of a variable."""
        if name not in self.leaves:
            self.leaves[name] = self.builder.input(name, kind.shape, kind.dtype)
        return self.leaves[name]

    def add(self, instance: Instance) -> list[tuple[int, int]]:
        """Add both sides of an instance; return their pairs of roots.

        Raise TypeMismatch if the right-hand side is ill-typed or has another type than the left-hand side.
        """
        return _Grounding(self, instance).pairs()


class _Grounding(Bound, Numbers):
    """The algebra of one instance's nodes."""

    def __init__(self, ground: Ground, instance: Instance) -> None:
        self.ground, self.instance = ground, instance
        self.attrs, self.rows = instance.attrs, instance.rows
        self.names: dict[str, str] = {}

    def kind(self, name: str) -> TensorType:
        return self.instance.types[name]

    def variable(self, name: str) -> int:
        kind = self.kind(name)
        if name not in self.names:
            count = sum(self.kind(n) == kind for n in self.names)
            self.names[name] = f"{count}:{kind}" if self.ground.canonical else name
        return self.ground.leaf(self.names[name], kind)

    def starred(self, name: str) -> list[int]:
        return [self.variable(f"{name}_{i}") for i in range(self.instance.members)]

    def apply(self, term: App, operands: list[int], attrs: dict[str, Any]) -> int:
        return self.ground.builder.op(term.op, *operands, **attrs)

    def pairs(self) -> list[tuple[int, int]]:
        rule, builder = self.instance.rule, self.ground.builder
        if not all(self.holds(c) for c in rule.conditions):
            raise TypeMismatch("a condition of the rule does not hold")
        if rule.each:
            merged = rule.targets[0]
            assert isinstance(merged, App)
            lefts = [read_term(rule.sources[0], self, member=i) for i in range(self.instance.members)]
            axis = read_attributes(merged, self)["axis"]
            whole = read_term(merged.args[0], self)
            rights = [builder.op("slice", whole, **given) for given in parts(map(builder.type, lefts), axis)]
        else:
            # A root that is the same on both sides only gives context, but it must be well-typed.
            sources = [read_term(s, self) for s in rule.sources]
            changed = [s != t for s, t in zip(rule.sources, rule.targets, strict=True)]
            lefts = [left for left, c in zip(sources, changed, strict=True) if c]
            rights = [read_term(t, self) for t, c in zip(rule.targets, changed, strict=True) if c]
        for left, right in zip(lefts, rights, strict=True):
            if builder.type(left) != builder.type(right):
                raise TypeMismatch(f"{builder.type(left)} on the left, {builder.type(right)} on the right")
        return list(zip(lefts, rights, strict=True))


def broadcasting_mismatch(rule: Rule, seed: int = 0, tries: int = 60) -> str:
    """Return an instance whose left-hand side broadcasts and whose right-hand side has another type.

    Such an instance is not a counterexample, but a system that applies the rule without checking types
    breaks. The text names the shapes; it is empty if no such instance was found.
    """
    rng = random.Random(seed)
    menu = Menu()
    for _ in range(tries):
        try:
            space = open_space(replace(rule, targets=rule.sources), RandomChoices(rng), menu)
        except (Inconsistent, TypeMismatch):
            continue
        values = sample(space, rng, menu, 6) if space.typing.broadcasts else None
        if values is None:
            continue
        instance = instance_of(space, values)
        with suppress(TypeMismatch):
            Ground().add(instance)
            try:
                Ground().add(replace(instance, rule=rule))
            except TypeMismatch as error:
                shapes = ", ".join(f"{n}{list(t.shape)}" for n, t in instance.types.items())
                return f"{shapes}: {error}"
    return ""
