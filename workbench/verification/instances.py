"""Instances of a rule: numbers for what a space leaves open, and both sides as nodes of a graph."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from workbench.graph import GraphBuilder
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.rules.expressions import evaluate, holds
from workbench.rules.pattern import App, Rule, Term, Var
from workbench.verification.choices import RandomChoices
from workbench.verification.linear import LEAST, Inconsistent
from workbench.verification.spaces import Space, open_space, plain, tensor_type
from workbench.verification.typings import Menu


@dataclass(frozen=True, slots=True)
class Instance:
    """Hold one instance: tensors' types by variable, attributes by variable and by row."""

    rule: Rule
    types: Mapping[str, TensorType]
    attrs: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]]
    members: int = 0
    broadcasts: bool = False

    def settings(self) -> dict[str, Any]:
        """Return the attributes by name, those of a row as ``row.attribute``."""
        found = dict(self.attrs)
        for row, given in self.rows.items():
            found |= {f"{row}.{name}": value for name, value in given.items()}
        return found


def instance_of(space: Space, values: dict[int, int]) -> Instance:
    """Return the instance that an assignment of a space's unknowns gives."""
    return Instance(
        space.rule,
        {name: tensor_type(kind, values) for name, kind in space.variables.items()},
        {name: plain(value, values) for name, value in space.attrs.items()},
        {
            row: {name: plain(value, values) for name, value in given.items()}
            for row, given in space.rows.items()
        },
        space.members,
        space.typing.broadcasts,
    )


# -- numbers ----------------------------------------------------------------------------------------
def options(space: Space, unknown: int, menu: Menu) -> tuple[int, ...]:
    """Return the values that are tried for a free unknown."""
    kind = space.system.kinds[unknown]
    if kind in ("extent", "kernel", "pad"):
        found = {"extent": menu.extents, "kernel": menu.kernels, "pad": menu.pads}[kind]
    else:
        found = (0, 1, 2, 3)
    top = space.system.top.get(unknown, 1 << 60)
    return tuple(v for v in found if LEAST[kind] <= v <= top) or (LEAST[kind],)


def sample(space: Space, rng: random.Random, menu: Menu, tries: int = 40) -> dict[int, int] | None:
    """Return random values for all unknowns of a space; None where none was found."""
    free = space.system.free()
    for _ in range(tries):
        found = space.system.complete({u: rng.choice(options(space, u, menu)) for u in free})
        if found is not None:
            return found
    return None


def all_values(space: Space, menu: Menu, limit: int = 4096) -> Iterator[dict[int, int]]:
    """Yield the values for all unknowns of a space, at most ``limit`` assignments tried."""
    free = space.system.free()
    lists = [sorted(set(options(space, u, menu))) for u in free]
    for tried, numbers in enumerate(product(*lists)):
        if tried >= limit:
            return
        found = space.system.complete(dict(zip(free, numbers, strict=True)))
        if found is not None:
            yield found


# -- both sides as nodes ------------------------------------------------------------------------------
@dataclass(slots=True)
class Ground:
    """Collect the two sides of instances in one builder; equal terms are one node.

    With ``canonical`` a variable is named by its type and by how many of that type came before it in
    its instance, so that the instances of many rules share their leaves.
    """

    builder: GraphBuilder = field(default_factory=GraphBuilder)
    canonical: bool = False
    leaves: dict[str, int] = field(default_factory=dict)

    def leaf(self, name: str, kind: TensorType) -> int:
        """Return the node of a variable."""
        if name not in self.leaves:
            self.leaves[name] = self.builder.input(name, kind.shape, kind.dtype)
        return self.leaves[name]

    def add(self, instance: Instance) -> list[tuple[int, int]]:
        """Add both sides of an instance; return their pairs of roots.

        Raise TypeMismatch where the right-hand side is ill-typed or has another type.
        """
        return _Grounding(self, instance).pairs()


