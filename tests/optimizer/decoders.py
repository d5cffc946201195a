"""Decoders with caches as ONNX files with external data, written sparsely: large files that take little disk.

Every row of the embedding has a page of random numbers, and every other matrix one in ``EVERY`` pages, at places
that are drawn. Between them are holes of the file, which are read as zeros. So every column of a product reads
numbers, and no token is all zeros.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

#: Bytes of a page of random numbers, and the pages of a matrix to one that has them.
PAGE, EVERY = 4096, 64


@dataclass(frozen=True)
class Widths:
    """The widths of a decoder: layers, model, heads, heads of keys, width of a head, inner width, vocabulary."""

    layers: int
    model: int
    heads: int
    keys: int
    head: int
    inner: int
    words: int


#: Llama-3.2-1B and Qwen3-4B by their published configurations.
LLAMA_1B = Widths(16, 2048, 32, 8, 64, 8192, 128256)
QWEN_4B = Widths(36, 2560, 32, 8, 128, 9728, 151936)


class _Writer:
    def __init__(self, data: Path) -> None:
        self.nodes, self.weights, self.place = [], [], 0
        self.data, self.file, self.random = data, data.open("wb"), np.random.default_rng(0)

    def weight(self, name: str, *shape: int) -> str:
        """Add a float32 weight to the external data."""
        size = 4 * int(np.prod(shape))
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self.data.name), ("offset", self.place), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        every = shape[1] * 4 / PAGE if name == "embedding" else EVERY if size > EVERY * PAGE else 1
        numbers = self.random.standard_normal(PAGE // 4, np.float32) / np.float32(np.sqrt(shape[0] / every))
        numbers += len(shape) == 1  # scales of norms
        pages, groups = -(-size // PAGE), max(1, int(size / PAGE / every))
        drawn = self.random.integers(max(1, int(every)), size=groups) + (np.arange(groups) * every).astype(
            int
        )
        for at in sorted({0, pages - 1, *drawn.tolist()}):
            self.file.seek(self.place + PAGE * at)
            self.file.write(
                np.roll(numbers, int(self.random.integers(PAGE // 4))).tobytes()[: size - PAGE * at]
            )
        self.place += -(-size // PAGE) * PAGE
        self.weights.append(tensor)
        return name

    def const(self, name: str, value: object, dtype: type = np.int64) -> str:
        self.weights.append(onnx.numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def op(self, kind: str, *operands: str, outputs: tuple[str, ...] = (), **attrs: object) -> str:
        names = outputs or (f"{kind}_{len(self.nodes)}",)
        self.nodes.append(helper.make_node(kind, operands, names, **attrs))
        return names[0]

    def norm(self, x: str, name: str, width: int) -> str:
        mean = self.op("ReduceMean", self.op("Mul", x, x), axes=[-1])
        scale = self.op("Sqrt", self.op("Add", mean, "eps"))
        return self.op("Mul", self.op("Div", x, scale), self.weight(name, width))


def write_decoder(path: Path, w: Widths) -> Path:
    """Write one step of a decoder: a token and the caches of ``past`` tokens give logits and longer caches."""
    b = _Writer(path.with_suffix(".data"))
    caches, grown = [], []
    b.const("eps", 1e-5, np.float32)
    b.const("root", w.head**-0.5, np.float32)
    b.const("queries", [1, 1, w.keys, w.heads // w.keys, w.head])
    b.const("kv", [1, 1, w.keys, w.head])
    b.const("flat", [1, 1, w.heads * w.head])
    b.const("axis", [2])
    x = b.op("Gather", b.weight("embedding", w.words, w.model), "token")
    for k in range(w.layers):
        n = f"l{k}."
        h = b.norm(x, n + "norm", w.model)
        q = b.op("Reshape", b.op("MatMul", h, b.weight(n + "q", w.model, w.heads * w.head)), "queries")
        q = b.op("Transpose", q, perm=[0, 2, 1, 3, 4])  # 1, keys, 1, group, head
        both = []
        for side in "kv":
            new = b.op("Reshape", b.op("MatMul", h, b.weight(n + side, w.model, w.keys * w.head)), "kv")
            new = b.op("Transpose", new, perm=[0, 2, 1, 3])
            caches.append(helper.make_tensor_value_info(n + "past" + side, 1, (1, w.keys, "past", w.head)))
            grown.append(helper.make_tensor_value_info(n + "all" + side, 1, (1, w.keys, "total", w.head)))
            both.append(b.op("Concat", n + "past" + side, new, axis=2, outputs=(n + "all" + side,)))
        keys, values = (b.op("Unsqueeze", one, "axis") for one in both)
        scores = b.op("MatMul", q, b.op("Transpose", keys, perm=[0, 1, 2, 4, 3]))
        seen = b.op("MatMul", b.op("Softmax", b.op("Mul", scores, "root"), axis=-1), values)
        seen = b.op("Reshape", b.op("Transpose", seen, perm=[0, 2, 1, 3, 4]), "flat")
        x = b.op("Add", x, b.op("MatMul", seen, b.weight(n + "o", w.heads * w.head, w.model)))
        h = b.norm(x, n + "norm2", w.model)
        gate = b.op("MatMul", h, b.weight(n + "gate", w.model, w.inner))
        up = b.op("MatMul", h, b.weight(n + "up", w.model, w.inner))
        inner = b.op("Mul", b.op("Mul", gate, b.op("Sigmoid", gate)), up)
        x = b.op("Add", x, b.op("MatMul", inner, b.weight(n + "down", w.inner, w.model)))
    head = b.op("Transpose", "embedding", perm=[1, 0])
    b.op("MatMul", b.norm(x, "norm", w.model), head, outputs=("logits",))
    b.file.truncate(b.place)
    b.file.close()
    token = helper.make_tensor_value_info("token", TensorProto.INT64, (1, 1))
    logits = helper.make_tensor_value_info("logits", 1, (1, 1, w.words))
    graph = helper.make_graph(b.nodes, "decoder", [token, *caches], [logits, *grown], b.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path
