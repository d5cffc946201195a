"""Composites as model-local ONNX functions of primitive operators, for operands of any shape.

Extents are read from the operands when the model runs, numbers take the operands' element type, and
attributes of the composite are attributes of the function. So one function serves every call in a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from workbench.kernels.composites import expressions as ix
from workbench.kernels.composites.binding import Binding, bind
from workbench.kernels.composites.composite import Composite, Equation
from workbench.kernels.composites.evaluate import Value, matrix_product, run
from workbench.ops.onnx_form import OpsetTooOld
from workbench.ops.types import DTYPE_CODES, TensorType

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto


#: The domain of the functions.
DOMAIN: Final = "workbench.kernels.composites"
#: The oldest operator set that has every operator that functions use.
OLDEST: Final = 15
_INTEGER: Final = {"+": "Add", "-": "Sub", "*": "Mul", "%": "Mod"}


def function_text(composite: Composite, opset: int = 18) -> str:
    """Return the function of a composite in ONNX's textual syntax, for people: constants are rounded."""
    import onnx.printer

    return str(onnx.printer.to_text(function(composite, opset)))


@lru_cache(maxsize=256)
def function(composite: Composite, opset: int = 18) -> FunctionProto:
    """Return the function of a composite as a ``FunctionProto``; raise OpsetTooOld for an old set."""
    import onnx

    if opset < OLDEST:
        raise OpsetTooOld(f"operator set must be {OLDEST} or newer for composites, got {opset}")
    arrays = OnnxArrays(composite, opset)
    run(composite, arrays, arrays.store)
    return onnx.helper.make_function(
        DOMAIN,
        composite.name,
        [t.name for t in composite.inputs],
        [t.name for t in composite.outputs],
        arrays.nodes,
        [onnx.helper.make_opsetid("", opset)],
        attribute_protos=[onnx.helper.make_attribute(a.name, a.default) for a in composite.attributes],
        doc_string=composite.doc,
    )


