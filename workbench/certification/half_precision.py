"""Check whether rewriting a graph keeps numbers in the range of 16-bit floats and as accurate as before.

Over the reals a rewritten graph computes the same. In float16 it may overflow although the original does not,
and in float16 and bfloat16 it may lose digits that the original keeps. Here graphs are computed as a device
computes them in such a type: the result of every operator is rounded, sums inside an operator are not, and
values that depend on weights alone are computed exactly and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from workbench.graph import Graph, Node
from workbench.ops import TensorType, spec_of
from workbench.ops.inputs_and_opaque import RUNTIME
from workbench.ops.types import FLOAT_DTYPES

#: The simulated types, each with the distance from 1 to the next number.
UNITS: Final[dict[str, float]] = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
#: The error of the rewritten side may be this many times the original's error, or half a unit if larger.
FACTOR: Final = 8.0

#: Operators that do no arithmetic in the element type of their result.
_WITHOUT_ARITHMETIC: Final = RUNTIME | {"cast", "identity"}


@dataclass(frozen=True, slots=True)
class RangeFault:
    """A value that a rewrite drives out of range (kind ``overflows``) or makes less accurate (``loses``).

    ``error`` and ``own`` are the errors of the rewritten and of the original side, relative to the largest
    entry of ``output``; the error of an overflow is infinite.
    """

    kind: str
    dtype: str
    output: str
    error: float
    own: float
    where: str = ""

    def __str__(self) -> str:
        at = f" ({self.where})" if self.where else ""
        if self.kind == "overflows":
            return f"{self.output} overflows in {self.dtype} although the original does not{at}"
        return (
            f"{self.output} is {self.error:.1e} off in {self.dtype}, the original {self.own:.1e}, "
            f"more than {FACTOR:g} times as much{at}"
        )


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array of float64 with every entry rounded to a 16-bit type."""
    import ml_dtypes

    with np.errstate(over="ignore", invalid="ignore"):
        short = array.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return np.asarray(short.astype(np.float64))


def range_fault(
    original: Graph, rewritten: Graph, boundary: Sequence[Mapping[str, np.ndarray]]
) -> RangeFault | None:
    """Return the fault of a rewritten region in 16-bit floats, or None if there is none or if it has no such floats.

    ``boundary`` has the values of the inputs by name, one mapping per draw. A draw on which the original itself is not
    finite is skipped, and so is an output that is not a float.
    """
    dtype = short_dtype(original) or short_dtype(rewritten)
    if dtype is None:
        return None
    for draw, inputs in enumerate(boundary):
        exact = _of_graph(original, inputs, None)
        ours = _of_graph(original, inputs, dtype)
        if ours.strange:
            continue
        theirs = _of_graph(rewritten, inputs, dtype)
        gross = _of_graph(original, inputs, None, positive=True)
        outputs = dict(rewritten.outputs)
        for name, i in original.outputs:
            sides = ours.values[i], theirs.values[outputs[name]]
            fault = fault_of(exact.values[i], gross.values[i], *sides, f"output {name!r}", dtype)
            if fault is not None:
                where = f"draw {draw}" + (f", first in {theirs.strange}" if theirs.strange else "")
                return replace(fault, where=where)
    return None


def short_dtype(graph: Graph) -> str | None:
    """Return the 16-bit type in which a graph's operators compute: float16 if both, None if neither."""
    found = {
        node.type.dtype
        for node, live, constant in zip(graph.nodes, graph.reachable(), graph.constant(), strict=True)
        if live and not constant and isinstance(node.type, TensorType) and node.op not in _WITHOUT_ARITHMETIC
    }
    return next((dtype for dtype in UNITS if dtype in found), None)


@dataclass(slots=True, eq=False)
class Computed:
    """Values by node, and the first operator with a result that is not finite."""

    values: dict[int, np.ndarray]
    strange: str = ""


