"""Export of graphs to TASO's text format, with an error that names the node if the format has no form for it.

Some operators are written in an equivalent form: the bias of a convolution as an addition after it, slices as
parts of a split, global pooling as a pool as large as its input, and a batch of matrices times one matrix as
a product of matrices. If a value that depends on weights alone has no form, all such values become weights,
as in TASO's ``preprocess_weights``; a file does not contain the values of weights anyway. The format marks no
outputs: an output is a value that is not read. An output that is read is followed by a dropout, which does
nothing.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from workbench.frontends.model import ModelError
from workbench.graph import Graph, Node
from workbench.ops import TASO_ACTIVATIONS, TensorType
from workbench.studies.taso.core import explicit_pads
from workbench.studies.taso.model_reader import EPSILON, FIRST_ID, INPUT_DATA, NUMBERS, WEIGHT_DATA, Record
from workbench.support.files import check_writable, write_atomic
from workbench.support.orders import topological

#: A result of a record: the record's id and the result's number.
Place = tuple[int, int]


def save_taso_model(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph to a file in TASO's text format atomically.

    The format stores neither names nor the data of weights. Raise
    :class:`~workbench.frontends.model.ModelError` (a ValueError), naming the node, if the format has no
    form for a node, and OSError if the file cannot be written.
    """
    text = to_taso_model(graph)
    write_atomic(check_writable(path), text)


def to_taso_model(graph: Graph) -> str:
    """Return a graph as TASO text; raise the errors of :func:`save_taso_model`."""
    try:
        return format_records(_Export(graph, [n.op == "weight" for n in graph.nodes]).run())
    except _Refused as refused:
        constant = graph.constant()
        if not constant[refused.node]:
            raise
    return format_records(_Export(graph, constant).run())


def format_records(records: Iterable[Record]) -> str:
    """Return operators as the text of a file."""
    lines: list[str] = []
    for r in records:
        operands = ",".join(f"{source}:{result}" for source, result in r.operands)
        lines += [str(r.id), str(NUMBERS[r.kind]), operands, ",".join(map(str, r.params))]
    return "\n".join(lines) + "\n"


class _Refused(ModelError):
    """Raised when the format has no form for ``node``."""

    def __init__(self, node: int, message: str) -> None:
        super().__init__(message)
        self.node = node


