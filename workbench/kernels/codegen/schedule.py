"""Programs, composites with every axis explicit, and their schedules: the form from which loops are made.

The leading axes that ``~`` stands for become indices of their own. Which operands have them, and which broadcast, is
part of the program; the extents are arguments of the kernel. A schedule has shared loop nests, tiled loops, copied
operands, and values kept instead of computed again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Final

from workbench.kernels.composites import expressions as ix
from workbench.kernels.composites.binding import Binding, guarded
from workbench.kernels.composites.composite import Composite, Equation, Tensor

#: The element types in which values of 16-bit floats are computed.
_WIDE: Final = {"float16": "float32", "bfloat16": "float32"}


@dataclass(frozen=True, slots=True)
class Program:
    """Equations over dense tensors without leading axes: a kernel's work, before the order of its loops is chosen.

    ``extents`` are the names of the whole numbers that the kernel takes as arguments, ``parameters`` those of
    its floating-point numbers, ``leading`` those of the merged leading axes.
    """

    name: str
    dtype: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    inner: tuple[Tensor, ...]
    steps: tuple[Equation, ...]
    extents: tuple[str, ...]
    parameters: tuple[str, ...]
    leading: tuple[str, ...] = ()

    @property
    def computed(self) -> str:
        """Return the element type in which values are computed: float32 for 16-bit floats."""
        return _WIDE.get(self.dtype, self.dtype)

    def array(self, name: str) -> Tensor:
        """Return an array by name; raise LookupError if there is none."""
        for array in (*self.inputs, *self.outputs, *self.inner):
            if array.name == name:
                return array
        raise LookupError(f"kernel {self.name} has no array called {name!r}")


def program_of(binding: Binding) -> tuple[Program, tuple[int, ...]]:
    """Return a composite at given types with explicit axes, and the extents of its merged leading axes.

    The program depends on all but the extents.
    """
    composite, types = binding.composite, binding.types
    leading = {
        t.name: types[t.name].shape[: types[t.name].rank - len(t.dims)] for t in composite.inputs if t.leading
    }
    sizes, present = merged(leading, binding.leading)
    dtypes = {t.dtype: types[t.name].dtype for t in (*composite.inputs, *composite.outputs)}
    return _program(
        composite, tuple(sorted(dtypes.items())), tuple(sorted(present.items())), len(sizes)
    ), sizes


def merged(
    shapes: Mapping[str, Sequence[int]], result: Sequence[int]
) -> tuple[tuple[int, ...], dict[str, tuple[bool, ...]]]:
    """Return the leading axes of tensors that broadcast to ``result``, neighbours merged where all tensors agree.

    That are the extents of the merged axes, and for every tensor which of them it has.

    >>> merged({"x": (2, 3, 4), "b": (4,)}, (2, 3, 4))
    ((6, 4), {'x': (True, True), 'b': (False, True)})
    """
    padded = {name: (1,) * (len(result) - len(shape)) + tuple(shape) for name, shape in shapes.items()}
    sizes: list[int] = []
    columns: list[tuple[bool, ...]] = []
    for axis, size in enumerate(result):
        column = tuple(shape[axis] == size for shape in padded.values())
        if size != 1 and columns[-1:] == [column]:
            sizes[-1] *= size
        elif size != 1:
            sizes.append(size)
            columns.append(column)
    return tuple(sizes), {name: tuple(c[i] for c in columns) for i, name in enumerate(padded)}


@lru_cache(maxsize=256)
def _program(
    composite: Composite,
    dtypes: tuple[tuple[str, str], ...],
    present: tuple[tuple[str, tuple[bool, ...]], ...],
    groups: int,
) -> Program:
    """Return a composite with explicit axes; tensors that are not ``present`` have all merged leading axes."""
    taken = {t.name for t in (*composite.inputs, *composite.outputs)} | set(
        re.findall(r"\w+", str(composite))
    )
    loops = tuple(
        ix.Bound(_free(f"l{g}", taken), ix.ExtentName(_free(f"L{g}", taken))) for g in range(groups)
    )
    kinds, axes = dict(dtypes), dict(present)

    def leading(tensor: str) -> list[ix.Bound]:
        return [b for b, there in zip(loops, axes.get(tensor, (True,) * groups), strict=True) if there]

    def array(t: Tensor) -> Tensor:
        own = [b.extent for b in leading(t.name)] if t.leading else []
        return Tensor(t.name, kinds.get(t.dtype, t.dtype), False, (*own, *t.dims))

    def explicit(e: ix.IndexExpr) -> ix.IndexExpr | None:
        if not isinstance(e, ix.Read):
            return None
        own = [ix.IndexName(b.name) for b in leading(e.tensor)] if e.leading else []
        return ix.Read(e.tensor, False, (*own, *(ix.reindexed(i, explicit) for i in e.indices)))

    steps = tuple(
        Equation(
            e.target,
            False,
            (*(loops if e.leading else ()), *e.indices),
            ix.scalar_reindexed(e.value, explicit),
        )
        for e in composite.equations
    )
    outputs = {t.name for t in composite.outputs}
    own = (array(composite.tensor(e.target)) for e in composite.equations if e.target not in outputs)
    inner = tuple(
        replace(a, dtype=_WIDE.get(a.dtype, a.dtype)) for a in own
    )  # only results are rounded to 16 bits
    program = Program(
        composite.name,
        kinds.get(composite.output.dtype, composite.output.dtype),
        tuple(map(array, composite.inputs)),
        tuple(map(array, composite.outputs)),
        inner,
        steps,
        (),
        tuple(a.name for a in composite.attributes if not a.whole),
        tuple(str(b.extent) for b in loops),
    )
    return replace(program, extents=tuple(dict.fromkeys(_extents(program))))


def _extents(program: Program) -> Iterator[str]:
    """Yield the names of extents in the order of the program, repeated ones too."""
    found = [d for a in (*program.inputs, *program.outputs, *program.inner) for d in a.dims]
    for step in program.steps:
        found += [b.extent for b in step.indices]
        for e in ix.walk(step.value):
            match e:
                case ix.Reduce(_, over, _):
                    found += [b.extent for b in over]
                case ix.Read(_, _, indices):
                    found += indices
                case ix.IndexValue(index):
                    found.append(index)
    for d in found:
        yield from sorted(ix.extent_names(d))


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


# -- schedules -----------------------------------------------------------------------------------------
#: Sizes of tiles of sums that are tried: rows and columns that stay in registers.
TILES: Final = ((4, 16), (6, 16), (6, 32), (8, 32), (12, 32), (8, 48))

#: The elements of a strip.
STRIP: Final = 512

#: Functions whose instructions wait for each other.
_LONG: Final = frozenset({"exp", "log", "sin", "cos", "tanh", "erf"})

#: Functions that take longer than a read from the nearest cache.
_SLOW: Final = _LONG | {"pow", "div", "sqrt"}


@dataclass(frozen=True, slots=True)
class Schedule:
    """The choices in making loops of a program.

    With ``rows`` and ``columns`` a sum is computed in tiles whose sums stay in registers; ``row`` is the
    index that runs along the rows of a tile. With ``packed`` the operands that a tile's columns read are
    copied first, so that they lie next to each other. With ``kept`` an expensive value that is used twice in
    a row is kept. With ``staged`` each expensive function has a loop of its own, over strips of :data:`STRIP`
    elements that stay in the nearest cache: short loops keep the processor's units busy, while one long loop
    waits for the functions one after the other. With ``threaded`` the outermost loop runs on several threads.
    """

    rows: int = 0
    columns: int = 0
    row: str = ""
    packed: bool = False
    kept: bool = False
    staged: bool = False
    threaded: bool = True

    @property
    def tiled(self) -> bool:
        """Return whether a sum is computed in tiles."""
        return self.rows > 0

    def __str__(self) -> str:
        said = [f"tiles of {self.rows} {self.row} by {self.columns}"] if self.tiled else []
        said += [word for word in ("packed", "kept", "staged") if getattr(self, word)]
        return ", ".join(said) or "plain loops"


@dataclass(frozen=True, slots=True)
class Contraction:
    """A sum that can be computed in tiles: its place in a step, and the indices of a tile's rows."""

    step: int
    total: ix.Reduce
    rows: tuple[str, ...]
    column: str


