"""Laws of tiles one by one, as Glenside's issue 42 states them: fill, split, cut off, call.

Three sets for the study of what makes blocking hard. :func:`demanded` fires on products alone.
:func:`generic` has Glenside's rules, whose left-hand side is any tensor: here every operator that moves data.
:func:`filling` are the laws that a filled or dropped inner block rests on, with the zeros as a condition.
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.kernels.accelerators.lowering import unit_operator
from workbench.kernels.accelerators.rules import CONV, HEIGHT, IMAGE, KERNEL, TAPS, UNFOLDED, WIDTH
from workbench.kernels.accelerators.unit import Unit
from workbench.rules import RuleSet, parse_rules

#: A convolution as the product of its kernels and its windows, the form from which Glenside starts.
_WINDOWS = (
    f"windows: conv2d[{CONV}, groups=1](x, w) => reshape[shape={IMAGE}]("
    f"matmul({KERNEL}, reshape[shape=({TAPS}, ({HEIGHT}) * ({WIDTH}))]({UNFOLDED})))"
)


def demanded(unit: Unit) -> RuleSet:
    """Return the laws that block a product of matrices call by call, each on demand of a product."""
    unit_operator(unit)
    k, n = unit.inner, unit.columns
    fill_k, fill_n = f"{k} - dim(x, -1) % {k}", f"{n} - dim(y, -1) % {n}"
    inner, columns = "dim(x, -1)", "dim(y, -1)"
    text = f"""
{_WINDOWS}
fill-inner: matmul(x, y) => matmul(pad[pads=(0, 0, 0, {fill_k})](x), pad[pads=(0, 0, {fill_k}, 0)](y)) \\
    where {inner} % {k} != 0
fill-columns: matmul(x, y) => \\
    slice[axis=-1, start=0, stop={columns}](matmul(x, pad[pads=(0, 0, 0, {fill_n})](y))) \\
    where {columns} % {n} != 0
split-columns: matmul(x, y) => concat[axis=-1](matmul(x, slice[axis=-1, start=0, stop={n}](y)), \\
    matmul(x, slice[axis=-1, start={n}, stop={columns}](y))) where {columns} % {n} = 0, {n} < {columns}
split-inner: matmul(x, y) => add( \\
    matmul(slice[axis=-1, start=0, stop={k}](x), slice[axis=-2, start=0, stop={k}](y)), \\
    matmul(slice[axis=-1, start={k}, stop={inner}](x), slice[axis=-2, start={k}, stop={inner}](y))) \\
    where {inner} % {k} = 0, {k} < {inner}
call: matmul(x, y) => {unit.name}(x, y) where rank(x) = 2, rank(y) = 2, {inner} = {k}, {columns} = {n}
slice-of-slice: slice[axis=a, start=i, stop=j](slice[axis=a, start=l, stop=m](x)) => \\
    slice[axis=a, start=l + i, stop=l + j](x)
"""
    return RuleSet(f"demanded by {unit.name}", tuple(parse_rules(text)), weights=True)


def generic(unit: Unit) -> RuleSet:
    """Return rules like Glenside's generic ones: any result is filled and cut back, or cut and joined.

    Glenside's match every tensor of a program; these match the results of the others: products, sums, slices
    and filled tensors, along each of the last two axes.
    """
    rules = *parse_rules("\n".join(_any_result(unit))), *demanded(unit)
    return RuleSet(f"generic for {unit.name}", rules, weights=True)


def _any_result(unit: Unit) -> Iterator[str]:
    """Yield the rules that cut and join any result, then those that fill it and cut it back."""
    n, fills = unit.columns, []
    for axis, side, last, pad in ((-1, "columns", "y", "m"), (-2, "rows", "x", "l")):
        results = {
            "product": ("matmul(x, y)", f"dim({last}, {axis})"),
            "sum": ("add(x, z)", f"dim(x, {axis})"),
            "slice": (f"slice[axis={axis}, start=i, stop=j](x)", "(j - i)"),
            "filled": ("pad[pads=(0, 0, l, m), value=0.0](x)", f"(dim(x, {axis}) + {pad})"),
        }
        for name, (term, extent) in results.items():
            first = f"slice[axis={axis}, start=0, stop={n}]({term})"
            rest = f"slice[axis={axis}, start={n}, stop={extent}]({term})"
            yield f"cut-{name}-{side}: {term} => concat[axis={axis}]({first}, {rest}) where {n} < {extent}"
            fill = f"{n} - {extent} % {n}"
            filled = f"pad[pads={f'(0, 0, 0, {fill})' if axis == -1 else f'(0, 0, {fill}, 0)'}]({term})"
            back = f"slice[axis={axis}, start=0, stop={extent}]({filled})"
            fills.append(f"fill-{name}-{side}: {term} => {back} where {extent} % {n} != 0")
    yield from fills


#: The facts about zeros next to a matrix by which the laws of filling are proved. A matrix with zeros next to
#: it is its product with an identity that has zeros next to it, which picks the first rows of the factor that
#: follows.
FILLING_AXIOMS = """
filled-is-product: pad[pads=(0, 0, 0, p), value=0.0](x) => \\
    matmul(x, pad[pads=(0, 0, 0, p), value=0.0](eye[size=dim(x, -1), dtype=dtype(x)]())) where 2 <= rank(x)
filled-identity-picks: matmul(pad[pads=(0, 0, 0, p), value=0.0](eye[size=k, dtype=d]()), y) => \\
    slice[axis=-2, start=0, stop=k](y)
first-of-filled-rows: slice[axis=-2, start=0, stop=k](pad[pads=(0, 0, p, 0), value=0.0](x)) => x \\
    where k = dim(x, -2)
"""


def filling(value: float = 0.0) -> RuleSet:
    """Return the laws of a filled inner dimension; they hold for zeros, and with another value are wrong.

    ``dropped`` removes the block that was filled, whatever the other operand has there; ``filled`` adds it to
    both operands.
    """
    text = f"""
dropped: matmul(pad[pads=(0, 0, 0, p), value={value}](x), y) => \\
    matmul(x, slice[axis=-2, start=0, stop=dim(x, -1)](y))
filled: matmul(pad[pads=(0, 0, 0, p), value={value}](x), pad[pads=(0, 0, p, 0), value={value}](y)) => \\
    matmul(x, y)
"""
    return RuleSet("filling", tuple(parse_rules(text)), weights=True)
