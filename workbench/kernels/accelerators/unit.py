"""A hardware unit that multiplies tiles of matrices: its description, the formulas in it, and its file."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, Final, get_type_hints

import numpy as np

from workbench.ops import TASO_ACTIVATIONS, TensorType
from workbench.ops.types import FLOAT_DTYPES, INTEGER_DTYPES
from workbench.support.files import data_folder
from workbench.support.messages import UnknownName, unknown

# -- formulas ---------------------------------------------------------------------------------------------
#: The names that the formulas of a unit may use: the extents of a call.
EXTENTS: Final = ("rows", "inner", "columns")
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "max": max,
    "min": min,
    "ceil": lambda x: -int(-x // 1),
}


class FormulaError(ValueError):
    """Raised when a text is not a formula of the given names."""


@dataclass(frozen=True, slots=True)
class Formula:
    """An arithmetic expression over the extents of a call: ``+ - * / // %``, ``max``, ``min`` and ``ceil``.

    >>> Formula("rows + 2 * columns")(rows=3, columns=4)
    11.0
    >>> Formula("rows + colums")
    Traceback (most recent call last):
    ...
    workbench.kernels.accelerators.unit.FormulaError: names must be among rows, inner, columns, got colums
    """

    text: str

    def __post_init__(self) -> None:
        _check(_parsed(self.text))

    def __call__(self, **values: float) -> float:
        """Return the value; raise FormulaError if it is negative or a division by zero."""
        try:
            found = float(eval(_compiled(self.text), {"__builtins__": {}, **_FUNCTIONS}, values))
        except ZeroDivisionError:
            raise FormulaError(f"{self.text!r} must not divide by zero at {values}") from None
        if not found >= 0:
            raise FormulaError(f"{self.text!r} must be at least 0, got {found:g} at {values}")
        return found


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise FormulaError(f"the formula must be an arithmetic expression, got {text!r}") from None


@lru_cache(maxsize=256)
def _compiled(text: str) -> CodeType:
    """Return the code of a checked formula: it has numbers, names, signs and three functions alone."""
    return compile(ast.Expression(_parsed(text)), "<formula>", "eval")


def _check(node: ast.expr) -> None:
    parts: Sequence[ast.expr] = ()
    match node:
        case ast.Name(name) if name not in EXTENTS:
            raise FormulaError(f"names must be among {', '.join(EXTENTS)}, got {name}")
        case ast.Name():
            pass
        case ast.Constant(value) if type(value) in (int, float):
            pass
        case ast.BinOp(
            left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.FloorDiv() | ast.Mod(), right
        ):
            parts = left, right
        case ast.Call(ast.Name("ceil"), [_] as args, []) | ast.Call(
            ast.Name("max" | "min"), [_, _, *_] as args, []
        ):
            parts = args
        case _:
            raise FormulaError(
                f"a formula has numbers, names, + - * / // %, max, min and ceil, got {ast.unparse(node)!r}"
            )
    for part in parts:
        _check(part)


# -- units ------------------------------------------------------------------------------------------------
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
            if (given := getattr(self, name)) not in kinds:
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
        names = "rows", "inner", "columns", "streamed", "stationary", "accumulator", "result"
        return {name: getattr(self, name) for name in names}

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

    def _magnitude(self, kind: str, given: tuple[float, float] | None) -> float | None:
        """Return the largest magnitude of elements; None if it is not known."""
        if given is None and kind not in INTEGER_DTYPES:
            return None
        return max(map(abs, given or (float(np.iinfo(kind).min), float(np.iinfo(kind).max))))

    def _sums(self) -> tuple[float, float, float] | None:
        """Return the magnitudes of streamed and stationary elements and of a sum; None if no limit is known."""
        import ml_dtypes

        one = self._magnitude(self.streamed, self.streamed_range)
        two = self._magnitude(self.stationary, self.stationary_range)
        if not one or not two:
            return None
        info = np.iinfo if self.whole else ml_dtypes.finfo
        return one, two, float(info(TensorType(self.accumulator, ()).numpy_dtype()).max)

    @property
    def longest(self) -> int | None:
        """Return the largest inner extent whose sums fit the accumulator; None if no limit is known."""
        sums = self._sums()
        return None if sums is None else int(sums[2] // (sums[0] * sums[1]))

    def check_sums(self, inner: int) -> None:
        """Raise :class:`AccumulatorOverflow` if a sum of ``inner`` products may exceed the accumulator."""
        longest, sums = self.longest, self._sums()
        if longest is None or sums is None or inner <= longest:
            return
        one, two, most = sums
        raise AccumulatorOverflow(
            f"sums on {self.name} must fit its {self.accumulator} accumulator, which holds at most {most:g}; "
            f"{inner} products of elements up to {one:g} and {two:g} reach {inner * one * two:g} "
            f"(at most {longest} products fit)"
        )

    def __repr__(self) -> str:
        rows = f"{'' if self.padded_rows else 'up to '}{self.rows}" if self.rows else "any number of"
        return (
            f"Unit {self.name!r}: {rows} rows × [{self.inner}, {self.columns}], {self.streamed} × "
            f"{self.stationary} → {self.accumulator}, {self.cycles.text} cycles a call, "
            f"{self.load.text} a load"
        )


# -- files ------------------------------------------------------------------------------------------------
class UnitError(ValueError):
    """Raised when a file does not describe a unit; the message names the file, the line and the reason."""


def folder() -> Path:
    """Return the folder of the units' files: in the repository, or inside an installed package."""
    return data_folder("accelerators", "the units' files (accelerators/*.toml) are")


