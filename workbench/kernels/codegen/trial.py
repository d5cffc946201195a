"""A composite on drawn numbers in every way that there is: in numpy, in ONNX Runtime and in C."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from textwrap import shorten
from typing import Any, Final

import numpy as np

from workbench.devices.timing import rounds
from workbench.kernels.codegen.c_printer import NoKernel
from workbench.kernels.codegen.compiler import CompilationFailed, CompilerMissing, build_from
from workbench.kernels.codegen.kernel import emitted, kernel
from workbench.kernels.composites.binding import bind
from workbench.kernels.composites.composite import Composite
from workbench.kernels.composites.evaluate import evaluate, operations
from workbench.kernels.composites.expressions import computed, extent_names
from workbench.kernels.composites.onnx_function import session
from workbench.ops.types import TensorType, TypeMismatch
from workbench.support.machine import blas_threads, microseconds
from workbench.support.messages import UnknownName

#: The largest relative error of float32 results that a trial accepts.
CLOSE: Final = 1e-4
#: The rounds in which the ways are timed.
_ROUNDS: Final = 7
#: The way of a kernel on one thread, next to several.
_SINGLE: Final = "C, 1 thread"
_OPTIONS: Final = ("OMP", "MARCH", "OPT", "CC", "CONTRACT")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to compute a composite.

    ``error`` is relative to float64, and ``seconds`` is the least time; both are None if there is no such
    way, for the reason in ``note``, which else has the speed.
    """

    way: str
    error: float | None
    seconds: float | None
    note: str

    @property
    def wrong(self) -> bool:
        """Return whether the way computes other numbers than float64 does."""
        return self.error is not None and not self.error <= CLOSE


@dataclass(frozen=True, slots=True)
class Trial:
    """The ways to compute a composite on drawn operands, whose shapes are by name."""

    operands: Mapping[str, list[int]]
    ways: tuple[Way, ...]


def trial(one: Composite, given: Mapping[str, str]) -> Trial:
    """Compute a composite on drawn numbers in every way.

    Extents, attributes and options of the compiler are given by name; ``~`` has leading axes, as in ``2x3``. Raise
    LookupError for an unknown name, and ValueError if a value is not a number, or extents are missing or misfit.
    """
    operands, attributes = drawn_operands(one, given)
    exact = [x.astype(np.float64) if x.dtype == np.float32 else x for x in operands]
    try:
        work = operations(bind(one, [TensorType.of(x) for x in operands], attributes))
    except TypeMismatch as misfit:
        raise ValueError(str(misfit)) from None
    try:
        wanted = np.asarray(evaluate(one, exact, **attributes), np.float64)
    except TypeError:  # an operand is declared in float32
        wanted = np.asarray(evaluate(one, operands, **attributes), np.float64)
    scale = max(float(np.max(np.abs(wanted), initial=0.0)), 1e-30)
    ways = dict(_ways(one, operands, attributes, given))
    runs = {way: run for way, run in ways.items() if not isinstance(run, str)}
    errors: dict[str, float] = {}
    for way, run in runs.items():
        found = np.asarray(run(), np.float64)
        fits = found.shape == wanted.shape
        errors[way] = float(np.max(np.abs(found - wanted), initial=0.0)) / scale if fits else np.inf
    with blas_threads(1):
        timers = [partial(microseconds, run) for run in runs.values()]
        taken = rounds(timers, seconds=1e-9, least=_ROUNDS, most=_ROUNDS)
    seconds = {way: min(times) / 1e6 for way, times in zip(runs, taken, strict=True)}
    shapes = {t.name: list(x.shape) for t, x in zip(one.inputs, operands, strict=True)}
    made = (
        Way(w, None, None, run)
        if isinstance(run, str)
        else Way(w, errors[w], seconds[w], _speed(w, seconds, work))
        for w, run in ways.items()
    )
    return Trial(shapes, tuple(made))


