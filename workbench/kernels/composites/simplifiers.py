"""Simplifiers: laws about scalar values and places, in files that anybody can write.

A law is ``name: left => right where condition, …``. Its sides are written in index notation. Every law is
tried on drawn numbers when it is read, so that a wrong one is refused.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from workbench.kernels.composites.composite import NotationError
from workbench.kernels.composites.evaluate import evaluate
from workbench.kernels.composites.index import ExtentName, IndexExpr, computed
from workbench.kernels.composites.library import folder
from workbench.kernels.composites.parsing import parse
from workbench.kernels.composites.primitives import FUNCTIONS
from workbench.kernels.composites.scalar import Scalar
from workbench.kernels.composites.signature import expression
from workbench.kernels.composites.tokens import Cursor

_LINE: Final = re.compile(r"([a-z][a-z0-9-]*)\s*:\s*(.+?)\s*=>\s*(.+?)(?:\s+where\s+(.+))?$")
_NAMES: Final = re.compile(r"[A-Za-z_]\w*(?!\w*\s*\()")
_RESERVED: Final = frozenset({*FUNCTIONS, "sum", "prod", "mean", "number"})
_BOUND: Final = re.compile(r"\b(?:sum|prod|max|min)\(\s*(\w+)\s*<")
_NUMBER: Final = re.compile(r"\bnumber\(")
#: How often a law is tried.
_TRIES: Final = 60


class WrongSimplifier(ValueError):
    """Raised when a simplifier's sides differ; the message shows the numbers."""


@dataclass(frozen=True, slots=True)
class Simplifier:
    """A law: ``left`` becomes ``right``.

    ``numbers`` are the names of known numbers, ``within`` the pairs of which the first is at
    least 0 and less than the second, and ``computes`` says whether the right-hand side has ``number(…)``.
    A law that is ``contracted`` rounds a product and a sum once: it is used only where that is allowed.
    """

    name: str
    places: bool
    left: Scalar | IndexExpr
    right: Scalar | IndexExpr
    numbers: frozenset[str]
    within: tuple[tuple[str, str], ...]
    computes: str
    text: str
    contracted: bool = False


@dataclass(frozen=True, slots=True)
class Simplifiers:
    """The laws of a file; ``forwarding`` says whether intermediate tensors may be computed at each read."""

    laws: tuple[Simplifier, ...]
    forwarding: bool = False

    def __add__(self, other: Simplifiers) -> Simplifiers:
        return Simplifiers((*self.laws, *other.laws), self.forwarding or other.forwarding)


@lru_cache(maxsize=1)
def default_simplifiers() -> Simplifiers:
    """Return the simplifiers that come with the workbench."""
    return load_simplifiers(folder() / "default.simplify")


def load_simplifiers(path: str | Path) -> Simplifiers:
    """Return the laws of a file; raise NotationError or WrongSimplifier with the line."""
    return parse_simplifiers(Path(path).read_text(), Path(path).name)


def parse_simplifiers(text: str, file: str = "") -> Simplifiers:
    """Return the laws of a text.

    Args:
        text: One law per line; ``[places]`` begins laws about places.
        file: The name of the file, for messages.

    Raises:
        NotationError: If a line is not a law.
        WrongSimplifier: If the sides of a law differ on drawn numbers.

    >>> [law.name for law in parse_simplifiers("half-twice: x / 2 * 2 => x").laws]
    ['half-twice']
    """
    found: list[Simplifier] = []
    places = forwarding = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].strip()
        where = f"{file}, line {number}: " if file else f"line {number}: "
        if not line:
            continue
        if line in ("[values]", "[places]"):
            places = line == "[places]"
        elif line == "use load-forwarding":
            forwarding = True
        else:
            try:
                found.append(_law(line, places))
            except NotationError as error:
                raise NotationError(f"{where}{error}") from None
            _try(found[-1], where)
    return Simplifiers(tuple(found), forwarding)


