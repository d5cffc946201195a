"""Operators of the user's own: a numpy function from which all the other forms of an operator follow."""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import numpy as np

from workbench.ops import registry
from workbench.ops.elementwise import broadcast_type as elementwise
from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm, Numbers
from workbench.ops.onnx_form import Emitter
from workbench.ops.serialization import CannotTravel, definition_of
from workbench.ops.spec import MANY, Attr, AttrValue, Names, OpSpec, Types
from workbench.ops.traits import Trait
from workbench.ops.types import FLOAT_DTYPES, TensorType, TypeMismatch
from workbench.ops.typing import CONCRETE, Attrs, TypeRule

if TYPE_CHECKING:
    from torch import Tensor


#: The domain of ONNX operators for which no other form is given.
DOMAIN: Final = "workbench.own"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
#: Names that mean something else in a rule.
_RESERVED: Final = frozenset(
    {"where", "each", "inf", "dim", "rank", "dtype", "compose", "constant", "running", "distinct"}
)
#: Kinds of attributes by the type of their default.
_KINDS: Final[dict[type, str]] = {bool: "int", int: "int", float: "float", str: "str"}
#: Values of attributes with which rules are tested, besides the default.
_TRIED: Final[dict[str, tuple[AttrValue, ...]]] = {"int": (0, 1, 2, 3), "float": (0.0, 1.0, 0.5, 2.0)}

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


class OperatorReplaced(UserWarning):
    """The warning that an operator was registered again with another definition."""


@overload
def operator(function: F, /) -> F: ...


@overload
def operator(
    *,
    name: str | None = ...,
    type_rule: TypeRule = ...,
    onnx: str | Function | None = ...,
    flops: float | Function = ...,
    exact: int | str | Function | None = ...,
    torch: Function | None = ...,
    attrs: Sequence[Attr] | None = ...,
) -> Callable[[F], F]: ...


def operator(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    type_rule: TypeRule = elementwise,
    onnx: str | Function | None = None,
    flops: float | Function = 1.0,
    exact: int | str | Function | None = None,
    torch: Function | None = None,
    attrs: Sequence[Attr] | None = None,
) -> F | Callable[[F], F]:
    """Register an operator by a numpy function, which is returned unchanged.

    The operands are the function's positional parameters (``*xs`` for any number of them), the attributes its
    keyword-only parameters: ``def swish(x, *, beta=1.0)``. The first line of its docstring describes the
    operator.

    A name can be registered again, as when a cell runs again. The new definition replaces the old one with a
    warning (:class:`OperatorReplaced`), also in graphs that are built already.

    Args:
        function: The semantics: arrays and attributes to an array. Without it, return a decorator.
        name: The name in rules and graphs; by default the function's.
        type_rule: The type of the result (``docs/typing.md``). By default the operator is elementwise.
        onnx: The ONNX form. ``"com.example::Silu"`` is an operator of a custom domain, ``"Softsign"`` a
            standard one; either is also read back. A function ``(node, *operands, **attributes)`` writes
            standard operators: ``lambda node, x: node("Mul", x, node("Sigmoid", x))``. By default the
            operator has its own name in the domain ``workbench.own``.
        flops: The number of arithmetic operations per element of the result, or a function ``(inputs,
            result, **attributes)`` of types that returns the number of all.
        exact: How rules are judged exactly. A whole number: the result is a polynomial of this degree with
            whole coefficients. ``"ordered"``: only comparisons, sums and products of whole numbers.
            ``"rational"``: divisions as well. A function ``(numbers, *elements, **attributes)``: the result
            for one element, to 60 digits (:class:`workbench.ops.exact.Numbers`). By default rules are tested
            in float64, which is the weakest evidence.
        torch: The semantics in torch: tensors and attributes to a tensor.
        attrs: The attributes, if the parameters' defaults do not tell their kinds.

    Raises:
        ValueError: If the name is that of a built-in operator or not a name, or if ``exact`` is not true of
            the function.

    >>> @operator(exact=2, onnx=lambda node, x: node("Mul", x, x))
    ... def square(x):
    ...     "x * x"
    ...     return x * x
    >>> from workbench.graph import Builder
    >>> b = Builder()
    >>> b.type(b.op("square", b.input("x", (2, 3))))
    float32[2, 3]
    """

    def register(given: F) -> F:
        own = name or given.__name__
        if not _NAME.fullmatch(own) or own in _RESERVED:
            raise ValueError(
                f"an operator's name must be lower-case letters, digits and _, and no word of the rule "
                f"language, got {own!r}"
            )
        least, most, kinds = _parameters(own, given, attrs)
        traits = Trait.OWN
        if type_rule is elementwise:
            traits |= Trait.GROWS | (Trait.BROADCASTS if most > 1 else Trait.NONE)
        spec = OpSpec(
            own,
            (least, most),
            type_rule,
            _Semantics(own, given, type_rule),
            kinds,
            partial(_flops, flops),
            traits,
            partial(_export, onnx or f"{DOMAIN}::{own}"),
            partial(_torch, torch) if torch is not None else None,
            _exact_form(own, given, least, kinds, exact),
            doc=(inspect.getdoc(given) or "").partition("\n")[0],
            onnx_form=_form(own, onnx),
            module=given.__module__,
        )
        before = _definition(own)
        registry.replace(spec)
        if before and before != _definition(own):
            text = f"operator {own} is registered again: the new definition replaces the old one"
            warnings.warn(text, OperatorReplaced, stacklevel=2 if function is None else 3)
        return given

    return register if function is None else register(function)