class _Export:
    """The export of one graph; nodes flagged as weights are written as weights."""

    def __init__(self, graph: Graph, weights: Sequence[bool]) -> None:
        self.graph = graph
        self.weights = weights
        self.records: list[Record] = []
        self.place: dict[int, Place] = {}
        inputs = {i: () if weights[i] else node.inputs for i, node in enumerate(graph.nodes)}
        self.order = topological(graph.output_ids, inputs.__getitem__)
        self.users: dict[int, list[int]] = {i: [] for i in self.order}
        for i in self.order:
            for j in inputs[i]:
                self.users[j].append(i)
        self.parts = self._parts()

    def run(self) -> list[Record]:
        nodes = self.graph.nodes
        for i in self.graph.inputs:
            self.place[i] = self.add("input", [INPUT_DATA], self.shape(i))
        for i in sorted(i for i in self.order if self.weights[i]):
            self.place[i] = self.add("weight", [WEIGHT_DATA], self.shape(i))
        # A value that is not read is an output, in the order of the file.
        waiting = iter(self.order)
        times = Counter(self.graph.output_ids)
        marked: set[int] = set()
        for _, output in self.graph.outputs:
            while output not in self.place:
                self._write(next(waiting))
            source, apart = output, self.weights[output] or nodes[output].op in ("input", "slice")
            if nodes[output].op == "identity" and not self.users[output]:
                # It becomes a dropout itself, written once per output, so that reading gives one node again.
                source, apart = nodes[output].inputs[0], output in marked
            elif times[output] > 1:
                apart = True
            if apart or self.users[output]:
                self.add("dropout", [self.place[source]], self.shape(output))
            marked.add(output)
        return self.records

    def _write(self, i: int) -> None:
        if i in self.place:
            return
        node = self.graph.nodes[i]
        if node.op not in _WRITERS:
            known = ", ".join(sorted(NUMBERS))
            raise self.refusal(i, f"its operators must be among {known}, got {node.op}")
        for j in (*node.inputs, i):
            kind = self.graph.nodes[j].type
            if not isinstance(kind, TensorType) or kind.dtype != "float32":
                raise self.refusal(i, f"its tensors must be float32, got {kind}")
        self.place[i] = getattr(self, _WRITERS[node.op])(i, node)

    def add(self, kind: str, operands: Sequence[Place], params: Sequence[int]) -> Place:
        """Write an operator; return its first result."""
        number = FIRST_ID + len(self.records)
        self.records.append(Record(number, kind, tuple(operands), tuple(params)))
        return number, 0

    def refusal(self, i: int, reason: str) -> _Refused:
        """Return the error for a node that has no form in the format."""
        line = self.graph.text().splitlines()[i + 1].strip()
        return _Refused(i, f"TASO's text format has no form for {line}: {reason} (ONNX has one)")

    def shape(self, i: int) -> tuple[int, ...]:
        kind = self.graph.nodes[i].tensor
        if kind.dtype != "float32":
            raise self.refusal(i, f"its tensors must be float32, got {kind}")
        return kind.shape

    def operands(self, node: Node) -> list[Place]:
        return [self.place[j] for j in node.inputs]

    def _parts(self) -> dict[int, list[int]]:
        """Return for every slice the slices of its split, in order: disjoint slices of one value."""
        found: dict[tuple[int, int], list[int]] = {}
        for i in self.order:
            node = self.graph.nodes[i]
            if not self.weights[i] and node.op == "slice":
                found.setdefault((node.inputs[0], node.attr("axis")), []).append(i)
        parts: dict[int, list[int]] = {}
        for slices in found.values():
            splits: list[list[int]] = []
            for i in sorted(slices, key=self._bounds):
                start, _ = self._bounds(i)
                before = [s for s in splits if self._bounds(s[-1])[1] <= start]
                parts[i] = before[0] if before else []
                parts[i].append(i)
                splits += [] if before else [parts[i]]
        return parts

    def _bounds(self, i: int) -> tuple[int, int]:
        return self.graph.nodes[i].attr("start"), self.graph.nodes[i].attr("stop")

    # -- operators --------------------------------------------------------------------------------
    def plain(self, i: int, node: Node) -> Place:
        """Write an operator whose parameters follow from its attributes and shapes alone."""
        match node.op:
            case "sigmoid":
                params: tuple[int, ...] = (0,)
            case "concat":
                params = (len(self.shape(i)) + node.attr("axis"),)
            case "reshape":
                params = self.shape(i)
            case "transpose":
                params = (len(node.attr("perm")), *node.attr("perm"), 1)
            case _:
                params = self.shape(node.inputs[0])
        return self.add("dropout" if node.op == "identity" else node.op, self.operands(node), params)

    def activation(self, i: int, act: str) -> int:
        if act not in TASO_ACTIVATIONS:
            raise self.refusal(i, f"its activation must be one of {', '.join(TASO_ACTIVATIONS)}, got {act}")
        return TASO_ACTIVATIONS.index(act)

    def padding(self, i: int, kernel: tuple[int, int], attrs: dict[str, tuple[int, ...]]) -> int:
        """Return the number that encodes a window's padding."""
        _, _, height, width = self.shape(self.graph.nodes[i].inputs[0])
        stride = (attrs["strides"][0], attrs["strides"][1])
        forms = [explicit_pads(p, (height, width), kernel, stride) for p in ("SAME", "VALID")]
        if attrs["pads"] not in forms:
            wanted = f"its pads must be {forms[0]} (same) or {forms[1]} (valid) here"
            raise self.refusal(i, f"{wanted}, got {attrs['pads']}")
        if any(d != 1 and k != 1 for d, k in zip(attrs.get("dilations", (1, 1)), kernel, strict=True)):
            raise self.refusal(i, "its windows must not be dilated")
        return forms.index(attrs["pads"])

    def conv2d(self, i: int, node: Node) -> Place:
        attrs = node.named_attrs()
        x, w = self.shape(node.inputs[0]), self.shape(node.inputs[1])
        pad = self.padding(i, (w[2], w[3]), attrs)
        biased = len(node.inputs) == 3
        number = self.activation(i, attrs["act"])
        act = TASO_ACTIVATIONS.index("none") if biased else number
        borders = attrs["pads"][:2]
        y = self.add("conv2d", self.operands(node)[:2], (*x, *w, *attrs["strides"], pad, act, *borders))
        if not biased:
            return y
        total = self.add("add", [y, self.place[node.inputs[2]]], self.shape(i))
        if attrs["act"] == "none":
            return total
        return self.add(attrs["act"], [total], (0,) if attrs["act"] == "sigmoid" else self.shape(i))

    def pool(self, i: int, node: Node) -> Place:
        attrs = node.named_attrs()
        x, kernel = self.shape(node.inputs[0]), attrs["kernel"]
        pad = self.padding(i, kernel, attrs)
        if attrs.get("include_pad") and any(attrs["pads"]):
            raise self.refusal(i, "the mean of a window must exclude its padding")
        top, left, bottom, right = attrs["pads"]
        windows = zip(x[2:], (top + bottom, left + right), kernel, attrs["strides"], strict=True)
        floor = tuple((n + more - k) // s + 1 for n, more, k, s in windows)
        if self.shape(i)[2:] != floor:
            raise self.refusal(i, "its pools must omit a partial last window (ceil=0)")
        return self.window(node.op, node.inputs[0], kernel, attrs["strides"], pad, attrs["pads"][:2])

    def window(
        self, kind: str, x: int, kernel: Sequence[int], strides: Sequence[int], pad: int, pads: Sequence[int]
    ) -> Place:
        """Write a pool, and the kernel that TASO requires as its second operand; ``pad`` encodes the padding."""
        shape = self.shape(x)
        beside = self.add("weight", [WEIGHT_DATA], (shape[1], 1, *kernel))
        params = (*shape, NUMBERS[kind], *kernel, *strides, pad, TASO_ACTIVATIONS.index("none"), *pads)
        return self.add(kind, [self.place[x], beside], params)

    def reduce(self, i: int, node: Node) -> Place:
        """Write a reduction over an image's last two axes as a pool."""
        shape = self.shape(node.inputs[0])
        if len(shape) != 4 or sorted(node.attr("axes")) != [-2, -1]:
            raise self.refusal(i, "its reductions are pools, which reduce the last two axes of four")
        kind = "avgpool" if node.op == "reduce_mean" else "maxpool"
        y = self.window(kind, node.inputs[0], shape[2:], shape[2:], 1, (0, 0))
        return y if node.attr("keepdims") else self.add("reshape", [y], self.shape(i))

    def batchnorm(self, i: int, node: Node) -> Place:
        if not math.isclose(node.attr("eps"), EPSILON, rel_tol=1e-6):
            raise self.refusal(i, f"its epsilon must be {EPSILON:g}, got {node.attr('eps'):g}")
        return self.plain(i, node)

    def matmul(self, i: int, node: Node) -> Place:
        (left, right), operands = (self.shape(j) for j in node.inputs), self.operands(node)
        act = self.activation(i, node.attr("act"))
        if left[:-2] == right[:-2]:
            return self.add("matmul", operands, (act, len(left)))
        if len(right) != 2:
            raise self.refusal(i, f"batches must be equal, got {left[:-2]} and {right[:-2]}")
        # The rows of all batches times one matrix are the rows of a larger matrix times that matrix.
        rows = self.add("reshape", operands[:1], (math.prod(left[:-1]), left[-1]))
        return self.add("reshape", [self.add("matmul", [rows, operands[1]], (act, 2))], self.shape(i))

    def slice(self, i: int, node: Node) -> Place:
        """Write a split; the elements between the slices of a value are parts that are not read."""
        if node.attr("step") != 1:
            raise self.refusal(i, f"the step of a slice must be 1, got {node.attr('step')}")
        x, axis = node.inputs[0], node.attr("axis")
        shape, sizes, at = self.shape(x), [], 0
        number: dict[int, int] = {}
        for j in self.parts[i]:
            start, stop = self._bounds(j)
            sizes += [start - at] if start > at else []
            number[j] = len(sizes)
            sizes.append(stop - start)
            at = stop
        sizes += [shape[axis] - at] if shape[axis] > at else []
        split, _ = self.add("split", [self.place[x]], (len(shape) + axis, *sizes))
        self.place |= {j: (split, k) for j, k in number.items()}
        return self.place[i]

    def enlarge(self, i: int, node: Node) -> Place:
        top, left, bottom, right = node.attr("pads")
        if top != (top + bottom) // 2 or left != (left + right) // 2:
            raise self.refusal(i, "a kernel must grow equally on both sides, or by one more at the end")
        like = self.add("weight", [WEIGHT_DATA], self.shape(i))
        return self.add("enlarge", [*self.operands(node), like], self.shape(node.inputs[0]))

    def merge_gconv(self, i: int, node: Node) -> Place:
        per_group = self.shape(node.inputs[0])[1]
        readers = [self.graph.nodes[j] for j in self.users[i]]
        if i in self.graph.output_ids or any(not self._merges(i, r, node, per_group) for r in readers):
            why = "the number of groups must follow from a convolution with this weight; there is none"
            raise self.refusal(i, why)
        return self.add("merge_gconv", self.operands(node), (node.attr("count"),))

    def _merges(self, i: int, reader: Node, node: Node, per_group: int) -> bool:
        """Return whether a reader of merged groups determines their number."""
        if reader.op == "merge_gconv":
            return int(reader.attr("groups")) * int(node.attr("count")) == node.attr("groups")
        if reader.op != "conv2d" or reader.inputs[1] != i or i in (reader.inputs[0], *reader.inputs[2:]):
            return False
        return self.shape(reader.inputs[0])[1] == per_group * int(node.attr("groups"))


#: The methods that write the operators.
_PLAIN: Final = ("identity", "relu", "sigmoid", "tanh", "add", "mul", "concat", "reshape", "transpose")
_WRITERS: Final = {
    **dict.fromkeys(_PLAIN, "plain"),
    **dict.fromkeys(("maxpool", "avgpool"), "pool"),
    **dict.fromkeys(("reduce_mean", "reduce_max"), "reduce"),
    **{op: op for op in ("conv2d", "batchnorm", "matmul", "slice", "enlarge", "merge_gconv")},
}
