"""``workbench accelerators``: the hardware units, the laws that put products on one, and their verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.faces.cli.console import FAILED, reporting_errors, show_table, stop

if TYPE_CHECKING:
    from workbench.kernels.accelerators import Unit


@reporting_errors
def accelerators(
    unit: Annotated[
        str | None, typer.Argument(metavar="[UNIT]", help="A unit, or a file.toml: show it.")
    ] = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="Write the rules of the unit as a file of rules.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Judge the rules of the unit; takes a minute or two.")
    ] = False,
) -> None:
    """List the hardware units that products can be cut for, or show one."""
    from workbench.kernels.accelerators import rules_text, units
    from workbench.kernels.accelerators import unit as find

    if unit is None:
        if rules or verify:
            raise ValueError("--rules and --verify need a unit (try systolic64 --rules)")
        found = [find(name) for name in units()]
        show_table(
            ("unit", "rows", "tile", "streamed", "stationary", "sums", "description"),
            [
                (u.name, _rows(u), f"{u.inner} × {u.columns}", u.streamed, u.stationary, u.accumulator, u.doc)
                for u in found
            ],
        )
        return
    chosen = find(unit)
    if rules:
        typer.echo(rules_text(chosen), nl=False)
        return
    typer.echo(repr(chosen))
    if verify:
        _verify(chosen)


def _rows(unit: Unit) -> str:
    return str(unit.rows) if unit.rows else "any"


def _verify(unit: Unit) -> None:
    from workbench.kernels.accelerators.verify import verify_unit

    verdicts = verify_unit(unit)
    show_table(("rule", "verdict", "evidence"), [(v.name, v.verdict, v.reason()) for v in verdicts])
    wrong = [v.name for v in verdicts if v.verdict not in ("proved", "tested")]
    if wrong:
        stop(FAILED, f"rules that are neither proved nor tested: {', '.join(wrong)}")
