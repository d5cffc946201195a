"""The application of the command line and its list of commands."""

from __future__ import annotations

from typing import Annotated

import typer

from workbench.faces.cli import console, device, extract, kernels, laws, models, optimize, studies
from workbench.faces.cli.options import APPLICATION

#: The commands; those of ``device`` and ``results`` are groups of their own.
_COMMANDS = {
    command.__name__.replace("_", "-"): command
    for command in (
        optimize.optimize,
        optimize.search,
        laws.rules,
        laws.verify,
        models.certify,
        models.check,
        laws.synthesise,
        extract.extract,
        models.why_not,
        models.cost,
        models.show,
        models.diff,
        studies.bench,
        studies.run,
        kernels.accelerators,
        kernels.composite,
        optimize.demo,
    )
}


def _version(asked: bool) -> None:
    if asked:
        from workbench._version import __version__

        typer.echo(f"workbench {__version__}")
        raise typer.Exit(console.OK)


def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def application(verb: str | None = None) -> typer.Typer:
    """Return the application, with one command alone if ``verb`` is its name.

    The parsers of all commands take longer to make than those of one take to parse.
    """
    made = typer.Typer(
        name="workbench",
        help="Tensor-graph superoptimisation by equality saturation.",
        epilog="Exit codes: 0 done, 1 certificate failed, rule refuted, models differ or other failure, "
        "2 usage or bad input, 3 a result cannot be written, 130 interrupted before there was a result.",
        pretty_exceptions_enable=False,
        **APPLICATION,
    )
    made.callback()(_main)
    if verb in _COMMANDS:
        console.command(made, verb)(_COMMANDS[verb])
        return made
    for name, command in _COMMANDS.items():
        console.command(made, name)(command)
    console.command(made, "optimise", hidden=True)(optimize.optimize)
    for group in (device.app, studies.app):
        made.add_typer(group, short_help=group.info.help)
    return made


app = application()
