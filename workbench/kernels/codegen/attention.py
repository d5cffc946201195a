"""Kernels of attention: products of queries and keys, a softmax of each row, and sums of values, block by block.

The scores of a block of queries stay in the nearer caches, as in FlashAttention (arXiv 2205.14135). A row of scores is
whole here, so nothing is computed twice. Heads are cut out of their operands, and put together again, by the places of
elements alone: the reshapes, transposes and slices around attention are part of the kernel and take no time. Keys that
a mask excludes for all queries of a group are left out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from workbench.kernels.codegen.c_printer import literal
from workbench.kernels.codegen.clusters import Cluster, Member, Readers
from workbench.kernels.codegen.lanes import TILES, Text, defined, second_level, vectors
from workbench.kernels.composites.composite import Composite
from workbench.ops.types import TensorType
from workbench.support.orders import topological

_TEXT: Final = Path(__file__).with_name("attention.c")

#: The names of the composites of attention; in the second, a query of which all keys are excluded has the result 0.
NAMES: Final = ("attention", "attention_or_zero")
#: The least numbers of queries and of keys for which a kernel may pay, and the most keys: a row must stay in a cache.
LEAST, MOST_KEYS = 8, 1 << 13
#: The part of the second-level cache that the scores of a block may fill, and the most queries of a smaller block.
PART, SMALLER = 1 / 4, 48
#: The most operators before or after attention that only move elements, and the most that make scores of products.
MOVES, SCORES = 8, 5
#: The operators that only move elements, and those that may also multiply them by a number.
_MOVING: Final = ("transpose", "reshape", "slice")
_SCALING: Final = (*_MOVING, "mul", "div")


@dataclass(frozen=True, slots=True)
class Attention:
    """The number of queries of a block, in the place of a schedule of loops."""

    rows: int

    def __str__(self) -> str:
        return f"attention in blocks of {self.rows} queries"

    def written(self, name: str, cluster: Cluster) -> Text:
        """Return the C text of attention, of which all names begin so."""
        heads = heads_of(cluster)
        a, b, rows, keys, depth, values = heads.sizes
        blocks = -(-rows // self.rows)
        sizes: dict[str, object] = {
            "HEADS": b, "QUERIES": rows, "KEYS": keys, "DEPTH": depth, "VALUES": values, "ROWS": self.rows,
            "BLOCKS": blocks, "SCALE": literal(heads.scale, "float32"), "OR_ZERO": int(heads.or_zero),
            "INPUTS_HERE": len(cluster.inputs),
        }  # fmt: skip
        for key, view in heads.views.items():
            first, second, *matrix = (0, 0, 0, 0) if view is None else view.steps
            line, step = matrix[::-1] if key == "KEY" else matrix  # a line is a key
            sizes |= {f"{key}_A": first, f"{key}_B": second, f"{key}_LINE": line, f"{key}_STEP": step}
            sizes[f"{key}_FROM"] = 0 if view is None else view.first
            sizes[key] = -1 if view is None or view.value < 0 else cluster.inputs.index(view.value)
        cases = {"CASES": ({min(self.rows, rows - k) for k in range(0, rows, self.rows)}, TILES)}
        text = "\n".join([vectors(name, cases), defined(sizes), _TEXT.read_text()])
        padded = -(-keys // 32) * 32 * (depth + self.rows) + -(-values // 32) * 32 * keys
        return Text(text, a * b * blocks, 4 * padded, prepares=False)


@dataclass(frozen=True, slots=True)
class View:
    """A matrix of each head by the places of its elements in a value that is stored.

    ``steps`` are the distances of neighbours on the axes, which are two leading ones and those of the matrix, and
    ``first`` is the place of the first element. ``members`` are the operators that move the elements there, operands
    first, and ``factor`` is what they multiply them by.
    """

    value: int
    steps: tuple[int, ...]
    first: int
    members: tuple[Member, ...] = ()
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention by the places of all elements.

    ``sizes`` are the extents of the two leading axes, and the numbers of queries, of keys, of elements of a key, and of
    elements of a value. ``mask`` is added to the scores, after they are multiplied by ``scale``.
    """

    sizes: tuple[int, ...]
    query: View
    key: View
    value: View
    mask: View | None
    result: View
    scale: float
    or_zero: bool

    @property
    def views(self) -> dict[str, View | None]:
        """Return the operands and the result by their names in C."""
        parts = self.query, self.key, self.value, self.mask, self.result
        return dict(zip(("QUERY", "KEY", "VALUE", "MASK", "RESULT"), parts, strict=True))


# -- clusters ------------------------------------------------------------------------------------------
def is_attention(cluster: Cluster) -> bool:
    """Return whether a cluster is attention that one kernel computes."""
    return cluster.composite.name in NAMES


