"""Read models of TASO's text format as graphs.

The format has no names, no data of weights and no epsilon of batch normalisation, and it marks no
outputs: an output is, as with TASO, what nothing reads. Only of a split that is read, parts that are not
are left over: optimised graphs have such parts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from workbench.frontends.coverage import Coverage, OperatorUse
from workbench.frontends.onnx_file import ModelError
from workbench.frontends.onnx_import import Imported
from workbench.frontends.taso_text import EPSILON, Record, read_records, results
from workbench.graph import Graph, GraphBuilder, Weight
from workbench.ops import ACTIVATIONS, TensorType, TypeMismatch
from workbench.taso.padding import explicit_pads

_PADDINGS: Final = ("SAME", "VALID")

#: Variances are stored rather than generated; no network has more channels.
_MOST_CHANNELS: Final = 1 << 24

#: How many operands an operator has; of some the second is there for its shape alone.
_OPERANDS: Final[dict[str, tuple[int, int]]] = {
    "input": (0, 1), "weight": (0, 1), "conv2d": (2, 2), "maxpool": (1, 2), "avgpool": (1, 2),
    "batchnorm": (5, 5), "concat": (1, 1 << 16), "add": (2, 2), "mul": (2, 2), "matmul": (2, 2),
    "enlarge": (2, 2),
}  # fmt: skip
_SHAPE_ONLY: Final = frozenset({"maxpool", "avgpool", "enlarge"})


def load_taso_model(path: str | os.PathLike[str]) -> Graph:
    """Return a model of TASO's text format (``.model``) as a graph; see :func:`import_taso_model`."""
    return import_taso_model(path).graph


def import_taso_model(path: str | os.PathLike[str]) -> Imported:
    """Import a model of TASO's text format, as TASO's ``export_to_file`` and Tensat's ``-x`` write it.

    Inputs are called ``data``, ``data_1`` and so on, outputs ``output``, ``output_1``, in the file's
    order; an output is what nothing reads, beside what is left over of a split. Weights are seeded
    generators; those that nothing reads are left out, and with them the kernel
    that TASO gives to every pool. Pads are TASO's (both sides alike), groups of a convolution follow from
    its shapes, the activation of a pool becomes an operator of its own, the epsilon of batch
    normalisation is TASO's 1e-5. Raise :class:`~workbench.frontends.onnx_file.ModelError` (a ValueError)
    with the line where the file is broken or its operators do not fit, and OSError where it cannot be
    read.
    """
    file = Path(path)
    return _Import(read_records(file), file).run()


@dataclass(frozen=True, slots=True)
class _Merge:
    """Hold a merge of groups until the convolution that reads it says how many there are."""

    source: tuple[int, int]
    count: int
    shape: tuple[int, ...]


