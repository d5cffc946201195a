"""Kernels of convolutions that are separable by channels, with the products over channels around them.

One kernel computes up to three layers: a product over channels (a 1 x 1 convolution) that expands an image, a
convolution channel by channel, and a product over channels that projects its result: an inverted residual block
(MobileNetV2, arXiv 1801.04381, section 3.3), or a part of one. What is between them stays in the nearer caches: the
kernel makes some rows of the result at a time, from the rows of the expanded image that they read. Biases and
activations belong to the layers; a sum with another value may be the last step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from workbench.kernels.codegen.c_printer import c_function, entry, literal
from workbench.kernels.codegen.clusters import Cluster, Member, Readers, cluster_of, fusible
from workbench.kernels.codegen.lanes import TILES, Text, defined, second_level, vectors
from workbench.kernels.codegen.schedule import program_of, usual
from workbench.kernels.codegen.winograd import suits
from workbench.kernels.composites.binding import bind
from workbench.kernels.composites.equations import inlined, parse
from workbench.kernels.composites.expressions import IndexName, Read, Scalar
from workbench.ops.types import TensorType

_TEXT: Final = Path(__file__).with_name("separable.c")

#: The name of the composites of layers.
NAME: Final = "layers"
#: The least number of channels inside, and of places of an image, for which a kernel may pay.
LEAST_CHANNELS, LEAST_PLACES = 16, 16
#: The parts of the second-level cache that a block may fill, of which the fastest is taken.
PARTS: Final = (1 / 4, 5 / 8)
#: The least number of blocks into which an image is cut for threads, if it has as many rows.
PIECES: Final = 4
#: The most places of a convolution channel by channel at once, in registers of 16 and of 8 numbers.
PLACES: Final = (8, 4)
#: The most operators of an activation.
MOST: Final = 6
#: The most products in a place of a convolution of few channels.
TAPS: Final = 160


@dataclass(frozen=True, slots=True)
class Separable:
    """The number of rows of the result that a kernel makes at once, in the place of a schedule of loops."""

    rows: int

    def __str__(self) -> str:
        return f"layers in blocks of {self.rows} rows"

    def memory(self, cluster: Cluster) -> int:
        """Return the bytes of the packed weights of a cluster."""
        return 4 * sum(deep * columns for _, _, deep, _, columns in _weights(cluster))

    def written(self, name: str, cluster: Cluster) -> Text:
        """Return the C text of a cluster's layers, of which all names begin so."""
        parts, (sizes, memory) = layers_of(cluster), _sizes(cluster, self.rows)
        out_height, out_width = cluster.type.shape[2:]
        functions = []
        for key, layer in (("EXPAND", parts.expand), ("DEPTHWISE", parts.depthwise), ("LAST", parts.project)):
            members = () if layer is None else layer.activation
            if key == "LAST":
                members = members or parts.limit
            relu = layer is not None and layer.conv.named["act"] == "relu"
            limits = (0.0, math.inf) if relu else _limits(members)
            function = ""
            if members and limits is None:
                function = f"{name}_{key.lower()}_function(p, n)"
                functions.append(_function(f"{name}_{key.lower()}", members, cluster))
            low, high = limits or (0.0, 0.0)
            sizes |= {
                f"{key}_LIMITED": int(limits is not None),
                f"{key}_LOW": literal(low, "float32"),
                f"{key}_HIGH": literal(high, "float32"),
                f"{key}_FUNCTION(p, n)": function,
            }
        counts = {min(self.rows, out_height - k) * out_width for k in range(0, out_height, self.rows)}
        wide = (cluster.shapes[0] if parts.expand is None else parts.expand.conv.type.shape)[3]
        cases = {
            "EXPAND_CASES": (counts if sizes["JOINED"] else {wide}, TILES),
            "DEPTHWISE_CASES": ({out_width}, PLACES),
            "PROJECT_CASES": (counts, TILES),
        }
        text = "\n".join([vectors(name, cases), defined(sizes), *functions, _TEXT.read_text()])
        return Text(text, -(-out_height // self.rows), 4 * sum(memory))


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution with its activation, and the places of its weights among the kernel's inputs."""

    conv: Member
    activation: tuple[Member, ...]
    weight: int
    bias: int


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of a cluster, in their order.

    ``more`` is the input that is added at the end, ``scale`` the one by which the channels of the image are multiplied
    first; both are -1 if there is none.
    """

    expand: Layer | None
    depthwise: Layer | None
    project: Layer | None
    more: int
    scale: int
    limit: tuple[Member, ...]


# -- clusters ------------------------------------------------------------------------------------------
def pointwise(m: Member, types: Mapping[int, TensorType]) -> bool:
    """Return whether a convolution is a product over channels, place by place."""
    named = m.named
    one_place = types[m.operands[1]].shape[2:] == named["strides"] == (1, 1) and named["pads"] == (0,) * 4
    return one_place and named["groups"] == 1


def layers(known: Readers) -> Iterator[Cluster]:
    """Yield the largest groups of layers that a kernel can compute, around each convolution channel by channel.

    Beside these, each other product over channels or few taps is one with what follows it: alone it would gain nothing
    over ONNX Runtime, but the layout does not change between kernels. So is the first convolution of an image before
    convolutions by fewer products.
    """
    types = known.types
    moving = [
        m
        for m in known.made
        if known.convolution(m)
        and min(math.prod(types[j].shape[2:]) for j in (m.operands[0], m.place)) >= LEAST_PLACES
    ]
    weight = {m: types[m.operands[1]].shape for m in moving}
    expanding = [
        m
        for m in moving
        if m.named["groups"] == 1 and (pointwise(m, types) or math.prod(weight[m][1:]) <= TAPS)
    ]
    before = {_end_of(known, m)[0]: m for m in reversed(expanding)}
    taken: set[int] = set()
    groups, alone = [], list[list[Member]]()
    for m in moving:
        by_channel = m.named["groups"] == weight[m][0] == types[m.operands[0]].shape[1]
        if not by_channel or weight[m][0] < LEAST_CHANNELS:
            continue
        expand = before.get(m.operands[0]) if known.reader(m.operands[0]) == m.place else None
        end, activation = _end_of(known, m)
        members = [*([] if expand is None else [expand, *_end_of(known, expand)[1]]), m, *activation]
        last = next((r for r in known.of(end) if r in expanding and pointwise(r, types)), None)
        if last is not None and known.reader(end) == last.place and last.operands[0] == end:
            members += [last, *_after(known, last)]
        if expand is not None or last is not None:
            groups.append(members)
            taken |= {x.place for x in members}
    for m in expanding:
        fewer = any(suits(r, known) for r in known.of(_end_of(known, m)[0]))
        stem = fewer and not pointwise(m, types) and not suits(m, known)
        if m.place not in taken and (groups or stem):
            alone.append([*_scaled(known, m), m, *_after(known, m)])
    for members in (*groups, *alone):
        if (cluster := cluster_of_layers(members, types, known.numbers)) is not None:
            yield cluster


def _scaled(known: Readers, conv: Member) -> list[Member]:
    """Return the product of each channel with a number that alone a product over channels reads, or nothing."""
    image = conv.operands[0]
    if not pointwise(conv, known.types) or known.reader(image) != conv.place:
        return []
    n, channels = known.types[image].shape[:2]
    for m in known.makers.get(image, ()):
        if m.op == "mul":
            kinds = sorted((known.types[j] for j in m.operands), key=lambda t: -t.elements)
            if [t.shape for t in kinds] == [m.type.shape, (n, channels, 1, 1)]:
                return [m]
    return []


def _end_of(known: Readers, conv: Member) -> tuple[int, tuple[Member, ...]]:
    """Return the value after the activation of a convolution, and the activation's operators."""
    inside, members = {conv.place}, list[Member]()
    if conv.named["act"] != "none":
        return conv.place, ()
    while len(members) < MOST:
        more = {
            m.place: m
            for m in (m for j in sorted(inside) for m in known.of(j))
            if m.place not in inside
            and m.type == conv.type
            and all(j in inside or j in known.numbers for j in m.operands)
            and fusible(m)
        }
        if not more:
            break
        members += more.values()
        inside |= set(more)
        open_ends = [j for j in inside if not {m.place for m in known.of(j)} <= inside or not known.of(j)]
        if len(open_ends) == 1 and open_ends[0] == members[-1].place:
            return open_ends[0], tuple(members)
    return conv.place, ()


def _after(known: Readers, conv: Member) -> list[Member]:
    """Return what follows the last product in its kernel: a sum with another image and a relu, or an activation."""
    end, activation = _end_of(known, conv)
    if activation or conv.named["act"] != "none":
        return list(activation)
    return known.sum_after(conv, end)


def layers_of(cluster: Cluster) -> Layers:
    """Return the layers of a cluster."""
    own = {*(m.place for m in cluster.members), *(j for j, _ in cluster.known)}
    found: list[Layer] = []
    more, scale, limit = -1, -1, list[Member]()
    for m in cluster.members:
        if m.op == "conv2d":
            at = [cluster.inputs.index(j) for j in m.operands[1:]]
            found.append(Layer(m, (), at[0], at[1] if len(at) > 1 else -1))
            continue
        other = [j for j in m.operands if j not in own]
        if not found:
            scale = 1  # after the image
        elif other:
            more = cluster.inputs.index(other[0])
        elif more >= 0:
            limit.append(m)
        else:
            found[-1] = replace(found[-1], activation=(*found[-1].activation, m))
    middle = next((k for k, x in enumerate(found) if x.conv.named["groups"] > 1), len(found))
    depthwise, project = [*found[middle : middle + 2], None, None][:2]
    return Layers(found[0] if middle else None, depthwise, project, more, scale, tuple(limit))


def is_separable(cluster: Cluster) -> bool:
    """Return whether a cluster has layers that are computed so."""
    return cluster.composite.name == NAME


def cluster_of_layers(
    members: Sequence[Member], types: Mapping[int, TensorType], numbers: Mapping[int, float]
) -> Cluster | None:
    """Return layers as a cluster, or None if an activation has no form in index notation or reads a layer's bias.

    ``types`` are those of all values, ``numbers`` the values that are one known number.
    """
    made = {m.place for m in members}
    image = next(j for j in members[0].operands if types[j].rank == 4 and types[j].shape[2:] != (1, 1))
    operands = dict.fromkeys(j for m in members if m.op != "conv2d" for j in m.operands)
    if any(j in operands for m in members if m.op == "conv2d" for j in m.operands[1:]):
        return None
    names, declared, lines, last = {image: "x"}, ["x{T}[N C H W]"], list[str](), "x"
    channels, height, width = "C", "H", "W"

    def declare(j: int, name: str, dims: str) -> str:
        if j not in names:
            names[j] = name
            declared.append(f"{name}{{T}}[{dims}]")
        return names[j]

    k = 0
    while k < len(members):
        m, at = members[k], f"{k}"
        k += 1
        if m.op != "conv2d":
            (other,) = (j for j in m.operands if j not in made and (lines or j != image))
            if lines:
                value = f"{last}[n c h w] + {declare(other, 'z', f'N {channels} {height} {width}')}[n c h w]"
            else:
                value = f"x[n c h w] * {declare(other, 's', 'N C 1 1')}[n c 0 0]"
        else:
            named, (top, left, bottom, right) = m.named, m.named["pads"]
            (down, across), one = named["strides"], pointwise(m, types)
            whole = named["groups"] == 1
            extents = f"K{at} {channels}" if whole else f"{channels} 1"
            w = declare(m.operands[1], f"w{at}", f"{extents} 1 1" if one else f"{extents} R{at} Q{at}")
            channels = f"K{at}" if whole else channels
            if one:
                value = f"(sum(i) {w}[c i 0 0] * {last}[n i h w])"
            else:
                row, column = f"{down}*h+u-{top}", f"{across}*w+v-{left}"
                inside = f"0 <= {row} and {row} < {height} and 0 <= {column} and {column} < {width}"
                over, j = ("i u v", "i") if whole else ("u v", "c")
                around = f"where({inside}, {last}[n {j} ({row}) ({column})], 0)"
                value = f"(sum({over}) {w}[c {'i' if whole else 0} u v] * {around})"
                height = f"(({height}+{top + bottom}-R{at})//{down}+1)"
                width = f"(({width}+{left + right}-Q{at})//{across}+1)"
            if len(m.operands) > 2:
                value += f" + {declare(m.operands[2], f'b{at}', f'1 {channels} 1 1')}[0 c 0 0]"
            value = f"max({value}, 0)" if named["act"] == "relu" else value
        place = "h w" if m.op != "conv2d" or one else f"h < {height} w < {width}"
        lines.append(f"t{at}[n c {place}] = {value}")
        names[m.place] = last = f"t{at}"
        inner = made | set(numbers)
        leaving = (
            i for i in range(k, len(members)) if members[i].op == "conv2d" or {*members[i].operands} - inner
        )
        end = next(leaving, len(members))
        if end > k:
            elementwise = activation_of(members[k:end], types, numbers)
            if elementwise is None:
                return None
            lines.append(f"a{at}[n c h w] = {_text(elementwise, last)}")
            names[members[end - 1].place] = last = f"a{at}"
            k = end
    lines[-1] = "y[n c h w]" + lines[-1][lines[-1].index("]") + 1 :]
    head = f"{', '.join(declared)} -> y{{T}}[N {channels} {height} {width}]"
    order = tuple(j for j in names if j not in made)
    read = tuple(types[j] for j in order)
    composite, shapes = parse(NAME, head, "\n".join(lines)), tuple(t.shape for t in read)
    known = tuple((j, numbers[j]) for j in operands if j in numbers)
    return Cluster(tuple(members), composite, order, shapes, read, known)


def activation_of(
    members: Sequence[Member], types: Mapping[int, TensorType], numbers: Mapping[int, float]
) -> Cluster | None:
    """Return the operators of an activation as an elementwise cluster of one input."""
    made = {m.place for m in members}
    (value,) = {j for m in members for j in m.operands} - made - set(numbers)
    known = {**types, value: members[-1].type, **{m.place: m.type for m in members}}
    found = cluster_of(members, known, numbers)
    if found is None or any(t.dims for t in found.composite.inputs) or len(found.inputs) != 1:
        return None
    return found


def _text(elementwise: Cluster, name: str) -> str:
    """Return the value of an activation in index notation, of a value's element."""
    read = Read(name, False, tuple(map(IndexName, "nchw")))
    values: dict[str, Scalar] = {elementwise.composite.inputs[0].name: read}
    for equation in elementwise.composite.equations:
        values[equation.target] = inlined(equation.value, values, {})
    return str(values["y"])


# -- text ----------------------------------------------------------------------------------------------
def candidates(cluster: Cluster) -> tuple[Separable, ...]:
    """Return the numbers of rows that may be the fastest: by what stays in the second-level cache, and by threads."""
    height, cache = cluster.type.shape[2], second_level()
    needed = {k: 4 * sum(_sizes(cluster, k)[1]) for k in range(1, height + 1)}
    found = {max(k for k in needed if k == 1 or needed[k] <= part * cache) for part in PARTS}
    found.add(min(*found, -(-height // PIECES)))
    found = {-(-height // -(-height // rows)) for rows in found}
    return tuple(map(Separable, sorted(found, reverse=True)))


def _weights(cluster: Cluster) -> list[tuple[int, int, int, int, int]]:
    """Return of each layer: the inputs of weights and biases, the numbers of products, of channels, and of columns."""
    found, parts = [], layers_of(cluster)
    for layer in (parts.expand, parts.depthwise, parts.project):
        if layer is None:
            found.append((0, -1, 0, 0, 0))
            continue
        outs, ins, *window = cluster.shapes[layer.weight]
        found.append((layer.weight, layer.bias, ins * math.prod(window), outs, -(-outs // 32) * 32))
    return found


def _window(
    cluster: Cluster, layer: Layer | None
) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Return the taps, the strides, and the zeros at the top and left of a layer."""
    if layer is None:
        return (1, 1), (1, 1), (0, 0)
    (down, across), named = cluster.shapes[layer.weight][2:], layer.conv.named
    return (down, across), named["strides"], named["pads"][:2]


def _sizes(cluster: Cluster, rows: int) -> tuple[dict[str, object], list[int]]:
    """Return the sizes of a kernel that makes some rows at once by their names in C, and the numbers in its memory.

    ``MIDDLE`` is the image that the convolution channel by channel reads, ``TAPS`` and ``STRIDE`` are its window.
    ``SOURCE`` is the part of the original image, with zeros around it, from which the rows of the ``RING`` are made.
    The memory has the ring, what is made of it, sums, and the source.
    """
    parts, weights = layers_of(cluster), _weights(cluster)
    (_, channels, height, width), (_, outs, out_height, out_width) = cluster.shapes[0], cluster.type.shape
    _, inside, high, wide = cluster.shapes[0] if parts.expand is None else parts.expand.conv.type.shape
    first_taps, first_strides, first_pads = _window(cluster, parts.expand)
    (down, across), (stride, step), (top, left) = _window(cluster, parts.depthwise)
    taps, packed = math.prod(first_taps), [(deep + 1) * columns for _, _, deep, _, columns in weights]
    right = max(0, (out_width - 1) * step + across - left - wide)
    columns, ring = -(-inside // 32) * 32, min((rows - 1) * stride + down, high)
    source = (0, 0)
    if parts.scale >= 0:
        source = (ring, wide)
    elif taps > 1:
        source = (
            (ring - 1) * first_strides[0] + first_taps[0],
            (wide - 1) * first_strides[1] + first_taps[1],
        )
    memory = [
        ring * (left + wide + right) * columns,
        rows * out_width * columns if parts.depthwise is not None else 0,
        rows * out_width * 32 if parts.project is not None else 0,
        channels * source[0] * source[1],
    ]
    offsets = [
        f"{(c * source[0] + u) * source[1] + v}"
        for c in range(channels if taps > 1 else 0)
        for u in range(first_taps[0])
        for v in range(first_taps[1])
    ]
    return {
        "CHANNELS": channels, "HEIGHT": height, "WIDTH": width,
        "MIDDLE": inside, "MIDDLE_HEIGHT": high, "MIDDLE_WIDTH": wide,
        "COLUMNS_OF_MIDDLE": columns, "DEPTH": weights[0][2],
        "TAPS_OF_FIRST": taps, "FIRST_TAPS_DOWN": first_taps[0],
        "FIRST_STRIDE_DOWN": first_strides[0], "FIRST_STRIDE_ACROSS": first_strides[1],
        "FIRST_TOP": first_pads[0], "FIRST_LEFT": first_pads[1], "OFFSETS": ", ".join(offsets),
        "SOURCE_HEIGHT": source[0], "SOURCE_WIDTH": source[1],
        "OUT_CHANNELS": outs, "OUT_HEIGHT": out_height, "OUT_WIDTH": out_width,
        "COLUMNS_OF_OUT": -(-outs // 32) * 32,
        "TAPS_DOWN": down, "TAPS_ACROSS": across, "STRIDE_DOWN": stride, "STRIDE_ACROSS": step,
        "TOP": top, "LEFT": left, "JOINED": int(parts.depthwise is None and taps == 1), "RIGHT": right,
        "ROWS": rows, "BLOCKS": -(-out_height // rows), "RING": ring, "RESIDUAL": parts.more, "SCALE": parts.scale,
        "EXPANDS": int(parts.expand is not None), "DEPTHWISE": int(parts.depthwise is not None),
        "PROJECTS": int(parts.project is not None), "INPUTS_HERE": len(cluster.inputs),
        "RING_SIZE": f"(int64_t){memory[0]}", "MIDDLE_SIZE": f"(int64_t){memory[1]}",
        "SUMS_SIZE": f"(int64_t){memory[2]}",
        "EXPAND_SIZE": packed[0], "DEPTHWISE_SIZE": packed[1], "WEIGHTS_SIZE": sum(packed),
        "PARTS_OF_WEIGHTS": ", ".join(f"{{{', '.join(map(str, row))}}}" for row in weights),
    }, memory  # fmt: skip


def _limits(members: Sequence[Member]) -> tuple[float, float] | None:
    """Return the bounds of an activation that is nothing but bounds, or None."""
    if len(members) != 1 or members[0].op not in ("relu", "clip"):
        return None
    named = members[0].named
    return (0.0, math.inf) if members[0].op == "relu" else (float(named["low"]), float(named["high"]))


def _function(name: str, members: Sequence[Member], cluster: Cluster) -> str:
    """Return an activation as a C function of a number of values that lie next to each other, in their place."""
    numbers = dict(cluster.known)
    found = activation_of(members, {j: members[-1].type for m in members for j in m.operands}, numbers)
    assert found is not None
    row = [TensorType("float32", (1 << 16,))]
    program, _ = program_of(bind(replace(found.composite, name=name), row))
    text = c_function(program, replace(usual(program), threaded=False)).replace(
        "\nvoid ", "\nstatic void ", 1
    )
    return (
        f"{text}\nstatic void {name}_function(float *p, int64_t n) {{\n  float part[1024];\n"
        "  for (int64_t i = 0; i < n; i += 1024) {\n    int64_t count = n - i < 1024 ? n - i : 1024;\n"
        "    memcpy(part, p + i, sizeof(float) * (size_t)count);\n"
        f"    {entry(program)}(1, count, part, p + i);\n  }}\n}}\n"
    )
