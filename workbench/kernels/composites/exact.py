"""Composites on the verifier's numbers: residues, whole numbers, fractions and long decimals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from workbench.kernels.composites.binding import Binding, bind
from workbench.kernels.composites.composite import Composite, Equation
from workbench.kernels.composites.evaluate import NumpyArrays, evaluated
from workbench.kernels.composites.index import IndexExpr
from workbench.kernels.composites.primitives import FUNCTIONS
from workbench.kernels.composites.scalar import Apply, Number, Parameter, Read, Reduce, Scalar, walk
from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm, Inexact, Numbers
from workbench.ops.exact import Number as ExactNumber
from workbench.ops.types import FLOAT_DTYPES, TensorType

Named = Callable[[Numbers, Any], Any]

#: Functions that have a value among the verifier's numbers by one of their own methods.
_METHODS: Final[dict[str, Named]] = {
    "sqrt": lambda numbers, x: numbers.root(x),
    "exp": lambda numbers, x: numbers.exp(x),
    "log": lambda numbers, x: numbers.log(x),
    "tanh": lambda numbers, x: numbers.tanh(x),
    "erf": lambda numbers, x: numbers.erf(x),
}


class WholeNumbers:
    """Whole numbers, which have no other functions than sums, products and comparisons."""

    def number(self, value: float | Fraction, /) -> ExactNumber:
        """Return a whole number; raise Inexact if the value is none."""
        if value != int(value):
            raise Inexact(f"{value} is not a whole number")
        return int(value)

    def _none(self, *values: ExactNumber) -> ExactNumber:
        raise Inexact("a function without a whole number for a value")

    root = exp = log = tanh = erf = cos = sin = power = pi = _none


class ExactArrays(NumpyArrays):
    """Arrays of objects that are exact numbers."""

    def __init__(self, binding: Binding, numbers: Numbers) -> None:
        super().__init__(binding)
        self.numbers = numbers

    def begin(self, e: Equation) -> None:
        self.dtype = np.dtype(object)

    def number(self, value: float) -> np.ndarray:
        return self._filled(self.numbers.number(int(value) if float(value).is_integer() else value))

    def parameter(self, name: str) -> np.ndarray:
        return self.number(self.binding.values[name])

    def _filled(self, value: ExactNumber) -> np.ndarray:
        made = np.empty((), dtype=object)
        made[()] = value
        return made

    def as_number(self, x: np.ndarray) -> np.ndarray:
        return self._each(lambda v: self.numbers.number(int(v)), x)

    def inside(self, x: np.ndarray, extent: IndexExpr, what: str) -> np.ndarray:
        return np.clip(
            self._each(lambda v: int(v) if v == int(v) else 0, x), 0, self.binding.whole(extent) - 1
        )

    def _each(self, function: Callable[..., Any], *operands: Any) -> np.ndarray:
        return np.asarray(np.frompyfunc(function, len(operands), 1)(*operands), dtype=object)

    def apply(self, function: str, operands: Sequence[Any]) -> np.ndarray:
        if function in _METHODS:
            return self._each(lambda x: _METHODS[function](self.numbers, x), *operands)
        if function == "div":
            return self._each(self._quotient, *operands)
        if function == "pow":
            return self._each(self.numbers.power, *operands)
        if function == "floor":
            return self._each(lambda x: self.numbers.number(math.floor(x)), *operands)
        f = FUNCTIONS[function]
        found = np.asarray(f.numpy(*operands))
        return found.astype(bool) if f.truth else found

    def _quotient(self, a: ExactNumber, b: ExactNumber) -> ExactNumber:
        if isinstance(a, int) and isinstance(b, int):
            raise Inexact("a quotient of whole numbers")
        if b == 0:
            raise Inexact("a division by zero")
        return a / b

    def spread(self, x: np.ndarray, e: Equation, full: bool) -> np.ndarray:
        return np.array(np.broadcast_to(x, self.binding.types[e.target].shape), object)


# -- the exact form of an operator ----------------------------------------------------------------------
def types_of(composite: Composite, operands: Sequence[np.ndarray]) -> list[TensorType]:
    """Return operands' types in the declared element types: exact numbers stand for numbers of any."""
    found = []
    for t, x in zip(composite.inputs, operands, strict=True):
        own = str(x.dtype) if str(x.dtype) in FLOAT_DTYPES else "float64"
        found.append(TensorType(own if t.dtype[0].isupper() else t.dtype, tuple(map(int, x.shape))))
    return found


@dataclass(frozen=True, slots=True)
class ExactSemantics:
    """A composite on fractions or long decimals."""

    composite: Composite

    def __call__(self, numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
        binding = bind(self.composite, types_of(self.composite, xs), attrs)
        found = evaluated(binding, xs, ExactArrays(binding, numbers))
        return np.asarray(found[self.composite.output.name], dtype=object)


@dataclass(frozen=True, slots=True)
class _Needs:
    """The least arithmetic of a composite, which depends on attributes that are not whole numbers."""

    needs: Arithmetic
    parameters: tuple[str, ...]

    def __call__(self, attrs: ExactAttrs) -> Arithmetic:
        whole = all(float(attrs[name]).is_integer() for name in self.parameters)
        return self.needs if whole else max(self.needs, Arithmetic.RATIONAL)


@dataclass(frozen=True, slots=True)
class _Degree:
    composite: Composite

    def __call__(self, degrees: Sequence[int]) -> int:
        known = {t.name: d for t, d in zip(self.composite.inputs, degrees, strict=True)}
        for e in self.composite.equations:
            known[e.target] = _degree(e.value, known)
        return known[self.composite.output.name]


def _degree(e: Scalar, known: Mapping[str, int]) -> int:
    match e:
        case Read():
            return known[e.tensor]
        case Apply("mul", (left, right)):
            return _degree(left, known) + _degree(right, known)
        case Apply("fma", (left, right, more)):
            return max(_degree(left, known) + _degree(right, known), _degree(more, known))
        case Apply(_, operands):
            return max(_degree(x, known) for x in operands)
        case Reduce(_, _, body):
            return _degree(body, known)
    return 0


def exact_form(composite: Composite) -> ExactForm:
    """Return how a composite is computed exactly: with the least arithmetic that has all its functions."""
    needs = Arithmetic.POLYNOMIAL
    parameters: set[str] = set()
    for e in composite.equations:
        for part in walk(e.value):
            match part:
                case Apply(function):
                    needs = max(needs, FUNCTIONS[function].needs)
                case Reduce("max" | "min"):
                    needs = max(needs, Arithmetic.ORDERED)
                case Reduce("prod"):  # its degree depends on the extent
                    needs = max(needs, Arithmetic.RATIONAL)
                case Number(value) if not float(value).is_integer():
                    needs = max(needs, Arithmetic.RATIONAL)
                case Parameter(name):
                    parameters.add(name)
    if any("int" in t.dtype for t in composite.inputs):
        needs = max(needs, Arithmetic.RATIONAL)
    given = _Needs(needs, tuple(sorted(parameters))) if parameters else needs
    if needs is Arithmetic.FLOATS:
        return ExactForm(Arithmetic.FLOATS)
    return ExactForm(given, ExactSemantics(composite), _Degree(composite), bound=None)


def semantics(composite: Composite, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    """Return the value of a composite in the numbers of its operands: floats, or objects that are whole."""
    binding = bind(composite, types_of(composite, xs), attrs)
    objects = any(x.dtype == object for x in xs)
    arrays = ExactArrays(binding, WholeNumbers()) if objects else NumpyArrays(binding)
    return np.asarray(evaluated(binding, xs, arrays)[composite.output.name])
