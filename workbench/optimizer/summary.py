"""Figures of a result as text: the rows of the table on the terminal and in reports, and the plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.extraction.result import strength
from workbench.ops.inputs_and_opaque import REFERENCES
from workbench.optimizer.record import RunRecord, SaturationFigures, SearchFigures
from workbench.support.formatting import microseconds, thousands

if TYPE_CHECKING:
    from workbench.graph import Graph
    from workbench.optimizer.result import Result


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a summary: a stage or another subject, its seconds (or None), its figures as a text."""

    what: str
    seconds: float | None
    figures: str


def summary_rows(result: Result, *, written: Iterable[str] = ()) -> list[Row]:
    """Return the summary of a result, one row per stage, in the order of the stages.

    ``written`` are files written, each as a text.
    """
    record = result.record()
    way, certificate = record.way, record.certificate
    rows = [Row("import", record.seconds.get("import"), _loaded(record))]
    rows += (
        _saturation_rows(record, way)
        if isinstance(way, SaturationFigures)
        else [*_left_out(record), _search_row(record, way)]
    )
    if certificate is not None:
        rows.append(Row("certificate", record.seconds.get("certificate"), certificate.verdict()))
        rows.append(Row("rounding", None, certificate.rounding_line()))
    if record.ended:
        rows.append(Row("certificate", record.seconds.get("certificate"), _ended(record)))
    if isinstance(way, SaturationFigures) and way.dynamic is not None:
        rows += [Row("dimensions", None, line) for line in way.dynamic.lines()]
    rows += [Row("written", None, text) for text in written]
    rows.append(Row("cost", None, record.predicted()))
    rows.append(Row("operators", None, operator_changes(record)))
    rows.append(Row("rules", None, _rules(record) or "none: the original is the best found"))
    if certificate is not None:
        rows.append(Row("verdicts", None, certificate.rules_line()))
    return rows


def _saturation_rows(record: RunRecord, way: SaturationFigures) -> list[Row]:
    seconds = record.seconds
    rows = [
        Row("engine", seconds.get("engine"), f"rules compiled ({record.settings['rules']}), engine started"),
        *_left_out(record),
        Row(
            "saturation",
            seconds.get("saturation"),
            f"{thousands(way.e_nodes)} e-nodes, {thousands(way.e_classes)} e-classes after "
            f"{way.iterations} iterations: {record.stop_reason.value}",
        ),
        *([Row("blocks", None, way.blocks)] if way.blocks else []),
        Row("pricing", seconds.get("pricing"), f"{thousands(way.priced)} e-nodes priced"),
        Row(
            "extraction",
            seconds.get("extraction"),
            f"{way.extractor}: {_strength(record, way)}, bound {microseconds(way.bound)}",
        ),
    ]
    if way.placement is not None:
        rows += [Row("accelerator", None, line) for line in way.placement.lines()]
    if way.measured is not None:
        if way.measured.given is not None:
            rows.append(Row("cleaning", None, way.measured.cleaning_line()))
        rows.append(Row("timing", seconds.get("timing"), str(way.measured)))
    return rows


def _strength(record: RunRecord, way: SaturationFigures) -> str:
    return strength(way.status, record.cost_claimed, way.bound, way.scope)


def _search_row(record: RunRecord, way: SearchFigures) -> Row:
    used = record.settings
    return Row(
        "search",
        record.seconds.get("search"),
        f"{used['mode']}, alpha {used['alpha']:g}, budget {used['budget']}, rules {used['rules']}: "
        f"{thousands(way.expanded)} graphs expanded, {thousands(way.found)} found: "
        f"{record.stop_reason.value}",
    )


def _rules(record: RunRecord) -> str:
    """Return the rules that made a result; those of a search with their numbers of substitutions."""
    way = record.way
    if isinstance(way, SaturationFigures):
        return ", ".join(record.rules)
    return ", ".join(f"{rule} × {way.history.count(rule)}" for rule in record.rules)


