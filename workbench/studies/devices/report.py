"""The report on run-times: every operator with every element type on every target, run and compared."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Any, Final

import numpy as np

from workbench.certification.inputs import gentle_inputs
from workbench.certification.tolerance import difference, tolerance_of
from workbench.devices.targets import target
from workbench.graph import Builder, Graph, evaluate
from workbench.ops import OpSpec, operators
from workbench.ops.spec import Attr
from workbench.ops.types import TypeMismatch
from workbench.support.messages import one_line

#: The element types of a report.
DTYPES: Final = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")

#: Shapes that operands are tried with, until an operator accepts them.
_FIRST: Final = ((2, 16, 8, 8), (2, 32, 32), (32, 32), (32,), (8, 4, 3, 3))
_OTHERS: Final = (
    *((2, 16, 8, 8), (2, 32, 32), (32, 32), (32,), (16,)),
    *((16, 16, 3, 3), (16, 1, 3, 3), (1, 16, 1, 1), (), (8, 4)),
)

#: Element types of operands that differ from the first: a scale and a zero point.
_MIXED: Final = ("float32", "int8", "uint8")

#: Runs whose median is the time.
_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of running an operator with an element type on a target.

    ``status`` is ``supported``, ``wrong``, ``missing`` or ``untyped`` (the operator has no such element
    type). ``error`` is the difference from the reference, ``microseconds`` the median time, and ``reason``
    says why it is wrong or missing.
    """

    op: str
    dtype: str
    target: str
    status: str
    error: float | None = None
    microseconds: float | None = None
    reason: str = ""


def report(
    targets: Sequence[str], *, ops: Iterable[str] | None = None, dtypes: Sequence[str] = DTYPES, seed: int = 0
) -> Iterator[Cell]:
    """Yield a cell for each operator with operands, element type and target; all are run.

    Args:
        targets: Names of targets.
        ops: Names of operators; by default all that have operands and can be evaluated.
        dtypes: The element types.
        seed: The seed of the operands.

    Raises:
        UnknownName: No target has one of the names.
    """
    wanted = None if ops is None else frozenset(ops)
    opened = [(name, target(name, threads=1)) for name in targets]
    for spec in operators():
        if spec.evaluate is None or spec.min_inputs == 0 or (wanted is not None and spec.name not in wanted):
            continue
        for dtype in dtypes:
            graph = example(spec, dtype)
            for name, here in opened:
                if graph is None:
                    yield Cell(spec.name, dtype, name, "untyped")
                else:
                    yield _cell(spec.name, dtype, name, here, graph, seed)


def _cell(op: str, dtype: str, name: str, here: Any, graph: Graph, seed: int) -> Cell:
    feeds = gentle_inputs(graph, seed, 0)
    if not hasattr(here, "run"):
        return Cell(op, dtype, name, "missing", reason="the target returns no outputs")
    try:
        with np.errstate(all="ignore"):
            expected = evaluate(graph, feeds)["y"]
        found = here.run(graph, feeds)["y"]
    except Exception as error:  # whatever a runtime can come to
        return Cell(op, dtype, name, "missing", reason=one_line(error, 160))
    a, b = (x.astype(np.float64) if x.dtype.kind not in "biu" else x for x in (expected, found))
    off = difference(a, b)[0]
    if found.dtype != expected.dtype:
        return Cell(op, dtype, name, "wrong", off, reason=f"{found.dtype} instead of {expected.dtype}")
    if off > tolerance_of(graph):
        return Cell(op, dtype, name, "wrong", off, reason=f"differs by {off:.1e}")
    taken: float | None = None
    with contextlib.suppress(Exception), here.timers([graph], seed) as timers:
        timers[0]()
        taken = median(timers[0]() for _ in range(_RUNS))
    return Cell(op, dtype, name, "supported", off, taken)


def example(spec: OpSpec, dtype: str) -> Graph | None:
    """Return a graph of one operator on operands of an element type, or None if there is none."""
    rest = spec.min_inputs - 1
    # The operands after the first all have its element type, or are all places.
    same = [(dtype,) * rest, ("int64",) * rest] if rest else [()]
    shared = [(k, kinds) for k in product(_OTHERS, repeat=min(rest, 2)) for kinds in same]
    mixed = [(((),) * rest, kinds) for kinds in product(_MIXED, repeat=rest)] if rest > 1 else []
    for first in _FIRST:
        for others, kinds in (*shared, *mixed):
            shapes = [first, *others, *([others[-1]] * (rest - len(others)) if others else [])]
            for values in _attributes(spec, dtype, first):
                with contextlib.suppress(TypeMismatch, ValueError, IndexError, KeyError, ZeroDivisionError):
                    builder = Builder(spec.name)
                    places = [
                        builder.input(f"x{k}", shape, kind)
                        for k, (shape, kind) in enumerate(zip(shapes, (dtype, *kinds), strict=True))
                    ]
                    return builder.graph({"y": builder.apply(spec.name, places, values)})
    return None


def _attributes(spec: OpSpec, dtype: str, first: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield usual values of an operator's attributes; those with a default have it."""
    open_ = [a for a in spec.attrs if a.default is None]
    for values in product(*(_usual(a, dtype, first) for a in open_)):
        with contextlib.suppress(TypeMismatch):
            yield spec.pack(dict(zip((a.name for a in open_), values, strict=True)))


def _usual(a: Attr, dtype: str, first: tuple[int, ...]) -> Sequence[Any]:
    if a.tried:
        return a.tried[:1]
    if a.kind == "word":
        return a.words[:1]
    usual: dict[str, Sequence[Any]] = {
        "int": {"axis": (-1,), "start": (0,), "stop": (2,)}.get(a.name, (1,)),
        "ints": ((2,) * a.length,),
        "axes": ((-1,),),
        "float": (0.5,),
        "dtype": (dtype, "float32", "int8"),
        "perm": (tuple(reversed(range(len(first)))),),
        "shape": ((math.prod(first),), first),
        "act": ("none",),
    }
    return usual[a.kind]


def markdown(cells: Sequence[Cell]) -> str:
    """Return the table of a report: one row per operator and target, one column per element type."""
    dtypes = list(dict.fromkeys(c.dtype for c in cells))
    targets = list(dict.fromkeys(c.target for c in cells))
    known = {(c.op, c.target, c.dtype): _shown(c) for c in cells}
    rows = [
        [op, name, *(known.get((op, name, d), "–") for d in dtypes)]
        for op in dict.fromkeys(c.op for c in cells)
        for name in targets
    ]
    parts = [
        "# What run-times support",
        "Made by `workbench device report`: every operator with every element type ran on every target, and "
        "was compared with its specification in numpy. A number is the median time in µs; *wrong* and "
        "*missing* are explained below; – is an element type that the operator does not have.",
    ]
    for name in targets:
        counts = Counter(c.status for c in cells if c.target == name)
        parts.append(f"{name}: " + ", ".join(f"{counts[s]} {s}" for s in ("supported", "wrong", "missing")))
    head = ["operator", "target", *dtypes]
    parts.append("\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)))
    parts.append(
        "\n".join(
            f"- {c.op}, {c.dtype}, {c.target}: {c.status}: {c.reason}"
            for c in cells
            if c.status in ("wrong", "missing")
        )
    )
    return "\n\n".join(parts).rstrip() + "\n"


def _shown(cell: Cell) -> str:
    if cell.status != "supported":
        return "–" if cell.status == "untyped" else cell.status
    return "yes" if cell.microseconds is None else f"{cell.microseconds:.0f}"