class _Import:
    def __init__(self, records: Sequence[Record], file: Path) -> None:
        self.records, self.file = records, file
        self.builder = GraphBuilder(file.stem)
        self.place: dict[tuple[int, int], int] = {}
        self.merges: dict[tuple[int, int], _Merge] = {}
        self.idle: dict[tuple[int, int], Record] = {}
        self.left = 0

    def run(self) -> Imported:
        used = self._used()
        self.idle = {(r.id, 0): r for r in self.records if r.kind == "weight" and r.id not in used}
        for record in self.records:
            if (record.id, 0) in self.idle:
                self.extents(record, record.params)
                continue
            least, most = _OPERANDS.get(record.kind, (1, 1))
            if not least <= len(record.operands) <= most:
                wanted = f"{least}" if least == most else f"{least} to {most}"
                raise self.error(record, f"{wanted} operands are expected, not {len(record.operands)}", 2)
            try:
                made = _READERS[record.kind](self, record)
            except TypeMismatch as error:
                raise self.error(record, str(error)) from None
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
            notes.append(
                f"{self.left} parts of splits that nothing reads, beside parts that are read, are left out"
            )
        return Imported(graph, Coverage(tuple(uses), 0, tuple(notes)))

    def error(self, record: Record, message: str, line: int = 3) -> ModelError:
        """Return an error in a record, in its fourth line (the parameters) or another one."""
        return ModelError(f"{self.file}, line {record.line + line}: {record}: {message}")

    def _used(self) -> set[int]:
        return {
            source
            for r in self.records
            for k, (source, _) in enumerate(r.operands)
            if not (k == 1 and r.kind in _SHAPE_ONLY)
        }

    def _outputs(self) -> list[tuple[str, int]]:
        read = {operand for r in self.records for operand in r.operands}
        values = []
        for record in self.records:
            if (record.id, 0) in self.merges and (record.id, 0) not in read:
                raise self.error(record, _NO_GROUPS, 0)
            if record.kind in ("input", "weight"):
                continue
            idle = [(record.id, k) for k in range(results(record)) if (record.id, k) not in read]
            if len(idle) == results(record):
                values += [self.place[place] for place in idle if place in self.place]
            elif idle:
                self.left += len(idle)
        if not values:
            raise ModelError(f"{self.file}: not a model: no operator is there that computes anything")
        return [(f"output_{k}" if k else "output", v) for k, v in enumerate(values)]

    # -- what operators are given -----------------------------------------------------------------
    def value(self, record: Record, index: int = 0) -> int:
        """Return an operand."""
        operand = record.operands[index]
        if operand in self.merges:
            raise self.error(record, f"reads operator {operand[0]}: {_NO_GROUPS}", 2)
        return self.place[operand]

    def shape(self, record: Record, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an operand."""
        operand = record.operands[index]
        if operand in self.merges:
            return self.merges[operand].shape
        if operand in self.idle:
            return self.idle[operand].params
        return self.builder.type(self.place[operand]).shape

    def values(self, record: Record) -> list[int]:
        """Return all operands."""
        return [self.value(record, k) for k in range(len(record.operands))]

    def params(self, record: Record, *names: str) -> tuple[int, ...]:
        """Return the parameters, which are called as given; an exact number of them is expected."""
        if len(record.params) != len(names):
            wanted = ", ".join(names) or "none"
            raise self.error(record, f"{len(names)} parameters ({wanted}), not {len(record.params)}")
        return record.params

    def extents(self, record: Record, values: Sequence[int]) -> tuple[int, ...]:
        """Return a shape."""
        if any(v < 1 for v in values):
            raise self.error(record, f"extents are positive, not {tuple(values)}")
        return tuple(values)

    def agree(self, record: Record, what: str, said: Sequence[int], shape: Sequence[int]) -> None:
        """Require that a shape which the file repeats is the one that its operators have."""
        if tuple(said) != tuple(shape):
            raise self.error(record, f"{what} is said to be {tuple(said)} and is {tuple(shape)}")

    def one_of(self, record: Record, what: str, names: Sequence[str], number: int) -> str:
        """Return a name by its number."""
        if not 0 <= number < len(names):
            known = ", ".join(f"{k} {n.lower()}" for k, n in enumerate(names))
            raise self.error(record, f"{what} is one of {known}, not {number}")
        return names[number]

    def axis(self, record: Record, axis: int) -> int:
        """Return an axis counted from the last one."""
        rank = len(self.shape(record))
        if not 0 <= axis < rank:
            raise self.error(record, f"axis {axis} of an operand of {rank} axes")
        return axis - rank

    def window(
        self, record: Record, kernel: tuple[int, int], stride: tuple[int, int], pad: int, said: Sequence[int]
    ) -> tuple[int, int, int, int]:
        """Return explicit pads; those that the file repeats must be TASO's."""
        if min(*stride, *kernel) < 1:
            raise self.error(record, f"kernels and strides are positive, not {kernel} and {stride}")
        padding = self.one_of(record, "the padding", _PADDINGS, pad)
        _, _, height, width = self.shape(record)
        pads = explicit_pads(padding, (height, width), kernel, stride)
        self.agree(record, f"the padding ({padding.lower()})", said, pads[:2])
        return pads

    # -- operators --------------------------------------------------------------------------------
    def input(self, record: Record) -> list[int]:
        count = len(self.builder.inputs)
        name = f"data_{count}" if count else "data"
        return [self.builder.input(name, self.extents(record, record.params))]

    def weight(self, record: Record) -> list[int]:
        return [self.builder.weight(self.extents(record, record.params))]

    def conv2d(self, record: Record) -> list[int]:
        said = self.params(record, "n", "c", "h", "w", "o", "i", "kh", "kw", *_WINDOW)
        (sh, sw), (pad, act), pads = said[8:10], said[10:12], said[12:]
        self.agree(record, "the input", said[:4], self.shape(record, 0))
        self.agree(record, "the weight", said[4:8], self.shape(record, 1))
        channels, per_group = said[1], said[5]
        if channels % per_group:
            raise self.error(record, f"{channels} channels do not divide into groups of {per_group}")
        x, w = self.value(record), self.kernel(record, channels)
        settings = {
            "strides": (sh, sw),
            "pads": self.window(record, (said[6], said[7]), (sh, sw), pad, pads),
            "groups": channels // per_group,
            "act": self.one_of(record, "the activation", ACTIVATIONS, act),
        }
        return [self.builder.op("conv2d", x, w, **settings)]

    def kernel(self, record: Record, channels: int) -> int:
        """Return a convolution's weight; it says how many groups there were where some were merged."""
        operand, counts = record.operands[1], []
        while operand in self.merges:
            counts.append(self.merges[operand].count)
            operand = self.merges[operand].source
        value = self.place[operand]
        for count in reversed(counts):
            groups = channels // self.builder.type(value).shape[1]
            value = self.builder.op("merge_gconv", value, count=count, groups=groups)
        return value

    def pool(self, record: Record) -> list[int]:
        said = self.params(record, "n", "c", "h", "w", "type", "kh", "kw", *_WINDOW)
        kernel, stride, (pad, act), pads = said[5:7], said[7:9], said[9:11], said[11:]
        self.agree(record, "the input", said[:4], self.shape(record))
        settings = {
            "kernel": kernel,
            "strides": stride,
            "pads": self.window(record, (kernel[0], kernel[1]), (stride[0], stride[1]), pad, pads),
        }
        y = self.builder.op(record.kind, self.value(record), **settings)
        name = self.one_of(record, "the activation", ACTIVATIONS, act)
        return [y if name == "none" else self.builder.op(name, y)]

    def same_shape(self, record: Record) -> list[int]:
        """Read an operator whose parameters repeat the shape of its first operand."""
        self.agree(record, "the first operand", record.params, self.shape(record))
        name = "identity" if record.kind == "dropout" else record.kind
        return [self.builder.op(name, *self.values(record))]

    def sigmoid(self, record: Record) -> list[int]:
        self.params(record, "in place")
        return [self.builder.op("sigmoid", self.value(record))]

    def batchnorm(self, record: Record) -> list[int]:
        self.agree(record, "the first operand", record.params, self.shape(record))
        *rest, variance = self.values(record)
        node = self.builder.nodes[variance]
        if node.op == "weight":
            name = str(node.attrs[0])
            self.builder.weights[name] = self._positive(record, self.builder.weights[name])
        return [self.builder.op("batchnorm", *rest, variance, eps=EPSILON)]

    def _positive(self, record: Record, weight: Weight) -> Weight:
        """Return a weight that can be a variance: not negative, and none that eps would outweigh."""
        if weight.data is not None:
            return weight
        if weight.type.elements > _MOST_CHANNELS:
            raise self.error(record, f"a variance of {weight.type}: at most {_MOST_CHANNELS} channels")
        return Weight(weight.type, np.square(weight.value()) + np.float32(0.5), weight.seed)

    def concat(self, record: Record) -> list[int]:
        (axis,) = self.params(record, "axis")
        return [self.builder.op("concat", *self.values(record), axis=self.axis(record, axis))]

    def split(self, record: Record) -> list[int]:
        if len(record.params) < 2:
            raise self.error(record, "an axis and the sizes of the parts are expected")
        axis, *sizes = record.params
        return self.builder.split(self.value(record), self.axis(record, axis), sizes)

    def reshape(self, record: Record) -> list[int]:
        shape = self.extents(record, record.params)
        return [self.builder.op("reshape", self.value(record), shape=shape)]

    def transpose(self, record: Record) -> list[int]:
        # TASO's writer leaves out the rank, Tensat's says it first; the shuffle flag moves no data.
        rank = len(self.shape(record))
        perm = record.params[:-1]
        if len(record.params) == rank + 2:
            self.agree(record, "the number of axes", record.params[:1], (rank,))
            perm = perm[1:]
        if len(record.params) not in (rank + 1, rank + 2) or sorted(perm) != list(range(rank)):
            raise self.error(
                record, f"the rank, an order of {rank} axes and a flag are expected, not {record.params}"
            )
        return [self.builder.op("transpose", self.value(record), perm=perm)]

    def matmul(self, record: Record) -> list[int]:
        act, rank = self.params(record, "activation", "rank")
        name = self.one_of(record, "the activation", ACTIVATIONS, act)
        y = self.builder.op("matmul", *self.values(record), act=name)
        self.agree(record, "the number of axes", (rank,), (self.builder.type(y).rank,))
        return [y]

    def enlarge(self, record: Record) -> list[int]:
        self.agree(record, "the first operand", record.params, self.shape(record))
        small, large = self.shape(record), self.shape(record, 1)
        if len(small) != 4 or len(large) != 4 or large[2] < small[2] or large[3] < small[3]:
            raise self.error(record, f"a kernel {small} does not grow to one as large as {large}")
        more_h, more_w = large[2] - small[2], large[3] - small[3]
        top, left = more_h // 2, more_w // 2
        pads = (top, left, more_h - top, more_w - left)
        return [self.builder.op("enlarge", self.value(record), pads=pads)]

    def merge_gconv(self, record: Record) -> list[int]:
        (count,) = self.params(record, "count")
        shape = self.shape(record)
        if len(shape) != 4 or count < 1:
            raise self.error(record, f"{count} groups of a weight {shape} cannot be merged")
        merged = TensorType("float32", (shape[0], shape[1] * count, *shape[2:]))
        self.merges[record.id, 0] = _Merge(record.operands[0], count, merged.shape)
        return []


_WINDOW: Final = ("stride h", "stride w", "padding", "activation", "pad h", "pad w")
_NO_GROUPS: Final = "merged groups are a convolution's weight and nothing else: it says how many there are"

_READERS: Final[dict[str, Callable[[_Import, Record], list[int]]]] = {
    "input": _Import.input,
    "weight": _Import.weight,
    "conv2d": _Import.conv2d,
    "maxpool": _Import.pool,
    "avgpool": _Import.pool,
    "sigmoid": _Import.sigmoid,
    "batchnorm": _Import.batchnorm,
    "concat": _Import.concat,
    "split": _Import.split,
    "reshape": _Import.reshape,
    "transpose": _Import.transpose,
    "matmul": _Import.matmul,
    "enlarge": _Import.enlarge,
    "merge_gconv": _Import.merge_gconv,
    **dict.fromkeys(("dropout", "relu", "tanh", "add", "mul"), _Import.same_shape),
}
