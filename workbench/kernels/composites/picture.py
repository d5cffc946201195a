"""Drawings of composites: tensors, the functions between them and the loops around them."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.graph.dot import quoted
from workbench.kernels.composites.composite import Composite
from workbench.kernels.composites.scalar import FUNCTIONS, Apply, Read, Reduce, Scalar, children


def statements(composite: Composite) -> list[str]:
    """Return the statements of the drawing in Graphviz's language.

    >>> from workbench.kernels.composites import parse
    >>> for line in statements(parse("twice", "x{T}[~] -> y{T}[~]", "y = x + x")):
    ...     print(line)
    t0 [label="x{T}[~]", shape=plaintext]
    n0 [label="+"]
    t0 -> n0 [label="x[~]"]
    t1 [label="y[~]", shape=plaintext]
    n0 -> t1
    """
    lines: list[str] = []
    tensors: dict[str, str] = {}
    seen: dict[Scalar, str] = {}

    def name(tensor: str, label: str) -> str:
        tensors[tensor] = f"t{len(tensors)}"
        lines.append(f"{tensors[tensor]} [label={quoted(label)}, shape=plaintext]")
        return tensors[tensor]

    def draw(e: Scalar) -> tuple[str, str]:
        """Return the node of an expression and the label of the arrow from it."""
        if isinstance(e, Read):
            return tensors[e.tensor], str(e)
        if e not in seen:
            below = list(dict.fromkeys(draw(child) for child in children(e)))
            seen[e] = node = f"n{len(seen)}"
            lines.append(f"{node} [label={quoted(_label(e))}]")
            for source, label in below:
                lines.append(f"{source} -> {node}" + (f" [label={quoted(label)}]" if label else ""))
        return seen[e], ""

    for t in composite.inputs:
        name(t.name, str(t))
    for equation in composite.equations:
        source, label = draw(equation.value)
        target = name(equation.target, str(equation).partition(" = ")[0])
        lines.append(f"{source} -> {target}" + (f" [label={quoted(label)}]" if label else ""))
    return lines


def _label(e: Scalar) -> str:
    match e:
        case Apply(function):
            return FUNCTIONS[function].sign.strip() or function
        case Reduce(function, over):
            return f"{function} over {', '.join(map(str, over))}"
    return str(e)


def text(composite: Composite) -> str:
    """Return the drawing in Graphviz's language, which needs no package."""
    return "\n".join(_document(composite)) + "\n"


def _document(composite: Composite) -> Iterator[str]:
    yield f"digraph {quoted(composite.name)} {{"
    yield from (f"  {line}" for line in statements(composite))
    yield "}"