def _left_out(record: RunRecord) -> list[Row]:
    """Return the row about rules that a model of 16-bit floats is not rewritten by; none for other models."""
    names = record.left_out
    if not names:
        return []
    shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    why = "they may overflow or lose accuracy in 16-bit floats where the original does not"
    return [Row("range", None, f"{len(names)} rule{'s' if len(names) > 1 else ''} left out: {why} ({shown})")]


def _ended(record: RunRecord) -> str:
    return f"not finished, {record.ended}: the original stays"


def _loaded(record: RunRecord) -> str:
    if record.coverage is None:
        return f"{thousands(sum(record.operators_before.values()))} operators"
    modelled, opaque = sum(record.coverage.modelled.values()), sum(record.coverage.opaque.values())
    kept = f", {opaque} kept as they came" if opaque else ""
    return f"{thousands(modelled)} of {thousands(modelled + opaque)} operators modelled{kept}"


def running_operators(graph: Graph) -> dict[str, int]:
    """Count the operators that run: those an output needs and that depend on an input."""
    nodes = zip(graph.nodes, graph.constant(), graph.reachable(), strict=True)
    runs = (node.op for node, constant, live in nodes if live and not constant)
    return dict(Counter(op for op in runs if op not in REFERENCES))


def operator_changes(record: RunRecord) -> str:
    """Return the running operators that became fewer or more, as text.

    An operator and its activation are one kernel and count once.
    """
    before, after = record.operators_before, record.operators_after
    names = sorted({*before, *after}, key=lambda n: (-max(before.get(n, 0), after.get(n, 0)), n))
    changed = [f"{n} {before.get(n, 0)} → {after.get(n, 0)}" for n in names if before.get(n) != after.get(n)]
    total = f"{sum(before.values())} → {sum(after.values())}"
    if record.fused:
        total += " (a conv2d or matmul and its activation count once; the file has two nodes)"
    kept = 0 if record.coverage is None else sum(record.coverage.reasons().values())
    more = f"; {kept} more kept as they came" if kept else ""
    return (f"{total}: {', '.join(changed)}" if changed else f"{total}, unchanged") + more


def text_of(record: RunRecord) -> str:
    """Return a record as a few lines of text."""
    way, certificate = record.way, record.certificate
    reason = record.stop_reason.value
    if isinstance(way, SaturationFigures):
        lines = [
            f"Optimized {record.network!r}: {record.predicted()}",
            f"  e-graph: {way.e_nodes} e-nodes, {way.e_classes} e-classes, "
            f"{way.iterations} iterations, {reason}",
            *([f"  blocks: {way.blocks}"] if way.blocks else []),
            f"  extraction: {way.extractor}, {_strength(record, way)}, bound {microseconds(way.bound)}",
            f"  rules: {', '.join(record.rules) or 'none'}",
            *([f"  {line}" for line in way.placement.lines()] if way.placement is not None else []),
            *([f"  measured: {way.measured}"] if way.measured is not None else []),
            *([f"  dimensions: {line}" for line in way.dynamic.lines()] if way.dynamic is not None else []),
        ]
    else:
        mode, alpha, budget = (record.settings[name] for name in ("mode", "alpha", "budget"))
        lines = [
            f"Searched {record.network!r}: {record.predicted()}",
            f"  search: {mode}, alpha {alpha:g}, budget {budget}: {way.expanded} graphs expanded, "
            f"{way.found} found, {reason}",
            f"  {len(way.history)} substitutions by: {', '.join(record.rules) or 'none'}",
        ]
    if record.ended:
        lines.append(f"  certificate: {_ended(record)}")
    if certificate is None:
        lines += [] if record.ended else ["  certificate: not checked"]
    else:
        lines.append(f"  certificate: {certificate.verdict()}")
        lines += [f"  {certificate.rounding_line()}", f"  {certificate.rules_line()}"]
    return "\n".join([*lines, "  seconds: " + ", ".join(f"{k} {v:.3f}" for k, v in record.seconds.items())])
