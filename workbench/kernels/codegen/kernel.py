"""Kernels: composites at given types, compiled and called on numpy arrays without copying."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from workbench.kernels.codegen.c_printer import c_text, c_type, entry
from workbench.kernels.codegen.compiler import Build, build_from, library
from workbench.kernels.codegen.schedule import Program, Schedule, program_of, usual
from workbench.kernels.composites.binding import Binding, bind
from workbench.kernels.composites.composite import Composite
from workbench.ops.types import TensorType

#: The number of elements of results and operands together from which threads are worth their start.
THREADED: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled composite at given types; a call takes the operands and returns the results.

    ``text`` is the C text. Operands that are not dense are copied first, all others are read where they are.
    """

    binding: Binding
    program: Program
    schedule: Schedule
    build: Build
    text: str = field(repr=False)
    numbers: tuple[Any, ...] = field(repr=False)
    function: Any = field(repr=False)

    def __call__(self, *inputs: np.ndarray, threads: int = 1) -> tuple[np.ndarray, ...]:
        """Return the results for operands of the kernel's types.

        ``threads`` is the largest number of threads; small kernels run on one. Raise ValueError for operands of
        another type or number, and TypeError for one that is not an array.
        """
        results = self.empty()
        self.bound(inputs, results, threads)()
        return results

    def empty(self) -> tuple[np.ndarray, ...]:
        """Return arrays for the results."""
        return tuple(np.empty(t.shape, t.numpy_dtype()) for t in self.binding.outputs())

    def bound(
        self, inputs: Sequence[np.ndarray], results: Sequence[np.ndarray], threads: int = 1
    ) -> Callable[[], None]:
        """Return a function without arguments that runs the kernel on these arrays."""
        wanted = self.program.inputs
        if len(inputs) != len(wanted):
            raise ValueError(f"{self.program.name} must have {len(wanted)} operands, got {len(inputs)}")
        held = [self._dense(t.name, x) for t, x in zip(wanted, inputs, strict=True)]
        for t, y in zip(self.program.outputs, results, strict=True):
            if self._dense(t.name, y) is not y:
                raise ValueError(f"the array for {t.name} must be dense")
        arrays = [*held, *results]
        count = threads if sum(a.size for a in arrays) >= THREADED and self.build.omp else 1
        given = (count, *self.numbers, *(a.ctypes.data for a in arrays))
        function = self.function

        def run(keep: object = arrays) -> None:
            function(*given)

        return run

    def _dense(self, name: str, array: np.ndarray) -> np.ndarray:
        kind = self.binding.types[name]
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name} must be an array of numpy, got {type(array).__name__}")
        if array.shape != kind.shape or array.dtype != kind.numpy_dtype():
            raise ValueError(f"{name} must be {kind}, got {array.dtype}{list(array.shape)}")
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def kernel(
    composite: Composite,
    types: Sequence[TensorType],
    attributes: Mapping[str, int | float] | None = None,
    *,
    schedule: Schedule | None = None,
    build: Build | None = None,
) -> Kernel:
    """Return a composite as a compiled kernel.

    Raise TypeMismatch if the operands do not fit the declaration, NoKernel if an element type or a function has no form
    in C, CompilerMissing without a C compiler, and CompilationFailed if it refuses the text.

    Args:
        composite: The composite.
        types: The operands' types.
        attributes: Values of attributes; others have their defaults.
        schedule: The choices in making loops; by default the usual ones.
        build: The options of the compiler; by default those of the environment.
    """
    return kernel_at(bind(composite, types, attributes), schedule=schedule, build=build)


def kernel_at(binding: Binding, *, schedule: Schedule | None = None, build: Build | None = None) -> Kernel:
    """Return a composite at known types as a compiled kernel; see :func:`kernel`."""
    (program, sizes), options = program_of(binding), build_from() if build is None else build
    chosen = usual(program) if schedule is None else schedule
    text = c_text(program, chosen)
    function = getattr(library(text, options), entry(program))
    real = ctypes.c_float if c_type(program.computed) == "float" else ctypes.c_double
    function.argtypes = [
        ctypes.c_int,
        *[ctypes.c_int64] * len(program.extents),
        *[real] * len(program.parameters),
        *[ctypes.c_void_p] * (len(program.inputs) + len(program.outputs)),
    ]
    function.restype = None
    known = {**binding.extents, **dict(zip(program.leading, sizes, strict=True))}
    numbers = (*(known[e] for e in program.extents), *(binding.values[p] for p in program.parameters))
    return Kernel(binding, program, chosen, options, text, numbers, function)


def emitted(
    composite: Composite, types: Sequence[TensorType], attributes: Mapping[str, int | float] | None = None
) -> str:
    """Return the C text of a composite at types of its operands, by the usual schedule; no compiler is needed."""
    program, _ = program_of(bind(composite, types, attributes))
    return c_text(program, usual(program))
