"""The page of operators, made from their specifications: types, semantics, ONNX form, laws."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from workbench import GraphBuilder
from workbench.frontends.onnx.exporter import to_onnx
from workbench.graph import Graph
from workbench.ops import Attr, OpSpec, TensorType, Trait, operators
from workbench.ops.onnx_form import importable, importer_of
from workbench.ops.typing import ConcreteTyping
from workbench.rules import Rule, rule_set
from workbench.rules.pattern import App, format_rule, subterms

#: Types of operands that examples are tried with, in order; they are small, and no two extents are equal.
TRIED: Final = tuple(
    TensorType(dtype, shape)
    for dtype, shape in (
        ("float32", (2, 3)), ("float32", (3, 4)), ("float32", (1, 4, 6, 6)), ("float32", (8, 4, 3, 3)),
        ("float32", (4, 8, 3, 3)), ("float32", (4, 1, 3, 3)), ("float32", (4,)), ("float32", (8,)),
        ("float32", ()), ("float32", (3,)), ("int64", (2,)), ("int8", (2, 3)), ("int8", ()),
        ("uint8", (2, 3)), ("uint8", ()), ("float32", (1, 8, 1, 1)), ("float32", (2, 3, 4)),
        ("float32", (6, 3)), ("bool", (2, 3)),
    )
)  # fmt: skip
#: A law longer than this is named without its text.
LONGEST: Final = 160


class Asked(ConcreteTyping):
    """The reading of a type rule on numbers that keeps what the rule asks for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def require(self, condition: object, message: str) -> None:
        """Keep the message of a condition, and check it."""
        self.asked.append(message)
        super().require(condition, message)


def operators_page() -> str:
    """Return the page of all operators, family by family."""
    laws: dict[str, list[Rule]] = {}
    for rule in rule_set("default"):
        for name in sorted({t.op for root in rule.sources for t in subterms(root) if isinstance(t, App)}):
            laws.setdefault(name, []).append(rule)
    families: dict[str, list[OpSpec]] = {}
    for spec in operators():
        if Trait.OWN not in spec.traits:
            families.setdefault(family_of(spec), []).append(spec)
    read: dict[str, list[str]] = {}
    for op_type in importable():
        importer = importer_of(op_type)
        assert importer is not None
        read.setdefault(importer.__module__.rpartition(".")[2], []).append(op_type)
    parts = [
        "# Operators",
        "One specification is all that the workbench knows of an operator; this page is made from them. An"
        " operator of your own has the same parts: [how to add one](../how-to/operator.md).",
        "*Example* is found by trying the type rule. *Conditions* are the messages with which the type rule"
        " refuses operands, as the example asks them; “…” stands for types. *As ONNX* are the nodes that the"
        " example is written as. *Laws* are the default rules with the operator on their left-hand side;"
        " [the library](../../rules/README.md) has each with its verdict and proof, and"
        ' <a href="../../views/rules.html">the browser of rules</a> draws both sides.',
    ]
    for family, specs in sorted(families.items()):
        parts.append(f"## {family.replace('_', ' ').capitalize()}")
        if read.get(family):
            parts.append(f"Read from ONNX: {', '.join(read[family])}.")
        parts += [
            operator_text(spec, laws.get(spec.name, [])) for spec in sorted(specs, key=lambda s: s.name)
        ]
    return "\n\n".join(parts) + "\n"


def family_of(spec: OpSpec) -> str:
    """Return the family of an operator: the module that defines its meaning."""
    defined = spec.evaluate or spec.infer
    return defined.__module__.rpartition(".")[2] if defined else "leaves"


