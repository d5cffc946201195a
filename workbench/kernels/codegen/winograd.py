"""Kernels of convolutions by fewer products: Winograd's algorithm as the schedule of a convolution.

The kernel computes what the laws of ``rules/fast.rules`` say along both axes, one after the other, for a block of
tiles at a time: overlapping squares of the image are transformed, multiplied by transformed weights, product by
product, and transformed back. The transforms are straight lines of C made from the matrices, in which zeros and ones
do not occur, and rows that differ in signs share their sums. A bias, a sum with another value and a relu join the last
step. The weights are transformed once, when a kernel first runs. Images are read and written channels first, or in
blocks of channels: the inner layout between neighbouring kernels, in which sixteen channels of a place lie next to each
other. A cluster has the change of layout as operators before and after its convolution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final, TypeAlias

from workbench.kernels.codegen.clusters import Cluster, Member, Readers
from workbench.kernels.codegen.lanes import TILES, Text, defined, last_level, second_level, vectors
from workbench.kernels.composites.equations import parse
from workbench.kernels.fast.toom_cook import Algorithm, Row
from workbench.kernels.fast.winograd import ALGORITHMS
from workbench.ops.types import TensorType

_TEXT: Final = Path(__file__).with_name("winograd.c")

#: The part of the second-level cache that transformed tiles and their products may fill: if the weights do not stay
#: there, and if they do.
PART: Final = 5 / 8
LESS: Final = 5 / 16
#: How many times the second-level cache they fill at least in a far block, and which part of the weights' bytes: the
#: last cache then gives weights about as often as it gives and takes numbers of the block. LAST is the most of it.
FAR: Final = 2
WEIGHTS: Final = 1 / 2
LAST: Final = 1 / 3
#: How much more work than the best one an algorithm may need by the model if it is to be measured.
SLOWER: Final = 1.5
#: The least number of pieces into which a convolution is cut, for threads, if a piece keeps columns enough.
PIECES: Final = 4
#: The least number of channels for which transforms may pay.
LEAST_CHANNELS: Final = 16
#: The channels of a block of the inner layout.
BLOCK: Final = 16
#: The algorithms that kernels are made with, by the end of their operators' names.
CHOICES: Final = ("4_3", "2_3")


@dataclass(frozen=True, slots=True)
class Winograd:
    """The choice of an algorithm for a convolution, in the place of a schedule of loops.

    The tiles of a block stay in the second-level cache, or if it is ``far`` in the last one. The weights are read once
    for each block, so that far blocks pay if the weights do not stay in the second-level cache.
    """

    algorithm: str
    far: bool = False

    @property
    def by(self) -> Algorithm:
        """Return the algorithm."""
        return ALGORITHMS[self.algorithm]

    def __str__(self) -> str:
        return f"Winograd F({self.by.outputs}, {self.by.taps}){' in far blocks' * self.far}"

    def memory(self, cluster: Cluster) -> int:
        """Return the bytes of the transformed weights of a convolution."""
        (_, channels, _, _), (_, outs, _, _) = _shapes(cluster)
        return 4 * self.by.products**2 * channels * -(-outs // 32) * 32

    def tiles(self, cluster: Cluster) -> tuple[int, int, int, int]:
        """Return the rows and columns of tiles of an image, and of a block, of nearly equal height and width."""
        by, weights, near = self.by, self.memory(cluster), second_level()
        (_, channels, _, _), (_, outs, height, width) = _shapes(cluster)
        down, across = -(-height // by.outputs), -(-width // by.outputs)
        wanted = (LESS if weights <= near // 2 else PART) * near
        if self.far:
            wanted = min(max(FAR * near, WEIGHTS * weights), LAST * last_level())
        most = max(12, int(wanted) // (4 * by.products**2 * (_pitch(channels, 16) + _pitch(outs, 32))))
        tiles_across = -(-across // -(-across // most))
        tiles_down = max(1, min(down, most // tiles_across))
        return down, across, -(-down // -(-down // tiles_down)), tiles_across

    def written(self, name: str, cluster: Cluster) -> Text:
        """Return the C text of a convolution, of which all names begin so."""
        by, conv = self.by, convolution_of(cluster)
        assert conv is not None
        top, left = conv.named["pads"][:2]
        bias, ops = len(conv.operands) > 2, [m.op for m in cluster.members]
        residual, pool = 2 + bias if "add" in ops else 0, 2 if "maxpool" in ops else 1
        (_, channels, height, width), (_, outs, out_height, out_width) = _shapes(cluster)
        m, tile = by.outputs, by.products
        down, across, tiles_down, tiles_across = self.tiles(cluster)
        deep, out_deep = (-(-n // 16) * 16 for n in (channels, outs))
        out_columns = -(-outs // 32) * 32
        pitch, out_pitch = _pitch(channels, 16), _pitch(outs, 32)
        most = tiles_down * tiles_across
        blocks = -(-down // tiles_down) * -(-across // tiles_across)
        shares = max(1, min(-(-PIECES // blocks), out_columns // 64))
        image = (tiles_down * m + by.taps - 1) * (tiles_across * m + by.taps - 1) * deep
        # Results are written as soon as a tile has them, unless a layout changes in between.
        direct = cluster.type.rank == 5 and (not residual or cluster.read[residual].rank == 5)
        parts = {
            "IMAGE_SIZE": image * (cluster.read[0].rank == 4),
            "V_SIZE": tile * tile * most * pitch,
            "M_SIZE": tile * tile * most * out_pitch,
        }
        sizes = {key: f"(int64_t){value}" for key, value in parts.items()} | {
            "TILE": tile, "OUTPUTS": m, "TAPS": by.taps, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width,
            "OUT_CHANNELS": outs, "OUT_HEIGHT": out_height // pool, "OUT_WIDTH": out_width // pool, "POOL": pool,
            "DEEP": deep, "OUT_DEEP": out_deep, "OUT_COLUMNS": out_columns, "PITCH": pitch, "OUT_PITCH": out_pitch,
            "TOP": top, "LEFT": left, "BLOCKED_IN": int(cluster.read[0].rank == 5),
            "BLOCKED_OUT": int(cluster.type.rank == 5), "BLOCK": BLOCK, "DIRECT": int(direct),
            "BLOCKED_MORE": int(residual > 0 and cluster.read[residual].rank == 5),
            "BIAS": int(bias), "RESIDUAL": residual, "RELU": int("relu" in ops or conv.named["act"] == "relu"),
            "INPUTS_HERE": len(cluster.inputs), "ROWS_OF_TILES": down, "COLUMNS_OF_TILES": across,
            "TILES_DOWN": tiles_down, "TILES_ACROSS": tiles_across, "MOST_TILES": most,
            "DOWN": -(-down // tiles_down), "ACROSS": -(-across // tiles_across), "SHARES": shares,
        }  # fmt: skip
        counts = {
            min(tiles_down, down - i) * min(tiles_across, across - j)
            for i in range(0, down, tiles_down)
            for j in range(0, across, tiles_across)
        }
        head = vectors(name, {"CASES": (counts, TILES)}) + "\n" + defined(sizes)
        body = "\n".join([head, *transforms(name, by), _TEXT.read_text()])
        scratch = sum(parts.values()) + most * m * m * out_deep * (not direct)
        return Text(body, blocks * shares, 4 * scratch)


def _shapes(cluster: Cluster) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of the image that a convolution reads and of its result, channels first."""
    conv, x = convolution_of(cluster), cluster.read[0].shape
    assert conv is not None
    return x if len(x) == 4 else (x[0], x[1] * BLOCK, *x[2:4]), conv.type.shape


