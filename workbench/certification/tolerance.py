"""How much two values may differ: one table of tolerances, one model of rounding, one comparison of each kind.

Over the reals a rewritten model computes the same, so what may differ is rounding. Three things tell how much
that is. In float64 almost nothing (:data:`EXACT`). In the model's own element types, what the table
:data:`STATED` allows, relative to the largest entry. Where that is too coarse or too fine, the original itself
tells: it runs once more with its operands, inputs or weights changed by units of their last place, and two
models may differ as much as it then moves (:func:`moved_model`, :func:`rounded_otherwise`). A number that a
model stores, such as sqrt(2) in float32, may be read as the number that was meant (:func:`movement`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from workbench.certification.model import Model
from workbench.frontends.onnx.file import copied
from workbench.frontends.onnx.prepare import read_by
from workbench.frontends.onnx.traits import OnnxTrait, has
from workbench.graph import Builder, Graph, Node
from workbench.graph.weights import Weight
from workbench.ops.types import DTYPE_CODES, DTYPE_NAMES, FLOAT_DTYPES, TensorType

#: The largest difference of a rewritten region in float64, relative to the largest entry.
EXACT: Final = 1e-9
#: The largest difference in an element type, relative to the largest entry. Two files whose original can be
#: moved are compared more closely, by its movement.
STATED: Final[dict[str, float]] = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
#: The distance from 1 to the next number, by element type.
UNIT: Final[dict[str, float]] = {
    "float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7,
}  # fmt: skip
#: The least positive number that has all its digits, by element type.
_LEAST: Final[dict[str, float]] = {
    "float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126,
}  # fmt: skip
#: The number of units of the last place by which an operand is moved; one unit of a 16-bit float is large.
MOVED_BY: Final[dict[str, float]] = {"float64": 64.0, "float32": 16.0, "float16": 1.0, "bfloat16": 1.0}
#: Differences up to this many times the movement of the original are rounding.
TIMES: Final = 4.0
#: Differences up to this many units of the last place of the largest entry are always rounding.
FLOOR: Final = 4.0
#: A maximum over fewer entries than this is not used as a bound for other entries.
_ENOUGH: Final = 16
#: The largest movement of a column over fewer moved entries than this is not used as a bound for it.
_ENOUGH_MOVES: Final = 8

#: Weights with more elements than this are not changed.
_SMALL: Final = 1 << 16

#: The largest part of a value that rounded numbers may explain, by element type: eight units in the last place.
MOST_EXPLAINED: Final = {"float32": 1e-6, "float16": 8e-3}
#: The largest number of rounded numbers of one region that are moved.
MOST_NUMBERS: Final = 24

#: A number below this, with no finer fraction than one part in as many, is not the rounding of another one.
_PLAIN: Final = 2.0**10
#: The element types, in an ONNX file, of weights that are rounded otherwise.
_ROUNDED: Final = frozenset(DTYPE_CODES[d] for d in ("float64", "float32", "float16"))

Evaluated = Callable[[Graph], Mapping[str, np.ndarray]]
#: The largest tolerance in each column of a value, relative to that of the whole value, by number of columns.
Shares: TypeAlias = Mapping[int, np.ndarray]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The entry at which two values differ most, in units of the tolerance there."""

    index: tuple[int, ...]
    expected: Any
    found: Any
    tolerance: float
    what: str = ""

    @property
    def excess(self) -> float:
        """Return the difference of the values in units of the tolerance."""
        try:
            gap = abs(complex(self.expected) - complex(self.found))
        except (TypeError, ValueError):
            return math.inf
        return gap / self.tolerance if self.tolerance > 0 and math.isfinite(gap) else math.inf


# -- values of graphs ---------------------------------------------------------------------------------
def tolerance_of(graph: Graph) -> float:
    """Return the largest allowed difference between the saved forms of a graph, given its coarsest dtype."""
    kinds = {n.type.dtype for n in graph.nodes if isinstance(n.type, TensorType)}
    return max((STATED[k] for k in kinds if k in STATED), default=STATED["float64"])


