"""A dynamic ONNX model being drawn: nodes, weights, inputs with symbols, and the sizes at which it is run.

Nothing of the workbench is used here, so that what judges the program is independent of it.
"""

import numpy as np
import onnxruntime
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

OPSETS = (13, 17, 18, 20)
CODES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(bool): TensorProto.BOOL,
    np.dtype(np.float64): TensorProto.DOUBLE,
}
#: Sizes that every symbol is given, beside those near the constants of the model.
USUAL = (1, 2, 3, 5, 8, 17, 4, 7, 12, 31)
LARGE = (64, 257)


def session(model):
    """Load a model in ONNX Runtime as it is: on one thread, nothing rewritten."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


class Draft:
    """A model being drawn; ``symbols`` maps each symbol to the sizes near which it may behave otherwise."""

    def __init__(self, seed, opset=None):
        self.rng = np.random.default_rng([32, *seed])
        self.opset = int(self.rng.choice(OPSETS)) if opset is None else opset
        self.nodes, self.weights, self.inputs, self.outputs = [], [], {}, []
        self.symbols, self.limits, self.named, self.largest, self.ties = {}, {}, {}, {}, {}
        self.count = 0

    # -- chance --------------------------------------------------------------------------------------------
    def pick(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p=0.5):
        return bool(self.rng.random() < p)

    def number(self, low, high):
        """Return a whole number from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def fresh(self, prefix="v"):
        self.count += 1
        return f"{prefix}{self.count}"

    # -- nodes ---------------------------------------------------------------------------------------------
    def node(self, op, *inputs, **attributes):
        """Add a node with one output, and return its name."""
        return self.nodes_of(op, *inputs, outputs=1, **attributes)[0]

    def nodes_of(self, op, *inputs, outputs, **attributes):
        """Add a node, and return the names of its outputs."""
        made = [self.fresh() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, **attributes))
        return made

    def weight(self, array):
        name = self.fresh("w")
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def normal(self, *shape, scale=1.0):
        return self.weight((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def ints(self, *numbers):
        """Return a vector of int64."""
        return self.weight(np.array(numbers, np.int64))

    def int(self, number):
        """Return a scalar of int64."""
        return self.weight(np.int64(number))

    def float(self, number):
        return self.weight(np.float32(number))

    def input(self, name, shape, dtype=np.float32, limit=None):
        """Add an input; whole numbers are drawn below the limit."""
        self.inputs[name] = (list(shape), np.dtype(dtype))
        self.limits[name] = limit
        for size in shape:
            if isinstance(size, str):
                self.symbols.setdefault(size, set())
        return name

    def output(self, *names):
        self.outputs += names

    def near(self, symbol, *sizes):
        """Note that the model may behave otherwise beside these sizes of a symbol."""
        self.symbols.setdefault(symbol, set()).update(s for s in sizes if s > 0)

    def tie(self, symbol, *others):
        """Note that a symbol of an input is the sum of others."""
        self.symbols.pop(symbol, None)
        self.ties[symbol] = others

    # -- sizes ---------------------------------------------------------------------------------------------
    def size(self, x, axis):
        """Return a size as a scalar, in one of the forms that exporters write."""
        if self.chance(0.2) and self.opset >= 15 and axis >= 0:
            part = self.node("Shape", x, start=axis, end=axis + 1)
            return (
                self.node("Squeeze", part, self.ints(0))
                if self.chance()
                else self.node("ReduceMin", part, keepdims=0)
                if self.opset < 18
                else self.node("Squeeze", part)
            )
        whole = self.node("Shape", x)
        if self.chance(0.25) and axis >= 0:
            part = self.node("Slice", whole, self.ints(axis), self.ints(axis + 1), self.ints(0))
            return self.node("Squeeze", part, self.ints(0))
        return self.node("Gather", whole, self.int(axis), axis=0)

    def vector(self, scalar):
        return self.node("Unsqueeze", scalar, self.ints(0))

    def join(self, *parts):
        """Return a vector of sizes; whole numbers are constants, names are scalars."""
        made = [self.ints(p) if isinstance(p, int) else self.vector(p) for p in parts]
        return self.node("Concat", *made, axis=0)

    def slice(self, x, begin, end, axis, step=1):
        """Return a slice; ends are whole numbers or names of scalars."""
        ends = [self.ints(e) if isinstance(e, int) else self.vector(e) for e in (begin, end)]
        return self.node("Slice", x, *ends, self.ints(axis), self.ints(step))

    def cast(self, x, dtype=TensorProto.FLOAT):
        return self.node("Cast", x, to=dtype)

    def mean(self, x, *axes, keepdims=1):
        if self.opset >= 18:
            return self.node("ReduceMean", x, self.ints(*axes), keepdims=keepdims)
        return self.node("ReduceMean", x, axes=list(axes), keepdims=keepdims)

    def sum(self, x, *axes, keepdims=1):
        return self.node("ReduceSum", x, self.ints(*axes), keepdims=keepdims)

    def branches(self, condition, then, other):
        """Add an If; the branches are functions that add nodes and return a name."""
        graphs = []
        for make in (then, other):
            outer, self.nodes = self.nodes, []
            result = make()
            if not self.nodes:
                result = self.node("Identity", result)
            info = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
            graphs.append(helper.make_graph(self.nodes, self.fresh("branch"), [], [info]))
            self.nodes = outer
        return self.node("If", condition, then_branch=graphs[0], else_branch=graphs[1])

    # -- the model -----------------------------------------------------------------------------------------
    def bindings(self):
        """Return the sizes at which the model is run, each a dictionary from symbols to sizes."""
        columns = {}
        for number, (symbol, sizes) in enumerate(self.symbols.items()):
            beside = sorted({s + d for s in sizes for d in (-1, 0, 1)} - {0})
            large = self.largest.get(symbol, LARGE)
            values = list(dict.fromkeys([*USUAL[:3], *beside, *USUAL[3:], *large]))
            rng = np.random.default_rng([number, len(values)])
            columns[symbol] = values if not number else [values[i] for i in rng.permutation(len(values))]
        rows = max(map(len, columns.values()))
        found = [dict.fromkeys(columns, 1), dict.fromkeys(columns, 2)]
        for turn in range(1 if len(columns) == 1 else 2):
            steps = [(s, v, 1 + turn * n, turn * n) for n, (s, v) in enumerate(columns.items())]
            found += [{s: v[(i * step + first) % len(v)] for s, v, step, first in steps} for i in range(rows)]
        found = [dict(f) for f in dict.fromkeys(tuple(f.items()) for f in found)]
        return [f | {s: sum(f[o] for o in others) for s, others in self.ties.items()} for f in found]

    def feeds(self, sizes, seed=0):
        """Return inputs at these sizes."""
        rng = np.random.default_rng(seed)
        found = {}
        for name, (shape, dtype) in self.inputs.items():
            extents = [sizes[s] if isinstance(s, str) else s for s in shape]
            if dtype.kind == "f":
                found[name] = rng.standard_normal(extents).astype(dtype)
            else:
                found[name] = rng.integers(0, self.limits[name] or 2, extents).astype(dtype)
        return found

    def bare(self, shapes=None):
        """Return the model; ``shapes`` are those declared for the outputs."""
        infos = [helper.make_tensor_value_info(n, CODES[d], s) for n, (s, d) in self.inputs.items()]
        outputs = [ValueInfoProto(name=name) for name in self.outputs]  # ONNX Runtime finds the types
        if shapes is not None:
            outputs = [helper.make_tensor_value_info(n, CODES[k], s) for n, (k, s) in shapes.items()]
        graph = helper.make_graph(self.nodes, "generated", infos, outputs, self.weights)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=max(8, helper.find_min_ir_version_for(opsets))
        )

    def finished(self):
        """Return the model with declared outputs, and the bindings at which it runs; None if it hardly runs.

        A size of an output that was the same in all runs is declared as it is. Another gets a name of its own,
        or that of an input's symbol with which it always agreed, or the one in ``named``.
        """
        pools = [n for n in self.nodes if n.op_type in ("MaxPool", "AveragePool")]
        more = list(dict.fromkeys(n.input[0] for n in pools))
        bare = self.bare()
        bare.graph.output.extend(ValueInfoProto(name=n) for n in more if n not in self.outputs)
        try:
            running = session(bare)
        except Exception:
            return None
        seen, valid = {name: [] for name in self.outputs}, []
        for sizes in self.bindings():
            try:
                values = running.run(None, self.feeds(sizes))
            except Exception:  # ONNX Runtime has no common base of its errors
                continue
            made = dict(zip([v.name for v in bare.graph.output], values, strict=True))
            if not all(covered(n, made[n.input[0]].shape[2:]) for n in pools):
                continue  # not valid ONNX, though ONNX Runtime returns one window
            valid.append(sizes)
            for name in self.outputs:
                seen[name].append(made[name])
        if len(valid) < 5:
            return None
        shapes = {
            name: (v[0].dtype, self._declared(name, [a.shape for a in v], valid)) for name, v in seen.items()
        }
        return self.bare(shapes), valid

    def _declared(self, name, shapes, valid):
        if len({len(s) for s in shapes}) > 1 or self.chance(0.1):
            return None
        made = []
        for axis, extents in enumerate(zip(*shapes, strict=True)):
            same = [s for s in self.symbols if all(b[s] == e for b, e in zip(valid, extents, strict=True))]
            if axis in self.named.get(name, {}):
                made.append(self.named[name][axis])
            elif same:
                made.append(same[0] if self.chance(0.7) else f"{name}_{axis}")
            elif len(set(extents)) == 1:
                made.append(extents[0])
            else:
                made.append(f"{name}_{axis}" if self.chance(0.8) else None)
        return made


def covered(pool, extents):
    """Return whether a window fits into a padded image."""
    given = {a.name: helper.get_attribute_value(a) for a in pool.attribute}
    if "auto_pad" in given:
        return True
    rank = len(extents)
    pads = given.get("pads", [0] * 2 * rank)
    return all(e + pads[i] + pads[i + rank] >= given["kernel_shape"][i] for i, e in enumerate(extents))
