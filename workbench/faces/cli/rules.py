"""``workbench rules``: the contents of the rule library."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from workbench.faces.cli.console import reporting_errors, show_table
from workbench.faces.cli.options import to_json


@reporting_errors
def rules(
    name: Annotated[
        str | None, typer.Argument(metavar="[RULE]", help="A rule, or a pattern such as 'conv-*'.")
    ] = None,
    set_: Annotated[
        str, typer.Option("--set", metavar="NAME", help="Rule set, or a file.rules.")
    ] = "default",
    sets: Annotated[bool, typer.Option("--sets", help="List the rule sets.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List rules with law, provenance and status."""
    from workbench.laws.theorems.records import THEOREM, is_theorem
    from workbench.rules import rule_set, rule_sets

    if sets:
        counts = [(s, rule_set(s)) for s in rule_sets()]
        table = [(s, len(found), sum(r.multi for r in found)) for s, found in counts]
        if json:
            typer.echo(to_json([{"set": s, "rules": n, "multi": m} for s, n, m in table]), nl=False)
        else:
            show_table(("set", "rules", "multi-pattern"), table, right=[1, 2])
        return
    chosen = rule_set(set_)
    if name is not None:
        chosen = chosen.select(name) if any(c in name for c in "*?[") else _one_rule(chosen, name)
    records = chosen.frame().to_dict("records")
    for record in records:
        if is_theorem(chosen[record["name"]]):
            record["status"] = THEOREM
    if json:
        typer.echo(to_json(records), nl=False)
        return
    headings = ("rule", "status", "provenance", "law")
    show_table(headings, [tuple(r[h if h != "rule" else "name"] for h in headings) for r in records])
    multi = sum(r["kind"] == "multi" for r in records)
    proved = sum(r["status"] == THEOREM for r in records)
    typer.echo(f"{len(records)} rules of {set_}, {multi} of them multi-pattern, {proved} theorems")


def _one_rule(rules: Any, name: str) -> Any:
    from workbench.rules import RuleSet

    return RuleSet(name, (rules[name],))
