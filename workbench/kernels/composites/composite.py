"""A composite: an operator declared by the shapes of its operands and by equations of index notation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from workbench.kernels.composites.expressions import Bound, ExtentName, IndexExpr, Scalar, extent_names


class NotationError(ValueError):
    """Raised when index notation cannot be read; the message shows the place with a caret.

    Args:
        message: The message.
        text: The text that cannot be read.
        at: The position of the wrong part in the text.
        end: The end of the wrong part; by default one character.
    """

    def __init__(self, message: str, text: str = "", at: int = 0, end: int | None = None) -> None:
        start = text.rfind("\n", 0, at) + 1
        line = text[start:].partition("\n")[0]
        width = max(1, min(end or at + 1, start + len(line)) - at)
        caret = f"\n    {line}\n    {' ' * (at - start)}{'^' * width}" if text else ""
        super().__init__(message + caret)
        self.reason = message
        column = at - start + 1 - (len(line) - len(line.lstrip()))
        #: The message on one line, with the column instead of the caret.
        self.on_command_line = message + (f" (column {column} of {line.strip()!r})" if text else "")

    def within(self, where: str) -> NotationError:
        """Return the error with the place of its text, such as a file and a line, in front of its message."""
        found = NotationError(f"{where}{self}")
        found.reason, found.on_command_line = self.reason, where + self.on_command_line
        return found


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand or a result: name, element type and extents.

    ``dtype`` is an element type's name or a variable such as ``T``, which stands for one floating-point type
    in the whole declaration. With ``leading`` the tensor has any number of axes before ``dims``.
    """

    name: str
    dtype: str
    leading: bool
    dims: tuple[IndexExpr, ...]

    def __str__(self) -> str:
        return f"{self.name}{{{self.dtype}}}[{' '.join(['~'] * self.leading + [str(d) for d in self.dims])}]"


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute with its default: a whole number if the default is one, else a floating-point number."""

    name: str
    default: int | float

    @property
    def whole(self) -> bool:
        """Return whether the attribute is a whole number, which extents and places may use."""
        return isinstance(self.default, int)


@dataclass(frozen=True, slots=True)
class Equation:
    """The values of a tensor: for all ``indices`` (and leading ones) ``target[~ indices] = value``.

    ``target`` is an output of the composite, or an intermediate tensor that later equations read. The
    intermediate tensor's extents are those of ``indices``.
    """

    target: str
    leading: bool
    indices: tuple[Bound, ...]
    value: Scalar

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the indices."""
        return tuple(b.name for b in self.indices)

    def __str__(self) -> str:
        places = " ".join(["~"] * self.leading + [*self.names])
        return f"{self.target}[{places}] = {self.value}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on extents: the two sides are equal in every call."""

    left: IndexExpr
    right: IndexExpr
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


T = TypeVar("T")


def matched(
    sides: Iterable[tuple[IndexExpr, T, str]],
    conditions: Iterable[Condition],
    extents: dict[str, Any],
    value: Callable[[IndexExpr], T],
) -> list[tuple[IndexExpr, T, str]]:
    """Assign symbolic extents their values, from axes first and then from conditions; return the other axes.

    Args:
        sides: The declared extent of each axis, the given one, and the operand in words.
        conditions: The conditions on extents.
        extents: The values by name, to which those that follow are added.
        value: Returns the value of an expression of known extents.
    """
    later = []
    for declared, given, why in sides:
        if isinstance(declared, ExtentName) and declared.name not in extents:
            extents[declared.name] = given
        else:
            later.append((declared, given, why))
    for w in conditions:
        for one, two in ((w.left, w.right), (w.right, w.left)):
            if isinstance(one, ExtentName) and one.name not in extents and extent_names(two) <= set(extents):
                extents[one.name] = value(two)
    return later


@dataclass(frozen=True, slots=True)
class Composite:
    """An operator in index notation.

    ``equations`` are in an order in which they can be computed; every output is the target of one. Calls of
    other composites are inlined, so that equations contain none. ``signature`` and ``body`` are the text.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: tuple[Attribute, ...]
    equations: tuple[Equation, ...]
    conditions: tuple[Condition, ...] = ()
    doc: str = ""
    signature: str = ""
    body: str = ""

    @property
    def output(self) -> Tensor:
        """Return the first output, which for most composites is the only one."""
        return self.outputs[0]

    @property
    def defaults(self) -> dict[str, int | float]:
        """Return the attributes' defaults by name."""
        return {a.name: a.default for a in self.attributes}

    def tensor(self, name: str) -> Tensor:
        """Return an operand, a result or an intermediate tensor; raise LookupError if there is none."""
        for tensor in (*self.inputs, *self.outputs):
            if tensor.name == name:
                return tensor
        for e in self.equations:
            if e.target == name:
                return Tensor(name, self.output.dtype, e.leading, tuple(b.extent for b in e.indices))
        raise LookupError(f"composite {self.name} has no tensor called {name!r}")

    @property
    def elementwise(self) -> bool:
        """Return whether every tensor has leading axes only, so that scalars may take their place."""
        return not any(t.dims for t in (*self.inputs, *self.outputs)) and len(self.equations) == 1

    def __str__(self) -> str:
        given = ", ".join(f"{a.name}={a.default!r}" for a in self.attributes)
        inputs, outputs = ", ".join(map(str, self.inputs)), ", ".join(map(str, self.outputs))
        head = f"{self.name}{f'({given})' if given else ''}: {inputs} -> {outputs}"
        if self.conditions:
            head += f" where {', '.join(map(str, self.conditions))}"
        return "\n".join([head, *(f"    {e}" for e in self.equations)])
