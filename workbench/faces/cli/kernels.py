"""``workbench accelerators`` and ``composite``: hardware units with their laws, and operators of index notation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from workbench.faces.cli import console, options
from workbench.faces.cli.console import show_table, stop
from workbench.faces.cli.options import argument, check_files, flag, option, write_json, write_text
from workbench.support.messages import UnknownName

if TYPE_CHECKING:
    from workbench.kernels.composites import Composite


def accelerators(
    unit: str | None = argument(None, "UNIT", "A unit, or a file.toml: show it."),
    rules: bool = flag("--rules", "Write the rules of the unit as a file of rules."),
    verify: bool = flag("--verify", "Judge the rules of the unit; takes a minute or two."),
) -> None:
    """List the hardware units that products can be cut for, or show one."""
    from workbench.kernels.accelerators import rules_text, units
    from workbench.kernels.accelerators import unit as find

    if unit is None:
        if rules or verify:
            raise ValueError("--rules and --verify need a unit (try systolic64 --rules)")
        rows = []
        for u in map(find, units()):
            tile = f"{u.inner} × {u.columns}"
            rows.append((u.name, u.rows or "any", tile, u.streamed, u.stationary, u.accumulator, u.doc))
        show_table(("unit", "rows", "tile", "streamed", "stationary", "sums", "description"), rows)
        return
    chosen = find(unit)
    if rules:
        typer.echo(rules_text(chosen), nl=False)
        return
    typer.echo(repr(chosen))
    if not verify:
        return
    from workbench.kernels.accelerators.verify import verify_unit
    from workbench.rules.verdicts import TRUSTED

    verdicts = verify_unit(chosen)
    show_table(("rule", "verdict", "evidence"), [(v.name, v.verdict, v.reason()) for v in verdicts])
    if wrong := [v.name for v in verdicts if v.verdict not in TRUSTED]:
        stop(console.FAILED, f"rules that are neither theorems nor tested: {', '.join(wrong)}")


def composite(
    file: Path = argument(..., "FILE", "A .composite or YAML file, or `library`."),
    sizes: list[str] | None = argument(
        None, "NAME=NUMBER", "Extents, attributes, and OMP, MARCH, OPT, CC, CONTRACT; ~=2x3 for leading axes."
    ),
    listed: bool = flag("--list", "List the composites (the default)."),
    test: str | None = option(None, "NAME", "Run one on drawn numbers in every way that there is."),
    emit_c: str | None = option(None, "NAME", "Write its C text.", "--emit-c"),
    emit_onnx: str | None = option(None, "NAME", "Write its ONNX function.", "--emit-onnx"),
    graph: Path | None = option(None, "FILE.dot", "Draw the last result of --debug."),
    debug: int = option(
        0, None, "Print 1 the lowered equations, 2 simplified ones, 3 laws and ONNX, 4 C.", min=0, max=4
    ),
    json: Path | None = options.JSON,
) -> None:
    """List the composites of a file, test one, or write its C or its ONNX function."""
    check_files([], [json])
    if json is not None and test is None:
        raise ValueError("--json needs the figures of --test NAME")
    from workbench.kernels.codegen.trial import drawn_text
    from workbench.kernels.composites.files import drawing, library, load
    from workbench.kernels.composites.onnx_function import function_text

    found = dict(library()) if str(file) == "library" else load(file, library())
    chosen = test or emit_c or emit_onnx
    given = {name: value for text in sizes or [] for name, value in _pairs(text)}
    if chosen is None:
        if not debug and graph is None:
            rows = []
            for c in found.values():
                defaults = ", ".join(f"{a.name}={a.default:g}" for a in c.attributes)
                rows.append((c.name, " ".join(c.signature.split()), defaults, c.doc))
            show_table(("composite", "declaration", "attributes", "meaning"), rows)
            return
        if len(found) != 1:
            raise ValueError("--debug and --graph need a composite (try --test NAME)")
        chosen = next(iter(found))
    if chosen not in found:
        raise UnknownName("composite", chosen, found)
    one = found[chosen]
    last = _show(one, debug, given)
    if graph is not None:
        write_text(graph, drawing(last))
    if emit_c is not None:
        typer.echo(drawn_text(one, given), nl=False)
    if emit_onnx is not None:
        typer.echo(function_text(one))
    if test is not None:
        _test(one, given, json)


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the names and the value of ``M=100`` or ``M=N=K=100``."""
    *names, value = text.split("=")
    if not names or not all(names) or not value:
        raise ValueError(f"an extent or an attribute must be NAME=NUMBER, got {text!r}")
    return [(name, value) for name in names]


def _show(one: Composite, debug: int, given: Mapping[str, str]) -> Composite:
    """Print the forms up to a level, and return the last one that is a composite."""
    last = one
    if debug >= 1:
        typer.echo(f"-- lowered\n{one}")
    if debug >= 2:
        from workbench.kernels.composites.simplify import simplified

        found = simplified(one, contracted=given.get("CONTRACT") == "1")
        typer.echo(f"-- simplified\n{found}")
        last = found.composite
    if debug >= 3:
        from workbench.kernels.composites.lowering import NoLaw, laws
        from workbench.kernels.composites.onnx_function import function_text

        try:
            typer.echo(f"-- laws\n{laws(one)}", nl=False)
        except NoLaw as error:
            typer.echo(f"-- laws\nnone: {error}")
        typer.echo(f"-- ONNX\n{function_text(one)}")
    if debug >= 4:
        from workbench.kernels.codegen.trial import drawn_text

        typer.echo(f"-- C\n{drawn_text(last, given)}", nl=False)
    return last


def _test(one: Composite, given: Mapping[str, str], json: Path | None) -> None:
    from workbench.kernels.codegen.trial import trial

    found = trial(one, given)
    ways = [asdict(way) for way in found.ways]
    write_json(json, lambda: {"composite": one.name, "operands": found.operands, "ways": ways})
    rows = []
    for w in found.ways:
        error = "-" if w.error is None else f"{w.error:.2g}"
        rows.append((w.way, error, "-" if w.seconds is None else f"{w.seconds:.3g}", w.note))
    show_table(("way", "relative error to float64", "seconds", "speed or reason"), rows)
    if wrong := [w.way for w in found.ways if w.wrong]:
        stop(console.FAILED, f"{one.name} is wrong in {', '.join(wrong)}")
