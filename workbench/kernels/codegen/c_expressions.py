"""Scalar and index expressions as C expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from workbench.kernels.codegen.program import Program
from workbench.kernels.composites.expressions import (
    FUNCTIONS,
    Apply,
    ExtentName,
    IndexArith,
    IndexExpr,
    IndexName,
    IndexValue,
    Number,
    Parameter,
    Read,
    Reduce,
    Scalar,
    Whole,
    arith,
)

#: The C type of an element type, and the ending of its functions' names.
C_TYPES: Final[Mapping[str, str]] = {
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "bool": "uint8_t",
}
SUFFIXES: Final = {"float32": "f32", "float64": "f64"}

#: Element types that are stored as bits: the functions that read and write them as float32.
_STORED: Final = {"float16": ("from_f16", "to_f16"), "bfloat16": ("from_bf16", "to_bf16")}

#: Functions as C: ``{0}`` is the first operand, ``{t}`` the ending of a name, ``{f}`` that of the C library.
_FORMS: Final[Mapping[str, str]] = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "fma": "fma{f}({0}, {1}, {2})",
    "pow": "pow{f}({0}, {1})",
    "max": "larger_{t}({0}, {1})",
    "min": "smaller_{t}({0}, {1})",
    "neg": "(-{0})",
    "abs": "fabs{f}({0})",
    "floor": "floor{f}({0})",
    "sqrt": "sqrt{f}({0})",
    "less": "({0} < {1})",
    "atmost": "({0} <= {1})",
    "equal": "({0} == {1})",
    "and": "({0} & {1})",
    "or": "({0} | {1})",
    "not": "(!{0})",
    "where": "({0} ? {1} : {2})",
}

#: Those of whole numbers that are others.
_WHOLE_FORMS: Final[Mapping[str, str]] = {
    "max": "({0} > {1} ? {0} : {1})",
    "min": "({0} < {1} ? {0} : {1})",
    "fma": "({0} * {1} + {2})",
    "abs": "({0} < 0 ? -{0} : {0})",
}

#: Functions whose second operand is a number, not a value that may be NaN; and the operand that does nothing.
_LIMITS: Final[Mapping[str, tuple[str, float]]] = {
    "max": ("at_least_{t}({0}, {1})", math.inf),
    "min": ("at_most_{t}({0}, {1})", -math.inf),
}

#: Powers that are products or roots.
_POWERS: Final[Mapping[float, str]] = {
    2.0: "square_{t}({0})",
    3.0: "cube_{t}({0})",
    0.5: "sqrt{f}({0})",
    -1.0: "(1 / {0})",
    1.0: "{0}",
}

#: Words that a C text uses, which no variable may be called.
_WORDS: Final = """
    auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile
    while threads width sums c r NAN INFINITY exp log tanh erf sin cos pow sqrt floor y0 y1 yn j0 j1 jn gamma
    free storage fma powf sqrtf floorf fabs fabsf fmaf memcpy aligned_alloc copysignf floored remainder_of
    INLINE DOMAIN OPERATORS INPUTS REQUIRED NULL size_t uint8_t int8_t int16_t uint16_t int32_t uint32_t
    int64_t
"""
_TAKEN: Final = frozenset(_WORDS.split())

#: How names of functions in a text end, which no variable's does.
_ENDINGS: Final = ("_", "_f32", "_f64", "_f16", "_bf16")


class NoKernel(NotImplementedError):
    """Raised when a composite has no form in C; the message names the element type or the function."""


def named(name: str) -> str:
    """Return the C name of an index, an extent, an attribute or an array; generated names end in _."""
    return f"{name}_" if name in _TAKEN or name.endswith(_ENDINGS) else name


def entry(program: Program) -> str:
    """Return the name of a program's function in C, which no function of the C library has."""
    return f"{program.name}_kernel"


