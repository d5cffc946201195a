"""Kernels as operators of ONNX Runtime: a library that it loads, and nodes that call its kernels.

A node of such an operator reads and writes the runtime's own tensors, and runs on the runtime's own threads:
the first axis, or a convolution's tiles, are cut into parts. So a border between a kernel and the runtime's
operators costs no more than any other node. Each operator is compiled to an object file, which all libraries share.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import onnx
from onnx.inliner import inline_local_functions

from workbench.graph import Opaque
from workbench.kernels.codegen import attention, separable
from workbench.kernels.codegen.attention import Attention, is_attention
from workbench.kernels.codegen.c_printer import c_function, c_type, entry, literal, prelude
from workbench.kernels.codegen.clusters import Cluster, as_graph
from workbench.kernels.codegen.compiler import Build, compiled
from workbench.kernels.codegen.kernel import THREADED
from workbench.kernels.codegen.schedule import Schedule, program_of, usual
from workbench.kernels.codegen.separable import Separable, is_separable
from workbench.kernels.codegen.winograd import CHOICES, Winograd, convolution_of
from workbench.kernels.composites.binding import bind
from workbench.kernels.composites.expressions import ExtentName
from workbench.ops.types import DTYPE_CODES

#: The domain of the operators.
DOMAIN: Final = "workbench.kernels"

#: The parts of a kernel that is worth threads: a session runs them on its threads, of which there may be any number.
PARTS: Final = 16

_RUNTIME: Final = Path(__file__).with_name("runtime.c")
_USUAL: Final = Build()


@dataclass(frozen=True, slots=True)
class Operator:
    """A cluster as an operator: its kernel's schedule, the most parts in which it runs, and its build.

    Convolutions and attention have an algorithm in the place of a schedule.
    """

    cluster: Cluster
    schedule: Schedule | Winograd | Separable | Attention
    parts: int = 1
    build: Build = field(default_factory=Build)

    @property
    def name(self) -> str:
        """Return the operator's name, the same for clusters of equal operators with the same kernel and build."""
        c = self.cluster
        local: dict[int, object] = dict(c.known)
        local |= {j: f"#{k}" for k, j in enumerate((*c.inputs, *(m.place for m in c.members)))}
        ops = [(m.op, m.attrs, [local[j] for j in m.operands]) for m in c.members]
        build = self.build.cc, *replace(self.build, omp=False).flags
        kinds = c.types if c.types == c.read else (c.types, c.read)
        about = f"{ops} {c.composite} {kinds} {c.type} {self.schedule} {self.parts} {build}"
        return f"fused_{hashlib.blake2b(about.encode(), digest_size=6).hexdigest()}"

    @property
    def memory(self) -> int:
        """Return the bytes of weights that the kernel transforms and keeps."""
        how = self.schedule
        return how.memory(self.cluster) if isinstance(how, Winograd | Separable) else 0


def operator(
    cluster: Cluster, how: Schedule | Winograd | Separable | Attention | None = None, build: Build = _USUAL
) -> Operator:
    """Return a cluster as an operator, with the usual choices if no others are given."""
    if is_separable(cluster):
        return Operator(cluster, how or separable.candidates(cluster)[0], PARTS, build)
    if convolution_of(cluster):
        return Operator(cluster, how or Winograd(CHOICES[0]), PARTS, build)
    if is_attention(cluster):
        return Operator(cluster, how or attention.candidates(cluster)[0], PARTS, build)
    assert how is None or isinstance(how, Schedule), "only convolutions and attention have algorithms"
    program, sizes = program_of(bind(cluster.composite, cluster.types))
    chosen = how or usual(program)
    elements = sum(math.prod(s) for s in (*cluster.shapes, cluster.type.shape))
    parts = PARTS if sizes and elements >= THREADED and not chosen.packed else 1
    return Operator(cluster, replace(chosen, threaded=False), parts, build)


def payload(op: Operator, opset: int | None = None) -> Opaque:
    """Return an operator as a record that a graph can hold.

    The record has the cluster's operators as a local function of the same name: a runtime without the
    library runs these, and ONNX Runtime prefers the library's operator. They are of the default operator set
    ``opset``, by default that of graphs from no file.
    """
    from workbench.frontends import to_onnx

    # A function of a declared composite would have to lie beside this one, in every model that holds it.
    inside = inline_local_functions(to_onnx(as_graph(op.cluster), opset=opset))
    names = [i.name for i in inside.graph.input]
    constants = [onnx.helper.make_node("Constant", [], [c.name], value=c) for c in inside.graph.initializer]
    nodes = [*constants, *inside.graph.node]
    imports = list(inside.opset_import)
    function = onnx.helper.make_function(DOMAIN, op.name, names, ["y"], nodes, imports)
    node = onnx.helper.make_node(op.name, names, ["y"], domain=DOMAIN)
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "kernel", inside.graph.input, inside.graph.output),
        functions=[function],
        opset_imports=[onnx.helper.make_opsetid(DOMAIN, 1), *imports],
        ir_version=10,
    )
    reason = f"a kernel in C for {', '.join(m.op for m in op.cluster.members)}"
    content = model.SerializeToString(deterministic=True)
    return Opaque(op.name, DOMAIN, (op.cluster.type,), content, True, reason)