def _definition(name: str) -> str:
    if registry.known(name) is None:
        return ""
    try:
        return definition_of(name)
    except CannotTravel:  # it cannot be compared, so it counts as another one
        return f"object {id(registry.spec_of(name))}"


def _form(name: str, onnx: str | Function | None) -> tuple[str, str] | None:
    if onnx is None:
        return DOMAIN, name
    if not isinstance(onnx, str):
        return None
    domain, _, op_type = onnx.rpartition("::")
    if not op_type:
        raise ValueError(f"the ONNX form of {name} must be a type or domain::type, got {onnx!r}")
    return domain, op_type


# -- parameters ---------------------------------------------------------------------------------------
def _parameters(
    name: str, function: Function, attrs: Sequence[Attr] | None
) -> tuple[int, int, tuple[Attr, ...]]:
    """Return the least and the largest number of operands and the attributes of a function."""
    least = most = 0
    found: list[Attr] = []
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            least, most = max(least, 1), MANY
        elif p.kind is p.KEYWORD_ONLY:
            if attrs is None:
                found.append(_attribute(name, p))
        elif p.kind is p.VAR_KEYWORD or p.default is not p.empty:
            raise ValueError(
                f"{name}: an attribute must be a keyword-only parameter, got {p} "
                f"(try def {name}(x, *, {p.name}=…))"
            )
        else:
            least, most = least + 1, max(most, least + 1)
    if not most:
        raise ValueError(f"{name} must take at least one operand, got none")
    return least, most, tuple(found if attrs is None else attrs)


def _attribute(name: str, parameter: inspect.Parameter) -> Attr:
    default = None if parameter.default is parameter.empty else parameter.default
    if isinstance(default, tuple | list):
        whole = tuple(int(v) for v in default)
        return Attr(parameter.name, "ints", whole, len(default), tried=(whole,))
    if default is not None and type(default) in _KINDS:
        kind = _KINDS[type(default)]
        value: AttrValue = int(default) if isinstance(default, bool) else default
        others = (0, 1) if isinstance(default, bool) else _TRIED.get(kind, ())
        return Attr(parameter.name, kind, value, tried=tuple(dict.fromkeys((value, *others))))
    kinds: dict[Any, str] = {**_KINDS, **{kind.__name__: text for kind, text in _KINDS.items()}}
    stated = kinds.get(parameter.annotation)
    if default is not None or stated is None:
        raise ValueError(
            f"{name}: the attribute {parameter.name} must have a default that is an int, a float, a str or "
            f"integers, got {default!r} (try attrs=[workbench.ops.Attr({parameter.name!r}, kind)])"
        )
    return Attr(parameter.name, stated, tried=_TRIED.get(stated, ()))


