"""Figures of a result as text: the rows of the table on the terminal and in reports, and the plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.extraction.result import strength
from workbench.ops.inputs_and_opaque import REFERENCES
from workbench.support.formatting import microseconds, thousands

if TYPE_CHECKING:
    from workbench.graph import Graph
    from workbench.optimizer.result import Optimized, Result


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a summary: a stage or another subject, its seconds (or None), its figures as a text."""

    what: str
    seconds: float | None
    figures: str


def summary_rows(result: Result, *, written: Iterable[str] = ()) -> list[Row]:
    """Return one row per stage of a result, in their order; ``written`` are files written, each as a text."""
    certificate, seconds = result.certificate, result.seconds
    rows = [Row("import", seconds.get("import"), _loaded(result)), *result.way_rows()]
    if certificate is not None:
        rows.append(Row("certificate", seconds.get("certificate"), certificate.verdict()))
        rows.append(Row("rounding", None, certificate.rounding_line()))
    if result.ended:
        rows.append(Row("certificate", seconds.get("certificate"), _unfinished(result)))
    if result.dynamic is not None:
        rows += [Row("dimensions", None, line) for line in result.dynamic.lines()]
    rows += [Row("written", None, text) for text in written]
    rows.append(Row("cost", None, result.predicted()))
    rows.append(Row("operators", None, operator_changes(result)))
    rows.append(Row("rules", None, result.rules_used() or "none: the original is the best found"))
    if certificate is not None:
        rows.append(Row("verdicts", None, certificate.rules_line()))
    return rows


def saturation_rows(result: Optimized) -> list[Row]:
    """Return the rows on the saturation and on the extraction from its e-graph."""
    seconds = result.seconds
    grown = f"{thousands(result.e_nodes)} e-nodes, {thousands(result.e_classes)} e-classes"
    rows = [
        Row("engine", seconds.get("engine"), f"rules compiled ({result.settings['rules']}), engine started"),
        *left_out(result),
        Row(
            "saturation",
            seconds.get("saturation"),
            f"{grown} after {result.iterations} iterations: {result.stop_reason.value}",
        ),
        *([Row("blocks", None, result.blocks)] if result.blocks else []),
        Row("pricing", seconds.get("pricing"), f"{thousands(len(result.egraph))} e-nodes priced"),
        Row("extraction", seconds.get("extraction"), f"{result.solution.method}: {_extracted(result)}"),
    ]
    if (placement := result.placement) is not None:
        rows += [Row("accelerator", None, line) for line in placement.lines()]
    if result.measured is not None:
        if result.measured.given is not None:
            rows.append(Row("cleaning", None, result.measured.cleaning_line()))
        rows.append(Row("timing", seconds.get("timing"), str(result.measured)))
    return rows


def saturation_lines(result: Optimized) -> list[str]:
    """Return the first lines of the text of a result: its gain, the way to it, and the rules."""
    grown = f"{result.e_nodes} e-nodes, {result.e_classes} e-classes, {result.iterations} iterations"
    placement, dynamic = result.placement, result.dynamic
    return [
        f"Optimized {result.network!r}: {result.predicted()}",
        f"  e-graph: {grown}, {result.stop_reason.value}",
        *([f"  blocks: {result.blocks}"] if result.blocks else []),
        f"  extraction: {result.solution.method}, {_extracted(result)}",
        f"  rules: {', '.join(result.rules) or 'none'}",
        *([f"  {line}" for line in placement.lines()] if placement is not None else []),
        *([f"  measured: {result.measured}"] if result.measured is not None else []),
        *([f"  dimensions: {line}" for line in dynamic.lines()] if dynamic is not None else []),
    ]


def _extracted(result: Optimized) -> str:
    found = result.solution
    known = strength(found.status, result.cost_claimed, found.bound, found.scope)
    return f"{known}, bound {microseconds(found.bound)}"


def _unfinished(result: Result) -> str:
    return f"not finished, {result.ended}: the original stays"


def left_out(result: Result) -> list[Row]:
    """Return the row about rules that a model of 16-bit floats is not rewritten by; none for other models."""
    names = result.settings.get("left_out", ())
    if not names:
        return []
    shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    why = "they may overflow or lose accuracy in 16-bit floats where the original does not"
    return [Row("range", None, f"{len(names)} rule{'s' if len(names) > 1 else ''} left out: {why} ({shown})")]


def _loaded(result: Result) -> str:
    if result.coverage is None:
        return f"{thousands(sum(result.operators_before.values()))} operators"
    modelled, opaque = sum(result.coverage.modelled.values()), sum(result.coverage.opaque.values())
    kept = f", {opaque} kept as they came" if opaque else ""
    return f"{thousands(modelled)} of {thousands(modelled + opaque)} operators modelled{kept}"


def running_operators(graph: Graph) -> dict[str, int]:
    """Count the operators that run: those an output needs and that depend on an input."""
    nodes = zip(graph.nodes, graph.constant(), graph.reachable(), strict=True)
    runs = (node.op for node, constant, live in nodes if live and not constant)
    return dict(Counter(op for op in runs if op not in REFERENCES))


def operator_changes(result: Result) -> str:
    """Return the running operators that became fewer or more, as text; one with its activation counts once."""
    before, after = result.operators_before, result.operators_after
    names = sorted({*before, *after}, key=lambda n: (-max(before.get(n, 0), after.get(n, 0)), n))
    changed = [f"{n} {before.get(n, 0)} → {after.get(n, 0)}" for n in names if before.get(n) != after.get(n)]
    total = f"{sum(before.values())} → {sum(after.values())}"
    if any(node.named_attrs().get("act", "none") != "none" for node in result.graph.nodes):
        total += " (a conv2d or matmul and its activation count once; the file has two nodes)"
    kept = 0 if result.coverage is None else sum(result.coverage.reasons().values())
    more = f"; {kept} more kept as they came" if kept else ""
    return (f"{total}: {', '.join(changed)}" if changed else f"{total}, unchanged") + more


def text_of(result: Result) -> str:
    """Return a result as a few lines of text."""
    certificate, lines = result.certificate, result.way_lines()
    if result.ended:
        lines.append(f"  certificate: {_unfinished(result)}")
    if certificate is None:
        lines += [] if result.ended else ["  certificate: not checked"]
    else:
        lines.append(f"  certificate: {certificate.verdict()}")
        lines += [f"  {certificate.rounding_line()}", f"  {certificate.rules_line()}"]
    return "\n".join([*lines, "  seconds: " + ", ".join(f"{k} {v:.3f}" for k, v in result.seconds.items())])
