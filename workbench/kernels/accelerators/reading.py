"""Units as TOML files: read, checked and found by name."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from workbench.kernels.accelerators.formula import Formula, FormulaError
from workbench.kernels.accelerators.unit import EXTENTS, FUSED, Unit
from workbench.ops.types import FLOAT_DTYPES, INTEGER_DTYPES
from workbench.support.files import data_folder
from workbench.support.messages import UnknownName, unknown


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
    if text.endswith(".toml"):
        return read_unit(text)
    place = folder() / f"{text}.toml"
    if not text or os.sep in text or not place.is_file():
        raise UnknownName("accelerator", text, units(), also=", or a path that ends in .toml")
    return read_unit(place)


def read_unit(path: str | os.PathLike[str]) -> Unit:
    """Read a unit from a TOML file; raise :class:`UnitError` with the line and the reason."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UnitError(f"{file.name}: the file must be UTF-8 text, got {error}") from None
    return parse_unit(text, file.name)


def _whole(value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"must be a whole number of at least 1, got {value!r}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError(f"must be a positive number, got {value!r}")
    return float(value)


def _cost(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"must be a number of at least 0, got {value!r}")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, got {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a text, got {value!r}")
    return value


def _name(value: Any) -> str:
    # Programs that are written out have an operator of this name, and rules name it.
    if not re.fullmatch(r"[A-Za-z]\w*", _text(value), re.ASCII):
        raise ValueError(f"must be letters, digits and _, got {value!r}")
    return str(value)


def _formula(value: Any) -> Formula:
    return Formula(str(value) if type(value) in (int, float) else _text(value), EXTENTS)


def _dtype(value: Any) -> str:
    if value not in FLOAT_DTYPES | INTEGER_DTYPES:
        known = sorted(FLOAT_DTYPES | INTEGER_DTYPES)
        raise ValueError(f"must be an element type: {unknown('element type', str(value), known)}")
    return str(value)


def _range(value: Any) -> tuple[float, float]:
    numbers = isinstance(value, list) and len(value) == 2 and all(type(v) in (int, float) for v in value)
    if not numbers or not value[0] <= value[1]:
        raise ValueError(f"must be [least, largest], got {value!r}")
    return float(value[0]), float(value[1])


def _rows(value: Any) -> int:
    if value == "any":
        return 0
    if type(value) is not int or value < 1:
        raise ValueError(f'must be "any" or a positive whole number, got {value!r}')
    return value


def _activations(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or any(v not in FUSED for v in value):
        raise ValueError(f"must be a list of {', '.join(FUSED)}, got {value!r}")
    return tuple(dict.fromkeys(value))


#: The tables of a file, and how the value of each key is read, which is a field of the unit.
_KEYS: Final[Mapping[str, Mapping[str, Callable[[Any], Any]]]] = {
    "unit": {
        "name": _name, "doc": _text, "rows": _rows, "padded_rows": _flag, "inner": _whole, "columns": _whole,
    },
    "types": {
        "streamed": _dtype, "stationary": _dtype, "accumulator": _dtype, "streamed_range": _range,
        "stationary_range": _range,
    },
    "time": {"clock": _number, "cycles": _formula, "load": _formula},
    "memory": {"bytes_per_cycle": _number, "strided": _flag, "unfolds": _flag},
    "vector": {"lanes": _whole, "issue": _cost},
    "fuses": {"bias": _flag, "activations": _activations},
}  # fmt: skip
#: The keys that a file may lack.
_OPTIONAL: Final = frozenset({
    "doc", "padded_rows", "streamed_range", "stationary_range", "strided", "unfolds", "issue", "bias",
    "activations",
})  # fmt: skip


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
        if table not in _KEYS:
            raise fail(table, "", unknown("table", table, list(_KEYS)))
        if not isinstance(content, dict):
            raise fail("", table, f"{table} must be a table: [{table}]")
        for key, value in content.items():
            if key not in _KEYS[table]:
                raise fail(table, key, f"[{table}] {unknown('key', key, list(_KEYS[table]))}")
            try:
                fields[key] = _KEYS[table][key](value)
            except ValueError as error:
                said = ": " if isinstance(error, FormulaError) else " "
                raise fail(table, key, f"{key}{said}{error}") from None
            places[key] = table, key
    for table, keys in _KEYS.items():
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
    lines = text.splitlines()
    inside, head = not table, 0
    for number, line in enumerate(lines, 1):
        found = re.match(r"\s*\[\s*([^\]]+?)\s*\]", line)
        if found:
            inside = found[1] == table
            head = number if inside else head
        elif inside and key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return number
    return head or max(len(lines), 1)
