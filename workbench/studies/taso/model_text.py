"""TASO's text format of graphs (``.model``), shared with Tensat: lines of numbers.

An operator has four lines: its id; the number of its type; its operands as ``id:result``, joined by commas;
its parameters, whole numbers joined by commas. Operators come after their operands. The meaning of the
numbers is defined in :mod:`~workbench.studies.taso.model_reader` and :mod:`~workbench.studies.taso.model_writer`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workbench.frontends.model import ModelError

#: TASO's numbers of the operators that its writer supports.
KINDS: Final[dict[int, str]] = {
    0: "input", 1: "weight", 3: "conv2d", 4: "dropout", 6: "maxpool", 7: "avgpool", 8: "relu",
    9: "sigmoid", 10: "tanh", 11: "batchnorm", 12: "concat", 13: "split", 14: "reshape",
    15: "transpose", 16: "add", 17: "mul", 18: "matmul", 20: "enlarge", 21: "merge_gconv",
}  # fmt: skip
NUMBERS: Final[dict[str, int]] = {name: number for number, name in KINDS.items()}

#: Ids up to this represent the data of inputs and weights; operators are numbered from ``FIRST_ID`` on.
RESERVED: Final = 19
INPUT_DATA: Final = (10, 0)
WEIGHT_DATA: Final = (11, 0)
FIRST_ID: Final = 100

#: The smallest epsilon of batch normalisation that cuDNN accepts, used by TASO; the format does not store it.
EPSILON: Final = 1e-5

_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_OPERAND: Final = re.compile(r"([0-9]{1,18}):([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Record:
    """One operator of a file; operands are pairs of an operator's id and the number of one of its results.

    ``line`` is its first line; results of all operators except split have the number 0.
    """

    id: int
    kind: str
    operands: tuple[tuple[int, int], ...]
    params: tuple[int, ...]
    line: int = 0

    def __str__(self) -> str:
        return f"operator {self.id} ({self.kind})"


def read_records(path: str | os.PathLike[str]) -> list[Record]:
    """Read a file's operators; every operand is a result of an earlier one, or data of an input or weight.

    Raise FileNotFoundError (or another OSError) if the file cannot be read and
    :class:`~workbench.frontends.model.ModelError`, with the line, if it does not have this format.
    """
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"no such model file {file}")
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder (try the model file in it)")
    if not file.is_file():
        raise ModelError(f"{file} is not a regular file")
    data = file.read_bytes()
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ModelError(
            f"{file}, line {line}: not text in TASO's format (try the extension .onnx for an ONNX model)"
        ) from None
    return parse_records(text, str(file))


def parse_records(text: str, name: str) -> list[Record]:
    """Return the operators in a text; messages refer to the text by ``name``."""
    lines = [line.strip() for line in text.splitlines()]
    # An operator's last line may be empty (a scalar has no extents), but not the lines after it.
    while lines and not lines[-1] and (len(lines) % 4 or not any(lines[-4:])):
        lines.pop()
    if not lines:
        raise ModelError(f"{name}: not a TASO model: the file is empty")
    found: dict[int, Record] = {}
    for start in range(0, len(lines), 4):
        try:
            record = _record(lines[start : start + 4], start + 1)
            if record.id in found:
                raise _Wrong(record.line, f"operator {record.id} is already in line {found[record.id].line}")
            _check_operands(record, found)
        except _Wrong as wrong:
            raise ModelError(f"{name}, line {wrong.args[0]}: {wrong.args[1]}") from None
        found[record.id] = record
    return list(found.values())


class _Wrong(Exception):
    """Raised with the number of a line and what is wrong in it."""


def _record(lines: list[str], at: int) -> Record:
    def number(text: str, line: int, what: str) -> int:
        if not _NUMBER.fullmatch(text):
            raise _Wrong(line, f"{what} must be a whole number, got {_shown(text)}")
        return int(text)

    own = number(lines[0], at, "the id of an operator")
    if own <= RESERVED:
        raise _Wrong(at, f"ids of operators must be larger than {RESERVED}, got {own}")
    if len(lines) < 4:
        missing = ("type", "operands", "parameters")[len(lines) - 1]
        why = f"the file ends before the {missing} of operator {own}: an operator is four lines"
        raise _Wrong(at + len(lines), why)
    kind = number(lines[1], at + 1, f"the type of operator {own}")
    if kind not in KINDS:
        known = ", ".join(f"{n} {k}" for n, k in KINDS.items())
        raise _Wrong(at + 1, f"the type of operator {own} must be one of {known}, got {kind}")
    operands = []
    for text in lines[2].split(",") if lines[2] else []:
        match = _OPERAND.fullmatch(text.strip())
        if match is None:
            form = f"an operand of operator {own} must be written id:result, as in 100:0"
            raise _Wrong(at + 2, f"{form}, got {_shown(text)}")
        operands.append((int(match[1]), int(match[2])))
    params = lines[3].split(",") if lines[3] else []
    numbers = tuple(number(p.strip(), at + 3, f"a parameter of operator {own}") for p in params)
    return Record(own, KINDS[kind], tuple(operands), numbers, at)


def _check_operands(record: Record, found: dict[int, Record]) -> None:
    """Raise an error unless all operands exist; only a split's sizes determine its number of results."""
    leaf, at = record.kind in ("input", "weight"), record.line + 2
    if leaf and any(source > RESERVED for source, _ in record.operands):
        raise _Wrong(at, f"{record} must not read other operators")
    for source, result in () if leaf else record.operands:
        if source not in found:
            data = source <= RESERVED
            why = "represents the data of inputs and weights" if data else "does not come before it"
            raise _Wrong(at, f"{record} reads operator {source}, which {why}")
        made = results(found[source])
        if result >= made:
            raise _Wrong(at, f"{record} reads result {result} of {found[source]}, which has {made}")


def results(record: Record) -> int:
    """Return the number of an operator's results: one, or for a split one per size after its axis."""
    return max(0, len(record.params) - 1) if record.kind == "split" else 1


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


def format_records(records: Iterable[Record]) -> str:
    """Return operators as the text of a file."""
    lines: list[str] = []
    for r in records:
        operands = ",".join(f"{source}:{result}" for source, result in r.operands)
        lines += [str(r.id), str(NUMBERS[r.kind]), operands, ",".join(map(str, r.params))]
    return "\n".join(lines) + "\n"
