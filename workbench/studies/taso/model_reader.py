"""Import of models in TASO's text format (``.model``), shared with Tensat: lines of numbers.

An operator has four lines: its id; the number of its type; its operands as ``id:result``, joined by commas; its
parameters, whole numbers joined by commas. Operators come after their operands.

The format has neither names, nor data of weights, nor the epsilon of batch normalisation, and it marks no
outputs. As in TASO, an output is a value that is not read. There is one exception: unread parts of a split
are not outputs if another part is read, because optimised graphs contain such leftovers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from workbench.frontends.coverage import Coverage, OperatorUse
from workbench.frontends.model import ModelError
from workbench.frontends.onnx.importer import Imported
from workbench.graph import Builder, Graph, Weight
from workbench.ops import TASO_ACTIVATIONS, TensorType, TypeMismatch
from workbench.studies.taso.core import explicit_pads

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


# -- graphs ------------------------------------------------------------------------------------------
_PADDINGS: Final = ("SAME", "VALID")

#: Variances are stored instead of generated; no network has more channels than this.
_MOST_CHANNELS: Final = 1 << 24

#: The least and greatest number of operands of each operator; others have one.
_OPERANDS: Final[dict[str, tuple[int, int]]] = {
    "input": (0, 1), "weight": (0, 1), "conv2d": (2, 2), "maxpool": (1, 2), "avgpool": (1, 2),
    "batchnorm": (5, 5), "concat": (1, 1 << 16), "add": (2, 2), "mul": (2, 2), "matmul": (2, 2),
    "enlarge": (2, 2),
}  # fmt: skip
_SHAPE_ONLY: Final = frozenset({"maxpool", "avgpool", "enlarge"})


def load_taso_model(path: str | os.PathLike[str]) -> Graph:
    """Return a model in TASO's text format (``.model``) as a graph; see :func:`import_taso_model`."""
    return import_taso_model(path).graph


