"""Write graphs in TASO's text format, and say which node it has no form for.

What the format says in other words is written so: the bias of a convolution as an addition after it, the
slices as parts of a split, global pooling as a pool as large as its input, a batch of matrices
times one matrix as a product of matrices. Where what depends on weights alone has no form, all of that
becomes weights, as TASO's ``preprocess_weights`` does; their values have no place in a file anyway. The
format marks no outputs, an output is what nothing reads; one that is read is followed by a dropout, which
does nothing.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from workbench.files import check_writable, write_atomic
from workbench.frontends.onnx_file import ModelError
from workbench.frontends.taso_text import (
    EPSILON,
    FIRST_ID,
    INPUT_DATA,
    NUMBERS,
    WEIGHT_DATA,
    Record,
    format_records,
)
from workbench.graph import Graph, Node, topological
from workbench.ops import ACTIVATIONS, TensorType
from workbench.taso.padding import explicit_pads

#: A result of a record: its id and the result's number.
Place = tuple[int, int]


def save_taso_model(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph to a file of TASO's text format that appears whole or not at all.

    Names and the data of weights have no place in it. Raise
    :class:`~workbench.frontends.onnx_file.ModelError` (a ValueError) that names the node for which the
    format has no form, and OSError where the place is not writable.
    """
    text = to_taso_model(graph)
    write_atomic(check_writable(path), text)


def to_taso_model(graph: Graph) -> str:
    """Return a graph as TASO's text; raise as :func:`save_taso_model` does."""
    try:
        return format_records(_Export(graph, [n.op == "weight" for n in graph.nodes]).run())
    except _Refused as refused:
        constant = graph.constant()
        if not constant[refused.node]:
            raise
    return format_records(_Export(graph, constant).run())


class _Refused(ModelError):
    """Say which node has no form."""

    def __init__(self, node: int, message: str) -> None:
        super().__init__(message)
        self.node = node


