"""The rules that put matrix products and convolutions on a unit, written from its numbers; their recorded verdicts.

They fire on demand: every left-hand side is a product or a convolution, and a right-hand side makes at most
one new product, which is the same without its activation or with half as many groups.
A set of them therefore ends by itself, after a number of e-nodes proportional to that of the products.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from workbench.kernels.accelerators.unit import FUSED, Unit, folder
from workbench.rules import Rule, RuleSet, parse_rules
from workbench.rules.pattern import Literal
from workbench.rules.verdicts import law_of

_TILES: Final = re.compile(r"blocked\[[^\]]*?(?:, act=(\w+))?\]")


def law_of_any_unit(rule: Rule) -> str:
    """Return the law of a rule without the numbers and element types of a unit.

    Upper limits on extents are left out: the law holds without them.
    """
    limits = [c for c in rule.conditions if c.relation == "<=" and isinstance(c.right, Literal)]
    held = replace(rule, conditions=tuple(c for c in rule.conditions if c not in limits))
    return _TILES.sub(lambda found: f"blocked[act={found[1] or 'none'}]", law_of(held))


@lru_cache(maxsize=1)
def _records() -> dict[str, dict[str, Any]]:
    file = folder() / "verdicts.json"
    found: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def recorded(rule: Rule) -> Mapping[str, Any]:
    """Return the record of a unit's rule: its status and its range in float16; empty if there is none."""
    return _records().get(law_of_any_unit(rule), {})


#: The orientations of a product: the left operand streams, or it stays and the right operand streams.
ORIENTATIONS: Final = ("streamed-left", "streamed-right")

#: Ranks of the operands of a product that may be turned around, with the permutations that transpose the last
#: two axes of the left operand, of the right operand and of the result.
_TURNS: Final = {
    (2, 2): ("(1, 0)", "(1, 0)", "(1, 0)"),
    (3, 2): ("(0, 2, 1)", "(1, 0)", "(0, 2, 1)"),
    (3, 3): ("(0, 2, 1)", "(0, 2, 1)", "(0, 2, 1)"),
    (4, 4): ("(0, 1, 3, 2)", "(0, 1, 3, 2)", "(0, 1, 3, 2)"),
}

#: Parts of laws about a convolution of x with w: its attributes, extents, windows and kernels as matrices.
CONV: Final = "strides=(s, u), pads=(t, l, b, r), dilations=(d, e)"
HEIGHT: Final = "(dim(x, -2) + t + b - d * (dim(w, -2) - 1) - 1) // s + 1"
WIDTH: Final = "(dim(x, -1) + l + r - e * (dim(w, -1) - 1) - 1) // u + 1"
TAPS: Final = "dim(w, -3) * dim(w, -2) * dim(w, -1)"
IMAGE: Final = f"(dim(x, -4), dim(w, -4), {HEIGHT}, {WIDTH})"
UNFOLDED: Final = f"unfold[kernel=(dim(w, -2), dim(w, -1)), {CONV}](x)"
KERNEL: Final = f"reshape[shape=(dim(w, -4), {TAPS})](w)"
_GROUPED_KERNEL: Final = f"reshape[shape=(g, dim(w, -4) // g, {TAPS})](w)"
_GROUPED_UNFOLDED: Final = f"reshape[shape=(dim(x, -4), g, {TAPS}, ({HEIGHT}) * ({WIDTH}))]({UNFOLDED})"


def _forms(unit: Unit, biased: bool) -> Iterator[tuple[bool, str, str]]:
    """Yield whether a product has a bias, its activation or ``none``, and the part of a rule's name that says so."""
    for bias in (False, True) if biased else (False,):
        for act in ("none", *(unit.activations if unit.bias or not bias else ())):
            yield bias, act, "-bias" * bias + (f"-{act}" if act != "none" else "")


@lru_cache(maxsize=16)
def unit_rules(unit: Unit, *, orientations: tuple[str, ...] = ORIENTATIONS) -> RuleSet:
    """Return the rules that put products on a unit in some of :data:`ORIENTATIONS`; raise ValueError for others.

    Glenside streams the kernel and keeps the image, which is ``streamed-left``.
    """
    wrong = [o for o in orientations if o not in ORIENTATIONS]
    if wrong or not orientations:
        raise ValueError(f"orientations must be among {', '.join(ORIENTATIONS)}, got {orientations}")
    rules = tuple(parse_rules(rules_text(unit, tuple(o for o in ORIENTATIONS if o in orientations))))
    verdicts = {rule.name: str(status) for rule in rules if (status := recorded(rule).get("status"))}
    # Range and accuracy were judged for sums in float32 of products of float16.
    halves = (unit.streamed, unit.stationary, unit.accumulator) == ("float16", "float16", "float32")
    kept = frozenset(rule.name for rule in rules if halves and recorded(rule).get("float16") == "kept")
    return RuleSet(f"unit {unit.name}", rules, verdicts, weights=False, in_range=kept)


