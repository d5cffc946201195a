"""Winograd's convolution as operators: a convolution along one axis is many small ones, of fewer products.

A window of three rows slides over an image. Four neighbouring rows of the result need six rows of the image, and
Toom-Cook's algorithm computes them by six products instead of twelve. So the operators of one axis are

- ``winograd_input``: cuts the image into overlapping strips, and writes the ``B`` of each as more channels;
- ``winograd_weight``: writes the ``G`` of a weight as more output channels, once for all images;
- a convolution with as many groups, whose kernel has one row: the products, an operator that there is anyway;
- ``winograd_output``: writes the ``A`` of the products as rows again.

The convolution between them may have three columns, and is computed in the same way along the other axis. After that
its kernel is 1 by 1. The names have the axis and the numbers of outputs and taps: ``winograd_input_rows_4_3``;
``_whole`` is added for other interpolation points. Each is one declaration in index notation, which is made from the
matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Final

from workbench.kernels.composites.composite import Composite
from workbench.kernels.composites.define import register
from workbench.kernels.composites.equations import parse
from workbench.kernels.fast.toom_cook import Algorithm, algorithm

#: The algorithms that have operators, by the end of their names.
ALGORITHMS: Final = {
    "2_3": algorithm(2, 3),
    "4_3": algorithm(4, 3),
    "4_3_whole": algorithm(4, 3, whole=True),
    "2_5": algorithm(2, 5),
}
AXES: Final = ("rows", "columns")


def operators(axis: str, name: str, by: Algorithm) -> tuple[Composite, Composite, Composite]:
    """Return the transforms of input, weight and output along ``rows`` or ``columns``; ``name`` ends their names."""
    return _input(axis, name, by), _weight(axis, name, by), _output(axis, name, by)


def _input(axis: str, name: str, by: Algorithm) -> Composite:
    n, m, r = by.products, by.outputs, by.taps
    own, other = ("H", "W") if axis == "rows" else ("W", "H")
    strips = f"({own}+first+last+{m - r})//{m}"
    places = [f"{m}*s-first+{u}" if u else f"{m}*s-first" for u in range(n)]
    inside = {p: f"where(0 <= {p} and {p} < {own}, x[~ q%C {_at(axis, p, 't')}], 0)" for p in places}
    rows = [_combination(row, [inside[p] for p in places]) for row in by.input]
    return parse(
        f"winograd_input_{axis}_{name}",
        f"x{{T}}[~ C H W] -> y{{T}}[~ {n}*C {_at(axis, strips, other)}]",
        f"y[~ q {_at(axis, 's', 't')}] = {_chosen('q//C', rows)}",
        doc=f"Overlapping strips of {n} {axis}, transformed for {m} outputs of {r} taps.",
        first=1,
        last=1,
    )


def _weight(axis: str, name: str, by: Algorithm) -> Composite:
    n, r = by.products, by.taps
    read = [f"w[q%O c {_at(axis, str(k), 't')}]" for k in range(r)]
    rows = [_combination(row, read) for row in by.weight]
    own, other = ("K", "L") if axis == "rows" else ("L", "K")
    return parse(
        f"winograd_weight_{axis}_{name}",
        f"w{{T}}[O I K L] -> u{{T}}[{n}*O I {_at(axis, '1', other)}] where {own} = {r}",
        f"u[q c {_at(axis, 's', 't')}] = {_chosen('q//O', rows)}",
        doc=f"Weights of {r} {axis}, transformed for {by.outputs} outputs.",
    )


def _output(axis: str, name: str, by: Algorithm) -> Composite:
    n, m = by.products, by.outputs
    own, other = ("H", "W") if axis == "rows" else ("W", "H")
    channels = ["q", *(f"{a}*(C//{n})+q" for a in range(1, n))]
    read = [f"x[~ {c} {_at(axis, f's//{m}', 't')}]" for c in channels]
    rows = [_combination(row, read) for row in by.output]
    return parse(
        f"winograd_output_{axis}_{name}",
        f"x{{T}}[~ C H W] -> y{{T}}[~ C//{n} {_at(axis, 'count', other)}] "
        f"where C = {n}*(C//{n}), {own} = (count+{m - 1})//{m}",
        f"y[~ q {_at(axis, 's', 't')}] = {_chosen(f's%{m}', rows)}",
        doc=f"Strips of {m} {axis} from the {n} products of each.",
        count=1,
    )


def _at(axis: str, own: str, other: str) -> str:
    return f"{own}, {other}" if axis == "rows" else f"{other}, {own}"


def _combination(row: Sequence[Fraction], values: Sequence[str]) -> str:
    """Return a sum of products in which zeros and ones do not occur."""
    text = ""
    for factor, value in zip(row, values, strict=True):
        if not factor:
            continue
        size = abs(factor)
        scaled = value if size == 1 else f"{size.numerator}*{value}"
        scaled += f"/{size.denominator}" if size.denominator > 1 else ""
        sign = " - " if factor < 0 else " + "
        text += sign + scaled if text else ("-" if factor < 0 else "") + scaled
    return text or "0"


def _chosen(place: str, rows: Sequence[str]) -> str:
    """Return the row of a number between 0 and their number."""
    *others, text = rows
    for k, row in reversed([*enumerate(others)]):
        text = f"where({place} == {k}, {row}, {text})"
    return text


for _axis, (_name, _by) in product(AXES, ALGORITHMS.items()):
    for _made in operators(_axis, _name, _by):
        register(_made)