def attentions(known: Readers) -> Iterator[Cluster]:
    """Yield each attention of an e-graph, with the operators around it that only move elements."""
    for last in (m for makers in known.makers.values() for m in makers if _is_product(m)):
        found = _attention(last, known)
        if found is not None and (cluster := _cluster(*found, known)) is not None:
            yield cluster


def heads_of(cluster: Cluster) -> Heads:
    """Return the attention of a cluster by the places of all elements."""
    makers, readers = {m.place: [m] for m in cluster.members}, dict[int, list[Member | None]]()
    for m in cluster.members:
        for j in set(m.operands):
            readers.setdefault(j, []).append(m)
    types = dict(zip(cluster.inputs, cluster.read, strict=True)) | {m.place: m.type for m in cluster.members}
    types |= {j: TensorType("float32", ()) for j, _ in cluster.known}
    known = Readers(cluster.members, makers, readers, (cluster.result,), (), types, dict(cluster.known))
    found = (_attention(m, known) for m in reversed(cluster.members) if _is_product(m))
    return next(x[1] for x in found if x is not None)


def _is_product(m: Member) -> bool:
    return m.op == "matmul" and m.type.dtype == "float32" and m.named["act"] == "none"


def _attention(last: Member, known: Readers) -> tuple[list[Member], Heads] | None:
    """Return the attention of which an operator computes the sums of values, and its operators; or None."""
    for softmax, guard in _weights(last.operands[0], known):
        for members, factor, mask in _scores(softmax.operands[0], known, 1):
            whole = [*members, softmax, *guard, last]
            if (heads := _heads(whole, factor, mask, bool(guard), known)) is not None:
                return whole, heads
    return None


def _weights(place: int, known: Readers) -> Iterator[tuple[Member, list[Member]]]:
    """Yield each softmax of the last axis that makes a value, and the operators that turn its NaNs into 0."""
    for m in known.makers.get(place, ()):
        if m.op == "softmax" and m.named["axis"] % m.type.rank == m.type.rank - 1:
            yield m, []
        if m.op == "select" and known.numbers.get(m.operands[1]) == 0:
            for test in known.makers.get(m.operands[0], ()):
                if test.op == "is_nan" and test.operands == m.operands[2:]:
                    softmaxes = _weights(test.operands[0], known)
                    yield from ((s, [test, m]) for s, guard in softmaxes if not guard)


def _scores(place: int, known: Readers, depth: int) -> Iterator[tuple[list[Member], float, int | None]]:
    """Yield the operators that make scores of products, the factor among them, and what is added then, or None."""
    for m in known.makers.get(place, ()) if depth <= SCORES else ():
        if _is_product(m):
            yield [m], 1.0, None
        for j, other in (m.operands, m.operands[::-1]) if m.op in ("mul", "div", "add") else ():
            if known.types[j] != m.type or (m.op == "div" and j != m.operands[0]):
                continue
            number = known.numbers.get(other)
            for members, factor, mask in _scores(j, known, depth + 1):
                if mask is None and m.op == "add" and number is None:
                    yield [*members, m], factor, other
                elif mask is None and m.op != "add" and number:
                    yield [*members, m], factor * number if m.op == "mul" else factor / number, None


def _heads(
    members: Sequence[Member], factor: float, mask: int | None, or_zero: bool, known: Readers
) -> Heads | None:
    """Return attention by the places of all elements, or None if a kernel cannot pay or has no such form.

    The products of queries and keys, of which ``members`` begins with the operator, are multiplied by ``factor``;
    then ``mask`` is added to them, unless it is None.
    """
    product, last, following = members[0], members[-1], _following(members[-1], known)
    *lead, rows, keys = product.type.shape
    depth, values = known.types[product.operands[0]].shape[-1], last.type.shape[-1]
    axes = [k for k, n in enumerate(lead) if n > 1]
    fits = min(rows, keys) >= LEAST and keys <= MOST_KEYS and last.type.shape[:-1] == (*lead, rows)
    if not fits or len(axes) > 2 or any(m.type != product.type for m in members[:-1] if m.op != "is_nan"):
        return None

    def view(j: int, ops: Collection[str], *matrix: int) -> View:
        return _view(j, (*lead, *matrix), axes, known, ops)

    q, k = view(product.operands[0], _SCALING, rows, depth), view(product.operands[1], _SCALING, depth, keys)
    v = view(last.operands[1], _MOVING, keys, values)
    added = None if mask is None else view(mask, (), rows, keys)
    y = _result(last.type.shape, axes, following)
    if y is None:
        return None
    outer = (*[1] * (2 - len(axes)), *(lead[a] for a in axes))
    scale = factor * q.factor * k.factor
    return Heads((*outer, rows, keys, depth, values), q, k, v, added, y, scale, or_zero)