def rules_text(unit: Unit, orientations: tuple[str, ...] = ORIENTATIONS) -> str:
    """Return the rules of a unit as the text of a file of rules."""
    lines = [f"# {unit!r}"]
    # Products of whole numbers reach the workbench as opaque operators: they have no rules.
    if not unit.whole:
        for turned in (orientation == "streamed-right" for orientation in orientations):
            lines += [*_products(unit, turned), *_convolutions(unit, turned)]
        # Pairs of groups become blocks of the diagonal while they fit the unit.
        lines.append(
            "groups-by-pairs: conv2d[groups=g, c](x, w, z?) => "
            "conv2d[groups=g // 2, c](x, merge_gconv[count=2, groups=g](w), z) "
            f"where g % 2 = 0, 2 * {TAPS} <= {unit.inner}, 2 * (dim(w, -4) // g) <= {unit.columns}"
        )
        # An activation is taken out of a product, so that the other rules meet it bare.
        for act in FUSED:
            lines += [
                f"product-then-{act}: matmul[act={act}](x, y) => {act}(matmul(x, y))",
                f"convolution-then-{act}: conv2d[c, act={act}](x, w, z?) => {act}(conv2d[c, act=none](x, w, z))",
            ]
    return "\n".join(lines) + "\n"


def _blocked(unit: Unit, act: str, *operands: str) -> str:
    given = ", ".join(f"{name}={value}" for name, value in (unit.attrs | {"act": act}).items())
    return f"blocked[{given}]({', '.join(operands)})"


def _activated(act: str, source: str) -> str:
    return source if act == "none" else f"{act}({source})"


def _limits(unit: Unit, inner: str) -> list[str]:
    return [] if unit.longest is None else [f"{inner} <= {unit.longest}"]


def _where(*conditions: str) -> str:
    return f" where {', '.join(conditions)}" if conditions else ""


# -- matrix products ----------------------------------------------------------------------------------
def _products(unit: Unit, turned: bool) -> Iterator[str]:
    for bias, act, suffix in _forms(unit, biased=unit.bias):
        # Which summand is the product is not known.
        biased = {"": "add(matmul(x, y), z)", "-before": "add(z, matmul(x, y))"}
        conditions = _limits(unit, "dim(x, -1)")
        for side, source in (biased if bias else {"": "matmul(x, y)"}).items():
            name = f"product{'-turned' * turned}{suffix}{side}"
            law = f"{_activated(act, source)} => "
            if not turned:
                row = ["dim(z, -2) = 1"] if bias else []
                target = _blocked(unit, act, "x", "y", *(["z"] if bias else []))
                yield f"{name}: {law}{target}{_where(*row, *conditions)}"
                continue
            for (left, right), (p, q, out) in _TURNS.items():
                operands = [f"transpose[perm={q}](y)", f"transpose[perm={p}](x)"]
                ranks = [f"rank(x) = {left}", f"rank(y) = {right}"]
                if bias:
                    operands.append("reshape[shape=(dim(z, -1), 1)](z)")
                    ranks += ["rank(z) = 1", "dim(z, -1) = dim(y, -1)"]
                target = f"transpose[perm={out}]({_blocked(unit, act, *operands)})"
                yield f"{name}-{left}-{right}: {law}{target}{_where(*ranks, *conditions)}"


# -- convolutions -------------------------------------------------------------------------------------
def _convolutions(unit: Unit, turned: bool) -> Iterator[str]:
    for bias, act, suffix in _forms(unit, biased=True):
        for grouped in (False, True):
            operands = f"{'groups=g' if grouped else 'groups=1'}]({'x, w, z' if bias else 'x, w'})"
            source = _activated(act, f"conv2d[{CONV}, {operands}")
            name = f"{'groups' if grouped else 'convolution'}{'-turned' * turned}{suffix}"
            image = f"reshape[shape={IMAGE}]({_product_of(unit, turned, grouped, bias and unit.bias, act)})"
            target = f"add({image}, z)" if bias and not unit.bias else image
            yield f"{name}: {source} => {target}{_where(*['1 < g'] * grouped, *_limits(unit, TAPS))}"


def _product_of(unit: Unit, turned: bool, grouped: bool, bias: bool, act: str) -> str:
    """Return the product of kernel and windows, [N, O, windows] or [N, groups, O / groups, windows]."""
    kernel, columns = (_GROUPED_KERNEL, _GROUPED_UNFOLDED) if grouped else (KERNEL, UNFOLDED)
    operands = [kernel, columns]
    per = "g, dim(w, -4) // g" if grouped else "dim(w, -4)"
    swap = "(0, 1, 3, 2)" if grouped else "(0, 2, 1)"
    if turned:
        turn = "(0, 2, 1)" if grouped else "(1, 0)"
        operands = [f"transpose[perm={swap}]({columns})", f"transpose[perm={turn}]({kernel})"]
    if bias:
        shape = f"({per.replace('dim(w, -4) // g', '1, dim(w, -4) // g')})" if turned and grouped else ""
        shape = shape or (f"({per})" if turned else f"({per}, 1)")
        operands.append(f"reshape[shape={shape}](z)")
    product = _blocked(unit, act, *operands)
    return f"transpose[perm={swap}]({product})" if turned else product