# -- the forms of an operator, each a function of the user in the signature of OpSpec ---------------------
@dataclass(frozen=True, slots=True)
class _Semantics:
    """A numpy function; the type of a floating-point result is checked against the type rule."""

    name: str
    function: Function
    rule: TypeRule

    def __call__(self, xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
        found = np.asarray(self._called(xs, attrs))
        if not all(str(x.dtype) in FLOAT_DTYPES for x in xs):
            return found
        kind = self.rule(CONCRETE, [TensorType.of(x) for x in xs], attrs)
        if found.shape != kind.shape:
            shape = list(found.shape)
            raise TypeMismatch(f"{self.name}: the type rule says {kind}, the function gave {shape}")
        return found.astype(kind.numpy_dtype(), copy=False)

    def _called(self, xs: Sequence[np.ndarray], attrs: Attrs) -> Any:
        """Call the function; one that writes into its operands, which others read too, gets copies."""
        views = [np.asarray(x).view() for x in xs]
        for view in views:
            view.flags.writeable = False
        try:
            return self.function(*views, **attrs)
        except ValueError as error:
            if "read-only" not in str(error):
                raise
        return self.function(*(np.array(x) for x in xs), **attrs)


def _flops(given: float | Function, attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    return float(given(inputs, out, **attrs) if callable(given) else given * out.elements)


def _torch(function: Function, torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    return function(*xs, **attrs)


@dataclass(frozen=True, slots=True)
class Nodes:
    """A writer of standard ONNX operators: ``node("Mul", x, 0.5)``.

    A number becomes a constant of the element type of ``type``, the result's; an array stays as it is.
    """

    emitter: Emitter
    type: TensorType

    def __call__(self, op_type: str, /, *operands: Any, **attrs: Any) -> str:
        """Write a node and return the name of its result."""
        return self.emitter.node(op_type, [self._named(x) for x in operands], **attrs)

    @property
    def opset(self) -> int:
        """Return the version of the default operator set."""
        return self.emitter.opset

    def _named(self, operand: Any) -> str:
        if isinstance(operand, str):
            return operand
        whole = isinstance(operand, np.ndarray)
        return self.emitter.constant(operand if whole else np.asarray(operand, self.type.numpy_dtype()))


def _export(onnx: str | Function, e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    return e.node(onnx, xs, **attrs) if isinstance(onnx, str) else str(onnx(Nodes(e, out), *xs, **attrs))


# -- exact arithmetic ---------------------------------------------------------------------------------
#: The arithmetic of an operator that is exact on some numbers, and these numbers.
_STEPS: Final = {
    "ordered": (Arithmetic.ORDERED, "whole numbers"),
    "rational": (Arithmetic.RATIONAL, "fractions"),
}


def _degree(power: int, degrees: Sequence[int]) -> int:
    return power * max(degrees, default=0)


def _in_digits(
    function: Function, numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs
) -> np.ndarray:
    apply = np.frompyfunc(lambda *elements: function(numbers, *elements, **attrs), len(xs), 1)
    return np.asarray(apply(*xs), dtype=object)


def _exact_form(
    name: str, function: Function, least: int, attrs: Sequence[Attr], exact: int | str | Function | None
) -> ExactForm:
    if exact is None:
        return ExactForm(Arithmetic.FLOATS)
    check: Callable[[str, Function, Any, int, Attrs], None]
    stated: Any = exact
    if callable(exact):
        form, check = ExactForm(Arithmetic.DIGITS, partial(_in_digits, exact)), _check_digits
    elif isinstance(exact, str):
        if exact not in _STEPS:
            raise ValueError(f"exact must be a degree, {', '.join(_STEPS)} or a function, got {exact!r}")
        form, check = ExactForm(_STEPS[exact][0], bound=None), _check_step
    elif exact < 1:
        raise ValueError(f"exact, as a polynomial's degree, must be at least 1, got {exact}")
    else:
        degree = partial(_degree, exact)
        form, check = ExactForm(Arithmetic.POLYNOMIAL, degree=degree, bound=None), _check_polynomial
    defaults = {a.name: a.default for a in attrs}
    if all(value is not None for value in defaults.values()):
        check(name, function, stated, least, defaults)
    return form


# -- whether an exact form is that of its function, at a few numbers ------------------------------------

#: The numbers at which functions are compared, and the relative difference that counts as equal.
_PLACES: Final = (0.375, 1.25, 2.5, -0.75, -1.5)
_NEAR: Final = 1e-6


#: The functions of :class:`~workbench.ops.exact.Numbers`, on Python's floats.
_FLOATS: Final = SimpleNamespace(
    **{name: getattr(math, name) for name in ("exp", "log", "tanh", "erf", "cos", "sin")},
    **{"number": float, "root": math.sqrt, "power": math.pow, "pi": lambda: math.pi},
)


def _check_digits(name: str, function: Function, exact: Function, count: int, attrs: Attrs) -> None:
    """Raise ValueError if an exact form gives another number than its function at one of a few places.

    A place at which one of them has no value is left out.
    """
    for k in range(len(_PLACES)):
        at = [_PLACES[(k + 2 * i) % len(_PLACES)] for i in range(count)]
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(function(*(np.array([x]) for x in at), **attrs), dtype=np.float64)
            stated = float(exact(_FLOATS, *at, **attrs))
        except Exception:  # they are the user's functions, and may have no value here
            continue
        if found.shape != (1,) or not (math.isfinite(found[0]) and math.isfinite(stated)):
            continue
        if abs(found[0] - stated) > _NEAR * max(1.0, abs(stated)):
            raise ValueError(
                f"the exact form of {name} must agree with the function, got {stated:g} and {found[0]:g} at "
                f"{', '.join(map(str, at))}"
            )


def _check_step(name: str, function: Function, step: str, count: int, attrs: Attrs) -> None:
    """Raise ValueError if a function leaves the whole numbers (``ordered``) or fractions (``rational``)."""
    whole, kind = step == "ordered", _STEPS[step][1]
    numbers = int | float | np.integer | np.floating | np.bool_
    for turn in range(3):
        rows = [[Fraction(k * (i + turn + 1) - 3 + i) for k in range(1, 7)] for i in range(count)]
        operands = [np.array(list(map(float, row)) if whole else row) for row in rows]
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(function(*operands, **attrs))
        except ZeroDivisionError:
            continue
        except Exception as error:  # it is the user's function, on numbers that it may not be made for
            raise ValueError(f"{name} must take {kind} to be {step}, got {error!r}") from None
        for v in found.flat:
            fits = isinstance(v, numbers) and float(v).is_integer() if whole else not isinstance(v, float)
            if not fits:
                raise ValueError(f"{name} must give {kind} for {kind} to be {step}, got {v!r}")


def _check_polynomial(name: str, function: Function, degree: int, count: int, attrs: Attrs) -> None:
    """Raise ValueError unless a function is a polynomial of a degree along a line through its operands."""
    line = [np.array([k * (i + 1) + i for k in range(degree + 4)], dtype=object) for i in range(count)]
    try:
        values = np.asarray(function(*line, **attrs), dtype=object)
    except Exception as error:  # it is the user's function, on numbers that it may not be made for
        raise ValueError(f"{name} must take whole numbers to be a polynomial, got {error!r}") from None
    if not all(isinstance(v, int) for v in values.flat):
        raise ValueError(
            f"{name} must be a polynomial with whole coefficients, got {values.flat[-1]!r} "
            "from whole numbers (try exact=None)"
        )
    if values.shape != line[0].shape:
        return  # not elementwise: it has no line to follow
    for _ in range(degree + 1):
        values = np.diff(values)
    if any(values):
        raise ValueError(f"{name} must be a polynomial of degree {degree} at most, as exact says")