def operator_text(spec: OpSpec, laws: list[Rule]) -> str:
    """Return the section of one operator."""
    traits = ", ".join(sorted(str(t.name).lower().replace("_", " ") for t in spec.traits)) or "none"
    found = example(spec)
    facts = [
        f"operands: {spec.arity.removesuffix('s').removesuffix(' operand')}",
        *(f"attribute `{a.name}`: {kind_of(a)}, {default(a.default)}" for a in spec.attrs),
    ]
    if found is not None:
        inputs, attrs, result, asked = found
        shown = ", ".join([*map(str, inputs), *(f"{k}={v!r}" for k, v in attrs.items())])
        facts.append(f"example: `{spec.name}({shown})` is `{result}`")
        if asked:
            facts.append(f"conditions: {'; '.join(asked)}")
        if nodes := onnx_nodes(spec, inputs, attrs):
            facts.append(f"as ONNX: {' → '.join(nodes)}")
        elif Trait.CONSTANT in spec.traits:
            facts.append("as ONNX: an initialiser")
    if not spec.export and not spec.leaf:
        facts.append("as ONNX: none; it is computed from weights when the model is saved")
    facts += [
        f"in torch: {'yes' if spec.torch else 'no'}",
        f"exact arithmetic: {'a form of its own' if spec.exact else 'in decimals'}",
        f"traits: {traits}",
    ]
    if laws:
        facts.append(f"laws: {len(laws)}: {', '.join(f'`{rule.name}`' for rule in laws)}")
        short = min((format_rule(rule).partition("  @")[0] for rule in laws), key=len)
        if len(short) <= LONGEST:
            facts.append(f"such as `{short}`")
    meaning = [f"{spec.doc[:1].upper()}{spec.doc[1:].rstrip('.')}."] if spec.doc else []
    return "\n\n".join([f"### {spec.name}", *meaning, "\n".join(f"- {fact}" for fact in facts)])


def kind_of(attr: Attr) -> str:
    """Return the kind of an attribute, with its possible names."""
    return f"one of {', '.join(attr.names)}" if attr.names else attr.kind


def default(value: object) -> str:
    """Return the default of an attribute as a text."""
    return "needed" if value is None else f"by default `{value}`"


Example = tuple[tuple[TensorType, ...], dict[str, Any], TensorType, tuple[str, ...]]


def example(spec: OpSpec) -> Example | None:
    """Return operand types, attributes, the result's type and the conditions asked; None if none is found."""
    if spec.infer is None:
        return None
    count = 2 if spec.variadic else spec.min_inputs
    # From the third operand on, those of an operator with many are tried with one type.
    free = min(count, 3 if count < 4 else 2)
    every = [(*kinds, *kinds[-1:] * (count - free)) for kinds in itertools.product(TRIED, repeat=free)]
    # Operands of different types say more than equal ones.
    for inputs in sorted(every, key=lambda kinds: len(set(kinds)) < free):
        for given in choices(spec, inputs):
            typing = Asked()
            try:
                spec.result_type(inputs, spec.pack(given))
                result = spec.infer(typing, inputs, spec.unpack(spec.pack(given)))
            except (ValueError, TypeError, IndexError, ZeroDivisionError):
                continue
            asked = dict.fromkeys(plain(text) for text in typing.asked)
            return inputs, given, result, tuple(asked)
    return None


def plain(text: str) -> str:
    """Return the message of a type rule without the types of the example."""
    return re.sub(r"\b(float|u?int|bool|bfloat)\d*\[[^\]]*\]", "…", text)


def choices(spec: OpSpec, inputs: Sequence[TensorType]) -> Iterator[dict[str, Any]]:
    """Yield values for the attributes that have no default, for operands of these types."""
    needed = [a for a in spec.attrs if a.default is None]
    ways = [list(values(a, inputs)) for a in needed]
    for picked in itertools.islice(itertools.product(*ways), 50):
        yield dict(zip((a.name for a in needed), picked, strict=True))


def values(attr: Attr, inputs: Sequence[TensorType]) -> Iterator[Any]:
    """Yield values that an attribute may have."""
    rank = len(inputs[0].shape) if inputs else 2
    yield from attr.tried
    if attr.names:
        yield from attr.names
    elif attr.kind == "perm":
        yield tuple(reversed(range(rank)))
    elif attr.kind == "shape":
        yield tuple(reversed(inputs[0].shape)) if inputs else (2, 3)
        yield (5, *inputs[0].shape) if inputs else (2,)
    elif attr.kind == "dtype":
        yield from ("float16", "int8", "float32")
    elif attr.kind == "axes":
        yield (-1,)
    elif attr.kind == "ints":
        yield from ((n,) * attr.length for n in (2, 1, 3))
    elif attr.kind == "float":
        yield 0.5
    else:
        yield from (2, -1, 1, 4)


def onnx_nodes(spec: OpSpec, inputs: Sequence[TensorType], attrs: dict[str, Any]) -> list[str]:
    """Return the operators of the ONNX nodes that an example is written as; empty if it is a constant."""
    if not inputs or spec.export is None:
        return []
    b = GraphBuilder("example")
    operands = [b.input(f"x{i}", kind.shape, kind.dtype) for i, kind in enumerate(inputs)]
    graph: Graph = b.graph({"y": b.op(spec.name, *operands, **attrs)})
    model = to_onnx(graph)
    return [node.op_type if not node.domain else f"{node.domain}.{node.op_type}" for node in model.graph.node]