def import_taso_model(path: str | os.PathLike[str]) -> Imported:
    """Import a model in TASO's text format, as written by TASO's ``export_to_file`` and Tensat's ``-x``.

    Inputs are called ``data``, ``data_1`` and so on, outputs ``output``, ``output_1``, in the file's order.
    Weights are seeded generators; those that are not read are omitted, such as the kernel that TASO adds to every
    pool. Pads are TASO's (equal on both sides), the groups of a convolution follow from its shapes, the activation
    of a pool becomes a separate operator, and the epsilon of batch normalisation is TASO's 1e-5.

    Raise :class:`~workbench.frontends.model.ModelError` (a ValueError) with the line if the file is
    broken or its operators do not fit together, and OSError if it cannot be read.
    """
    file = Path(path)
    return _Import(read_records(file), file).run()


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merge of groups, kept until the convolution that reads it determines the number of groups."""

    source: tuple[int, int]
    count: int
    shape: tuple[int, ...]


class _Import:
    """The import of a file's operators, one after the other; ``record`` is the current one."""

    def __init__(self, records: Sequence[Record], file: Path) -> None:
        self.records, self.file, self.record = records, file, records[0]
        self.builder = Builder(file.stem)
        self.place: dict[tuple[int, int], int] = {}
        self.merges: dict[tuple[int, int], _Merge] = {}
        self.idle: dict[tuple[int, int], Record] = {}
        self.left = 0

    def run(self) -> Imported:
        used = {
            source
            for r in self.records
            for k, (source, _) in enumerate(r.operands)
            if not (k == 1 and r.kind in _SHAPE_ONLY)
        }
        self.idle = {(r.id, 0): r for r in self.records if r.kind == "weight" and r.id not in used}
        for record in self.records:
            self.record = record
            if (record.id, 0) in self.idle:
                self.extents(record.params)
                continue
            least, most = _OPERANDS.get(record.kind, (1, 1))
            if not least <= len(record.operands) <= most:
                wanted = f"{least}" if least == most else f"{least} to {most}"
                raise self.error(f"must have {wanted} operands, got {len(record.operands)}", 2)
            try:
                made: list[int] = getattr(self, _READERS.get(record.kind, record.kind))()
            except TypeMismatch as error:
                raise self.error(str(error)) from None
            self.place |= {(record.id, k): value for k, value in enumerate(made)}
        graph = self.builder.graph(self._outputs())
        uses = [
            OperatorUse(r.kind, "", str(r.id), "modelled")
            for r in self.records
            if r.kind not in ("input", "weight")
        ]
        notes = ["the format holds no data of weights: they are generated from seeds"]
        if self.idle:
            notes.append(f"{len(self.idle)} weights that no operator computes with are left out")
        if self.left:
            notes.append(f"{self.left} unread parts of splits with other parts that are read are left out")
        return Imported(graph, Coverage(tuple(uses), 0, tuple(notes)))

    def error(self, message: str, line: int = 3) -> ModelError:
        """Return an error at the fourth line of the record (the parameters) or at another one."""
        return ModelError(f"{self.file}, line {self.record.line + line}: {self.record}: {message}")

    def _outputs(self) -> list[tuple[str, int]]:
        read = {operand for r in self.records for operand in r.operands}
        values = []
        for record in self.records:
            self.record = record
            if (record.id, 0) in self.merges and (record.id, 0) not in read:
                raise self.error(_NO_GROUPS, 0)
            if record.kind in ("input", "weight"):
                continue
            idle = [(record.id, k) for k in range(results(record)) if (record.id, k) not in read]
            if len(idle) == results(record):
                values += [self.place[place] for place in idle if place in self.place]
            elif idle:
                self.left += len(idle)
        if not values:
            raise ModelError(f"{self.file}: not a model: the file has no operator that computes anything")
        return [(f"output_{k}" if k else "output", v) for k, v in enumerate(values)]

    # -- operands and parameters ------------------------------------------------------------------
    def value(self, index: int = 0) -> int:
        operand = self.record.operands[index]
        if operand in self.merges:
            raise self.error(f"reads operator {operand[0]}: {_NO_GROUPS}", 2)
        return self.place[operand]

    def shape(self, index: int = 0) -> tuple[int, ...]:
        operand = self.record.operands[index]
        if operand in self.merges:
            return self.merges[operand].shape
        if operand in self.idle:
            return self.idle[operand].params
        return self.builder.type(self.place[operand]).shape

    def values(self) -> list[int]:
        return [self.value(k) for k in range(len(self.record.operands))]

    def params(self, *names: str) -> tuple[int, ...]:
        """Return the parameters; ``names`` are theirs, and their number must be exact."""
        if len(self.record.params) != len(names):
            wanted = ", ".join(names) or "none"
            raise self.error(f"must have {len(names)} parameters ({wanted}), got {len(self.record.params)}")
        return self.record.params

    def extents(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return a shape; raise an error unless all extents are positive."""
        if any(v < 1 for v in values):
            raise self.error(f"extents must be positive, got {tuple(values)}")
        return tuple(values)

    def agree(self, what: str, said: Sequence[int], shape: Sequence[int]) -> None:
        """Raise an error, which describes it, unless a shape that the file repeats is the actual one."""
        if tuple(said) != tuple(shape):
            raise self.error(f"{what} must be {tuple(shape)}, got {tuple(said)}")

    def one_of(self, what: str, names: Sequence[str], number: int) -> str:
        """Return the name with a number; raise an error that lists the names if the number is unknown."""
        if not 0 <= number < len(names):
            known = ", ".join(f"{k} {n.lower()}" for k, n in enumerate(names))
            raise self.error(f"{what} must be one of {known}, got {number}")
        return names[number]

    def axis(self, axis: int) -> int:
        """Return an axis of the first operand, counted from the last one."""
        rank = len(self.shape())
        if not 0 <= axis < rank:
            raise self.error(f"the axis must be from 0 to {rank - 1}, got {axis}")
        return axis - rank

    def window(
        self, kernel: tuple[int, int], stride: tuple[int, int], pad: int, said: Sequence[int]
    ) -> tuple[int, int, int, int]:
        """Return the pads that ``pad`` encodes; the file repeats those at the top and on the left."""
        if min(*stride, *kernel) < 1:
            raise self.error(f"kernels and strides must be positive, got {kernel} and {stride}")
        padding = self.one_of("the padding", _PADDINGS, pad)
        _, _, height, width = self.shape()
        pads = explicit_pads(padding, (height, width), kernel, stride)
        self.agree(f"the padding ({padding.lower()})", said, pads[:2])
        return pads

    # -- operators --------------------------------------------------------------------------------
    def input(self) -> list[int]:
        count = len(self.builder.inputs)
        name = f"data_{count}" if count else "data"
        return [self.builder.input(name, self.extents(self.record.params))]

    def weight(self) -> list[int]:
        return [self.builder.weight(self.extents(self.record.params))]

    def conv2d(self) -> list[int]:
        said = self.params("n", "c", "h", "w", "o", "i", "kh", "kw", *_WINDOW)
        (sh, sw), (pad, act), pads = said[8:10], said[10:12], said[12:]
        self.agree("the input", said[:4], self.shape(0))
        self.agree("the weight", said[4:8], self.shape(1))
        channels, per_group = said[1], said[5]
        if channels % per_group:
            raise self.error(f"{channels} channels do not divide into groups of {per_group}")
        x, w = self.value(), self.kernel(channels)
        settings = {
            "strides": (sh, sw),
            "pads": self.window((said[6], said[7]), (sh, sw), pad, pads),
            "groups": channels // per_group,
            "act": self.one_of("the activation", TASO_ACTIVATIONS, act),
        }
        return [self.builder.op("conv2d", x, w, **settings)]

    def kernel(self, channels: int) -> int:
        """Return a convolution's weight; the convolution determines the number of groups merged in it."""
        operand, counts = self.record.operands[1], []
        while operand in self.merges:
            counts.append(self.merges[operand].count)
            operand = self.merges[operand].source
        value = self.place[operand]
        for count in reversed(counts):
            groups = channels // self.builder.type(value).shape[1]
            value = self.builder.op("merge_gconv", value, count=count, groups=groups)
        return value

    def pool(self) -> list[int]:
        said = self.params("n", "c", "h", "w", "type", "kh", "kw", *_WINDOW)
        kernel, stride, (pad, act), pads = said[5:7], said[7:9], said[9:11], said[11:]
        self.agree("the input", said[:4], self.shape())
        settings = {
            "kernel": kernel,
            "strides": stride,
            "pads": self.window((kernel[0], kernel[1]), (stride[0], stride[1]), pad, pads),
        }
        y = self.builder.op(self.record.kind, self.value(), **settings)
        name = self.one_of("the activation", TASO_ACTIVATIONS, act)
        return [y if name == "none" else self.builder.op(name, y)]

    def same_shape(self) -> list[int]:
        """Read an operator whose parameters repeat the shape of its first operand."""
        self.agree("the first operand", self.record.params, self.shape())
        name = "identity" if self.record.kind == "dropout" else self.record.kind
        return [self.builder.op(name, *self.values())]

    def sigmoid(self) -> list[int]:
        self.params("in place")
        return [self.builder.op("sigmoid", self.value())]

    def batchnorm(self) -> list[int]:
        self.agree("the first operand", self.record.params, self.shape())
        *rest, variance = self.values()
        weights, node = self.builder.weights, self.builder.nodes[variance]
        name = str(node.attrs[0]) if node.op == "weight" else ""
        if name and weights[name].data is None:
            given = weights[name]
            if given.type.elements > _MOST_CHANNELS:
                raise self.error(f"a variance must have at most {_MOST_CHANNELS} channels, got {given.type}")
            # A variance is positive, and large compared with the epsilon.
            weights[name] = Weight(given.type, np.square(given.value()) + np.float32(0.5), given.seed)
        return [self.builder.op("batchnorm", *rest, variance, eps=EPSILON)]

    def concat(self) -> list[int]:
        (axis,) = self.params("axis")
        return [self.builder.op("concat", *self.values(), axis=self.axis(axis))]

    def split(self) -> list[int]:
        if len(self.record.params) < 2:
            raise self.error(f"parameters must be an axis and the sizes of parts, got {self.record.params}")
        axis, *sizes = self.record.params
        return self.builder.split(self.value(), self.axis(axis), sizes)

    def reshape(self) -> list[int]:
        shape = self.extents(self.record.params)
        return [self.builder.op("reshape", self.value(), shape=shape)]

    def transpose(self) -> list[int]:
        # TASO's writer omits the rank, Tensat's writes it first; the shuffle flag moves no data.
        rank = len(self.shape())
        perm = self.record.params[:-1]
        if len(self.record.params) == rank + 2:
            self.agree("the number of axes", self.record.params[:1], (rank,))
            perm = perm[1:]
        if len(self.record.params) not in (rank + 1, rank + 2) or sorted(perm) != list(range(rank)):
            raise self.error(
                f"parameters must be the rank, a permutation and a flag, got {self.record.params}"
            )
        return [self.builder.op("transpose", self.value(), perm=perm)]

    def matmul(self) -> list[int]:
        act, rank = self.params("activation", "rank")
        name = self.one_of("the activation", TASO_ACTIVATIONS, act)
        y = self.builder.op("matmul", *self.values(), act=name)
        self.agree("the number of axes", (rank,), (self.builder.type(y).rank,))
        return [y]

    def enlarge(self) -> list[int]:
        self.agree("the first operand", self.record.params, self.shape())
        small, large = self.shape(), self.shape(1)
        if len(small) != 4 or len(large) != 4 or large[2] < small[2] or large[3] < small[3]:
            raise self.error(f"a kernel {small} cannot grow to one as large as {large}")
        more_h, more_w = large[2] - small[2], large[3] - small[3]
        top, left = more_h // 2, more_w // 2
        pads = (top, left, more_h - top, more_w - left)
        return [self.builder.op("enlarge", self.value(), pads=pads)]

    def merge_gconv(self) -> list[int]:
        (count,) = self.params("count")
        shape = self.shape()
        if len(shape) != 4 or count < 1:
            raise self.error(f"{count} groups of a weight {shape} cannot be merged")
        merged = TensorType("float32", (shape[0], shape[1] * count, *shape[2:]))
        self.merges[self.record.id, 0] = _Merge(self.record.operands[0], count, merged.shape)
        return []


_WINDOW: Final = ("stride h", "stride w", "padding", "activation", "pad h", "pad w")
_NO_GROUPS: Final = "merged groups must be read only as the weight of a convolution, which gives their number"

#: The methods of the operators whose name is another one.
_READERS: Final = {
    **dict.fromkeys(("maxpool", "avgpool"), "pool"),
    **dict.fromkeys(("dropout", "relu", "tanh", "add", "mul"), "same_shape"),
}
