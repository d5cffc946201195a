"""Checks that the exact form of a user's operator is that of its function, at a few numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from workbench.ops.typing import Attrs

Function = Callable[..., Any]

#: The numbers at which functions are compared, and the relative difference that counts as equal.
_PLACES: Final = (0.375, 1.25, 2.5, -0.75, -1.5)
_NEAR: Final = 1e-6


class _Floats:
    """The functions of :class:`~workbench.ops.exact.Numbers`, on Python's floats."""

    number = staticmethod(float)
    root = staticmethod(math.sqrt)
    exp = staticmethod(math.exp)
    log = staticmethod(math.log)
    tanh = staticmethod(math.tanh)
    erf = staticmethod(math.erf)
    cos = staticmethod(math.cos)
    sin = staticmethod(math.sin)
    power = staticmethod(math.pow)

    def pi(self) -> float:
        """Return the ratio of a circle's circumference to its diameter."""
        return math.pi


def check_digits(name: str, function: Function, exact: Function, count: int, attrs: Attrs) -> None:
    """Raise ValueError if an exact form gives another number than its function at one of a few places.

    A place at which one of them has no value is left out.

    Args:
        name: The operator.
        function: Its semantics on arrays.
        exact: Its form on numbers.
        count: The number of operands.
        attrs: The attributes.
    """
    for k in range(len(_PLACES)):
        at = [_PLACES[(k + 2 * i) % len(_PLACES)] for i in range(count)]
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(function(*(np.array([x]) for x in at), **attrs), dtype=np.float64)
            stated = float(exact(_Floats(), *at, **attrs))
        except Exception:  # they are the user's functions, and may have no value here
            continue
        if found.shape != (1,) or not (math.isfinite(found[0]) and math.isfinite(stated)):
            continue
        if abs(found[0] - stated) > _NEAR * max(1.0, abs(stated)):
            raise ValueError(
                f"the exact form of {name} must agree with the function, got {stated:g} and {found[0]:g} at "
                f"{', '.join(map(str, at))}"
            )


def check_step(name: str, function: Function, step: str, count: int, attrs: Attrs) -> None:
    """Raise ValueError if a function leaves the whole numbers (``ordered``) or fractions (``rational``).

    Args:
        name: The operator.
        function: Its semantics.
        step: ``ordered`` or ``rational``.
        count: The number of operands.
        attrs: The attributes.
    """
    whole = step == "ordered"
    for turn in range(3):
        numbers = [[Fraction(k * (i + turn + 1) - 3 + i) for k in range(1, 7)] for i in range(count)]
        operands = [np.array(list(map(float, row)) if whole else row) for row in numbers]
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(function(*operands, **attrs))
        except ZeroDivisionError:
            continue
        except Exception as error:  # it is the user's function, on numbers that it may not be made for
            raise ValueError(f"{name} must take {_TAKES[step]} to be {step}, got {error!r}") from None
        wrong = [v for v in found.flat if not (_is_whole(v) if whole else not isinstance(v, float))]
        if wrong:
            raise ValueError(
                f"{name} must give {_TAKES[step]} for {_TAKES[step]} to be {step}, got {wrong[0]!r}"
            )


def _is_whole(value: object) -> bool:
    numbers = int | float | np.integer | np.floating | np.bool_
    return isinstance(value, numbers) and float(value).is_integer()


_TAKES: Final = {"ordered": "whole numbers", "rational": "fractions"}


def check_polynomial(name: str, function: Function, count: int, attrs: Attrs, degree: int) -> None:
    """Raise ValueError unless a function is a polynomial of a degree along a line through its operands.

    Args:
        name: The operator.
        function: Its semantics.
        count: The number of operands.
        attrs: The attributes.
        degree: The largest degree.
    """
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
        return  # not elementwise: there is no line to follow
    for _ in range(degree + 1):
        values = np.diff(values)
    if any(values):
        raise ValueError(f"{name} must be a polynomial of degree {degree} at most, as exact says")
