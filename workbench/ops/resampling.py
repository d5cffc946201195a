"""Resampling of images: resizing to other extents, and exchange of channels for places.

An image is ``x [N, C, H, W]``; only its last two axes are resampled. The place ``i`` of an axis of extent
``m`` reads the place ``x`` of an axis of extent ``n``, which is a fraction:

==================== ==========================
coordinates          x
==================== ==========================
half_pixel           (i + 1/2) n/m - 1/2
pytorch_half_pixel   the same, and 0 if m = 1
asymmetric           i n/m
align_corners        i (n - 1)/(m - 1), and 0 if m = 1
==================== ==========================

``nearest`` rounds it, ``linear`` interpolates between its two neighbours, and ``cubic`` between four; beyond
the border the outermost place counts. The scale is always the ratio of the extents. Interpolation is linear in
the image, so it is a product with a matrix along each axis, whose rows sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from types import ModuleType
from typing import Any, Final

import numpy as np

from workbench.ops.constants import LARGEST
from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm, Numbers
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, OpsetTooOld, imports, only_result
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Names, OpSpec, Tensor, TorchForm, Types, moving, no_flops
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs, N, T, Typing

MODES: Final = ("nearest", "linear", "cubic")
COORDINATES: Final = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
ROUNDINGS: Final = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")

#: The coefficient of a cubic unless another is given.
CUBIC: Final = -0.75

#: Arithmetic operations for one element of an interpolation between four or sixteen places.
_PER_ELEMENT: Final = {"nearest": 0.0, "linear": 7.0, "cubic": 31.0}

#: Weights of an interpolation as numbers of an arithmetic, or as a tensor.
_Weights = Callable[[list[Fraction]], Any]


def _matrix_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    for extent in (attrs["extent"], attrs["size"]):
        t.require(extent >= 1, "the extents must be positive")
    out = t.constant(attrs["dtype"], attrs["size"], attrs["extent"])
    t.require_float(out)
    t.require(t.elements(out) <= LARGEST, f"a constant must have at most {LARGEST} elements")
    return out


def _type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    (x,) = xs
    height, width = attrs["size"]
    t.require_float(x)
    t.require(t.rank(x) == 4, "the input must have four axes [N, C, H, W]")
    for extent in (height, width):
        t.require(extent >= 1, "the extents must be positive")
    return t.with_dim(t.with_dim(x, -2, height), -1, width)


# -- places ----------------------------------------------------------------------------------------
def places(extent: int, out: int, coordinates: str) -> tuple[np.ndarray, int]:
    """Return the place that each place of a result's axis reads, as numerators and one denominator.

    >>> places(2, 4, "half_pixel")
    (array([-2,  2,  6, 10]), 8)
    """
    i = np.arange(out)
    if out == 1 and coordinates != "half_pixel":
        return np.zeros(1, dtype=i.dtype), 1
    if coordinates == "align_corners":
        return i * (extent - 1), out - 1
    if coordinates == "asymmetric":
        return i * extent, out
    return (2 * i + 1) * extent - out, 2 * out


def nearest(extent: int, out: int, attrs: Attrs) -> np.ndarray:
    """Return the place from which each place of a result's axis takes its element; see :func:`places`.

    ``attrs`` are the coordinates, and one of :data:`ROUNDINGS` for a place between two others; the first two differ
    for halves.

    >>> nearest(2, 5, {"coords": "asymmetric", "rounding": "floor"})
    array([0, 0, 0, 1, 1])
    """
    (above, below), rounding = places(extent, out, attrs["coords"]), attrs["rounding"]
    if rounding == "floor":
        found = above // below
    elif rounding == "ceil":
        found = -(-above // below)
    elif rounding == "round_prefer_floor":
        found = -((below - 2 * above) // (2 * below))
    else:
        found = (2 * above + below) // (2 * below)
    return np.clip(found, 0, extent - 1)


def taps(extent: int, out: int, attrs: ExactAttrs) -> list[tuple[np.ndarray, list[Fraction]]]:
    """Return the places that each place of a result's axis reads, with their weights, which sum to 1.

    ``attrs`` are the mode, ``linear`` or ``cubic``, the coordinates and the coefficient of a cubic.
    """
    above, below = places(extent, out, attrs["coords"])
    if attrs["mode"] == "linear":
        above = np.clip(above, 0, (extent - 1) * below)
        first = above // below
        shares = [Fraction(int(rest), below) for rest in above - first * below]
        return [(first, [1 - s for s in shares]), (np.minimum(first + 1, extent - 1), shares)]
    first, a = above // below, Fraction(repr(float(attrs["cubic"])))
    found = []
    for k in (-1, 0, 1, 2):
        distances = [abs(Fraction(int(d), below)) for d in above - (first + k) * below]
        weights = [
            ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else ((d - 5) * d + 8) * d * a - 4 * a
            for d in distances
        ]
        found.append((np.clip(first + k, 0, extent - 1), weights))
    return found


# -- semantics -------------------------------------------------------------------------------------
def _resampled(x: Any, attrs: Attrs, take: Callable[[Any, np.ndarray, int], Any], numbers: _Weights) -> Any:
    """Return an array or a tensor with its last two axes resampled, by what takes places of one of them."""
    for axis, out in zip((-2, -1), attrs["size"], strict=True):
        if attrs["mode"] == "nearest":
            x = take(x, nearest(x.shape[axis], out, attrs), axis)
            continue
        read = [(at, numbers(weights)) for at, weights in taps(x.shape[axis], out, attrs)]
        x = sum(take(x, at, axis) * (w[:, None] if axis == -2 else w) for at, w in read)
    return x


def _resize(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    kind = xs[0].dtype
    return _resampled(xs[0], attrs, np.take, lambda weights: np.array(weights, dtype=float).astype(kind))


def _in(numbers: Numbers) -> _Weights:
    return lambda values: np.array([numbers.number(v) for v in values], dtype=object)


def _spread(made: np.ndarray, attrs: ExactAttrs, numbers: _Weights) -> np.ndarray:
    """Return zeros to which the weights of an interpolation along one axis are added."""
    for at, weights in taps(attrs["extent"], attrs["size"], attrs):
        made[np.arange(attrs["size"]), at] += numbers(weights)
    return made


def _matrix(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    made = _spread(np.zeros((attrs["size"], attrs["extent"])), attrs, partial(np.array, dtype=float))
    return made.astype(TensorType(attrs["dtype"], ()).numpy_dtype())


def _exact_matrix(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    made = np.full((attrs["size"], attrs["extent"]), numbers.number(0), dtype=object)
    return _spread(made, attrs, _in(numbers))


def _resize_torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    (x,), size = xs, attrs["size"]
    named = _named_in_torch(attrs, x.shape)
    if named is not None:
        return torch.nn.functional.interpolate(x, size, **named)
    # Only of real tensors: those of a compiler that traces the form belong to its run.
    real = type(x) is torch.Tensor and not torch.compiler.is_compiling()
    made = partial(_kept if real else _made, torch, device=x.device)
    return _resampled(
        x,
        attrs,
        lambda image, at, axis: image.index_select(axis, made(tuple(at.tolist()), dtype=torch.int64)),
        lambda weights: made(tuple(map(float, weights)), dtype=x.dtype),
    )


def _made(torch: ModuleType, numbers: tuple[float, ...], *, dtype: Any, device: Any) -> Tensor:
    return torch.as_tensor(numbers, dtype=dtype, device=device)


@cache  # for good: a CUDA graph reads them wherever they are
def _kept(torch: ModuleType, numbers: tuple[float, ...], *, dtype: Any, device: Any) -> Tensor:
    """Return numbers as a tensor, made once: their copy to a GPU cannot be recorded in a CUDA graph."""
    with torch.inference_mode(False):  # so that a later gradient may use it
        return _made(torch, numbers, dtype=dtype, device=device)


def _named_in_torch(attrs: Attrs, shape: Sequence[int]) -> dict[str, Any] | None:
    """Return the arguments of torch's interpolation that give the same result, or None if there are none."""
    coords, size = attrs["coords"], attrs["size"]
    if attrs["mode"] != "nearest":
        mode = "bilinear" if attrs["mode"] == "linear" else "bicubic"
        if mode == "bicubic" and attrs["cubic"] != CUBIC:
            return None
        if coords == "align_corners":
            return {"mode": mode, "align_corners": True}
        same = coords == "half_pixel" or (coords == "pytorch_half_pixel" and 1 not in size)
        return {"mode": mode, "align_corners": False} if same else None
    # torch multiplies by a rounded ratio, so that places may differ unless it is a whole number.
    whole = all(out % extent == 0 for out, extent in zip(size, shape[-2:], strict=True))
    return {"mode": "nearest"} if whole and (coords, attrs["rounding"]) == ("asymmetric", "floor") else None