def difference(expected: np.ndarray, found: np.ndarray) -> tuple[float, Sequence[int]]:
    """Return the largest relative difference of two arrays and its index.

    The difference is relative to the largest finite entry of ``expected``. Entries that are not finite must
    agree; otherwise the difference is infinite.
    """
    if expected.shape != found.shape:
        return math.inf, (0,) * expected.ndim
    if str(expected.dtype) == "bfloat16":  # not a floating type of numpy
        expected, found = expected.astype(np.float64), found.astype(np.float64)
    if not np.issubdtype(expected.dtype, np.floating):
        wrong = np.argwhere(expected != found)
        return (math.inf, wrong[0].tolist()) if len(wrong) else (0.0, ())
    finite = np.isfinite(expected)
    strange = (finite != np.isfinite(found)) | (
        ~finite & ~((expected == found) | (np.isnan(expected) & np.isnan(found)))
    )
    if strange.any():
        return math.inf, np.argwhere(strange)[0].tolist()
    if not finite.any():
        return 0.0, ()
    gap = np.where(finite, np.abs(np.where(finite, expected, 0) - np.where(finite, found, 0)), 0.0)
    scale = float(np.abs(expected[finite]).max())
    where = np.unravel_index(int(gap.argmax()), gap.shape)
    largest = float(gap[where])
    return (largest / scale if scale > 0 else largest), [int(i) for i in where]


# -- values of files ----------------------------------------------------------------------------------
def mismatch(
    expected: object, found: object, moved: Sequence[Any], shares: Shares | None = None
) -> Mismatch | None:
    """Return the entry at which a value differs from the expected one by more than rounding, or None.

    Entries that are not finite must be the same, except those whose finiteness changes between the runs of the
    original.

    Args:
        expected: The value in the original.
        found: The value in the other model.
        moved: The value in runs of the changed original; if there are none, the stated tolerance of the
            element type applies.
        shares: The share of each column in the rounding of the value, over several draws.
    """
    if isinstance(expected, list | tuple | dict) or expected is None:
        return _structure(expected, found)
    if not isinstance(found, np.ndarray | np.generic):
        return Mismatch((), _short(expected), _short(found), 0.0, "not a tensor in B")
    a, b = np.asarray(expected), np.asarray(found)
    kinds = TensorType.of(a), TensorType.of(b)
    if kinds[0] != kinds[1]:
        return Mismatch((), str(kinds[0]), str(kinds[1]), 0.0, f"{kinds[0]} in A, {kinds[1]} in B")
    if not a.size:
        return None
    others = [np.asarray(m) for m in moved if np.shape(m) == a.shape]
    if kinds[0].dtype in FLOAT_DTYPES or kinds[0].dtype.startswith("complex"):
        return _floats(a, b, others, shares or {})
    return _discrete(a, b, others)


def _structure(expected: Any, found: Any) -> Mismatch | None:
    if expected is None and found is None:
        return None
    both = _short(expected), _short(found), 0.0
    if expected is None or found is None:
        return Mismatch((), *both, "absent in one model")
    if type(expected) is not type(found) or len(expected) != len(found):
        return Mismatch((), *both, "of another length in B")
    if isinstance(expected, dict) and expected.keys() != found.keys():
        return Mismatch((), *both, "other keys in B")
    for place, key in enumerate(expected if isinstance(expected, dict) else range(len(expected))):
        x, y = (v if isinstance(v, dict | list) else np.asarray(v) for v in (expected[key], found[key]))
        at = mismatch(x, y, ())
        if at is not None:
            return Mismatch((place, *at.index), at.expected, at.found, at.tolerance, at.what)
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "…"


def shares_of(expected: Sequence[object], moved: Sequence[Sequence[object]]) -> Shares:
    """Return how much of the rounding of a value its columns can have, by the number of columns.

    The value of a batch of one has a single entry per column and draw, which may move little by chance, so the
    draws are taken together: the share of a column is the largest tolerance of its entries, relative to the
    largest one of the draw. It is 1, no bound, for a column that is zero on most draws. ``moved`` has for each draw the
    value in runs of the changed original.
    """
    shares: dict[int, np.ndarray] = {}
    samples: dict[int, np.ndarray] = {}
    for value, runs in zip(expected, moved, strict=True):
        if not runs or not isinstance(value, np.ndarray) or not value.ndim or not value.size:
            continue
        if TensorType.of(value).dtype not in FLOAT_DTYPES:
            continue
        others = [m for m in map(np.asarray, runs) if m.shape == value.shape]
        allowed = _rounding(value, others)[0].reshape(-1, value.shape[-1])
        count, largest = value.shape[-1], allowed.max()
        if largest > 0:
            share = allowed.max(axis=0) / largest
            shares[count] = np.maximum(shares.get(count, 0.0), share)
            samples[count] = samples.get(count, 0) + len(others) * (allowed > 0).sum(axis=0)
    return {n: np.where(samples[n] >= _ENOUGH_MOVES, share, 1.0) for n, share in shares.items()}


