"""Units as TOML files: read, checked and found by name."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_type_hints

from workbench.kernels.accelerators.formula import Formula, FormulaError
from workbench.kernels.accelerators.unit import EXTENTS, Unit
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
        return Formula(str(value), EXTENTS)
    if hint is float and type(value) is int:
        return float(value)
    if hint == tuple[str, ...] and isinstance(value, list) and all(isinstance(v, str) for v in value):
        return tuple(dict.fromkeys(value))
    if (
        isinstance(value, list)
        and key.endswith("_range")
        and [type(v) in (int, float) for v in value] == [True] * 2
    ):
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