def contraction(program: Program) -> Contraction | None:
    """Return the sum to compute in tiles, or None if the program has none.

    It runs along the last index of its step, reads an operand that has not that index and one that has, and
    the step has another index that the sum depends on.
    """
    for place, step in enumerate(program.steps):
        column = step.names[-1] if step.names else ""
        for e in ix.reductions(step.value):
            if e.function != "sum" or column not in ix.free_indices(e) or ix.reductions(e.body):
                continue
            needed = [ix.free_indices(r) for r in ix.reads(e.body)]
            without = frozenset[str]().union(*(names for names in needed if column not in names))
            rows = tuple(name for name in reversed(step.names[:-1]) if name in without)
            if rows and any(column in names for names in needed):
                return Contraction(place, e, rows, column)
    return None


def packable(found: Contraction, row: str) -> tuple[ix.Read, ...]:
    """Return the reads that depend on a tile's column and not on its row."""
    if guarded(found.total.body):
        return ()  # a read outside its array must not happen
    named = {r: ix.free_indices(r) for r in ix.reads(found.total.body)}
    return tuple(r for r, names in named.items() if found.column in names and row not in names)


def usual(program: Program) -> Schedule:
    """Return the schedule that is used if nothing was measured."""
    found, keeps = contraction(program), keeping(program)
    kept = keeps is not program
    if found is None:
        rounded = program.computed != program.dtype  # results have fewer bits, which is a function more
        return Schedule(kept=kept, staged=sum(map(long_functions, keeps.steps)) + rounded > 1)
    row = found.rows[0]
    return Schedule(6, 32, row, packed=bool(packable(found, row)), kept=kept)