def library_of(operators: Sequence[Operator], build: Build) -> Path:
    """Return the library of operators. Each is compiled once per content, for all libraries that have it."""
    alone, written = replace(build, omp=False), written_of(operators)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(lambda w: compiled(w.text, alone, None), written))
    return compiled(table_text(written), alone, parts)


@dataclass(frozen=True, slots=True)
class Written:
    """An operator's kernel as C text, what the table declares of it, and its row there."""

    text: str
    declared: str
    row: str


def written_of(operators: Sequence[Operator]) -> list[Written]:
    """Return different operators as they are compiled."""
    return [source_of(op) for op in {op.name: op for op in operators}.values()]


def table_text(written: Sequence[Written]) -> str:
    """Return the text of the functions that the runtime calls, with the table of operators."""
    rows = ",\n".join(w.row for w in written)
    head = f'#define DOMAIN "{DOMAIN}"\n#define OPERATORS {len(written)}\n'
    end = f"static Operator operators[OPERATORS] = {{\n{rows}\n}};\n"
    return "\n".join([prelude(""), head, _RUNTIME.read_text(), *(w.declared for w in written), end])


#: The function that the runtime calls: a kernel, of which other libraries do not see the name.
_HIDDEN: Final = '__attribute__((visibility("hidden")))'
_ARGUMENTS: Final = "(const void *const *inputs, void *output, int64_t first, int64_t count, float *scratch)"


@lru_cache(maxsize=512)
def source_of(op: Operator) -> Written:
    """Return the kernel of an operator with the function that the runtime calls, and its row of the table."""
    name, kind, how = op.name, op.cluster.type, op.schedule
    dims = ", ".join(map(str, kind.shape)) or "0"
    declared = f"{_HIDDEN} void {name}_run{_ARGUMENTS};\n"
    more = ""
    if isinstance(how, Schedule):
        text, length = _loops(op, how)
    else:
        made = how.written(name, op.cluster)
        text, length = made.text, made.pieces
        more = f", .scratch = {made.scratch}"
        if made.prepares:
            more += f", .prepare = {name}_prepare"
            declared += f"{_HIDDEN} void *{name}_prepare(const void *const *inputs);\n"
    declared += f"static const int64_t {name}_dims[] = {{{dims}}};\n"
    row = (
        f'  {{.name = "{name}", .type = {DTYPE_CODES[kind.dtype]}, .inputs = {len(op.cluster.inputs)}, '
        f".rank = {len(kind.shape)}, .parts = {min(op.parts, length)}, .length = {length}, "
        f".dims = {name}_dims, .run = {name}_run{more}}}"
    )
    return Written(f"{prelude(text)}\n{text}", declared, row)


def _loops(op: Operator, schedule: Schedule) -> tuple[str, int]:
    """Return the C text of a kernel of loops, and the number of pieces that may run apart."""
    binding = bind(replace(op.cluster.composite, name=op.name), op.cluster.types)
    program, sizes = program_of(binding)
    parted = sizes[0] if sizes else 1
    known: dict[str, object] = {**binding.extents, **dict(zip(program.leading, sizes, strict=True))}
    known |= dict.fromkeys(program.leading[:1], "count")
    given = [str(known[e]) for e in program.extents]
    given += [literal(binding.values[p], program.computed) for p in program.parameters]
    for place, array in enumerate((*program.inputs, *program.outputs)):
        const, there = ("", "output") if place == len(program.inputs) else ("const ", f"inputs[{place}]")
        cut = sizes and array.dims[:1] == (ExtentName(program.leading[0]),)
        step = binding.types[array.name].elements // parted if cut else 0
        given.append(f"({const}{c_type(array.dtype)} *){there} + first * {step}")
    text = c_function(program, schedule).replace("\nvoid ", "\nstatic void ", 1)
    text += f"\n{_HIDDEN} void {op.name}_run{_ARGUMENTS} {{\n  (void)first; (void)count; (void)scratch;\n"
    return f"{text}  {entry(program)}(1, {', '.join(given)});\n}}\n", parted