class OnnxArrays:
    """The names of values in a function that is written."""

    def __init__(self, composite: Composite, opset: int) -> None:
        self.composite, self.opset = composite, opset
        self.nodes: list[Any] = []
        self.names = {t.name: t.name for t in composite.inputs}
        self.taken = {t.name for t in (*composite.inputs, *composite.outputs)}
        self.known: dict[Any, str] = {}
        self.kind = composite.output.dtype
        self.like = {t.dtype: t.name for t in reversed(composite.inputs)}

    def node(self, op_type: str, *inputs: str, result: str = "", **attrs: Any) -> str:
        """Write a node, once for the same operands, and return the name of its result."""
        import onnx

        key = (op_type, inputs, tuple(sorted((k, str(v)) for k, v in attrs.items())))
        if not result and key in self.known:
            return self.known[key]
        name = result or self._fresh(f"v{len(self.nodes)}")
        self.taken.add(name)
        self.nodes.append(onnx.helper.make_node(op_type, list(inputs), [name], **attrs))
        if not result:
            self.known[key] = name
        return name

    def constant(self, value: npt.ArrayLike, dtype: str = "int64") -> str:
        """Return the name of a constant."""
        import onnx

        array = np.asarray(value, TensorType(dtype, ()).numpy_dtype())
        key = ("value", dtype, array.shape, array.tobytes())
        if key not in self.known:
            self.known[key] = self.node("Constant", value=onnx.numpy_helper.from_array(array))
        return self.known[key]

    def attribute(self, field: str, kind: str, name: str) -> str:
        """Return the name of the value of an attribute of the function."""
        import onnx

        key = ("attribute", name)
        if key not in self.known:
            made = self.node("Constant", result=self._fresh(f"{name}_value"))
            ref = onnx.AttributeProto(name=field, ref_attr_name=name)
            ref.type = getattr(onnx.AttributeProto, kind)
            self.nodes[-1].attribute.append(ref)
            self.known[key] = made
        return self.known[key]

    def _fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        return name

    def store(self, target: str, handle: str) -> None:
        """Keep a target; a result gets its name."""
        output = next((t for t in self.composite.outputs if t.name == target), None)
        if output is None:
            self.names[target] = handle
        elif output.dtype in DTYPE_CODES:
            self.names[target] = self._cast(handle, output.dtype, target)
        else:
            self.names[target] = self.node("Identity", handle, result=target)

    # -- the interface of the walk ------------------------------------------------------------------------
    def begin(self, e: Equation) -> None:
        self.kind = self.composite.tensor(e.target).dtype

    def tensor(self, name: str) -> str:
        return self.names[name]

    def number(self, value: float) -> str:
        if self.kind in DTYPE_CODES:
            return self.constant(value, self.kind)
        return self.node("CastLike", self.constant(value, "float64"), self.like[self.kind])

    def parameter(self, name: str) -> str:
        return self.as_number(self.attribute("value_float", "FLOAT", name))

    def as_number(self, x: str) -> str:
        if self.kind in DTYPE_CODES:
            return self._cast(x, self.kind)
        return self.node("CastLike", x, self.like[self.kind])

    def whole(self, e: ix.IndexExpr) -> str:
        match e:
            case ix.Whole(value):
                return self.constant(value)
            case ix.ExtentName(name):
                return self.extent(name)
            case ix.IndexArith(op, left, right):
                return self.integer(op, self.whole(left), self.whole(right))
        raise ValueError(f"{e} does not follow from extents")

    def extent(self, name: str) -> str:
        """Return an extent, from an operand's shape, or an attribute that is a whole number."""
        if any(a.name == name for a in self.composite.attributes):
            return self.attribute("value_int", "INT", name)
        best: tuple[ix.IndexExpr, str] | None = None
        for t in self.composite.inputs:
            for k, d in enumerate(t.dims):
                names = ix.extent_names(d) - {a.name for a in self.composite.attributes}
                if names == {name} and (best is None or isinstance(d, ix.ExtentName)):
                    place = self.constant(k - len(t.dims))
                    best = d, self.node("Gather", self.node("Shape", t.name), place, axis=0)
                    if isinstance(d, ix.ExtentName):
                        return best[1]
        if best is not None:
            return self.solved(best[0], best[1], name)
        for w in self.composite.conditions:
            for one, two in ((w.left, w.right), (w.right, w.left)):
                if one == ix.ExtentName(name):
                    return self.whole(two)
        raise ValueError(f"the extent {name} of {self.composite.name} does not follow from the operands")

    def solved(self, e: ix.IndexExpr, value: str, name: str) -> str:
        """Return the extent that gives an expression a value."""
        while isinstance(e, ix.IndexArith):
            left = name in ix.extent_names(e.left)
            other = self.whole(e.right if left else e.left)
            if e.op == "*":
                value = self.node("Div", value, other)
            elif e.op == "+":
                value = self.node("Sub", value, other)
            else:
                value = self.node("Add", value, other) if left else self.node("Sub", other, value)
            e = e.left if left else e.right
        return value

    def count(self, extent: ix.IndexExpr) -> str:
        return self.node("Range", self.constant(0), self.whole(extent), self.constant(1))

    def integer(self, op: str, a: str, b: str) -> str:
        if op == "//":  # ONNX divides towards zero
            return self.node("Div", self.node("Sub", a, self.node("Mod", a, b)), b)
        return self.node(_INTEGER[op], a, b)

    def apply(self, function: str, operands: Sequence[str]) -> str:
        return self.node(ix.FUNCTIONS[function].onnx, *operands)

    def fold(self, function: str, x: str, axes: Sequence[int]) -> str:
        fold = f"Reduce{function.capitalize()}"
        if function != "sum" and self.opset < 18:
            return self.node(fold, x, axes=list(axes), keepdims=0)
        return self.node(fold, x, self.constant(list(axes)), keepdims=0)

    def unsqueeze(self, x: str, axes: Sequence[int]) -> str:
        return self.node("Unsqueeze", x, self.constant(list(axes)))

    def permute(self, x: str, order: Sequence[int], leading: bool) -> str:
        if not leading:
            return self.node("Transpose", x, perm=list(order))
        letters = ascii_lowercase[: len(order)]
        return self.node("Einsum", x, equation=f"...{letters}->...{''.join(letters[k] for k in order)}")

    def prefix(self, x: str, axis: int, extent: ix.IndexExpr) -> str:
        end = self.node("Unsqueeze", self.whole(extent), self.constant([0]))
        return self.node("Slice", x, self.constant([0]), end, self.constant([axis]))

    def clipped(self, x: str, extent: ix.IndexExpr) -> str:
        last = self.integer("-", self.whole(extent), self.constant(1))
        return self.node("Min", self.node("Max", x, self.constant(0)), last)

    def inside(self, x: str, extent: ix.IndexExpr, what: str) -> str:
        return x

    def take(self, x: str, last: int, places: str) -> str:
        if last > 1:
            before = self.node("Shape", x, end=-last)
            x = self.node("Reshape", x, self.node("Concat", before, self.constant([-1]), axis=0))
        return self.node("Gather", x, places, axis=-1)

    def contract(self, a: Value[str], b: Value[str], out: Sequence[str]) -> str:
        sides = matrix_product(self, a, b, out)
        if sides is not None:
            return self.node("MatMul", *sides)
        letters = dict(zip(dict.fromkeys((*a.axes, *b.axes)), ascii_lowercase, strict=False))
        forms = [(a.leading, a.axes), (b.leading, b.axes), (a.leading or b.leading, out)]
        terms = ["..." * dots + "".join(letters[n] for n in axes) for dots, axes in forms]
        return self.node("Einsum", a.handle, b.handle, equation=f"{terms[0]},{terms[1]}->{terms[2]}")

    def spread(self, x: str, e: Equation, full: bool) -> str:
        seen, inputs = {r.tensor for r in ix.reads(e.value) if r.leading}, self.composite.inputs
        known = seen <= {t.name for t in inputs} and not seen >= {t.name for t in inputs if t.leading}
        if full and not (e.leading and known):  # the operands have all leading axes of the result
            return x
        tensor = self.composite.tensor(e.target)
        axes = [self.node("Unsqueeze", self.whole(d), self.constant([0])) for d in tensor.dims]
        shapes = [self._leading_shape()] * e.leading + axes
        if not shapes:
            return x
        return self.node("Expand", x, self.node("Concat", *shapes, axis=0) if len(shapes) > 1 else shapes[0])

    def _leading_shape(self) -> str:
        tensors = [t for t in self.composite.inputs if t.leading]
        if len(tensors) == 1:
            end: dict[str, Any] = {"end": -len(tensors[0].dims)} if tensors[0].dims else {}
            return self.node("Shape", tensors[0].name, **end)
        # The sum of one entry along every other axis has the leading axes alone, broadcast.
        total = ""
        for t in tensors:
            x = self.node("CastLike", t.name, self.like[self.composite.output.dtype])
            for _ in t.dims:
                x = self.node("Gather", x, self.constant(0), axis=-1)
            total = self.node("Add", total, x) if total else x
        return self.node("Shape", total)

    def _cast(self, x: str, dtype: str, result: str = "") -> str:
        return self.node(
            "Cast", x, result=result or self._fresh(f"cast{len(self.nodes)}"), to=DTYPE_CODES[dtype]
        )