def units() -> list[str]:
    """Return the names of the units that come with the workbench."""
    return sorted(path.stem for path in folder().glob("*.toml"))


def unit(name: str | os.PathLike[str] | Unit) -> Unit:
    """Return a unit by its name, or read it from a file that ends in ``.toml``.

    Raise :class:`~workbench.support.messages.UnknownName` for an unknown name, FileNotFoundError for a missing
    file, and :class:`UnitError` for a file that does not describe a unit.

    >>> unit("systolic64").inner
    64
    """
    if isinstance(name, Unit):
        return name
    text = os.fspath(name)
    place = Path(text) if text.endswith(".toml") else folder() / f"{text}.toml"
    if not text.endswith(".toml") and (not text or os.sep in text or not place.is_file()):
        raise UnknownName("accelerator", text, units(), also=", or a path that ends in .toml")
    try:
        return parse_unit(place.read_text(encoding="utf-8"), place.name)
    except UnicodeDecodeError as error:
        raise UnitError(f"{place.name}: the file must be UTF-8 text, got {error}") from None


#: The tables of a file, and their keys, which are fields of the unit.
_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "unit": ("name", "doc", "rows", "padded_rows", "inner", "columns"),
    "types": ("streamed", "stationary", "accumulator", "streamed_range", "stationary_range"),
    "time": ("clock", "cycles", "load"),
    "memory": ("bytes_per_cycle", "strided", "unfolds"),
    "vector": ("lanes", "issue"),
    "fuses": ("bias", "activations"),
}
#: The keys that a file may lack.
_OPTIONAL: Final = frozenset({
    "doc", "padded_rows", "streamed_range", "stationary_range", "strided", "unfolds", "issue", "bias",
    "activations",
})  # fmt: skip
_HINTS: Final = get_type_hints(Unit)
_NOUNS: Final = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _read(key: str, value: Any) -> Any:
    """Return a value of the type of its field; the unit itself checks the range."""
    hint = _HINTS[key]
    if key == "rows" and value == "any":
        return 0
    if key == "name" and isinstance(value, str) and not re.fullmatch(r"[A-Za-z]\w*", value, re.ASCII):
        # Programs that are written out have an operator of this name, and rules name it.
        raise ValueError(f"must be letters, digits and _, got {value!r}")
    if hint is Formula and type(value) in (int, float, str):
        return Formula(str(value))
    if hint is float and type(value) is int:
        return float(value)
    if isinstance(value, list):
        if hint == tuple[str, ...] and all(isinstance(v, str) for v in value):
            return tuple(dict.fromkeys(value))
        if key.endswith("_range") and [type(v) in (int, float) for v in value] == [True] * 2:
            return float(value[0]), float(value[1])
    if type(value) is not hint:
        noun = {Formula: "a formula", **_NOUNS}.get(hint, "[least, largest]" if "range" in key else "a list")
        raise ValueError(f"must be {noun}, got {value!r}")
    return value


def parse_unit(text: str, source: str) -> Unit:
    """Return the unit that a TOML text describes; raise :class:`UnitError` with the line and the reason.

    ``source`` is the name of the text in messages.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"^(.*) \(at line (\d+), column \d+\)$", str(error))
        line, reason = (found[2], found[1]) if found else (str(text.count("\n") + 1), str(error))
        raise UnitError(f"{source}, line {line}: not TOML: {reason[:1].lower()}{reason[1:]}") from None

    def fail(table: str, key: str, reason: str) -> UnitError:
        return UnitError(f"{source}, line {line_of(text, table, key)}: {reason}")

    fields: dict[str, Any] = {}
    places: dict[str, tuple[str, str]] = {}
    for table, content in tables.items():
        if table not in _TABLES:
            raise fail(table, "", unknown("table", table, _TABLES))
        if not isinstance(content, dict):
            raise fail("", table, f"{table} must be a table: [{table}]")
        for key, value in content.items():
            if key not in _TABLES[table]:
                raise fail(table, key, f"[{table}] {unknown('key', key, _TABLES[table])}")
            try:
                fields[key] = _read(key, value)
            except ValueError as error:
                said = ": " if isinstance(error, FormulaError) else " "
                raise fail(table, key, f"{key}{said}{error}") from None
            places[key] = table, key
    for table, keys in _TABLES.items():
        for key in keys:
            if key not in _OPTIONAL and key not in fields:
                raise fail(table, "", f"[{table}] must have {key}")
    try:
        return Unit(**fields)
    except ValueError as error:  # what several keys say together
        first = str(error).split()[0]
        raise fail(*places.get(first, ("unit", "")), str(error)) from None


def line_of(text: str, table: str, key: str) -> int:
    r"""Return the number of the line that sets a key in a table, that of the table's head, or the last one.

    >>> line_of("[unit]\nrows = 4\n[time]\nload = 1", "time", "load")
    4
    """
    inside, head, number = not table, 0, 1
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"\s*\[\s*([^\]]+?)\s*\]", line):
            inside = found[1] == table
            head = number if inside else head
        elif inside and key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return number
    return head or number