def _rounding(a: np.ndarray, moved: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return how much each entry may differ for itself, and which can be compared: those whose finiteness is steady."""
    dtype = TensorType.of(a).dtype
    wide = np.complex128 if dtype.startswith("complex") else np.float64
    x, others = a.astype(wide), [m.astype(wide) for m in moved]
    finite = np.isfinite(x)
    steady = np.ones(a.shape, bool)
    for m in others:
        steady &= np.isfinite(m) == finite
    usable = steady & finite
    size = np.where(usable, np.abs(np.where(usable, x, 0)), 0.0)
    if not others:
        return STATED.get(dtype, 1e-1) * size, steady
    move = np.max([np.abs(np.where(usable, m, 0) - np.where(usable, x, 0)) for m in others], axis=0)
    return TIMES * move + FLOOR * UNIT.get(dtype, 2.0**-3) * size, steady


def _floats(a: np.ndarray, b: np.ndarray, moved: Sequence[np.ndarray], shares: Shares) -> Mismatch | None:
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        x, y = a.astype(wide), b.astype(wide)
        finite = np.isfinite(x)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        own, steady = _rounding(a, moved)
        strange = steady & ~same & (~finite | ~np.isfinite(y))
        if strange.any():
            index = tuple(int(i) for i in np.argwhere(strange)[0])
            return Mismatch(index, a[index].item(), b[index].item(), 0.0)
        usable = steady & finite
        gap = np.where(usable, np.abs(np.where(usable, x, 0) - np.where(usable, y, 0)), 0.0)
        allowed = _pooled(own)
        if a.ndim and a.shape[-1] in shares:
            allowed = np.minimum(allowed, own.max() * shares[a.shape[-1]])
    excess = gap - allowed
    if not (excess > 0).any():
        return None
    ratio = np.where(excess > 0, gap / np.maximum(allowed, 1e-300), 0.0)
    index = tuple(int(i) for i in np.unravel_index(int(ratio.argmax()), a.shape))
    return Mismatch(index, a[index].item(), b[index].item(), float(np.broadcast_to(allowed, a.shape)[index]))


def lost(expected: object, found: object, moved: Sequence[object]) -> Mismatch | None:
    """Return an entry that overflows, or loses more than half, where the ``moved`` original is sure of it."""
    if not isinstance(expected, np.ndarray) or (dtype := TensorType.of(expected).dtype) not in STATED:
        return None
    other = np.asarray(found)
    if other.shape != expected.shape:
        return Mismatch((), "", "", 0.0, f"of shape {expected.shape} in A, {other.shape} in B")
    with np.errstate(all="ignore"):
        x, y = expected.astype(np.float64), other.astype(np.float64)
        own, steady = _rounding(expected, [m for m in map(np.asarray, moved) if m.shape == x.shape])
        normal = np.abs(x) >= _LEAST[dtype]
        wrong = ~np.isfinite(y) | (normal & (8 * own <= np.abs(x)) & (np.abs(y - x) > np.abs(x) / 2))
    places = np.argwhere(steady & np.isfinite(x) & wrong)
    if not len(places):
        return None
    index = tuple(int(i) for i in places[0])
    return Mismatch(index, float(x[index]), float(y[index]), 0.0)


def is_coarse(model: Model, name: str) -> bool:
    """Return whether a value is right to the last digit of 1 alone: a sigmoid, and what passes it on."""
    while (place := model.maker.get(name)) is not None:
        node = model.nodes[place]
        if has(node, OnnxTrait.COARSE):
            return True
        if not has(node, OnnxTrait.CARRIES):
            return False
        name = node.input[0]
    return False


def is_noise(expected: object, found: object, moved: Sequence[object], *, coarse: bool = False) -> bool:
    """Return whether two float values differ by more than rounding, where the original itself is noise.

    An entry of the original is noise if its movement is at least a quarter of the largest entry: no
    comparison shows whether another value is right there.

    Args:
        expected: The value in the original.
        found: The value in the other model.
        moved: The value in runs of the changed original.
        coarse: Whether a few units of 1 are rounding, see :func:`is_coarse`.
    """
    if not isinstance(expected, np.ndarray) or TensorType.of(expected).dtype not in STATED:
        return False
    others = [a for a in map(np.asarray, moved) if a.shape == expected.shape]
    if not others:
        return False
    with np.errstate(all="ignore"):
        x, y = expected.astype(np.float64), np.asarray(found).astype(np.float64)
        scale = float(np.abs(np.where(np.isfinite(x), x, 0.0)).max(initial=0.0))
        movement = np.max([np.abs(m.astype(np.float64) - x) for m in others], axis=0)
        dtype = TensorType.of(expected).dtype
        beyond = np.abs(x - y) > max(STATED[dtype] * scale, FLOOR * UNIT[dtype] * coarse)
        return bool((beyond & (movement >= scale / 4)).any())


def _pooled(values: np.ndarray) -> np.ndarray:
    """Return for each entry the largest value in its row or in its slice at an index, whichever is smallest.

    Only rows and slices of at least ``_ENOUGH`` entries count. Others of other magnitudes then have no influence.
    """
    found, axes = np.asarray(values.max()), tuple(range(values.ndim))
    for pool in {axes[-1:], *((*axes[:k], *axes[k + 1 :]) for k in axes)}:
        if pool and int(np.prod([values.shape[i] for i in pool])) >= _ENOUGH:
            found = np.minimum(found, values.max(axis=pool, keepdims=True))
    return found


def _discrete(a: np.ndarray, b: np.ndarray, moved: Sequence[np.ndarray]) -> Mismatch | None:
    """Compare whole numbers, truth values and strings: equal, unless the original itself jumps as much."""
    wrong = np.asarray(a != b)
    count = int(wrong.sum())
    if not count:
        return None
    jumps = max((int(np.asarray(m != a).sum()) for m in moved), default=0)
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    if jumps and count <= TIMES * jumps and a.dtype.kind in "iub":
        gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
        limit = 2.0 * max(float(np.abs(m.astype(np.float64) - a.astype(np.float64)).max()) for m in moved)
        if float(gap.max()) <= limit:
            return None
        index = tuple(int(i) for i in np.unravel_index(int(gap.argmax()), a.shape))
    expected, found = (v[index].item() if hasattr(v[index], "item") else v[index] for v in (a, b))
    return Mismatch(index, expected, found, 0.0)


# -- rounding of files ---------------------------------------------------------------------------------
def rounded_otherwise(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays whose floating-point entries are changed by one rounding, at random up or down."""
    rng = np.random.default_rng(0)
    moved = {}
    for name, value in values.items():
        if value.dtype.kind == "f":
            step = np.finfo(value.dtype).eps * rng.choice([-1.0, 1.0], value.shape)
            value = (value * (1 + step)).astype(value.dtype)
        moved[name] = value
    return moved


def round_weights_otherwise(model: ModelProto) -> None:
    """Change the weights of a model by one rounding."""
    constants = [n.attribute[0].t for n in model.graph.node if n.op_type == "Constant"]
    for tensor in [*model.graph.initializer, *constants]:
        if tensor.data_type in _ROUNDED:
            values = rounded_otherwise({tensor.name: numpy_helper.to_array(tensor)})
            tensor.CopyFrom(numpy_helper.from_array(values[tensor.name], tensor.name))


def moved_model(
    model: Model, types: Mapping[str, str], outputs: Sequence[str], seed: int
) -> ModelProto | None:
    """Return a copy of a model whose operands are changed by units of their last place; None if none can be changed.

    Values keep their names, and nodes read changed values.

    Args:
        model: The model.
        types: Known element types, by value name.
        outputs: The outputs of the copy.
        seed: The seed of the changes.
    """
    needed = set(model.needed(outputs))
    soft, running = _soft(model, types)
    nodes: list[NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    replaced: dict[str, str] = {}
    taken = set(model.maker) | set(model.weights) | set(model.inputs)
    wanted = {
        name
        for i in needed
        if not has(model.nodes[i], OnnxTrait.UNROUNDED) and any(o in running for o in model.nodes[i].output)
        for name in model.nodes[i].input
        if name in soft
    }
    if not wanted:
        return None
    biases = _biases(model, needed, soft)
    wanted |= biases.keys()
    soft |= biases

    def noise(name: str, result: str, dtype: str, seed: int, absolute: bool = False) -> list[NodeProto]:
        """Return nodes that multiply a value by 1 plus a random number of units of the last place, or add one of 1."""
        wide = "float64" if dtype == "float64" else "float32"
        amount = np.asarray((1 if absolute else MOVED_BY[dtype]) * UNIT[dtype], wide)
        scale = f"moved_by_{dtype}" + "_absolute" * absolute
        while scale in taken:
            scale += "_"
        constants[scale] = amount
        short = dtype != wide
        fresh = name if absolute else result  # the beginning of names that nothing else has
        source = f"{fresh}_w" if short else name
        end = f"{fresh}_a" if short else result
        made, code = helper.make_node, DTYPE_CODES[wide]
        uniform = {"dtype": code, "low": -1.0, "high": 1.0, "seed": float(seed)}
        nodes = [made("Cast", [name], [source], to=code)] if short else []
        nodes.append(made("RandomUniformLike", [source], [f"{fresh}_u"], **uniform))
        nodes.append(made("Mul", [f"{fresh}_u", scale], [f"{fresh}_s"]))
        if absolute:
            nodes.append(made("Add", [f"{fresh}_s", source], [end]))
        else:
            constants[f"{scale}_one"] = np.asarray(1.0, wide)  # multiplying by a factor preserves infinities
            nodes.append(made("Add", [f"{fresh}_s", f"{scale}_one"], [f"{fresh}_f"]))
            nodes.append(made("Mul", [f"{fresh}_f", source], [end]))
        return [*nodes, made("Cast", [end], [result], to=DTYPE_CODES[dtype])] if short else nodes

    def move(name: str) -> None:
        if name in wanted:
            replaced[name] = _fresh(f"{name}__moved", taken)
            nodes.extend(noise(name, replaced[name], soft[name], seed + len(replaced)))

    for name in (*model.inputs, *model.weights):
        move(name)
    for i in sorted(needed):
        node = model.nodes[i]
        moves = {
            n for n in node.input if n in replaced and (n not in biases or has(node, OnnxTrait.ARITHMETIC))
        }
        if not has(node, OnnxTrait.UNROUNDED) and moves - biases.keys():
            copy = copied(node)
            for place, name in enumerate(node.input):
                copy.input[place] = replaced[name] if name in moves else name
            node = copy
        coarse = [n for n in node.output if n in soft] if has(node, OnnxTrait.COARSE) else []
        if coarse:  # the value of that name differs, too
            copy = copied(node)
            copy.output[0] = _fresh(f"{coarse[0]}__coarse", taken)
            nodes.append(copy)
            own = seed + len(nodes)  # equal noise of two would cancel in their difference
            nodes += noise(copy.output[0], coarse[0], soft[coarse[0]], own, absolute=True)
        else:
            nodes.append(node)
        for name in node.output:
            move(name)
    piece = model.cut(outputs, nodes=nodes)
    for name, array in constants.items():
        piece.graph.initializer.append(numpy_helper.from_array(array, name))
    return piece


def _biases(model: Model, needed: set[int], soft: dict[str, str]) -> dict[str, str]:
    """Return the small weights that meet input-dependent values in arithmetic, with their element types.

    They are changed because large sums can cancel against them. For large weights, changing the other operand does.
    """
    found: dict[str, str] = {}
    for i in needed:
        node = model.nodes[i]
        if not has(node, OnnxTrait.ARITHMETIC) or not any(n in soft for n in node.input):
            continue
        for name in node.input:
            stored = model.weights.get(name)
            if stored is None and name in model.maker:
                maker = model.nodes[model.maker[name]]
                stored = next((a.t for a in maker.attribute if a.name == "value"), None)
                stored = stored if maker.op_type == "Constant" else None
            if isinstance(stored, TensorProto) and int(np.prod(stored.dims)) <= _SMALL:
                dtype = DTYPE_NAMES.get(stored.data_type, "")
                if dtype in FLOAT_DTYPES:
                    found[name] = dtype
    return found


def _soft(model: Model, types: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """Return the floats that rounding may change, with element types, and all values that inputs reach."""
    running = set(model.inputs)
    soft = {name: types[name] for name in model.inputs if types.get(name) in FLOAT_DTYPES}
    for node in model.nodes:
        reads = [n for n in read_by(node) if n in running]
        if not reads:
            continue
        running.update(o for o in node.output if o)
        if has(node, OnnxTrait.WHOLE) or node.domain not in ("", "ai.onnx", "com.microsoft"):
            continue
        if any(n in soft for n in reads) or not has(node, OnnxTrait.UNROUNDED):
            for name in node.output:
                # A value without an inferred type is assumed to have the type of an operand.
                dtype = types[name] if name in types else next((soft[n] for n in reads if n in soft), "")
                if dtype in FLOAT_DTYPES and name:
                    soft[name] = dtype
    return soft, running


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


# -- rounded numbers of graphs ------------------------------------------------------------------------
def most_explained(graph: Graph) -> float:
    """Return the largest part of a value that a graph's rounded numbers may explain; 0 if it has none."""
    return max((MOST_EXPLAINED[weight.type.dtype] for weight in _numbers(graph).values()), default=0.0)


def movement(graph: Graph, evaluated: Evaluated) -> dict[str, np.ndarray]:
    """Return by how much each output moves if the graph's numbers move by half a unit in their last place.

    A number is a weight whose elements are all the same. ``evaluated`` computes a graph's outputs in float64.
    """
    stays = evaluated(graph)
    total = {name: np.zeros(np.shape(value)) for name, value in stays.items()}
    for name, weight in list(_numbers(graph).items())[:MOST_NUMBERS]:
        value = weight.value().reshape(-1)[:1]
        half = float(abs(np.spacing(value[0]))) / 2
        # So small a step moves a value by as much in either direction.
        end = evaluated(_with(graph, name, float(value[0]) + half))
        for output, value in stays.items():
            if value.dtype.kind == "f":
                moved = np.abs(end[output] - value)
                total[output] += np.nan_to_num(moved, nan=0.0, posinf=0.0, neginf=0.0)
    most = most_explained(graph)
    for output, value in stays.items():
        largest = np.abs(value[np.isfinite(value)]).max(initial=0.0)
        total[output] = np.minimum(total[output], most * largest)
    return total


def beyond(expected: np.ndarray, found: np.ndarray, explained: np.ndarray) -> np.ndarray:
    """Return ``found``, moved towards ``expected`` by the explained difference."""
    with np.errstate(invalid="ignore"):
        gap = found - expected
        rest = np.sign(gap) * np.maximum(np.abs(gap) - explained, 0)
    return np.where(np.isfinite(rest), expected + rest, found)


def _numbers(graph: Graph) -> dict[str, Weight]:
    """Return the weights that are one number which its element type may have rounded."""
    found = {}
    for name, weight in graph.weights.items():
        number = weight.number() if weight.type.dtype in MOST_EXPLAINED else None
        # 1, 8 and 0.5 are meant exactly.
        if number is not None and not (abs(number) < _PLAIN and (number * _PLAIN).is_integer()):
            found[name] = weight
    return found


def _with(graph: Graph, name: str, value: float) -> Graph:
    """Return a graph in which one weight is a number, which need not be one of its element type."""

    def number(builder: Builder, i: int, node: Node, inputs: list[int]) -> int | None:
        if node.op != "weight" or node.attr("name") != name:
            return None
        scalar = builder.op("scalar", value=value, dtype=node.tensor.dtype)
        shape = node.tensor.shape
        return builder.op("expand", scalar, shape=shape) if shape else scalar

    return graph.copied(number)