def _pitch(channels: int, block: int) -> int:
    """Return how far tiles lie apart: a power of two would put them all in few places of the nearest cache."""
    return -(-channels // block) * block + 16


# -- clusters ------------------------------------------------------------------------------------------
def convolutions(known: Readers) -> Iterator[Cluster]:
    """Yield convolutions that kernels can compute by fewer products, each with what follows it.

    That is a sum with another value and a relu, or a relu and a pool, if nothing else reads what is before them.
    """
    for conv in known.made:
        if suits(conv, known):
            after = known.relu_after(conv) or known.sum_after(conv, conv.place, but=conv.operands)
            members = [conv, *after] if conv.named["act"] == "none" else [conv]
            pool = [] if any(m.op == "add" for m in members) else _pool_after(members[-1], known)
            yield convolution([*members, *pool], known.types)


def suits(m: Member, known: Readers) -> bool:
    """Return whether an operator is a convolution that a kernel can compute by fewer products."""
    if known.constant[m.place] or not known.convolution(m):
        return False
    named, w = m.named, known.types[m.operands[1]].shape
    simple = named["strides"] == (1, 1) and named["groups"] == 1 and w[2:] == (3, 3)
    return simple and min(w[:2]) >= LEAST_CHANNELS


def _pool_after(m: Member, known: Readers) -> list[Member]:
    """Return the pool that alone reads an image and takes the largest of each 2 x 2 places, or nothing."""
    if known.reader(m.place) is None or m.type.shape[2] % 2 or m.type.shape[3] % 2:
        return []
    whole = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    pools = (r for r in known.of(m.place) if r.op == "maxpool")
    return [r for r in pools if all(r.named[k] == v for k, v in whole.items())][:1]


def convolution_of(cluster: Cluster) -> Member | None:
    """Return the convolution of a cluster, or None if it has none."""
    return next((m for m in cluster.members if m.op == "conv2d"), None)


def blocked(kind: TensorType) -> TensorType | None:
    """Return the type of an image in the inner layout, or None if its channels do not fill blocks."""
    if kind.rank != 4 or kind.dtype != "float32" or kind.shape[1] % BLOCK:
        return None
    n, channels, height, width = kind.shape
    return TensorType(kind.dtype, (n, channels // BLOCK, height, width, BLOCK))


def _turned(kind: TensorType, place: int, inner: int, own: int, *, back: bool) -> list[Member]:
    """Return the operators that bring an image of a type to the inner layout, or back.

    ``place`` and ``inner`` are its numbers channels first and in the inner layout, ``own`` that of the value between.
    """
    n, channels, height, width = kind.shape
    split, made = TensorType(kind.dtype, (n, channels // BLOCK, BLOCK, height, width)), blocked(kind)
    assert made is not None
    if back:
        first = Member(own, "transpose", ((0, 1, 4, 2, 3),), (inner,), split)
        return [first, Member(place, "reshape", (kind.shape,), (own,), kind)]
    first = Member(own, "reshape", (split.shape,), (place,), split)
    return [first, Member(inner, "transpose", ((0, 1, 3, 4, 2),), (own,), made)]


def convolution(
    members: Sequence[Member], types: Mapping[int, TensorType], inner: Mapping[int, int] | None = None
) -> Cluster:
    """Return a convolution, and a sum with another value or a relu or both or a pool after it, as a cluster.

    ``types`` are those of all values, ``inner`` the numbers in the inner layout of those that are read or written so.
    """
    conv, made, inside = members[0], {m.place for m in members}, inner or {}
    x, root = conv.operands[0], members[-1]
    among: list[Member] = []
    for m in members:
        for j in m.operands:
            if j in inside and j not in made:
                among += _turned(types[j], j, inside[j], -1 - len(among), back=True)
        among.append(m)
    if root.place in inside:
        among += _turned(root.type, root.place, inside[root.place], -1 - len(among), back=False)
    made = {m.place for m in among}
    inputs = tuple(dict.fromkeys(j for m in among for j in m.operands if j not in made))
    top, left, bottom, right = conv.named["pads"]
    bias = len(conv.operands) > 2
    row, column = f"h+u-{top}", f"v+j-{left}"
    at, dims = f"n c ({row}) ({column})", "N C H W"
    if x in inside:
        at, dims = f"n (c//{BLOCK}) ({row}) ({column}) (c%{BLOCK})", f"N B H W {BLOCK}"
    size, block = "N K P S", f"N K//{BLOCK} P S {BLOCK}"
    channel, place, out = (
        ("k", "n k h v", size) if root.place not in inside else (f"({BLOCK}*k+i)", "n k h v i", block)
    )
    image = f"where(0 <= {row} and {row} < H and 0 <= {column} and {column} < W, x[{at}], 0)"
    more = [j for m in members if m.op == "add" for j in m.operands if all(j != o.place for o in members)]
    relu = conv.named["act"] == "relu" or any(m.op == "relu" for m in members)

    def value(k: str) -> str:
        total = f"(sum(c u j) w[{k} c u j] * {image})" + f" + b[0 {k} 0 0]" * bias
        if more:
            turned = f"n ({k}//{BLOCK}) h v ({k}%{BLOCK})"
            total += f" + z[{turned if more[0] in inside else f'n {k} h v'}]"
        return f"max({total}, 0)" if relu else total

    names = [f"x{{T}}[{dims}]", "w{T}[K C R Q]", *(["b{T}[1 K 1 1]"] if bias else [])]
    names += [f"z{{T}}[{block if more[0] in inside else size}]"] if more else []
    height, width = f"H+{top + bottom + 1}-R", f"W+{left + right + 1}-Q"
    body = f"y[{place}] = {value(channel)}"
    if root.op == "maxpool":
        whole = f"t[n k < K h < {height} v < {width}] = {value('k')}"
        body = f"{whole}\ny[{place}] = max(p < 2 q < 2) t[n {channel} (2*h+p) (2*v+q)]"
        height, width = f"({height})//2", f"({width})//2"
    where = f" where P = {height}, S = {width}" if more else ""
    out = out.replace("P", height).replace("S", width)
    composite = parse("convolution", f"{', '.join(names)} -> y{{T}}[{out}]{where}", body)
    read = tuple(types[j] for j in inputs)
    return Cluster(tuple(among), composite, inputs, tuple(t.shape for t in read), read)


def channels_first(cluster: Cluster) -> Cluster:
    """Return a convolution without its changes of layout; any other cluster is its own."""
    if convolution_of(cluster) is None:
        return cluster
    core = [m for m in cluster.members if m.op not in ("reshape", "transpose")]
    if len(core) == len(cluster.members):
        return cluster
    known = dict(zip(cluster.inputs, cluster.read, strict=True)) | {m.place: m.type for m in cluster.members}
    return convolution(core, known)


def candidates(cluster: Cluster, names: Sequence[str] = CHOICES) -> tuple[Winograd, ...]:
    """Return the algorithms of a convolution that may be the fastest, by the work that a model says, in either blocks.

    Work is counted in products of numbers. Transforms cost as much as products with 26 channels. Weights that do not
    stay in the nearer caches are read again for each block; a byte takes as long as four products.
    """
    (_, channels, _, _), (_, outs, height, width) = _shapes(cluster)
    work = {}
    for how in map(Winograd, names):
        by, memory = how.by, how.memory(cluster)
        products = by.products**2 * -(-height // by.outputs) * -(-width // by.outputs)
        read = 4 * memory * (memory > second_level() // 2)
        work[how] = products * (channels * outs + 26 * (channels + outs)) + read
    most = 2 * min([math.prod(cluster.read[1].shape) * height * width, *work.values()])
    made = [how for how, needed in work.items() if needed <= min(most, SLOWER * min(work.values()))]
    far = [replace(how, far=True) for how in made]
    return *made, *(f for how, f in zip(made, far, strict=True) if f.tiles(cluster) != how.tiles(cluster))


# -- transforms ----------------------------------------------------------------------------------------
_ONE: Final = Fraction(1)

#: Sums of products, each of a factor and a name, by the names of their values.
Sums: TypeAlias = list[tuple[str, list[tuple[Fraction, str]]]]


def transforms(name: str, by: Algorithm) -> tuple[str, str, str]:
    """Return the transforms of one line as C functions, of vectors of numbers and of a line of weights."""
    plain = [(f"o[{i} * to]", _terms(row)) for i, row in enumerate(by.weight)]
    return (
        _function(f"{name}_input_line", "Lanes", "f", len(by.input[0]), _by_rows(by.input)),
        _function(f"{name}_output_line", "Lanes", "f", len(by.output[0]), _by_columns(by.output)),
        _function(f"{name}_weight_line", "double", "", len(by.weight[0]), plain),
    )


def _function(name: str, kind: str, suffix: str, count: int, values: Sums) -> str:
    body = [f"  const {kind} d{k} = d[{k} * from];" for k in range(count)]
    for target, terms in values:
        declared = "" if target.startswith("o[") else f"const {kind} "
        body.append(f"  {declared}{target} = {_sum(terms, suffix)};")
    head = f"static inline void {name}(const {kind} *d, {kind} *o, int64_t from, int64_t to) {{"
    return "\n".join([head, *body, "}\n"])


def _sum(terms: Sequence[tuple[Fraction, str]], suffix: str) -> str:
    text = ""
    for factor, value in terms:
        if not factor:
            continue
        size = abs(factor)
        below = f" / {size.denominator}.0{suffix}" if size.denominator > 1 else ""
        sign = (" - " if factor < 0 else " + ") if text else "-" * (factor < 0)
        text += sign + (value if size == 1 else f"({size.numerator}.0{suffix}{below}) * {value}")
    return text or f"0.0{suffix}"


def _terms(row: Sequence[Fraction]) -> list[tuple[Fraction, str]]:
    return [(x, f"d{k}") for k, x in enumerate(row)]


def _pairs(rows: Sequence[Row]) -> Iterator[tuple[int, int | None]]:
    """Yield each row alone, or together with a later one that differs from it in the signs of odd places."""
    done: set[int | None] = set()
    for i, row in enumerate(rows):
        if i not in done:
            turned = tuple(-x if k % 2 else x for k, x in enumerate(row))
            other = next((j for j in range(i + 1, len(rows)) if rows[j] == turned), None)
            done.add(other)
            yield i, other


def _by_rows(rows: Sequence[Row]) -> Sums:
    """Return sums in which two rows share their even and odd parts if they differ in the signs of the odd ones."""
    made: Sums = []
    for i, other in _pairs(rows):
        terms, even, odd = _terms(rows[i]), f"even{i}", f"odd{i}"
        if other is None:
            made.append((f"o[{i} * to]", terms))
            continue
        made += [(even, terms[::2]), (odd, terms[1::2])]
        made += [(f"o[{j} * to]", [(_ONE, even), (s, odd)]) for j, s in ((i, _ONE), (other, -_ONE))]
    return made


def _by_columns(rows: Sequence[Row]) -> Sums:
    """Return sums in which two columns are added and subtracted once if they differ in the signs of odd rows."""
    columns, made = list(zip(*rows, strict=True)), Sums()
    terms: list[list[tuple[Fraction, str]]] = [[] for _ in rows]
    for k, other in _pairs(columns):
        first, names = (_ONE, f"d{k}"), (f"d{k}", f"d{k}")
        if other is not None:
            names = f"even{k}", f"odd{k}"
            made += [(n, [first, (s, f"d{other}")]) for n, s in zip(names, (_ONE, -_ONE), strict=True)]
        for i, x in enumerate(columns[k]):
            terms[i].append((x, names[i % 2]))
    return [*made, *((f"o[{i} * to]", row) for i, row in enumerate(terms))]