def _export_resize(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    ratios = [Fraction(m, n) for m, n in zip(out.shape, types[0].shape, strict=True)]
    if e.opset < 11:
        return _export_upsample(e, xs, attrs, ratios)
    none = e.constant(np.empty(0, dtype=np.float32)) if e.opset < 13 else ""
    # A whole scale remains the same at every size of the input.
    if all(r.denominator == 1 for r in ratios):
        size = [e.constant(np.array(ratios, dtype=np.float32))]
    else:
        size = [none, e.constant(np.asarray(out.shape, dtype=np.int64))]
    return e.node(
        "Resize",
        [*xs, none, *size],
        mode=attrs["mode"],
        coordinate_transformation_mode=attrs["coords"],
        nearest_mode=attrs["rounding"] if attrs["mode"] == "nearest" else None,
        cubic_coeff_a=attrs["cubic"] if attrs["mode"] == "cubic" else None,
    )


def _export_upsample(e: Emitter, xs: Sequence[str], attrs: Attrs, ratios: Sequence[Fraction]) -> str:
    """Write the form of the older operator sets, which has asymmetric places and rounded scales."""
    known = {"linear": True, "nearest": attrs["rounding"] == "floor"}
    plain = attrs["coords"] == "asymmetric" and known.get(attrs["mode"], False)
    exact = all(Fraction(float(np.float32(float(r)))) == r for r in ratios)
    if not plain or not exact:
        raise OpsetTooOld(f"operator set must be 11 or newer to resize in this way, got {e.opset}")
    scales = np.array(ratios, dtype=np.float32)
    if e.opset < 9:
        return e.node("Upsample", xs, mode=attrs["mode"], scales=scales.tolist())
    operator = "Upsample" if e.opset < 10 else "Resize"
    return e.node(operator, [*xs, e.constant(scales)], mode=attrs["mode"])


# -- channels and places ---------------------------------------------------------------------------
def _blocks(t: Typing[T, N], x: T, attrs: Attrs) -> Any:
    t.require_float(x)
    t.require(t.rank(x) == 4, "the input must have four axes [N, C, H, W]")
    t.require(attrs["block"] >= 1, "the block must be positive")
    return attrs["block"]


def _to_space_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    (x,) = xs
    block = _blocks(t, x, attrs)
    t.require(t.dim(x, -3) % (block * block) == 0, "the channels must divide into blocks of places")
    taller = t.with_dim(x, -2, t.dim(x, -2) * block)
    return t.with_dim(t.with_dim(taller, -1, t.dim(x, -1) * block), -3, t.dim(x, -3) // (block * block))


def _to_depth_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    (x,) = xs
    block = _blocks(t, x, attrs)
    t.require(t.dim(x, -2) % block == 0, "the height must divide into blocks")
    t.require(t.dim(x, -1) % block == 0, "the width must divide into blocks")
    lower = t.with_dim(x, -2, t.dim(x, -2) // block)
    return t.with_dim(t.with_dim(lower, -1, t.dim(x, -1) // block), -3, t.dim(x, -3) * (block * block))


def _split(shape: Sequence[int], attrs: Attrs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the six axes into which depth is divided, and their order in the enlarged image."""
    n, c, h, w = shape
    b = attrs["block"]
    if attrs["order"] == "DCR":
        return (n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2)
    return (n, c // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3)


def _to_space(x: Any, attrs: Attrs, permute: Callable[[Any, Sequence[int]], Any]) -> Any:
    """Return an image from its depth: an array or a tensor, by what permutes its axes."""
    n, c, h, w = x.shape
    b = attrs["block"]
    axes, order = _split(x.shape, attrs)
    return permute(x.reshape(axes), order).reshape(n, c // (b * b), h * b, w * b)


def _to_depth(x: Any, attrs: Attrs, permute: Callable[[Any, Sequence[int]], Any]) -> Any:
    """Return the depth of an image, an array or a tensor."""
    n, c, h, w = x.shape
    b = attrs["block"]
    deep = (n, c * b * b, h // b, w // b)
    axes, order = _split(deep, attrs)
    wide = x.reshape([axes[i] for i in order])
    return permute(wide, [order.index(i) for i in range(6)]).reshape(deep)


def _in_torch(known: str, general: Callable[..., Any]) -> TorchForm:
    """Return the form in torch, which has a function of its own for one order of channels."""
    return lambda torch, xs, a: (
        getattr(torch.nn.functional, known)(xs[0], a["block"])
        if a["order"] == "CRD"
        else general(xs[0], a, torch.permute)
    )


def _export_to_space(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    if e.opset < 11 and attrs["order"] != "DCR":
        raise OpsetTooOld(f"operator set must be 11 or newer for this order of channels, got {e.opset}")
    order = attrs["order"] if e.opset >= 11 else None
    return e.node("DepthToSpace", xs, blocksize=attrs["block"], mode=order)


def _export_to_depth(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    if attrs["order"] == "DCR":
        return e.node("SpaceToDepth", xs, blocksize=attrs["block"])
    # ONNX has the other order as a permutation only.
    axes, order = _split(out.shape, attrs)
    wide = e.reshape(xs[0], [axes[i] for i in order])
    return e.reshape(e.node("Transpose", [wide], perm=[order.index(i) for i in range(6)]), out.shape)


_CUBIC: Final = Attr("cubic", "float", CUBIC)
_BLOCK: Final = (Attr("block", "int"), Attr("order", "word", "DCR", words=("DCR", "CRD")))
_MOVES: Final = Trait.SELECTS | Trait.MOVES | Trait.UNROUNDED | Trait.LINEAR | Trait.FOUR_AXES

register(
    OpSpec(
        "resize",
        1,
        _type,
        _resize,
        (
            Attr("size", "ints", None, 2),
            Attr("mode", "word", "nearest", words=MODES),
            Attr("coords", "word", "asymmetric", words=COORDINATES),
            Attr("rounding", "word", "floor", words=ROUNDINGS),
            _CUBIC,
        ),
        lambda a, inputs, out: _PER_ELEMENT[a["mode"]] * out.elements,
        Trait.LINEAR | Trait.FOUR_AXES,
        exact=ExactForm(
            lambda a: Arithmetic.POLYNOMIAL if a["mode"] == "nearest" else Arithmetic.RATIONAL,
            lambda numbers, xs, a: _resampled(xs[0], a, np.take, _in(numbers)),
        ),
        export=_export_resize,
        torch=_resize_torch,
        doc="the last two axes resampled to other extents: the nearest place, or between 4 or 16 of them",
    ),
    OpSpec(
        "interpolation",
        0,
        _matrix_type,
        _matrix,
        (
            Attr("extent", "int"),
            Attr("size", "int"),
            Attr("mode", "word", "linear", words=MODES[1:]),
            Attr("coords", "word", "half_pixel", words=COORDINATES),
            _CUBIC,
            Attr("dtype", "dtype", "float32"),
        ),
        no_flops,
        Trait.CONSTANT,
        exact=ExactForm(Arithmetic.RATIONAL, _exact_matrix),
        export=lambda e, xs, attrs, types, out: e.constant(_matrix([], attrs)),
        doc="the matrix whose product with a column is that column, resized",
    ),
    moving(
        "depth_to_space",
        1,
        _to_space_type,
        lambda xs, a: _to_space(xs[0], a, np.transpose),
        _BLOCK,
        traits=_MOVES,
        export=_export_to_space,
        torch=_in_torch("pixel_shuffle", _to_space),
        doc="groups of block² channels spread over squares of places (pixel shuffle)",
    ),
    moving(
        "space_to_depth",
        1,
        _to_depth_type,
        lambda xs, a: _to_depth(xs[0], a, np.transpose),
        _BLOCK,
        traits=_MOVES,
        export=_export_to_depth,
        torch=_in_torch("pixel_unshuffle", _to_depth),
        doc="squares of places gathered into channels (pixel unshuffle)",
    ),
)


# -- import ----------------------------------------------------------------------------------------
def _extents(n: OnnxNode) -> tuple[int, int]:
    """Return the extents of the result, of which only the last two differ from the operand's."""
    kind, out = n.type(0), only_result(n)
    if kind.rank != 4 or out.rank != 4:
        raise NotModelled(f"resampling of a rank-{kind.rank} tensor; rank 4 is modelled")
    if kind.shape[:2] != out.shape[:2]:
        raise NotModelled("resampling of other axes than the last two")
    return out.shape[-2], out.shape[-1]


def _check_scales(n: OnnxNode, scales: np.ndarray | None) -> None:
    """Raise :class:`NotModelled` unless the scales are known as the ratios of the extents, or there are none."""
    if scales is None:
        raise NotModelled("the scales are computed at run time")
    kind, out = n.type(0), only_result(n)
    axes = (n.attr("axes") or range(kind.rank)) if scales.size else ()
    for axis, scale in zip(axes, scales.reshape(-1), strict=True):
        if np.float32(scale) != np.float32(out.shape[axis]) / np.float32(kind.shape[axis]):
            raise NotModelled(f"a scale of {scale} from extent {kind.shape[axis]} to {out.shape[axis]}")


@imports("Upsample")
def _import_old(n: OnnxNode) -> int:
    """Import resizing as it was before operator set 11: asymmetric, to larger extents."""
    size = _extents(n)
    scales = n.known(1) if n.has(1) else np.asarray(n.attr("scales", ()), dtype=np.float32)
    _check_scales(n, scales if scales is not None and scales.size else None)
    mode = n.attr("mode", "nearest")
    if mode not in MODES[:2]:
        raise NotModelled(f"resizing with mode={mode} before operator set 11")
    if any(out < extent for out, extent in zip(size, n.type(0).shape[-2:], strict=True)):
        raise NotModelled("resizing to smaller extents before operator set 11")
    return n.op("resize", n.operand(0), size=size, mode=mode, coords="asymmetric", rounding="floor")


@imports("Resize")
def _import_resize(n: OnnxNode) -> int:
    if n.opset < 11:
        return _import_old(n)
    size = _extents(n)
    mode, coords = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel")
    if mode not in MODES:
        raise NotModelled(f"resizing with mode={mode}")
    if coords not in COORDINATES:
        raise NotModelled(f"resizing with coordinate_transformation_mode={coords}")
    if n.attr("antialias", 0) or n.attr("exclude_outside", 0):
        raise NotModelled("resizing with antialias or exclude_outside")
    if n.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NotModelled("resizing that keeps the aspect ratio")
    if n.has(2):
        _check_scales(n, n.known(2))
    rounding, cubic = n.attr("nearest_mode", "round_prefer_floor"), CUBIC
    if mode != "nearest":
        rounding = "floor"
        cubic = n.attr("cubic_coeff_a", CUBIC) if mode == "cubic" else CUBIC
    elif rounding not in ROUNDINGS:
        raise NotModelled(f"resizing with nearest_mode={rounding}")
    else:
        coords, rounding = _usual(n.type(0).shape[-2:], size, coords, rounding)
        for extent, out in zip(n.type(0).shape[-2:], size, strict=True):
            _check_rounding(extent, out, coords, rounding)
    return n.op("resize", n.operand(0), size=size, mode=mode, coords=coords, rounding=rounding, cubic=cubic)


def _usual(shape: Sequence[int], size: Sequence[int], coords: str, rounding: str) -> tuple[str, str]:
    """Return the usual name of a resizing that has several.

    To a multiple of an extent, the middle of a place is nearer to the middle of the place that covers it than
    to any other. To twice the extent, a place half way between two is rounded down.
    """
    covers = coords in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")
    whole = all(out % extent == 0 for extent, out in zip(shape, size, strict=True))
    halves = (coords, rounding) == ("asymmetric", "round_prefer_floor")
    twice = halves and all(out in (extent, 2 * extent) for extent, out in zip(shape, size, strict=True))
    return ("asymmetric", "floor") if (covers and whole) or twice else (coords, rounding)


def _check_rounding(extent: int, out: int, coords: str, rounding: str) -> None:
    """Raise :class:`NotModelled` if runtimes, which compute places in float32, take other ones."""
    if out % extent == 0 and (coords, rounding) == ("asymmetric", "floor"):
        return
    i, scale = np.arange(out, dtype=np.float32), np.float32(out) / np.float32(extent)
    half = np.float32(0.5)
    if out == 1 and coords != "half_pixel":
        at = np.zeros(1, dtype=np.float32)
    elif coords == "align_corners":
        at = i * np.float32(extent - 1) / np.float32(out - 1)
    elif coords == "asymmetric":
        at = i / scale
    else:
        at = (i + half) / scale - half
    whole = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_floor": np.ceil(at - half),
        "round_prefer_ceil": np.floor(at + half),
    }[rounding]
    exact = nearest(extent, out, {"coords": coords, "rounding": rounding})
    if not np.array_equal(np.clip(whole, 0, extent - 1), exact):
        raise NotModelled(f"resizing from {extent} to {out}: rounding decides which place is the nearest")


@imports("DepthToSpace", "SpaceToDepth")
def _import_depth(n: OnnxNode) -> int:
    op = {"DepthToSpace": "depth_to_space", "SpaceToDepth": "space_to_depth"}[n.op_type]
    return n.op(op, n.operand(0), block=n.attr("blocksize"), order=n.attr("mode", "DCR"))
