"""The stepper's data of a trace, as plain data: labels, charts, and a table for each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from workbench.run.trace import Step, StepKind, Trace, by_rule, cost_unit, sizes
from workbench.support.formatting import thousands

#: Limit on rules in the heat map and in the table of a step; the others are counted.
MOST_RULES: Final = 16
#: The name of a step by kind of run.
UNITS: Final = {"extraction": "step", "verification": "round", "saturation": "iteration", "synthesis": "step"}
#: The columns of the table for kinds without rules: reductions remove candidates, solvers get formulas.
COUNTED: Final = {"extraction": ("reduction", "candidates or formulas")}


def stepper_data(
    trace: Trace, title: str = "", *, going: bool = False, used: Mapping[tuple[int, str], int] | None = None
) -> dict[str, Any]:
    """Return all data of a stepper, ready for JSON, so that it works without a kernel.

    Each of ``steps`` has a ``label`` and ``rows`` with the activity of the rules. The browser draws
    ``charts``: lines with one value per step, or a heat map of rules and steps.

    Args:
        trace: The trace of the run.
        title: The title; by default it is made from what the trace says of the run.
        going: Whether the run continues: the e-nodes of its rules are then counted at its end.
        used: The e-nodes that a result has, by step and rule; the tables then have a column of them.
    """
    kind = _kind(trace)
    unit = UNITS.get(kind, "step")
    steps = list(trace)
    later, when = uncounted(trace), "counted at the end" if going else "not counted"
    money, made = cost_unit(trace), sizes(trace)[0]
    name, stop = trace.meta.get("graph") or trace.meta.get("name"), trace.meta.get("stop_reason")
    own = f"{kind.capitalize()}{f' of {name}' if name else ''}{f' ({stop})' if stop else ''}"
    charts: list[dict[str, Any] | None] = [_closing(steps, money)]
    if kind != "extraction":
        fired = _firing(steps, unit, made, later, when)
        charts = [_growth(trace, steps, unit), _cost(trace, steps, unit, money), fired, _phases(steps, unit)]
    more = [] if used is None else ["in the result"]
    return {
        "title": title or own,
        "unit": unit,
        "columns": [*COUNTED.get(kind, ("rule", "matches")), made, "ms", *more],
        "steps": [_step(step, trace, when if k in later else "", used) for k, step in enumerate(steps)],
        "charts": [chart for chart in charts if chart is not None],
    }


def uncounted(trace: Trace) -> set[int]:
    """Return the positions of steps that grew after the last one with e-nodes attributed to a rule.

    A saturation attributes the e-nodes of a large e-graph when it is read: at the end, or at a pause.
    """
    if _kind(trace) != "saturation":
        return set()
    steps = list(trace)
    counted = max((k for k, step in enumerate(steps) if any(r.e_nodes for r in step.rules)), default=0)
    return {
        k
        for k in range(counted + 1, len(steps))
        if steps[k].e_nodes > steps[k - 1].e_nodes and any(r.matches for r in steps[k].rules)
    }


def duration(seconds: float) -> str:
    """Return a time as text.

    >>> duration(0.0123), duration(1.934), duration(0)
    ('12.3 ms', '1.93 s', '0 ms')
    """
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _priced(cost: float, unit: str) -> str:
    return f"{cost:.6g} {unit}".rstrip()


def _kind(trace: Trace) -> str:
    return str(trace.meta.get("kind", "saturation"))


def _step(step: Step, trace: Trace, later: str, used: Mapping[tuple[int, str], int] | None) -> dict[str, Any]:
    kind, names, unit = _kind(trace), sizes(trace), cost_unit(trace)
    active = (r for r in step.rules if r.matches or r.e_nodes)
    rules = sorted(active, key=lambda r: (-r.e_nodes, -r.matches, r.rule))
    parts = [
        f"{UNITS.get(kind, 'step')} {step.index} of {len(trace) - 1}",
        f"{thousands(step.e_nodes)} {names[0]}",
        f"{thousands(step.e_classes)} {names[1]}",
    ]
    if step.cost is not None:
        parts.append(f"cost {_priced(step.cost, unit)}")
    if step.bound is not None and step.cost:
        gap = max(0.0, (step.cost - step.bound) / step.cost)
        parts.append(f"bound {_priced(step.bound, unit)}, gap {gap:.2%}")
    if rules and kind not in COUNTED:
        parts.append(f"{thousands(sum(r.matches for r in rules))} matches")
    parts.append(duration(step.seconds))
    if later:
        parts.append(f"{names[0]} by rule: {later}")
    if step.note:
        parts.append(step.note)
    rows = [
        [r.rule, r.matches, later or r.e_nodes, round(1000 * r.seconds, 1)]
        + ([] if used is None else [used.get((step.index, r.rule), 0)])
        for r in rules[:MOST_RULES]
    ]
    return {"label": " · ".join(parts), "rows": rows, "more": max(0, len(rules) - MOST_RULES)}


def _lines(title: str, x: str, series: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    chart = {"kind": "lines", "title": title, "x": x, "series": list(series), "limits": [], "log": False}
    return chart | more


def _line(name: str, values: Sequence[float | None], dash: str = "") -> dict[str, Any]:
    return {"name": name, "values": values, **({"dash": dash} if dash else {})}


def _growth(trace: Trace, steps: Sequence[Step], unit: str) -> dict[str, Any]:
    nodes = [s.e_nodes for s in steps]
    made, kept = sizes(trace)
    limit = trace.meta.get("e_node_limit")
    near = limit is not None and nodes and limit <= 8 * max(nodes)
    lines = [_line(made, nodes), _line(kept, [s.e_classes for s in steps], "dashed")]
    limits = [{"name": f"limit {thousands(int(limit))}", "value": limit}] if near and limit else []
    what = "search" if trace.meta.get("kind") == "search" else "e-graph"
    return _lines(f"Growth of the {what}", unit, lines, limits=limits, zero=True)


def _cost(trace: Trace, steps: Sequence[Step], unit: str, money: str) -> dict[str, Any] | None:
    costs = [s.cost for s in steps]
    first = next((c for c in costs if c is not None), None)
    if first is None:
        return None
    name = str(trace.meta.get("cost_curve", "best known"))
    lines = [_line(name, costs), _line("first", [first] * len(costs), "dotted")]
    return _lines(f"Cost: {name}{f' ({money})' if money else ''}", unit, lines, steps=True)


def _closing(steps: Sequence[Step], money: str) -> dict[str, Any]:
    lines = [_line("best cost", [s.cost for s in steps]), _line("bound", [s.bound for s in steps], "dashed")]
    for name, kinds in (("original", (StepKind.ORIGINAL,)), ("greedy", (StepKind.TREE, StepKind.DAG))):
        # The cost of a step is the best so far: that of the last greedy step is the greedy methods' best.
        known = [s.cost for s in steps if s.kind in kinds]
        if known:
            lines.append(_line(name, [known[-1]] * len(steps), "dotted"))
    title = f"Cost and proven bound{f' ({money})' if money else ''}"
    return _lines(title, "step", lines, steps=True, zero=True)


def _firing(
    steps: Sequence[Step], unit: str, made_name: str, later: set[int], when: str
) -> dict[str, Any] | None:
    counted = any(r.e_nodes for s in steps for r in s.rules)
    made = by_rule(steps, lambda rule: rule.e_nodes if counted else rule.matches)
    if not made:
        return None
    what = made_name if counted else "matches"
    more = f", {len(made) - MOST_RULES} more rules" if len(made) > MOST_RULES else ""
    return {
        "kind": "heat",
        "title": f"Rules: {what} by {unit}{more}",
        "x": unit,
        "unit": what,
        "rows": list(made)[:MOST_RULES],
        "values": list(made.values())[:MOST_RULES],
        "later": sorted(later) if counted else [],
        "when": when,
    }


def _phases(steps: Sequence[Step], unit: str) -> dict[str, Any] | None:
    """Return the heat map of the milliseconds that the phases of every step took, the longest phase first."""
    names = dict.fromkeys(name for step in steps for name in step.phases)
    spent = {name: [round(1000 * step.phases.get(name, 0.0), 1) for step in steps] for name in names}
    rows = sorted((name for name in spent if any(spent[name])), key=lambda name: -sum(spent[name]))
    if not rows:
        return None
    title, values = f"Time: ms by phase and {unit}", [spent[name] for name in rows]
    return {"kind": "heat", "title": title, "x": unit, "unit": "ms", "rows": rows, "values": values}