def _law(line: str, places: bool) -> Simplifier:
    match = _LINE.fullmatch(line)
    if match is None:
        raise NotationError("a simplifier must be name: left => right where …", line, 0, len(line))
    name, left, right, conditions = match.groups()
    numbers: set[str] = set()
    within: list[tuple[str, str]] = []
    contracted = False
    for part in filter(None, ((c or "").strip() for c in re.split(r",(?![^(]*\))", conditions or ""))):
        if known := re.fullmatch(r"number\((\w+)\)", part):
            numbers.add(known[1])
        elif part == "contracted":
            contracted = True
        elif pair := re.fullmatch(r"(\w+)\s*<\s*(\w+)", part):
            within.append((pair[1], pair[2]))
        else:
            raise NotationError(f"a condition must be number(m), j < n or contracted, got {part!r}", line)
    computes = "all" if re.fullmatch(r"number\(.*\)", right) else "part" if _NUMBER.search(right) else ""
    unknown = set(_variables(right)) - set(_variables(left))
    if unknown:
        raise NotationError(f"{sorted(unknown)[0]} must occur on the left", line)
    plain = _NUMBER.sub("(", right)
    sides = [_side(side, _variables(left), places) for side in (left, plain)]
    known_numbers, pairs = frozenset(numbers), tuple(within)
    return Simplifier(name, places, sides[0], sides[1], known_numbers, pairs, computes, line, contracted)


def _variables(text: str) -> list[str]:
    bound = set(_BOUND.findall(text))
    return [n for n in dict.fromkeys(_NAMES.findall(text)) if n not in _RESERVED and n not in bound]


def _side(text: str, names: Sequence[str], places: bool) -> Scalar | IndexExpr:
    if not places:
        inputs = ", ".join(f"{n}{{T}}[]" for n in names)
        return parse("law", f"{inputs} -> law_{{T}}[]", f"law_ = {text}").equations[0].value
    c = Cursor(text)
    value = expression(c, lambda token: ExtentName(token.text), "a place")
    if c.next.kind != "stop":
        c.fail(f"the law must end here, got {c.shown()}")
    return value


# -- trying -------------------------------------------------------------------------------------------
def _try(law: Simplifier, where: str) -> None:
    rng = random.Random(law.name)
    names = _variables(law.text.partition(":")[2].partition("=>")[0])
    sides: list[float]
    for _ in range(_TRIES):
        if law.places:
            whole = {n: rng.randint(1, 6) for n in names}
            for j, n in law.within:
                top = int(n) if n.isdigit() else whole[n]
                whole[j] = rng.randrange(top)
            values: dict[str, float] = dict(whole)
            sides = [float(computed(side, whole)) for side in (law.left, law.right)]  # type: ignore[arg-type]
        else:
            values = {n: rng.choice((-2.5, -1.0, 0.0, 0.5, 3.0, rng.uniform(-4, 4))) for n in names}
            sides = [_value(side, names, values) for side in (law.left, law.right)]
        if not (math.isnan(sides[0]) and math.isnan(sides[1])) and not math.isclose(
            sides[0], sides[1], rel_tol=1e-9, abs_tol=1e-12
        ):
            drawn = ", ".join(f"{n} = {v:g}" for n, v in values.items())
            raise WrongSimplifier(
                f"{where}the sides of {law.name} differ: {sides[0]:g} and {sides[1]:g} at {drawn}"
            )


def _value(side: object, names: Sequence[str], values: dict[str, float]) -> float:
    inputs = ", ".join(f"{n}{{T}}[]" for n in names)
    shell = parse("law", f"{inputs} -> law_{{T}}[]", "law_ = 0")
    made = replace(shell, equations=(replace(shell.equations[0], value=side),))  # type: ignore[arg-type]
    operands = [np.asarray(values[n], np.float64) for n in names]
    return float(np.asarray(evaluate(made, operands)))