def _following(last: Member, known: Readers) -> list[Member]:
    """Return the operators after attention that only move elements, up to the first value that others read, too."""
    found = [last]
    while len(found) <= MOVES and (following := known.of(found[-1].place)):
        if len({m.place for m in following}) > 1 or following[0].op not in ("transpose", "reshape"):
            break
        found.append(following[0])
    return found[1:]


def _view(
    place: int, shape: Sequence[int], axes: Sequence[int], known: Readers, ops: Collection[str]
) -> View:
    """Return a value, as it broadcasts to a shape, by the places of its elements in the value that it was cut out of.

    ``axes`` are the leading axes that are longer than 1, and ``ops`` the operators that may be on the way.
    """
    chain, seen, at, numbers = list[Member](), {place}, place, known.numbers
    while len(chain) < MOVES:
        made = (m for m in known.makers.get(at, ()) if m.op in ops)
        options = ((m, j) for m in made if (j := _moved(m, numbers)) is not None and j not in seen)
        if (before := next(options, None)) is None:
            break
        chain.append(before[0])
        at = before[1]
        seen.add(at)
    value, kept, factor = at, list[Member](), 1.0
    # One byte per element; numpy's views tell the places, and no element is ever touched.
    array = stored = np.empty(known.types[at].shape, np.int8)
    for m in reversed(chain):
        moved = _move(m, array)
        kept.append(m)
        if m.op in ("mul", "div"):
            factor *= next(numbers[j] for j in m.operands if j in numbers) ** (-1 if m.op == "div" else 1)
        if not np.may_share_memory(moved, stored):  # its elements have no such places: they must be moved
            value, kept, factor, stored = m.place, [], 1.0, np.empty(m.type.shape, np.int8)
            moved = stored
        array = moved
    first = array.ctypes.data - stored.ctypes.data
    return View(value, _steps(np.broadcast_to(array, tuple(shape)), axes), first, tuple(kept), factor)


def _moved(m: Member, numbers: Mapping[int, float]) -> int | None:
    """Return the value of which an operator moves the elements, or multiplies them by a number; or None."""
    if m.op in _MOVING or (m.op in ("mul", "div") and numbers.get(m.operands[1])):
        return m.operands[0]
    return m.operands[1] if m.op == "mul" and numbers.get(m.operands[0]) else None


def _move(m: Member, array: np.ndarray) -> np.ndarray:
    named = m.named
    if m.op == "slice":
        cut = [slice(None)] * array.ndim
        cut[named["axis"]] = slice(named["start"], named["stop"], named["step"])
        return array[tuple(cut)]
    return array.transpose(named["perm"]) if m.op == "transpose" else array.reshape(m.type.shape)