def space(program: Program) -> Iterator[Schedule]:
    """Yield the schedules among which the fastest is taken, the usual one first."""
    first, found = usual(program), contraction(program)
    yield first
    if first.kept:
        yield replace(first, kept=False)
    if first.staged:
        yield replace(first, staged=False)
    if found is None:
        return
    for row in found.rows[:2]:
        packs = (True, False) if packable(found, row) else (False,)
        for packed, (rows, columns) in product(packs, TILES):
            other = replace(first, rows=rows, columns=columns, row=row, packed=packed)
            if other != first:
                yield other
    yield Schedule(kept=first.kept)


def keeping(program: Program) -> Program:
    """Return a program that keeps expensive values which a reduction and the element after it both need.

    ``exp(x[i d] - m) / (sum(e) exp(x[i e] - m))`` becomes ``k[i d] = exp(x[i d] - m)`` and
    ``k[i d] / (sum(e) k[i e])``. The program itself is returned if there is no such value.
    """
    found = next(((k, step, f) for k, step in enumerate(program.steps) if (f := _shared(step))), None)
    if found is None:
        return program
    place, step, (total, inside, outside) = found
    tensor, own, there = _apart(program, _unused(program, f"kept{len(program.inner)}"), step, outside)

    def swapped(e: ix.Scalar, old: ix.Scalar, new: ix.Scalar) -> ix.Scalar:
        return new if e == old else ix.rebuilt(e, lambda child: swapped(child, old, new))

    summed = replace(there, indices=(*there.indices[:-1], ix.IndexName(total.over[0].name)))
    value = swapped(swapped(step.value, outside, there), total, swapped(total, inside, summed))
    new = replace(step, value=value)
    steps = (*program.steps[:place], own, new, *program.steps[place + 1 :])
    return keeping(replace(program, steps=steps, inner=(*program.inner, tensor)))


def _apart(program: Program, name: str, step: Equation, value: ix.Scalar) -> tuple[Tensor, Equation, ix.Read]:
    """Return a value of each element of a step as a step of its own: its tensor, the step, and its element."""
    tensor = Tensor(name, program.computed, False, tuple(b.extent for b in step.indices))
    there = ix.Read(name, False, tuple(map(ix.IndexName, step.names)))
    return tensor, Equation(name, False, step.indices, value), there


def _unused(program: Program, name: str) -> str:
    """Return a name that no array, index or extent of a program has."""
    taken = {a.name for a in (*program.inputs, *program.outputs, *program.inner)} | set(program.extents)
    taken |= {*program.parameters, *(b.name for s in program.steps for b in s.indices)}
    while name in taken:
        name += "x"
    return name


def long_functions(step: Equation) -> int:
    """Return the number of functions in an element of a step whose instructions wait for each other."""
    return len({e for e in _outside(step.value) if isinstance(e, ix.Apply) and e.function in _LONG})