def drawn_text(one: Composite, given: Mapping[str, str]) -> str:
    """Return the C text of a composite; an extent that is not given is any number, which the text lacks."""
    names = {n for t in one.inputs for d in t.dims for n in extent_names(d)} - set(one.defaults)
    usual = dict.fromkeys(sorted(names), "16") | {"~": "4"}
    operands, attributes = drawn_operands(one, {**usual, **given})
    return emitted(one, [TensorType.of(x) for x in operands], attributes)


def drawn_operands(
    one: Composite, given: Mapping[str, str]
) -> tuple[list[np.ndarray], dict[str, int | float]]:
    """Return operands of drawn numbers, and the attributes; see :func:`trial`."""
    attributes: dict[str, int | float] = dict(one.defaults)
    extents: dict[str, int] = {}
    leading: tuple[int, ...] = (2,)
    known = {n for t in one.inputs for d in t.dims for n in extent_names(d)}
    for name, value in given.items():
        if name == "~":
            leading = tuple(int(_number(int, name, v)) for v in value.split("x"))
        elif name in attributes:
            attributes[name] = _number(type(attributes[name]), name, value)
        elif name in known:
            extents[name] = int(_number(int, name, value))
        elif name not in _OPTIONS:
            raise UnknownName("extent or attribute", name, [*sorted(known), *attributes, "~"])
    extents |= {n: int(v) for n, v in attributes.items() if isinstance(v, int)}
    missing = sorted(known - set(extents))
    if missing:
        raise ValueError(f"{one.name} needs the extents {', '.join(missing)} (try {missing[0]}=16)")
    rng = np.random.default_rng(0)
    least = min((computed(d, extents) for t in one.inputs for d in t.dims), default=1)
    operands: list[np.ndarray] = []
    for t in one.inputs:
        shape = (leading if t.leading else ()) + tuple(computed(d, extents) for d in t.dims)
        drawn = rng.integers(0, least, shape, t.dtype) if "int" in t.dtype else rng.uniform(-1, 1, shape)
        operands.append(drawn.astype("float32" if t.dtype[0].isupper() else t.dtype))
    return operands, attributes


def _number(kind: type[int | float], name: str, value: str) -> int | float:
    try:
        return kind(value)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise ValueError(f"{name} must be {what}, got {value!r}") from None


def _speed(way: str, seconds: Mapping[str, float], work: float) -> str:
    """Return the speed of a way, of C also relative to numpy and of several threads to one."""
    own = max(seconds[way], 1e-12)
    said = f"{work / own / 1e9:.3g} GFLOP/s"
    if way in ("C", _SINGLE):
        said += f", {seconds['numpy'] / own:.0%} of numpy's speed"
    if way == "C" and _SINGLE in seconds:
        said += f", {seconds[_SINGLE] / own:.2f}× of one thread"
    return said


def _ways(
    one: Composite, operands: list[np.ndarray], attributes: Mapping[str, Any], given: Mapping[str, str]
) -> Iterator[tuple[str, Callable[[], Any] | str]]:
    """Yield the ways to compute a composite: a function each, or the reason why there is none."""
    options = {name: given[name] for name in _OPTIONS if name in given}
    threads = int(_number(int, "OMP", options.get("OMP", "1")))
    yield "numpy", lambda: evaluate(one, operands, **attributes)
    try:
        yield "ONNX Runtime", session(one, operands, attributes, max(threads, 1))
    except Exception as error:  # the runtime's message about a kernel that it lacks
        yield "ONNX Runtime", shorten(str(error).partition("\n")[0], 120, placeholder=" …")
    try:
        types = [TensorType.of(x) for x in operands]
        if "OMP" in options:
            options["OMP"] = str(int(threads > 0))
        built = kernel(one, types, attributes, build=build_from(options or None))
        if threads > 1:
            yield _SINGLE, lambda: built(*operands, threads=1)[0]
        yield "C", lambda: built(*operands, threads=max(threads, 1))[0]
    except (CompilerMissing, CompilationFailed, NoKernel) as error:
        yield "C", shorten(str(error).partition("\n")[0], 120, placeholder=" …")
