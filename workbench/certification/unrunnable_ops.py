"""Operators that are compared by their operands because they are not run.

These are operators that cannot run here (of a custom domain, or without a kernel) and operators that draw
random numbers. Such a node of A is paired with a node of B of the same operator and attributes, in the same
position among such nodes. The operands of both are compared; their results are drawn, the same for both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from onnx import NodeProto

from workbench.certification.inputs import inferred, tensor
from workbench.certification.model import Model, shape_of
from workbench.certification.runner import Runner
from workbench.frontends.onnx.traits import draws_random_numbers
from workbench.frontends.runtime import RuntimeFailure
from workbench.ops.types import DTYPE_NAMES

#: Messages with which ONNX Runtime reports that an operator, or a kernel for it, is missing.
_MISSING: Final = (
    re.compile(r"Fatal error: (?:(?P<domain>[\w.]*):)?(?P<op>\w+)\(-?\d+\) is not a registered function/op"),
    re.compile(r"Could not find an implementation for (?:(?P<domain>[\w.]+)\.)?(?P<op>\w+)\(\d+\) node"),
    re.compile(r"No Op registered for (?P<op>\w+) with domain_version"),
)


class CannotPair(ValueError):
    """Raised when the operators that cannot be run differ between the models."""


@dataclass(frozen=True, slots=True)
class Apart:
    """The nodes of both models that are not run, each of A with the one of B that is assumed to be the same.

    ``given`` maps the names of A's drawn results to their names in B; ``read`` pairs the values of A and B
    that these nodes read, which must be equal.
    """

    pairs: tuple[tuple[NodeProto, NodeProto], ...] = ()
    notes: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    read: tuple[tuple[str, str], ...] = ()


def missing(message: str) -> tuple[str, str] | None:
    """Return the domain and type of the operator that a message reports as missing, or None."""
    match = next(filter(None, (pattern.search(message) for pattern in _MISSING)), None)
    return None if match is None else (match.groupdict().get("domain") or "", match["op"])


def unrunnable(model: Model, runner: Runner) -> set[tuple[str, str]]:
    """Return the operators that ONNX Runtime cannot load; raise RuntimeFailure if it refuses for another reason."""
    found: set[tuple[str, str]] = set()
    while True:
        made = [o for n in model.nodes if (n.domain, n.op_type) in found for o in n.output if o]
        given = dict.fromkeys(made, np.zeros((1,), np.float32))
        try:
            runner.drop(runner.load(model.cut(list(model.outputs), given), model.folder))
        except RuntimeFailure as refusal:
            lacking = missing(str(refusal))
            named = {
                (n.domain, n.op_type) for n in model.nodes if lacking and n.op_type == lacking[1]
            } - found
            if not named:
                if found:  # values behind a drawn result may have wrongly guessed types: running shows it
                    return found
                raise
            found.update(named)
        else:
            return found


def set_apart(a: Model, b: Model, operators: set[tuple[str, str]]) -> Apart:
    """Pair the nodes that are not run; raise :class:`CannotPair` if the models differ in them."""
    of_a, of_b = _nodes(a, operators), _nodes(b, operators)
    pairs: list[tuple[NodeProto, NodeProto]] = []
    for key in dict.fromkeys([*of_a, *of_b]):
        first, second = of_a.get(key, []), of_b.get(key, [])
        name = operator_name((first or second)[0])
        if len(first) != len(second):
            raise CannotPair(
                f"A has {len(first)} nodes {name} with the same attributes, B {len(second)}, "
                "and nothing here can run them"
            )
        pairs += zip(first, second, strict=True)
    given: dict[str, str] = {}
    read: list[tuple[str, str]] = []
    for ours, theirs in pairs:
        name = operator_name(ours)
        if len(ours.output) != len(theirs.output) or len(ours.input) != len(theirs.input):
            raise CannotPair(f"the nodes {name} have different numbers of operands in A and B")
        given |= {x: y for x, y in zip(ours.output, theirs.output, strict=True) if x and y}
        for x, y in zip(ours.input, theirs.input, strict=True):
            if bool(x) != bool(y):
                raise CannotPair(f"a node {name} has an operand in only one of the models")
            if x:
                read.append((x, y))
    kinds = ", ".join(dict.fromkeys(operator_name(ours) for ours, _ in pairs))
    note = (
        f"{len(pairs)} node{'s' if len(pairs) > 1 else ''} ({kinds}) not run: their operands are "
        "compared; their results are drawn at random, the same for both models"
    )
    return Apart(tuple(pairs), (note,) if pairs else (), given, tuple(read))


def _nodes(model: Model, operators: set[tuple[str, str]]) -> dict[tuple[Any, ...], list[NodeProto]]:
    found: dict[tuple[Any, ...], list[NodeProto]] = {}
    for i in model.needed(model.outputs):
        node = model.nodes[i]
        if (node.domain, node.op_type) in operators or draws_random_numbers(node):
            attributes = sorted(a.SerializeToString() for a in node.attribute)
            found.setdefault((node.domain, node.op_type, len(node.output), *attributes), []).append(node)
    return found


def operator_name(node: NodeProto) -> str:
    """Return the name of a node's operator, with its domain."""
    return f"{node.domain}:{node.op_type}" if node.domain else node.op_type


def drawn_results(
    apart: Apart, a: Model, shapes: Mapping[str, Sequence[int]], kind: str, seed: int
) -> dict[str, np.ndarray]:
    """Draw values for the results of A's nodes that are not run; return them by A's names.

    A shape that the model does not state is assumed to be that of the first operand.

    Args:
        apart: The nodes that are not run.
        a: The model A.
        shapes: The shapes of A's inputs, all bound.
        kind: The distribution, one of ``inputs.KINDS`` or ``inputs.GENTLER``.
        seed: The seed of the values.
    """
    if not apart.given:
        return {}
    types = inferred(a, shapes)
    for value in a.proto.graph.value_info:
        if value.type.WhichOneof("value") == "tensor_type" and value.name not in types:
            dims = value.type.tensor_type.shape.dim
            types[value.name] = (_dtype(value.type), tuple(d.dim_value for d in dims))
    for name, kind_ in a.outputs.items():
        stated = shape_of(kind_)
        dims = tuple(d for d in stated or () if isinstance(d, int))
        if stated is not None and len(dims) == len(stated) and None in types.get(name, ("", [None]))[1]:
            types[name] = _dtype(kind_), dims
    found = {}
    rng = np.random.default_rng([seed, 7])
    for node, _ in apart.pairs:
        like = next((types[n] for n in node.input if n in types), ("float32", (2, 3)))
        for name in node.output:
            if name in apart.given:
                dtype, shape = types.get(name, like)
                extents = tuple(
                    d if d else o for d, o in zip(shape, [*like[1], *[1] * len(shape)], strict=False)
                )
                found[name] = tensor(dtype, tuple(int(d or 1) for d in extents), None, kind, rng)
                types[name] = (dtype, found[name].shape)
    return found


def _dtype(kind: Any) -> str:
    return DTYPE_NAMES.get(kind.tensor_type.elem_type, "float32")