def staging(program: Program) -> Program:
    """Return a program in which each expensive function of another one's value is a step of its own.

    ``y[i] = tanh(log(1 + exp(x[i])))`` becomes three steps. A result of 16 bits is rounded in one more. The
    program itself is returned if no value contains two such functions.
    """
    rounded = program.computed != program.dtype
    halves = {a.name for a in program.outputs if rounded and a.dtype != program.computed}
    steps: list[Equation] = []
    inner = list(program.inner)

    def own(step: Equation, value: ix.Scalar) -> ix.Read:
        tensor, made, there = _apart(program, _unused(program, f"stage{len(inner)}"), step, value)
        inner.append(tensor)
        steps.append(made)
        return there

    def stored(e: ix.Scalar, step: Equation, known: dict[ix.Scalar, ix.Read]) -> ix.Scalar:
        if isinstance(e, ix.Reduce) or e in known:
            return known.get(e, e)
        value = ix.rebuilt(e, lambda child: stored(child, step, known))
        if not isinstance(e, ix.Apply) or e.function not in _LONG:
            return value
        known[e] = own(step, value)
        return known[e]

    for step in program.steps:
        half = step.target in halves
        if long_functions(step) + half > 1 and step.indices:
            step = replace(step, value=stored(step.value, step, {}))
            if half and not isinstance(step.value, ix.Read):
                step = replace(step, value=own(step, step.value))
        steps.append(step)
    if len(steps) == len(program.steps):
        return program
    return replace(program, steps=tuple(steps), inner=tuple(inner))


def _shared(step: Equation) -> tuple[ix.Reduce, ix.Scalar, ix.Scalar] | None:
    """Return a reduction, an expensive value in it, and the same value at the step's last index."""
    last = step.indices[-1] if step.indices else None
    for e in ix.reductions(step.value):
        if last is None or [b.extent for b in e.over] != [last.extent]:
            continue
        bound, at_last = e.over[0].name, {ix.IndexName(e.over[0].name): ix.IndexName(last.name)}
        if not ix.free_indices(e) <= set(step.names[:-1]):
            continue
        for inside in ix.walk(e.body):
            if not (
                isinstance(inside, ix.Apply) and inside.function in _SLOW and bound in ix.free_indices(inside)
            ):
                continue
            outside = ix.scalar_reindexed(inside, lambda i, at=at_last: at.get(i))  # type: ignore[misc]
            if outside in _outside(step.value):
                return e, inside, outside
    return None


def _outside(e: ix.Scalar) -> Iterator[ix.Scalar]:
    """Yield the expressions of an element that are in no reduction."""
    if isinstance(e, ix.Reduce):
        return
    yield e
    if isinstance(e, ix.Apply):
        for operand in e.operands:
            yield from _outside(operand)


@dataclass(frozen=True, slots=True)
class Nest:
    """Steps that share their first ``depth`` loops; ``own`` are the arrays that only this nest reads."""

    steps: tuple[Equation, ...]
    depth: int
    own: frozenset[str]


def nests_of(program: Program, steps: Sequence[Equation] | None = None, depth: int = 0) -> list[Nest]:
    """Return the nests of steps, by default of all; a step joins the nest before it if another loop can be shared.

    A loop can be shared if all steps have it in the same place, with the same extent, and every array that
    the nest makes is read at the same place along it. ``depth`` loops are shared already.
    """
    inner = {a.name for a in program.inner}
    groups: list[list[Equation]] = []
    for step in program.steps if steps is None else steps:
        if groups and _depth([*groups[-1], step]) > depth:
            groups[-1].append(step)
        else:
            groups.append([step])
    found = []
    for group in groups:
        outside = {r.tensor for s in program.steps if s not in group for r in ix.reads(s.value)}
        own = frozenset({s.target for s in group} & inner - outside)
        alone = len(group) == 1
        found.append(Nest(tuple(group), depth if alone else _depth(group), frozenset() if alone else own))
    return found


def _depth(steps: Sequence[Equation]) -> int:
    """Return the number of outer loops that steps can share."""
    first, made = steps[0].indices, {s.target for s in steps}
    depth = min(len(s.indices) for s in steps)
    depth = next((p for p in range(depth) if any(s.indices[p] != first[p] for s in steps)), depth)
    for r in (r for step in steps for r in ix.reads(step.value) if r.tensor in made):
        at = [ix.IndexName(b.name) for b in first[:depth]]
        depth = next((p for p in range(depth) if r.indices[p : p + 1] != (at[p],)), depth)
    return depth
