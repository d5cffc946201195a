"""A composite with every axis explicit: the form from which loops are made.

The leading axes that ``~`` stands for become indices of their own. Which operands have them, and which
broadcast, is part of the program; the extents are arguments of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from workbench.kernels.composites.binding import Binding
from workbench.kernels.composites.composite import Composite, Equation, Tensor
from workbench.kernels.composites.expressions import (
    Bound,
    ExtentName,
    IndexExpr,
    IndexName,
    IndexValue,
    Read,
    Reduce,
    Scalar,
    extent_names,
    rebuilt,
    reindexed,
    walk,
)

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
    loops = tuple(Bound(_free(f"l{g}", taken), ExtentName(_free(f"L{g}", taken))) for g in range(groups))
    kinds, axes = dict(dtypes), dict(present)

    def leading(tensor: str) -> list[Bound]:
        return [b for b, there in zip(loops, axes.get(tensor, (True,) * groups), strict=True) if there]

    def array(t: Tensor) -> Tensor:
        own = [b.extent for b in leading(t.name)] if t.leading else []
        return Tensor(t.name, kinds.get(t.dtype, t.dtype), False, (*own, *t.dims))

    def read(e: Read) -> Read:
        own = [IndexName(b.name) for b in leading(e.tensor)] if e.leading else []
        return Read(e.tensor, False, (*own, *(reindexed(i, explicit) for i in e.indices)))

    def explicit(e: IndexExpr) -> IndexExpr | None:
        return read(e) if isinstance(e, Read) else None

    def value(e: Scalar) -> Scalar:
        return read(e) if isinstance(e, Read) else rebuilt(e, value)

    steps = tuple(
        Equation(e.target, False, (*(loops if e.leading else ()), *e.indices), value(e.value))
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
        for e in walk(step.value):
            match e:
                case Reduce(_, over, _):
                    found += [b.extent for b in over]
                case Read(_, _, indices):
                    found += indices
                case IndexValue(index):
                    found.append(index)
    for d in found:
        yield from sorted(extent_names(d))


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
