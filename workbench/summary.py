"""The figures of a result as text: what the table on the terminal and the report both show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.units import microseconds, thousands

if TYPE_CHECKING:
    from workbench.graph import Graph
    from workbench.pipeline import Optimized
    from workbench.search.optimize import Searched


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one line of a summary: what, the seconds it took (``None`` where that says nothing), figures."""

    what: str
    seconds: float | None
    figures: str


def summary_rows(result: Optimized, *, written: Iterable[str] = ()) -> list[Row]:
    """Return the summary of a result, one row a stage, in the order of the way through."""
    seconds = result.seconds
    solution = result.solution
    rows = [
        Row("import", seconds.get("import"), _loaded(result)),
        Row("engine", seconds.get("engine"), f"rules compiled ({result.settings['rules']}), engine started"),
        *_left_out(result),
        Row(
            "saturation",
            seconds.get("saturation"),
            f"{thousands(result.e_nodes)} e-nodes, {thousands(result.e_classes)} e-classes after "
            f"{result.iterations} iterations: {result.stop_reason.value}",
        ),
        Row("pricing", seconds.get("pricing"), f"{thousands(len(result.egraph))} e-nodes priced"),
        Row(
            "extraction",
            seconds.get("extraction"),
            f"{solution.method}: {solution.status.value} ({solution.scope}), "
            f"bound {microseconds(solution.bound)}",
        ),
    ]
    if result.measured is not None:
        if result.measured.given is not None:
            rows.append(Row("cleaning", None, result.measured.cleaning_line()))
        rows.append(Row("timing", seconds.get("measuring"), str(result.measured)))
    if result.certificate is not None:
        rows.append(Row("certificate", seconds.get("certificate"), result.certificate.verdict()))
        rows.append(Row("rounding", None, result.certificate.rounding_line()))
    if result.dynamic is not None:
        rows += [Row("dimensions", None, line) for line in result.dynamic.lines()]
    rows += [Row("written", None, text) for text in written]
    rows.append(
        Row(
            "cost",
            None,
            result.predicted(),
        )
    )
    rows.append(Row("operators", None, operator_changes(result)))
    rows.append(Row("rules", None, ", ".join(result.rules) or "none: the original is the best found"))
    if result.certificate is not None:
        rows.append(Row("verdicts", None, result.certificate.rules_line()))
    return rows


def search_rows(result: Searched, *, written: Iterable[str] = ()) -> list[Row]:
    """Return the summary of what TASO's search found, one row a stage."""
    seconds, used = result.seconds, result.settings
    rows = [
        Row("import", seconds.get("import"), _loaded(result)),
        *_left_out(result),
        Row(
            "search",
            seconds.get("search"),
            f"{used['mode']}, alpha {used['alpha']:g}, budget {used['budget']}, rules {used['rules']}: "
            f"{thousands(result.expanded)} graphs expanded, {thousands(result.found)} found: "
            f"{result.stop_reason.value}",
        ),
    ]
    if result.certificate is not None:
        rows.append(Row("certificate", seconds.get("certificate"), result.certificate.verdict()))
        rows.append(Row("rounding", None, result.certificate.rounding_line()))
    rows += [Row("written", None, text) for text in written]
    counts = [f"{rule} × {result.history.count(rule)}" for rule in result.rules]
    rows += [
        Row(
            "cost",
            None,
            result.predicted(),
        ),
        Row("operators", None, operator_changes(result)),
        Row("rules", None, ", ".join(counts) or "none: the original is the best found"),
    ]
    if result.certificate is not None:
        rows.append(Row("verdicts", None, result.certificate.rules_line()))
    return rows


def _left_out(result: Optimized | Searched) -> list[Row]:
    """Return the line on rules that a model of 16-bit floats is not rewritten by; none for other models."""
    names = result.settings.get("left_out", ())
    if not names:
        return []
    shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    why = "they may overflow or lose accuracy in 16-bit floats where the original does not"
    return [Row("range", None, f"{len(names)} rule{'s' if len(names) > 1 else ''} left out: {why} ({shown})")]


def _loaded(result: Optimized | Searched) -> str:
    if result.coverage is None:
        return f"{thousands(sum(running_operators(result.original).values()))} operators"
    modelled, opaque = sum(result.coverage.modelled.values()), sum(result.coverage.opaque.values())
    kept = f", {opaque} kept as they came" if opaque else ""
    return f"{thousands(modelled)} of {thousands(modelled + opaque)} operators modelled{kept}"


def running_operators(graph: Graph) -> dict[str, int]:
    """Count the operators that run: those an output needs and that depend on an input."""
    counts: dict[str, int] = {}
    for node, constant, live in zip(graph.nodes, graph.constant(), graph.reachable(), strict=True):
        if live and not constant and node.op not in ("input", "weight", "project"):
            counts[node.op] = counts.get(node.op, 0) + 1
    return counts


def operator_changes(result: Optimized | Searched) -> str:
    """Say which of the operators that run became fewer or more, as kernels: an activation is in its own."""
    before, after = running_operators(result.original), running_operators(result.graph)
    names = sorted({*before, *after}, key=lambda n: (-max(before.get(n, 0), after.get(n, 0)), n))
    changed = [f"{n} {before.get(n, 0)} → {after.get(n, 0)}" for n in names if before.get(n) != after.get(n)]
    total = f"{sum(before.values())} → {sum(after.values())}"
    if any(node.named_attrs().get("act", "none") != "none" for node in result.graph.nodes):
        total += " (a conv2d or matmul and its activation count once; the file has two nodes)"
    return f"{total}: {', '.join(changed)}" if changed else f"{total}, unchanged"
