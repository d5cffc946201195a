"""A hardware unit that multiplies tiles of matrices, as its file describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from workbench.kernels.accelerators.formula import Formula, FormulaError
from workbench.ops import TASO_ACTIVATIONS, TensorType
from workbench.ops.types import FLOAT_DTYPES, INTEGER_DTYPES
from workbench.support.messages import unknown

#: The names that the formulas of a unit may use: the extents of a call.
EXTENTS: Final = ("rows", "inner", "columns")
#: The activations that a unit may apply to its results: operators without attributes.
FUSED: Final = TASO_ACTIVATIONS[1:]


class AccumulatorOverflow(OverflowError):
    """Raised when sums of products may exceed a unit's accumulator."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that multiplies streamed rows by a stationary tile and adds the products in accumulators.

    A call multiplies a streamed tile [rows, inner] by the stationary tile [inner, columns]. The rest of the
    model runs on a vector unit next to it, which shares the memory.

    Args:
        name: The name, which is that of the file.
        inner: The inner extent of a tile.
        columns: The columns of the stationary tile.
        cycles: The cycles of a call, a formula of ``rows``, ``inner`` and ``columns``.
        load: The cycles of a change of the stationary tile, a formula of the same extents.
        rows: The largest number of rows of a call, or 0 for any number.
        padded_rows: Whether a call always takes as many rows as it can, the missing ones filled with zeros.
        streamed: The element type of the streamed operand.
        stationary: The element type of the stationary operand.
        accumulator: The element type in which products are added.
        streamed_range: The least and the largest streamed element, or None if that is not known.
        stationary_range: The least and the largest stationary element, or None.
        clock: The clock in MHz, of the vector unit too.
        bytes_per_cycle: The bytes that memory delivers in a cycle.
        strided: Whether operands and results are addressed by strides, so that transposes cost nothing.
        unfolds: Whether windows of an image are addressed in place, so that unfolding costs nothing.
        lanes: The multiplications and additions that the vector unit does in a cycle.
        issue: The cycles before an operator of the vector unit begins.
        bias: Whether the accumulators can start from a bias.
        activations: The activations that the unit applies to its results.
        doc: A description of the unit in a line.

    """

    name: str
    inner: int
    columns: int
    cycles: Formula
    load: Formula
    rows: int = 0
    padded_rows: bool = False
    streamed: str = "float32"
    stationary: str = "float32"
    accumulator: str = "float32"
    streamed_range: tuple[float, float] | None = None
    stationary_range: tuple[float, float] | None = None
    clock: float = 1000.0
    bytes_per_cycle: float = 64.0
    strided: bool = False
    unfolds: bool = False
    lanes: int = 16
    issue: float = 0.0
    bias: bool = False
    activations: tuple[str, ...] = ()
    doc: str = ""

    def __post_init__(self) -> None:
        for name, least in (("inner", 1), ("columns", 1), ("rows", 0), ("lanes", 1), ("issue", 0)):
            if not least <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)!r}")
        for name in ("clock", "bytes_per_cycle"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")
        if self.padded_rows and not self.rows:
            raise ValueError("padded_rows needs a number of rows, got rows = 0")
        kinds = sorted(FLOAT_DTYPES | INTEGER_DTYPES)
        for name in ("streamed", "stationary", "accumulator"):
            if getattr(self, name) not in kinds:
                given = getattr(self, name)
                raise ValueError(f"{name} must be an element type: {unknown('element type', given, kinds)}")
        for name in ("streamed_range", "stationary_range"):
            if (ends := getattr(self, name)) is not None and not ends[0] <= ends[1]:
                raise ValueError(f"{name} must be the least and the largest element, got {ends}")
        floats = {getattr(self, n) in FLOAT_DTYPES for n in ("streamed", "stationary", "accumulator")}
        if len(floats) > 1:
            raise ValueError(
                "operands and accumulator must all be floating-point or all whole, got "
                f"{self.streamed}, {self.stationary}, {self.accumulator}"
            )
        for name in self.activations:
            if name not in FUSED:
                raise ValueError(f"activations must be among {', '.join(FUSED)}, got {name!r}")
        for name in ("cycles", "load"):
            try:
                getattr(self, name)(rows=self.rows or 1, inner=self.inner, columns=self.columns)
            except FormulaError as error:
                raise ValueError(f"{name} {error}") from None

    @property
    def whole(self) -> bool:
        """Return whether the unit multiplies whole numbers."""
        return self.accumulator not in FLOAT_DTYPES

    @property
    def result(self) -> str:
        """Return the element type of results: that of floating-point operands, or the whole accumulator."""
        return self.accumulator if self.whole else self.streamed

    @property
    def attrs(self) -> dict[str, Any]:
        """Return the attributes of a ``blocked`` product on this unit, without its activation."""
        return {
            "rows": self.rows,
            "inner": self.inner,
            "columns": self.columns,
            "streamed": self.streamed,
            "stationary": self.stationary,
            "accumulator": self.accumulator,
            "result": self.result,
        }

    def runs(self, attrs: Mapping[str, Any]) -> bool:
        """Return whether a ``blocked`` product has the tiles and element types of this unit."""
        return all(attrs[name] == value for name, value in self.attrs.items())

    def call_cycles(self, rows: int) -> float:
        """Return the cycles of a call with this number of rows."""
        rows = self.rows if self.padded_rows else rows
        return self.cycles(rows=rows, inner=self.inner, columns=self.columns)

    @property
    def load_cycles(self) -> float:
        """Return the cycles of a change of the stationary tile."""
        return self.load(rows=self.rows, inner=self.inner, columns=self.columns)

    @property
    def peak(self) -> int:
        """Return the multiplications per row: those of a full tile."""
        return self.inner * self.columns

    def ranges(self) -> tuple[float, float] | None:
        """Return the largest magnitudes of streamed and stationary elements, None if not known."""
        found = []
        for kind, given in ((self.streamed, self.streamed_range), (self.stationary, self.stationary_range)):
            if given is None and kind in INTEGER_DTYPES:
                given = (float(np.iinfo(kind).min), float(np.iinfo(kind).max))
            if given is None:
                return None
            found.append(max(map(abs, given)))
        return found[0], found[1]

    @property
    def longest(self) -> int | None:
        """Return the largest inner extent whose sums fit the accumulator; None if no limit is known."""
        ranges = self.ranges()
        if ranges is None or ranges[0] * ranges[1] == 0:
            return None
        return int(self._largest() // (ranges[0] * ranges[1]))

    def _largest(self) -> float:
        if self.whole:
            return float(np.iinfo(self.accumulator).max)
        return float(_largest_float(self.accumulator))

    def check_sums(self, inner: int) -> None:
        """Raise :class:`AccumulatorOverflow` if a sum of ``inner`` products may exceed the accumulator."""
        longest, ranges = self.longest, self.ranges()
        if longest is None or ranges is None or inner <= longest:
            return
        raise AccumulatorOverflow(
            f"sums on {self.name} must fit its {self.accumulator} accumulator, which holds at most "
            f"{self._largest():g}; {inner} products of elements up to {ranges[0]:g} and {ranges[1]:g} reach "
            f"{inner * ranges[0] * ranges[1]:g} (at most {longest} products fit)"
        )

    def shrunk(self, inner: int = 4, columns: int = 3, rows: int = 2) -> Unit:
        """Return the unit with small tiles, on which small instances of its rules are cut and filled."""
        return replace(self, inner=inner, columns=columns, rows=rows if self.rows else 0)

    def __repr__(self) -> str:
        rows = f"{'' if self.padded_rows else 'up to '}{self.rows}" if self.rows else "any number of"
        return (
            f"Unit {self.name!r}: {rows} rows × [{self.inner}, {self.columns}], {self.streamed} × "
            f"{self.stationary} → {self.accumulator}, {self.cycles.text} cycles a call, "
            f"{self.load.text} a load"
        )


def _largest_float(dtype: str) -> float:
    import ml_dtypes

    kind = TensorType(dtype, ()).numpy_dtype()
    return float(ml_dtypes.finfo(kind).max)