def _of_graph(
    graph: Graph, inputs: Mapping[str, np.ndarray], dtype: str | None, *, positive: bool = False
) -> Computed:
    """Compute a graph in float64, results that run rounded to ``dtype``; ``positive`` floats lose their signs."""
    leaves = {i: np.asarray(inputs[graph.nodes[i].attr("name")]) for i in graph.inputs}
    weights = ((i, node) for i, node in enumerate(graph.nodes) if node.op == "weight")
    leaves |= {i: graph.weights[node.attr("name")].value() for i, node in weights}
    leaves = without_signs(leaves) if positive else leaves
    return computed(list(graph.nodes), leaves, list(graph.constant()), list(graph.reachable()), dtype)


def without_signs(leaves: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Return values with the signs of floats removed."""
    return {i: np.abs(v.astype(np.float64)) if is_float(v) else v for i, v in leaves.items()}


def computed(
    nodes: Sequence[Node],
    leaves: Mapping[int, np.ndarray],
    constant: Sequence[bool],
    live: Sequence[bool],
    dtype: str | None,
) -> Computed:
    """Compute nodes in float64.

    Args:
        nodes: The nodes.
        leaves: The values of inputs and weights by node.
        constant: Whether each node depends on weights alone.
        live: Whether each node is computed.
        dtype: The 16-bit type to which the results of nodes that run are rounded, or None.
    """
    found = Computed({})
    values = found.values
    for i, node in enumerate(nodes):
        if not live[i]:
            continue
        if i in leaves:
            value = np.asarray(leaves[i])
            values[i] = value.astype(np.float64) if is_float(value) else value
            if dtype is not None and is_float(value) and not constant[i]:
                values[i] = rounded(values[i], dtype)
            continue
        operands = [values[j] for j in node.inputs]
        if dtype is not None and not constant[i]:
            # A value computed from weights alone is rounded once, when an operator that runs reads it.
            operands = [
                rounded(v, dtype) if constant[j] and v.dtype == np.float64 else v
                for v, j in zip(operands, node.inputs, strict=True)
            ]
        attrs = node.named_attrs()
        if not node.inputs and attrs.get("dtype") in FLOAT_DTYPES:
            attrs["dtype"] = "float64"
        with np.errstate(all="ignore"):
            if node.op == "cast" and attrs.get("to") in FLOAT_DTYPES:
                value = operands[0].astype(np.float64)
            else:
                run = spec_of(node.op).evaluate
                assert run is not None, node.op
                value = np.asarray(run(operands, attrs))
            if dtype is not None and not constant[i] and value.dtype == np.float64:
                # Wider types of mixed graphs stay exact; instances of rules are drawn in float32, for any type.
                declared = node.type.dtype if isinstance(node.type, TensorType) else dtype
                if declared in (*UNITS, "float32"):
                    value = rounded(value, dtype)
        values[i] = value
        if not found.strange and value.dtype == np.float64 and not np.isfinite(value).all():
            found.strange = node.op
    return found


def is_float(value: np.ndarray) -> bool:
    """Return whether an array holds floats."""
    return value.dtype.kind == "f" or str(value.dtype) == "bfloat16"


def fault_of(
    exact: np.ndarray, gross: np.ndarray, ours: np.ndarray, theirs: np.ndarray, output: str, dtype: str
) -> RangeFault | None:
    """Return the fault of a rewritten value, or None.

    Args:
        exact: The value in float64.
        gross: The value for positive operands, without cancellation.
        ours: The value of the original in the 16-bit type.
        theirs: The value after rewriting in the 16-bit type.
        output: The name of the value.
        dtype: The 16-bit type.
    """
    if exact.dtype != np.float64 or not exact.size or not np.isfinite(ours).all():
        return None
    if not np.isfinite(theirs).all():
        return RangeFault("overflows", dtype, output, float("inf"), _off(exact, gross, ours))
    own, error = _off(exact, gross, ours), _off(exact, gross, theirs)
    if error > FACTOR * max(own, UNITS[dtype] / 2):
        return RangeFault("loses", dtype, output, error, own)
    return None


def _off(exact: np.ndarray, gross: np.ndarray, found: np.ndarray) -> float:
    size = max(float(np.abs(exact).max()), float(np.abs(gross[np.isfinite(gross)]).max(initial=0.0)))
    gap = float(np.abs(exact - found).max())
    return gap / size if size else (0.0 if not gap else float("inf"))