def model(binding: Binding, opset: int = 18) -> ModelProto:
    """Return a model of one call of a bound composite, with its function, as a ``ModelProto``."""
    import onnx

    composite, helper = binding.composite, onnx.helper
    inputs, outputs = [t.name for t in composite.inputs], [t.name for t in composite.outputs]
    known = {**binding.extents, **binding.values}
    given = {a.name: known[a.name] for a in composite.attributes}
    node = helper.make_node(composite.name, inputs, outputs, domain=DOMAIN, **given)

    def infos(names: Sequence[str]) -> list[Any]:
        kinds = {n: binding.types[n] for n in names}
        return [helper.make_tensor_value_info(n, DTYPE_CODES[k.dtype], k.shape) for n, k in kinds.items()]

    made = helper.make_model(
        helper.make_graph([node], composite.name, infos(inputs), infos(outputs)),
        functions=[function(composite, opset)],
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)],
        ir_version=10,
    )
    onnx.checker.check_model(made)
    return made


def session(
    composite: Composite,
    operands: Sequence[np.ndarray],
    attributes: Mapping[str, Any] | None = None,
    threads: int = 1,
) -> Callable[[], np.ndarray]:
    """Return a function without arguments that runs a composite in ONNX Runtime on these operands.

    Raise TypeMismatch if they do not fit the declaration.

    Args:
        composite: The composite.
        operands: Its operands.
        attributes: Values of its attributes, if they are not the declared ones.
        threads: The number of threads of an operator.
    """
    from workbench.frontends.runtime import session as loaded

    made = model(bind(composite, [TensorType.of(x) for x in operands], attributes))
    run = loaded(made, threads=threads, spin=False).run
    feeds = {t.name: x for t, x in zip(composite.inputs, operands, strict=True)}
    return lambda: np.asarray(run(None, feeds)[0])