def _steps(array: np.ndarray, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the distances of neighbours on two leading axes and on those of the matrix, at one byte per element."""
    steps = [array.strides[a] for a in (*axes, array.ndim - 2, array.ndim - 1)]
    return (*[0] * (4 - len(steps)), *steps)


def _result(shape: Sequence[int], axes: Sequence[int], following: Sequence[Member]) -> View | None:
    """Return the places of sums of values in the result, or None if they have no such places."""
    array = stored = np.empty(following[-1].type.shape if following else shape, np.int8)
    for k, m in reversed(list(enumerate(following))):
        before = following[k - 1].type.shape if k else tuple(shape)
        moved = array.transpose(np.argsort(m.named["perm"])) if m.op == "transpose" else array.reshape(before)
        if not np.may_share_memory(moved, stored):
            return None
        array = moved
    return View(-1, _steps(array, axes), 0, tuple(following))


def _cluster(members: Sequence[Member], heads: Heads, known: Readers) -> Cluster | None:
    """Return attention with what moves elements before and after it, or None if its places have no index notation."""
    operands = [heads.query, heads.key, heads.value, *([] if heads.mask is None else [heads.mask])]
    rest = (*members, *heads.result.members)
    own = {m.place: m for m in (*(m for x in operands for m in x.members), *rest)}
    last = rest[-1]
    ordered = topological([last], lambda m: [own[j] for j in m.operands if j in own])
    inputs = tuple(dict.fromkeys(x.value for x in operands))
    made = {m.place for m in ordered}
    if made & set(inputs) or any(known.types[j].dtype != "float32" for j in inputs):
        return None
    read = tuple(known.types[j] for j in inputs)
    composite = _composite(heads, dict(zip(inputs, read, strict=True)), last.type)
    if composite is None:
        return None
    kept = dict.fromkeys(j for m in ordered for j in m.operands if j not in made and j not in inputs)
    shapes, numbers = tuple(t.shape for t in read), tuple((j, known.numbers[j]) for j in kept)
    return Cluster(tuple(ordered), composite, inputs, shapes, read, numbers)


def _composite(heads: Heads, inputs: Mapping[int, TensorType], kind: TensorType) -> Composite | None:
    """Return attention in index notation, or None if an element's place has no form by the axes of its value."""
    from workbench.kernels.composites.equations import parse

    names = {j: f"x{k}" for k, j in enumerate(inputs)}
    a, b, rows, keys, depth, values = heads.sizes
    head = f"a < {a} b < {b}"

    def read(view: View, of: str, *extents: int) -> str | None:
        places = _places(view, (a, b, *extents), inputs[view.value].shape, ("a", "b", *of))
        return None if places is None else f"{names[view.value]}[{places}]"

    q, k = read(heads.query, "id", rows, depth), read(heads.key, "dj", depth, keys)
    v = read(heads.value, "je", keys, values)
    mask = "0" if heads.mask is None else read(heads.mask, "ij", rows, keys)
    y = _axes_of(heads.result, (a, b, rows, values), kind.shape)
    if None in (q, k, v, mask, y):
        return None
    own = " ".join(f"o{k} < {n}" for k, n in enumerate(kind.shape))
    lines = [
        f"s[{head} i < {rows} j < {keys}] = (sum(d < {depth}) {q} * {k}) * {heads.scale!r} + {mask}",
        f"m[{head} i < {rows}] = max(j) s[a b i j]",
        f"w[{head} i < {rows} j < {keys}] = exp(s[a b i j] - m[a b i])",
        f"t[{head} i < {rows}] = sum(j) w[a b i j]",
        f"r[{head} i < {rows} e < {values}] = (sum(j) w[a b i j] * {v}) / t[a b i]",
        f"y[{own}] = r[{y}]",
    ]
    declared = [f"{names[j]}{{T}}[{' '.join(map(str, t.shape))}]" for j, t in inputs.items()]
    declaration = f"{', '.join(declared)} -> y{{T}}[{' '.join(map(str, kind.shape))}]"
    return parse(NAMES[heads.or_zero], declaration, "\n".join(lines), composites=None, doc="")


def _axis_of(step: int, shape: Sequence[int]) -> tuple[int, int] | None:
    """Return the axis of a dense value along which a step goes, and how many places it takes there; or None."""
    for axis, n in enumerate(shape):
        stride = math.prod(shape[axis + 1 :])
        if n > 1 and stride <= step:
            return None if step % stride else (axis, step // stride)
    return None


def _places(view: View, extents: Sequence[int], shape: Sequence[int], names: Sequence[str]) -> str | None:
    """Return the indices of a stored value at which an element of a view lies, or None if it is not a sum of steps."""
    starts = [int(n) for n in np.unravel_index(view.first, tuple(shape))] if shape else []
    terms, largest = [[str(n)] if n else [] for n in starts], [*starts]
    for step, n, name in zip(view.steps, extents, names, strict=True):
        if n == 1 or step == 0:
            continue
        if (found := _axis_of(step, shape)) is None:
            return None
        axis, times = found
        largest[axis] += times * (n - 1)
        terms[axis].append(name if times == 1 else f"{times} * {name}")
    fits = all(most < n for most, n in zip(largest, shape, strict=True))
    return " ".join(f"({' + '.join(t)})" if t else "0" for t in terms) if fits else None


def _axes_of(view: View, extents: Sequence[int], shape: Sequence[int]) -> str | None:
    """Return the indices of a view at which an element of the whole value ``o0, o1, …`` lies, or None."""
    indices = []
    for step, n in zip(view.steps, extents, strict=True):
        if n == 1:
            indices.append("0")
            continue
        if (found := _axis_of(step, shape)) is None:
            return None
        axis, times = found
        quotient = f"(o{axis} // {times})" if times > 1 else f"o{axis}"
        indices.append(quotient if n * times >= shape[axis] else f"({quotient} % {n})")
    return " ".join(indices)


def candidates(cluster: Cluster) -> tuple[Attention, ...]:
    """Return the numbers of queries that may be the fastest: as many as stay in the second-level cache, and fewer."""
    rows, keys = heads_of(cluster).sizes[2:4]
    most = max(TILES[0], int(second_level() * PART) // (4 * (keys + 31)))
    even = (-(-rows // -(-rows // min(n, rows))) for n in (most, SMALLER))
    return tuple(map(Attention, dict.fromkeys(even)))