@dataclass(slots=True)
class Scope:
    """The names at one place of a text: values that variables hold, and how arrays are addressed.

    ``values`` maps expressions to variables. ``places`` maps the name of an array to a function of the
    expression that reads it, for arrays that do not lie in memory as declared.
    """

    program: Program
    values: dict[Scalar, str] = field(default_factory=dict)
    places: dict[str, Callable[[Read], str]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    def inside(self) -> Scope:
        """Return a copy for an inner block."""
        return Scope(self.program, dict(self.values), dict(self.places), dict(self.renamed))

    @property
    def kind(self) -> str:
        """Return the C type in which the program computes."""
        return c_type(self.program.computed)


def c_type(dtype: str) -> str:
    """Return the C type of an element type; raise :class:`NoKernel` if there is none."""
    if dtype not in C_TYPES:
        raise NoKernel(f"kernels in C have the element types {', '.join(C_TYPES)}, got {dtype}")
    return C_TYPES[dtype]


def whole(e: IndexExpr, scope: Scope) -> str:
    """Return an index expression as C."""
    match e:
        case Whole(value):
            return str(value)
        case IndexName(name):
            return scope.renamed.get(name, named(name))
        case ExtentName(name):
            return named(name)
        case IndexArith(op, left, right):
            a, b = whole(left, scope), whole(right, scope)
            if op in ("//", "%"):
                if _positive(left) and _positive(right):
                    return f"({a} {'/' if op == '//' else '%'} {b})"
                return f"{'floored' if op == '//' else 'remainder_of'}({a}, {b})"
            return f"({a} {op} {b})"
        case Read():
            return f"(int64_t){read(e, scope)}"
    raise NoKernel(f"an index must be made of numbers, indices and reads, got {e}")


def _positive(e: IndexExpr) -> bool:
    match e:
        case Whole(value):
            return value >= 0
        case IndexName() | ExtentName():
            return True
        case IndexArith(op, left, right):
            return op != "-" and _positive(left) and _positive(right)
    return False


def flat(dims: tuple[IndexExpr, ...], indices: tuple[IndexExpr, ...]) -> IndexExpr:
    """Return the place of an element in a dense array."""
    place: IndexExpr = indices[0] if indices else Whole(0)
    for dim, index in zip(dims[1:], indices[1:], strict=True):
        place = arith("+", arith("*", place, dim), index)
    return place


def read(e: Read, scope: Scope) -> str:
    """Return a read as C, in the element type of its array."""
    if e.tensor in scope.places:
        return scope.places[e.tensor](e)
    array = scope.program.array(e.tensor)
    return f"{named(e.tensor)}[{bare(whole(flat(array.dims, e.indices), scope))}]"


def loaded(text: str, dtype: str, scope: Scope) -> str:
    """Return an element of an array as a number of the type in which the program computes."""
    if dtype in _STORED:
        text, dtype = f"{_STORED[dtype][0]}({text})", "float32"
    return text if dtype == scope.program.computed else f"({scope.kind}){text}"


def stored(text: str, dtype: str, scope: Scope) -> str:
    """Return a number of the type in which the program computes as an element of an array, rounded once."""
    if dtype == scope.program.computed:
        return bare(text)
    return f"{_STORED[dtype][1]}({bare(text)})" if dtype in _STORED else f"({c_type(dtype)})({bare(text)})"


def bare(text: str) -> str:
    """Return an expression without the brackets around all of it."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for place, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


def value(e: Scalar, scope: Scope) -> str:
    """Return a scalar expression as C; reductions must be in the scope's values."""
    if e in scope.values:
        return scope.values[e]
    match e:
        case Number(number):
            return literal(number, scope.program.computed)
        case Parameter(name):
            return named(name)
        case IndexValue(index):
            return f"({scope.kind}){whole(index, scope)}"
        case Read(tensor):
            return loaded(read(e, scope), scope.program.array(tensor).dtype, scope)
        case Apply(
            "div", (Number(1.0), Apply("add", (Number(1.0), Apply("exp", (Apply("neg", (x,)),)))))
        ) if scope.program.computed == "float32":
            return f"sigmoid_f32({bare(value(x, scope))})"
        case Apply(function, operands):
            wholes = [w for o in operands if (w := _as_whole(o, scope)) is not None]
            compared = FUNCTIONS[function].truth and len(wholes) == len(operands)
            given = wholes if compared else [value(o, scope) for o in operands]
            suffix = SUFFIXES.get(scope.program.computed, "")
            form = _FORMS.get(function, f"{function}_{{t}}({{0}})")
            if function == "pow" and isinstance(operands[1], Number):
                form = _POWERS.get(operands[1].value, form)
            if function in _LIMITS and isinstance(operands[1], Number | Parameter):
                if operands[1] == Number(-_LIMITS[function][1]):
                    return given[0]
                form = _LIMITS[function][0]
            if not suffix and ("{t}" in form or "{f}" in form):
                if function not in _WHOLE_FORMS:
                    raise NoKernel(f"{function} needs floating-point numbers, got {scope.program.computed}")
                form = _WHOLE_FORMS[function]
            return form.format(*given, t=suffix, f="f" if suffix == "f32" else "")
        case Reduce():
            raise NoKernel(f"a reduction is not at a place at which it can be computed: {e}")
    raise NoKernel(f"no form in C for {e}")


def _as_whole(e: Scalar, scope: Scope) -> str | None:
    """Return a place, or an element of a tensor of whole numbers, as it is; None if it is neither."""
    if isinstance(e, IndexValue):
        return whole(e.value, scope)
    if isinstance(e, Read) and "int" in scope.program.array(e.tensor).dtype:
        return f"(int64_t){read(e, scope)}"
    return None


def literal(number: float, dtype: str) -> str:
    """Return a number as C, rounded to the element type.

    >>> literal(0.1, "float32"), literal(3, "float64"), literal(float("-inf"), "float32")
    ('0.1f', '3.0', '(-INFINITY)')
    """
    if dtype not in SUFFIXES:
        return str(int(number))
    if math.isnan(number):
        return "NAN"
    if math.isinf(number):
        return "INFINITY" if number > 0 else "(-INFINITY)"
    text = str(np.float32(number)) if dtype == "float32" else repr(float(number))
    if math.isinf(float(text)):
        return literal(float(text), dtype)
    text = text if any(c in text for c in ".e") else f"{text}.0"
    text = f"{text}f" if dtype == "float32" else text
    return f"({text})" if text.startswith("-") else text