class _Export:
    """Write a graph; nodes flagged as weights are written as such."""

    def __init__(self, graph: Graph, weights: Sequence[bool]) -> None:
        self.graph = graph
        self.weights = weights
        self.records: list[Record] = []
        self.place: dict[int, Place] = {}
        inputs = {i: () if weights[i] else node.inputs for i, node in enumerate(graph.nodes)}
        self.order = topological(graph.output_ids, inputs)
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
        # What nothing reads is an output, in the order of the file.
        waiting = iter(self.order)
        times = Counter(self.graph.output_ids)
        marked: set[int] = set()
        for _, output in self.graph.outputs:
            while output not in self.place:
                self._write(next(waiting))
            source, apart = output, self.weights[output] or nodes[output].op in ("input", "slice")
            if nodes[output].op == "identity" and not self.users[output]:
                # A dropout itself: as often as it is an output, so that it is one node again when read.
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
            raise self.refusal(i, f"{node.op} is none of its operators, which are {known}")
        for j in (*node.inputs, i):
            kind = self.graph.nodes[j].type
            if not isinstance(kind, TensorType) or kind.dtype != "float32":
                raise self.refusal(i, f"its tensors are float32, not {kind}")
        self.place[i] = _WRITERS[node.op](self, i, node)

    def add(self, kind: str, operands: Sequence[Place], params: Sequence[int]) -> Place:
        """Write an operator; return its first result."""
        number = FIRST_ID + len(self.records)
        self.records.append(Record(number, kind, tuple(operands), tuple(params)))
        return number, 0

    def refusal(self, i: int, reason: str) -> _Refused:
        """Return the error for a node that cannot be said."""
        line = self.graph.text().splitlines()[i + 1].strip()
        return _Refused(i, f"TASO's text format has no form for {line}: {reason} (ONNX has one)")

    def shape(self, i: int) -> tuple[int, ...]:
        kind = self.graph.nodes[i].tensor
        if kind.dtype != "float32":
            raise self.refusal(i, f"its tensors are float32, not {kind}")
        return kind.shape

    def operands(self, node: Node) -> list[Place]:
        return [self.place[j] for j in node.inputs]

    def _parts(self) -> dict[int, list[int]]:
        """Return for every slice the slices of one split, in order: those of a value that do not overlap."""
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
                split = next((s for s in splits if self._bounds(s[-1])[1] <= start), None)
                if split is None:
                    split = []
                    splits.append(split)
                split.append(i)
                parts[i] = split
        return parts

    def _bounds(self, i: int) -> tuple[int, int]:
        return self.graph.nodes[i].attr("start"), self.graph.nodes[i].attr("stop")

    # -- operators --------------------------------------------------------------------------------
    def same_shape(self, i: int, node: Node) -> Place:
        """Write an operator whose parameters repeat the shape of its first operand."""
        kind = "dropout" if node.op == "identity" else node.op
        return self.add(kind, self.operands(node), self.shape(node.inputs[0]))

    def activated(self, i: int, act: str, y: Place) -> Place:
        """Write an activation after an operator that cannot hold it."""
        if act == "none":
            return y
        return self.add(act, [y], (0,) if act == "sigmoid" else self.shape(i))

    def sigmoid(self, i: int, node: Node) -> Place:
        return self.add("sigmoid", self.operands(node), (0,))

    def padding(self, i: int, kernel: tuple[int, int], attrs: dict[str, tuple[int, ...]]) -> int:
        """Return the number of a window's padding."""
        _, _, height, width = self.shape(self.graph.nodes[i].inputs[0])
        stride = (attrs["strides"][0], attrs["strides"][1])
        forms = [explicit_pads(p, (height, width), kernel, stride) for p in ("SAME", "VALID")]
        if attrs["pads"] not in forms:
            raise self.refusal(
                i, f"its pads are {forms[0]} (same) or {forms[1]} (valid) here, not {attrs['pads']}"
            )
        if any(d != 1 and k != 1 for d, k in zip(attrs.get("dilations", (1, 1)), kernel, strict=True)):
            raise self.refusal(i, "its windows have no dilations")
        return forms.index(attrs["pads"])

    def conv2d(self, i: int, node: Node) -> Place:
        attrs = node.named_attrs()
        x, w = self.shape(node.inputs[0]), self.shape(node.inputs[1])
        pad = self.padding(i, (w[2], w[3]), attrs)
        biased = len(node.inputs) == 3
        act = ACTIVATIONS.index("none" if biased else attrs["act"])
        borders = attrs["pads"][:2]
        y = self.add("conv2d", self.operands(node)[:2], (*x, *w, *attrs["strides"], pad, act, *borders))
        if not biased:
            return y
        total = self.add("add", [y, self.place[node.inputs[2]]], self.shape(i))
        return self.activated(i, attrs["act"], total)

    def pool(self, i: int, node: Node) -> Place:
        attrs = node.named_attrs()
        x, kernel = self.shape(node.inputs[0]), attrs["kernel"]
        pad = self.padding(i, kernel, attrs)
        if attrs.get("include_pad") and any(attrs["pads"]):
            raise self.refusal(i, "the mean of a window is without its padding")
        top, left, bottom, right = attrs["pads"]
        floor = tuple(
            (n + more - k) // s + 1
            for n, more, k, s in zip(
                x[2:], (top + bottom, left + right), kernel, attrs["strides"], strict=True
            )
        )
        if self.shape(i)[2:] != floor:
            raise self.refusal(i, "its pools leave out a last window that is not whole (ceil=0)")
        return self.window(node.op, node.inputs[0], kernel, attrs["strides"], pad, attrs["pads"][:2])

    def window(
        self, kind: str, x: int, kernel: Sequence[int], strides: Sequence[int], pad: int, pads: Sequence[int]
    ) -> Place:
        """Write a pool, and the kernel that TASO wants to see beside it."""
        shape = self.shape(x)
        beside = self.add("weight", [WEIGHT_DATA], (shape[1], 1, *kernel))
        params = (*shape, NUMBERS[kind], *kernel, *strides, pad, ACTIVATIONS.index("none"), *pads)
        return self.add(kind, [self.place[x], beside], params)

    def reduce(self, i: int, node: Node) -> Place:
        """Write a reduction over an image's last two axes as a pool."""
        shape = self.shape(node.inputs[0])
        if len(shape) != 4 or sorted(node.attr("axes")) != [-2, -1]:
            raise self.refusal(i, "of its operators only pools reduce axes, the last two of four")
        kind = "avgpool" if node.op == "reduce_mean" else "maxpool"
        y = self.window(kind, node.inputs[0], shape[2:], shape[2:], 1, (0, 0))
        return y if node.attr("keepdims") else self.add("reshape", [y], self.shape(i))

    def batchnorm(self, i: int, node: Node) -> Place:
        if not math.isclose(node.attr("eps"), EPSILON, rel_tol=1e-6):
            raise self.refusal(i, f"its epsilon is {EPSILON:g}")
        return self.same_shape(i, node)

    def matmul(self, i: int, node: Node) -> Place:
        (left, right), operands = (self.shape(j) for j in node.inputs), self.operands(node)
        act = ACTIVATIONS.index(node.attr("act"))
        if left[:-2] == right[:-2]:
            return self.add("matmul", operands, (act, len(left)))
        if len(right) != 2:
            raise self.refusal(i, f"batches are equal, not {left[:-2]} and {right[:-2]}")
        # Rows of all batches times one matrix: the rows of a larger matrix.
        rows = self.add("reshape", operands[:1], (math.prod(left[:-1]), left[-1]))
        return self.add("reshape", [self.add("matmul", [rows, operands[1]], (act, 2))], self.shape(i))

    def concat(self, i: int, node: Node) -> Place:
        return self.add("concat", self.operands(node), (len(self.shape(i)) + node.attr("axis"),))

    def slice(self, i: int, node: Node) -> Place:
        """Write a split; what lies between the slices of a value is a part that nothing reads."""
        if node.attr("step") != 1:
            raise self.refusal(i, "an axis is cut into parts without steps")
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

    def reshape(self, i: int, node: Node) -> Place:
        return self.add("reshape", self.operands(node), self.shape(i))

    def transpose(self, i: int, node: Node) -> Place:
        perm = node.attr("perm")
        return self.add("transpose", self.operands(node), (len(perm), *perm, 1))

    def enlarge(self, i: int, node: Node) -> Place:
        top, left, bottom, right = node.attr("pads")
        if top != (top + bottom) // 2 or left != (left + right) // 2:
            raise self.refusal(i, "a kernel grows on both sides alike, at the end by one more if it must")
        like = self.add("weight", [WEIGHT_DATA], self.shape(i))
        return self.add("enlarge", [*self.operands(node), like], self.shape(node.inputs[0]))

    def merge_gconv(self, i: int, node: Node) -> Place:
        per_group = self.shape(node.inputs[0])[1]
        readers = [self.graph.nodes[j] for j in self.users[i]]
        if i in self.graph.output_ids or any(not self._merges(i, r, node, per_group) for r in readers):
            raise self.refusal(
                i, "how many groups there were, the convolution says whose weight it is; here none does"
            )
        return self.add("merge_gconv", self.operands(node), (node.attr("count"),))

    def _merges(self, i: int, reader: Node, node: Node, per_group: int) -> bool:
        """Say whether a reader of merged groups shows how many there were."""
        if reader.op == "merge_gconv":
            return int(reader.attr("groups")) * int(node.attr("count")) == node.attr("groups")
        if reader.op != "conv2d" or reader.inputs[1] != i or i in (reader.inputs[0], *reader.inputs[2:]):
            return False
        return self.shape(reader.inputs[0])[1] == per_group * int(node.attr("groups"))


_WRITERS: Final[dict[str, Callable[[_Export, int, Node], Place]]] = {
    "conv2d": _Export.conv2d,
    "maxpool": _Export.pool,
    "avgpool": _Export.pool,
    "reduce_mean": _Export.reduce,
    "reduce_max": _Export.reduce,
    "sigmoid": _Export.sigmoid,
    "batchnorm": _Export.batchnorm,
    "matmul": _Export.matmul,
    "concat": _Export.concat,
    "slice": _Export.slice,
    "reshape": _Export.reshape,
    "transpose": _Export.transpose,
    "enlarge": _Export.enlarge,
    "merge_gconv": _Export.merge_gconv,
    **dict.fromkeys(("identity", "relu", "tanh", "add", "mul"), _Export.same_shape),
}
