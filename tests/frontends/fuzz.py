"""A seeded generator of small valid ONNX models, to test that import and export preserve their values.

Every model is built from values of known type and shape; the shapes of weights, slices and reshapes are
drawn to fit. Numbers are small multiples of 1/8, so that roundings and comparisons meet ties.
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

CODES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}
FLOATS = ("float32", "float64", "float16")
UNARY = ("Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Sqrt", "Reciprocal", "Identity", "Erf")
UNARY += ("Floor", "Ceil", "Softsign", "Softplus", "Sin", "Elu")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu")
COMPARE = ("Equal", "Less", "Greater")
OPSETS = (9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)


class Maker:
    """A model being drawn; ``values`` maps the names made so far to dtype and shape."""

    def __init__(self, seed):
        self.rng = np.random.default_rng([20, seed])
        self.opset = int(self.rng.choice(OPSETS))
        self.float = str(self.rng.choice(FLOATS, p=[0.7, 0.2, 0.1]))
        self.values, self.nodes, self.weights, self.inputs = {}, [], [], []
        self.constant = set()
        self.overridable = []
        self.count = 0

    def pick(self, options):
        options = list(options)
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p):
        return self.rng.random() < p

    def fresh(self):
        self.count += 1
        return f"v{self.count}" if self.chance(0.9) else f"layer.{self.count}/out:{self.count}"

    def array(self, dtype, shape):
        if dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype in FLOATS:
            return (self.rng.integers(-24, 25, shape) / 8).astype(dtype)
        return self.rng.integers(-3, 4, shape).astype(dtype)

    def weight(self, dtype, shape, data=None):
        name = self.fresh()
        data = self.array(dtype, shape) if data is None else np.asarray(data, dtype)
        self.weights.append(numpy_helper.from_array(np.asarray(data), name))
        self.values[name] = (dtype, data.shape)
        self.constant.add(name)
        if self.chance(0.03) and dtype in FLOATS:
            self.overridable.append(name)
        return name

    def ints(self, data):
        """Return integers as an initializer, a Constant, or the result of a computation."""
        name = self.weight("int64", np.shape(data), data)
        if self.chance(0.15):
            return self.node("Identity", [name], "int64", np.shape(data))
        if self.chance(0.15) and self.opset >= 13:
            doubled = self.node("Add", [name, name], "int64", np.shape(data))
            return self.node("Div", [doubled, self.weight("int64", (), 2)], "int64", np.shape(data))
        return name

    def node(self, op, inputs, dtype, shape, outputs=1, **attrs):
        names = [self.fresh() for _ in range(outputs)]
        called = f"n{self.count}" if self.chance(0.8) else ""
        self.nodes.append(helper.make_node(op, inputs, names, name=called, **attrs))
        shapes = shape if outputs > 1 else [shape]
        for name, extents in zip(names, shapes, strict=True):
            self.values[name] = (dtype, tuple(int(e) for e in extents))
            if all(i in self.constant for i in inputs if i):
                self.constant.add(name)
        return names if outputs > 1 else names[0]

    def of(self, *dtypes, rank=None, least=0):
        """Return a value of one of the dtypes, or a new weight."""
        found = [
            n
            for n, (d, s) in self.values.items()
            if d in dtypes and (rank is None or len(s) == rank) and len(s) >= least and 0 not in s
        ]
        recent = found[-6:] if self.chance(0.7) else found
        if recent and self.chance(0.93):
            return self.pick(recent)
        count = rank if rank is not None else int(self.rng.integers(least, 4))
        return self.weight(dtypes[0], tuple(int(e) for e in self.rng.integers(1, 5, count)))

    def like(self, shape):
        """Return a shape that broadcasts to the given one."""
        kept = shape[int(self.rng.integers(0, len(shape) + 1)) :] if self.chance(0.5) else shape
        return tuple(e if self.chance(0.8) else 1 for e in kept)

    # -- operators ---------------------------------------------------------------------------------
    def unary(self):
        x = self.of(self.float)
        return self.node(self.pick(UNARY), [x], *self.values[x])

    def round_(self):
        x = self.of(self.float)
        op = "Round" if self.opset >= 11 else "Floor"
        return self.node(op, [x], *self.values[x])

    def partner(self, x):
        dtype, shape = self.values[x]
        same = [n for n, (d, s) in self.values.items() if d == dtype and s == shape and n != x]
        if same and self.chance(0.5):
            return self.pick(same)
        return self.weight(dtype, self.like(shape))

    def binary(self):
        x = self.of(self.float)
        op = self.pick(BINARY)
        y = self.partner(x)
        if op == "Pow":
            y = self.weight(self.float, (), self.pick([2, 3, 0.5, -1]))
        if op == "PRelu" or self.chance(0.7):
            return self.node(op, [x, y], *self.values[x])
        return self.node(op, [y, x], *self.values[x])

    def constants(self):
        """Add arithmetic on weights alone, whose result may be rounded later."""
        extent = int(self.pick([1, 3, 70_000])) if self.chance(0.2) else int(self.rng.integers(1, 6))
        x = self.weight(self.float, (extent,))
        for _ in range(int(self.rng.integers(1, 4))):
            x = self.node(
                self.pick(["Mul", "Div", "Add"]),
                [x, self.weight(self.float, (), self.pick([0.1, 0.7, 3, 10]))],
                self.float,
                (extent,),
            )
        if self.chance(0.3):
            x = self.node(self.pick(["Exp", "Sqrt", "Abs", "Sin"]), [x], self.float, (extent,))
        if extent > 100:
            start, stop = self.weight("int64", (1,), [0]), self.weight("int64", (1,), [4])
            if self.opset >= 10:
                whole = self.node("Cast", [x], "int32", (extent,), to=CODES["int32"])
                back = self.node("Cast", [whole], self.float, (extent,), to=CODES[self.float])
                return self.node("Slice", [back, start, stop], self.float, (4,))
        return x

    def integers(self):
        x = self.of("int64", "int32")
        if self.chance(0.2) and self.opset >= 13:
            return self.node(self.pick(["Abs", "Neg", "Sign"]), [x], *self.values[x])
        op = self.pick(["Add", "Sub", "Mul"])
        return self.node(op, [x, self.partner(x)], *self.values[x])

    def cast(self):
        x = self.of("float32", "float64", "float16", "int64", "int32", "bool")
        _, shape = self.values[x]
        to = self.pick([d for d in CODES if d != "float16" or self.float == "float16"])
        return self.node("Cast", [x], to, shape, to=CODES[to])

    def compare(self):
        x = self.of(self.float, "int64", "int32")
        dtype, shape = self.values[x]
        op = self.pick(COMPARE if self.opset >= 11 or dtype != "float16" else ["Less"])
        if op == "Equal" and self.opset < 11 and dtype in FLOATS:
            op = "Greater"
        return self.node(op, [x, self.partner(x)], "bool", shape)

    def where(self):
        x = self.of(self.float)
        _, shape = self.values[x]
        fitting = [n for n, (d, s) in self.values.items() if d == "bool" and s == shape]
        condition = self.pick(fitting) if fitting else self.weight("bool", self.like(shape))
        return self.node("Where", [condition, x, self.partner(x)], self.float, shape)

    def clip(self):
        x = self.of(self.float)
        low, high = sorted(self.rng.integers(-16, 17, 2) / 8)
        if self.opset < 11:
            return self.node("Clip", [x], *self.values[x], min=float(low), max=float(high))
        bounds = [self.weight(self.float, (), v) if self.chance(0.8) else "" for v in (low, high)]
        return self.node("Clip", [x, *bounds], *self.values[x])

    def reduce(self):
        x = self.of(self.float, least=1)
        dtype, shape = self.values[x]
        op = self.pick(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"])
        axes = sorted({int(a) for a in self.rng.integers(0, len(shape), int(self.rng.integers(1, 3)))})
        keep = int(self.chance(0.6))
        out = [e if i not in axes else 1 for i, e in enumerate(shape) if keep or i not in axes]
        asked = [a - len(shape) if self.chance(0.4) and self.opset >= 11 else a for a in axes]
        if self.opset >= (13 if op == "ReduceSum" else 18):
            return self.node(op, [x, self.ints(asked)], dtype, out, keepdims=keep)
        return self.node(op, [x], dtype, out, axes=asked, keepdims=keep)

    def argmax(self):
        x = self.of(self.float, least=1)
        _, shape = self.values[x]
        axis = int(self.rng.integers(len(shape)))
        out = [1 if i == axis else e for i, e in enumerate(shape)]
        return self.node(self.pick(["ArgMax", "ArgMin"]), [x], "int64", out, axis=axis, keepdims=1)

    def slice_(self):
        x = self.of(self.float, "int64", "int32", least=1)
        dtype, shape = self.values[x]
        axis = int(self.rng.integers(len(shape)))
        start, stop = sorted(int(v) for v in self.rng.integers(0, shape[axis] + 1, 2))
        start, stop = (start, stop) if stop > start else (0, shape[axis])
        step = int(self.pick([1, 1, 2])) if self.opset >= 10 else 1
        backwards = self.opset >= 10 and self.chance(0.1)
        if backwards:
            bounds, step, extent = (-1, -(1 << 31), axis), -1, shape[axis]
        else:
            far = stop if stop < shape[axis] or self.chance(0.5) else (1 << 31)
            bounds, extent = (start, far, axis), (stop - start + step - 1) // step
        out = [extent if i == axis else e for i, e in enumerate(shape)]
        if self.opset < 10:
            first, last, along = ([v] for v in bounds)
            return self.node("Slice", [x], dtype, out, starts=first, ends=last, axes=along)
        return self.node("Slice", [x, *(self.ints([v]) for v in bounds), self.ints([step])], dtype, out)

    def gather(self):
        x = self.of(self.float, least=1)
        _, shape = self.values[x]
        axis = int(self.rng.integers(len(shape)))
        low = -shape[axis] if self.opset >= 11 else 0
        count = self.pick([(), (2,), (2, 2)])
        indices = self.weight("int64", count, self.rng.integers(low, shape[axis], count))
        return self.node(
            "Gather", [x, indices], self.float, shape[:axis] + count + shape[axis + 1 :], axis=axis
        )

    def concat(self):
        x = self.of(self.float, "int64", least=1)
        dtype, shape = self.values[x]
        axis = int(self.rng.integers(len(shape)))
        parts = [x, self.weight(dtype, shape)] if self.chance(0.5) else [x, x, self.partner_of_shape(x)]
        out = [e * len(parts) if i == axis else e for i, e in enumerate(shape)]
        return self.node("Concat", parts, dtype, out, axis=axis - len(shape) if self.opset >= 11 else axis)

    def partner_of_shape(self, x):
        return self.pick([n for n, kind in self.values.items() if kind == self.values[x]])

    def split(self):
        x = self.of(self.float, least=1)
        dtype, shape = self.values[x]
        axis = int(self.rng.integers(len(shape)))
        if shape[axis] < 2:
            return x
        first = int(self.rng.integers(1, shape[axis]))
        sizes = [first, shape[axis] - first]
        shapes = [[s if i == axis else e for i, e in enumerate(shape)] for s in sizes]
        if self.opset < 13:
            return self.node("Split", [x], dtype, shapes, 2, axis=axis, split=sizes)[0]
        return self.node("Split", [x, self.ints(sizes)], dtype, shapes, 2, axis=axis)[1]

    def reshape(self):
        x = self.of(self.float, "int64", "bool")
        dtype, shape = self.values[x]
        total = int(np.prod(shape))
        divisors = [d for d in range(1, total + 1) if total % d == 0]
        first = self.pick(divisors)
        out = self.pick([(total,), (first, total // first), (1, first, total // first)])
        asked = list(out)
        if self.chance(0.4):
            asked[int(self.rng.integers(len(asked)))] = -1
        return self.node("Reshape", [x, self.ints(asked)], dtype, out)

    def shaped(self):
        """Add a reshape whose shape is computed from the shape of a value."""
        x = self.of(self.float, least=1)
        dtype, shape = self.values[x]
        found = self.node("Shape", [x], "int64", (len(shape),))
        if self.chance(0.5):
            return self.node("Reshape", [x, found], dtype, shape)
        first = self.node("Gather", [found, self.weight("int64", (1,), [0])], "int64", (1,), axis=0)
        rest = self.weight("int64", (1,), [-1])
        asked = self.node("Concat", [first, rest], "int64", (2,), axis=0)
        return self.node("Reshape", [x, asked], dtype, (shape[0], int(np.prod(shape[1:]))))

    def transpose(self):
        x = self.of(self.float)
        dtype, shape = self.values[x]
        if self.chance(0.3):
            return self.node("Transpose", [x], dtype, shape[::-1])
        perm = [int(p) for p in self.rng.permutation(len(shape))]
        attrs = {"perm": perm} if perm else {}
        return self.node("Transpose", [x], dtype, [shape[p] for p in perm], **attrs)

    def axes(self):
        x = self.of(self.float, "int64", least=1)
        dtype, shape = self.values[x]
        axis = int(self.rng.integers(len(shape)))
        op, out = "Unsqueeze", (*shape[:axis], 1, *shape[axis:])
        if shape[axis] == 1 and self.chance(0.6):
            op, out = "Squeeze", (*shape[:axis], *shape[axis + 1 :])
        if self.opset < 13:
            return self.node(op, [x], dtype, out, axes=[axis])
        return self.node(op, [x, self.ints([axis])], dtype, out)

    def expand(self):
        x = self.of(self.float, least=1)
        dtype, shape = self.values[x]
        out = tuple(3 if e == 1 else e for e in shape)
        return self.node("Expand", [x, self.ints(out)], dtype, out)

    def pad(self):
        x = self.of(self.float, least=2)
        dtype, shape = self.values[x]
        begin, end = ([int(v) for v in self.rng.integers(0, 2, len(shape))] for _ in range(2))
        out = [b + e + s for b, e, s in zip(begin, end, shape, strict=True)]
        if self.opset < 11:
            return self.node("Pad", [x], dtype, out, pads=begin + end, value=0.5)
        return self.node("Pad", [x, self.ints(begin + end), self.weight(dtype, (), 0.5)], dtype, out)

    def matmul(self):
        x = self.of(self.float, least=2)
        dtype, shape = self.values[x]
        n = int(self.rng.integers(1, 5))
        w = self.weight(dtype, (*shape[:-2], shape[-1], n) if self.chance(0.2) else (shape[-1], n))
        return self.node("MatMul", [x, w], dtype, (*shape[:-1], n))

    def gemm(self):
        x = self.of(self.float, rank=2)
        dtype, (m, k) = self.values[x]
        n = int(self.rng.integers(1, 5))
        flip, turn = int(self.chance(0.5)), int(self.chance(0.3))
        m, k = (k, m) if turn else (m, k)
        w = self.weight(dtype, (n, k) if flip else (k, n))
        bias = (
            [self.weight(dtype, self.pick([(n,), (1, n), (m, n), ()]))]
            if self.chance(0.8) or self.opset < 11
            else []
        )
        scale = {"alpha": 0.5, "beta": 2.0} if self.chance(0.3) else {}
        return self.node("Gemm", [x, w, *bias], dtype, (m, n), transA=turn, transB=flip, **scale)

    def image(self):
        found = [
            n for n, (d, s) in self.values.items() if d == self.float and len(s) == 4 and min(s[2:]) >= 2
        ]
        if found:
            return self.pick(found[-4:])
        return self.given(self.float, (int(self.rng.integers(1, 3)), int(self.rng.integers(1, 5)), 5, 6))

    def conv(self):
        x = self.image()
        dtype, (n, c, h, w) = self.values[x]
        groups = c if self.chance(0.3) else 1
        out, kernel = groups * int(self.rng.integers(1, 3)), int(self.pick([1, 2, 3]))
        pads = [int(v) for v in self.rng.integers(0, 2, 4)]
        stride = int(self.pick([1, 1, 2]))
        size = [
            (e + a + b - kernel) // stride + 1 for e, a, b in ((h, pads[0], pads[2]), (w, pads[1], pads[3]))
        ]
        if dtype != "float32" or min(size) < 1:
            return self.unary()
        weight = self.weight(dtype, (out, c // groups, kernel, kernel))
        bias = [self.weight(dtype, (out,))] if self.chance(0.5) else []
        more = {"group": groups, "pads": pads, "strides": [stride, stride], "kernel_shape": [kernel, kernel]}
        return self.node("Conv", [x, weight, *bias], dtype, (n, out, *size), **more)

    def norm(self):
        x = self.image()
        dtype, shape = self.values[x]
        scale, shift, mean = (self.weight(dtype, (shape[1],)) for _ in range(3))
        variance = self.weight(dtype, (shape[1],), self.rng.integers(1, 9, shape[1]) / 4)
        return self.node("BatchNormalization", [x, scale, shift, mean, variance], dtype, shape)

    def pool(self):
        x = self.image()
        dtype, (n, c, h, w) = self.values[x]
        op = self.pick(["MaxPool", "AveragePool", "GlobalAveragePool"])
        if dtype != "float32":
            return self.unary()
        if op == "GlobalAveragePool":
            return self.node(op, [x], dtype, (n, c, 1, 1))
        stride = int(self.pick([1, 2]))
        out = [(e - 2) // stride + 1 for e in (h, w)]
        return self.node(op, [x], dtype, (n, c, *out), kernel_shape=[2, 2], strides=[stride, stride])

    def softmax(self):
        x = self.of(self.float, least=1)
        axis = int(self.rng.integers(len(self.values[x][1])))
        return self.node(self.pick(["Softmax", "LogSoftmax"]), [x], *self.values[x], axis=axis)

    def layernorm(self):
        x = self.of(self.float, least=1)
        dtype, shape = self.values[x]
        if self.opset < 17 or dtype == "float16":
            return self.softmax()
        scale = [self.weight(dtype, shape[-1:]) for _ in range(int(self.rng.integers(1, 3)))]
        return self.node("LayerNormalization", [x, *scale], dtype, shape, axis=-1)

    def branch(self):
        """Add an If with two branches that read outer values."""
        x = self.of(self.float)
        dtype, shape = self.values[x]
        flag = self.weight("bool", ()) if self.chance(0.4) else self.flag()
        graphs = {}
        for name, op in (("then_branch", self.pick(["Relu", "Neg"])), ("else_branch", "Abs")):
            inner = self.fresh()
            made = helper.make_tensor_value_info(inner, CODES[dtype], shape)
            graphs[name] = helper.make_graph([helper.make_node(op, [x], [inner])], "b", [], [made])
        return self.node("If", [flag], dtype, shape, **graphs)

    def flag(self):
        x = self.of(self.float)
        dtype, shape = self.values[x]
        axes = {} if self.opset >= 11 else {"axes": list(range(len(shape)))}
        total = x if not shape else self.node("ReduceMax", [x], dtype, (), keepdims=0, **axes)
        zero = self.weight(dtype, (), 0.25)
        return self.node("Greater", [total, zero], "bool", ())

    def topk(self):
        x = self.of("float32" if self.float == "float16" else self.float, least=1)
        dtype, shape = self.values[x]
        if self.opset < 10:
            return self.argmax() if dtype == self.float else x
        out = (*shape[:-1], 1)
        values, indices = self.node("TopK", [x, self.ints([1])], dtype, (out, out), 2, axis=-1)
        self.values[indices] = ("int64", out)
        return self.pick([values, indices])

    def given(self, dtype, shape):
        name = f"in{len(self.inputs)}"
        self.inputs.append(name)
        self.values[name] = (dtype, shape)
        return name

    def model(self):
        """Return the model."""
        for _ in range(int(self.rng.integers(1, 4))):
            rank = int(self.rng.integers(0, 5)) if self.chance(0.9) else 0
            shape = tuple(int(e) for e in self.rng.integers(1, 5, rank))
            self.given(self.float if self.chance(0.8) else self.pick(["int64", "bool", "int32"]), shape)
        makers = [
            self.unary, self.unary, self.binary, self.binary, self.binary, self.constants,
            self.integers, self.cast, self.compare, self.where, self.clip, self.reduce, self.argmax,
            self.slice_, self.gather, self.concat, self.split, self.reshape, self.shaped,
            self.transpose, self.axes, self.expand, self.pad, self.matmul, self.matmul, self.gemm,
            self.conv, self.conv, self.norm, self.pool, self.softmax, self.layernorm, self.branch,
            self.topk, self.round_,
        ]  # fmt: skip
        for _ in range(int(self.rng.integers(1, 16))):
            self.pick(makers)()
        read = {i for n in self.nodes for i in n.input}
        made = [o for n in self.nodes for o in n.output]
        outputs = [o for o in made if o not in read or self.chance(0.05)] or made[-1:] or self.inputs[:1]
        if not self.nodes:
            outputs = [self.node("Identity", self.inputs[:1], *self.values[self.inputs[0]])]
        infos = [self.info(n) for n in self.inputs + [w for w in self.overridable if w in read]]
        graph = helper.make_graph(self.nodes, "fuzz", infos, [self.info(n) for n in outputs], self.weights)
        opsets = [helper.make_opsetid("", self.opset)]
        ir = max(4, helper.find_min_ir_version_for(opsets))
        return helper.make_model(graph, opset_imports=opsets, ir_version=ir)

    def info(self, name):
        dtype, shape = self.values[name]
        return helper.make_tensor_value_info(name, CODES[dtype], shape)

    def feeds(self, number):
        """Return inputs: small multiples of 1/8, or normal numbers."""
        rng = np.random.default_rng([number, self.count])
        found = {}
        for name in self.inputs:
            dtype, shape = self.values[name]
            if dtype in FLOATS and number:
                found[name] = np.asarray(rng.standard_normal(shape), dtype)
            elif dtype in FLOATS:
                found[name] = np.asarray(rng.integers(-16, 17, shape) / 8, dtype)
            elif dtype == "bool":
                found[name] = np.asarray(rng.integers(0, 2, shape), bool)
            else:
                found[name] = np.asarray(rng.integers(-2, 3, shape), dtype)
        return found


def draw(seed):
    """Return a model and a function that makes its inputs: ``feeds(0)``, ``feeds(1)``…"""
    maker = Maker(seed)
    return maker.model(), maker.feeds