@dataclass(slots=True)
class _Grounding:
    ground: Ground
    instance: Instance
    names: dict[str, str] = field(default_factory=dict)

    def leaf(self, name: str) -> int:
        kind = self.instance.types[name]
        if name not in self.names:
            label = name
            if self.ground.canonical:
                count = sum(self.instance.types[n] == kind for n in self.names)
                label = f"{count}:{kind}"
            self.names[name] = label
        return self.ground.leaf(self.names[name], kind)

    def attrs(self, term: App) -> dict[str, Any]:
        instance = self.instance
        values: dict[str, Any] = {}
        for name, expr in term.attrs:
            values[name] = evaluate(expr, instance.attrs.__getitem__, self.kind)
        if term.row is not None:
            row = instance.rows[term.row]
            for name in spec_of(term.op).attr_names:
                if name not in values and name in row:
                    values[name] = row[name]
        return values

    def kind(self, name: str) -> TensorType:
        return self.instance.types[name]

    def term(self, term: Term, member: int | None = None) -> int:
        if isinstance(term, Var):
            starred = term.starred and member is not None
            return self.leaf(f"{term.name}_{member}" if starred else term.name)
        operands: list[int] = []
        for arg in term.args:
            if isinstance(arg, Var) and arg.starred and member is None:
                operands += [self.leaf(f"{arg.name}_{i}") for i in range(self.instance.members)]
            else:
                operands.append(self.term(arg, member))
        return self.ground.builder.op(term.op, *operands, **self.attrs(term))

    def pairs(self) -> list[tuple[int, int]]:
        rule, builder = self.instance.rule, self.ground.builder
        if not all(holds(c, self.instance.attrs.__getitem__, self.kind) for c in rule.conditions):
            raise TypeMismatch("a condition of the rule does not hold")
        if rule.each:
            lefts = [self.term(rule.sources[0], i) for i in range(self.instance.members)]
            rights = self.parts(lefts)
        else:
            # A root that is context only stays as it is, but it has to be well-typed.
            sources = [self.term(s) for s in rule.sources]
            changed = [s != t for s, t in zip(rule.sources, rule.targets, strict=True)]
            lefts = [left for left, c in zip(sources, changed, strict=True) if c]
            rights = [self.term(t) for t, c in zip(rule.targets, changed, strict=True) if c]
        for left, right in zip(lefts, rights, strict=True):
            if builder.type(left) != builder.type(right):
                raise TypeMismatch(f"{builder.type(left)} on the left, {builder.type(right)} on the right")
        return list(zip(lefts, rights, strict=True))

    def parts(self, lefts: list[int]) -> list[int]:
        builder, target = self.ground.builder, self.instance.rule.targets[0]
        assert isinstance(target, App)
        axis = self.attrs(target)["axis"]
        whole = self.term(target.args[0])
        rights, start = [], 0
        for left in lefts:
            stop = start + builder.type(left).shape[axis]
            rights.append(builder.op("slice", whole, axis=axis, start=start, stop=stop))
            start = stop
        return rights


def broadcasting_mismatch(rule: Rule, seed: int = 0, tries: int = 60) -> str:
    """Return an instance whose left-hand side broadcasts and whose right-hand side has another type.

    Such a rule is no counterexample, but a system that applies it without looking at types breaks. The
    text names the shapes; it is empty where no such instance was met.
    """
    rng = random.Random(seed)
    menu = Menu()
    left_only = replace(rule, targets=rule.sources)
    for _ in range(tries):
        try:
            space = open_space(left_only, RandomChoices(rng), menu)
        except (Inconsistent, TypeMismatch):
            continue
        values = sample(space, rng, menu, 6) if space.typing.broadcasts else None
        if values is None:
            continue
        instance = replace(instance_of(space, values), rule=rule)
        try:
            Ground().add(replace(instance, rule=left_only))
        except TypeMismatch:
            continue
        try:
            Ground().add(instance)
        except TypeMismatch as error:
            shapes = ", ".join(f"{n}{list(t.shape)}" for n, t in instance.types.items())
            return f"{shapes}: {error}"
    return ""
