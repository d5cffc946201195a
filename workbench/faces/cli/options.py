"""Parts shared by the commands: options, checks of arguments, results as JSON."""

from __future__ import annotations

import inspect
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand

from workbench.run.settings import extend_signature, settings_of
from workbench.support.files import UnwritableOutput, check_writable, write_atomic

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from workbench.rules import RuleSet


F = TypeVar("F", bound=Callable[..., Any])

#: The output in the place of a file.
OUTPUT: Final = Path("-")
#: The stream of results that a command writes to ``-``; None is the output.
RESULT: Final[ContextVar[TextIO | None]] = ContextVar("RESULT", default=None)
#: The least seconds that an option takes.
LEAST: Final = 0.001


def option(default: Any, metavar: str | None, about: str, *names: str, **more: Any) -> Any:
    """Return an option with a value, as the default of a command's parameter.

    ``default`` is the value without the option, ``...`` if it must be given; ``metavar`` is the value in the help,
    ``about`` its text. ``names`` are by default that of the parameter; ``more`` has bounds, the ``panel`` of the
    help, and what else :class:`typer.Option` takes.
    """
    panel = more.pop("panel", None)
    return typer.Option(default, *names, metavar=metavar, help=about, rich_help_panel=panel, **more)


def flag(name: str, about: str, *names: str, panel: str | None = None) -> Any:
    """Return an option without a value; the arguments are those of :func:`option`."""
    return typer.Option(False, name, *names, help=about, rich_help_panel=panel)


def argument(default: Any, metavar: str | None, about: str) -> Any:
    """Return a positional argument; the arguments are those of :func:`option`."""
    return typer.Argument(default, metavar=metavar, help=about)


#: The options and arguments of several commands.
MODEL: Final = argument(..., "MODEL", "ONNX file, or a TASO file.model.")
COST: Final = option("analytic", "analytic|cpu|PATH", "Cost model, or a recorded table.")
OWN_COST: Final = option(
    "cpu",
    "cpu|analytic|PATH",
    "Cost model: this machine, another device's roofline (analytic is a T4's), a recorded table.",
)
PAGE: Final = option(None, "PAGE.html", "Write the page here instead of opening it.", "--output", "-o")
DIM: Final = option([], "NAME=VALUE", "Fix a symbolic dimension; repeatable.", "--dim", panel="Sizes")
SIZE: Final = option(
    [],
    "NAME=VALUE",
    "Size at which to price a symbolic dimension; it stays symbolic.",
    "--size",
    panel="Sizes",
)
JSON: Final = option(None, "FILE", "Write the figures as JSON; - is the output.", "--json", panel="Files")
QUIET: Final = flag("--quiet", "No progress on stderr.", "-q")
RULES: Final = option(
    ["default"],
    "NAME",
    "Rule set, a file.rules, or a TASO or Tensat file; repeatable, all are used.",
    "--rules",
    panel="Rules",
)
KEEP_REFUTED: Final = flag(
    "--keep-refuted", "Apply refuted rules of a file.rules too, with a warning.", panel="Rules"
)


class GroupedCommand(TyperCommand):
    """A command whose help names its arguments as they are typed and lists its options by their panels.

    A list of commands has its summary uncut.
    """

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first paragraph of the help as one line."""
        return inspect.cleandoc(self.help or "").split("\n\n")[0].replace("\n", " ")

    def panels(self, ctx: typer.Context) -> dict[str, list[tuple[str, str]]]:
        """Return the arguments, then the options, each with its help, by panel; `Options` is the last."""
        panels: defaultdict[str, list[tuple[str, str]]] = defaultdict(list, {"Arguments": []})
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            if isinstance(parameter, TyperArgument):
                panels["Arguments"].append((_typed(parameter), record[1]))
            else:
                panels[getattr(parameter, "rich_help_panel", None) or "Options"].append(record)
        panels["Options"] = panels.pop("Options", [])  # the last
        return {panel: rows for panel, rows in panels.items() if rows}

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel."""
        for title, rows in self.panels(ctx).items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the line of usage."""
        return ["[OPTIONS]", *(_typed(p) for p in self.get_params(ctx) if isinstance(p, TyperArgument))]


def _typed(argument: TyperArgument) -> str:
    """Return an argument as a line of usage has it: in brackets if it may be left out, with dots if several."""
    name = f"{argument.metavar}{'...' if argument.nargs == -1 else ''}"
    return name if argument.required else f"[{name}]"


#: The settings of every application of commands.
APPLICATION: Final[Any] = {
    "no_args_is_help": True,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


def with_settings(cls: type[DataclassInstance], *names: str, panel: str | None = None) -> Callable[[F], F]:
    """Return a decorator that gives a command an option for each of the named settings of a class.

    Bounds, help and defaults are those of the settings; the command takes the values as ``**settings``.
    """

    def decorate(command: F) -> F:
        known, defaults = settings_of(cls), {f.name: f.default for f in fields(cls)}
        more = {}
        for name in names:
            facts, default = known[name], defaults[name]
            least = LEAST if facts.above == 0 else facts.least
            given_by = option(default, facts.metavar, facts.help, min=least, panel=panel)
            more[name] = given_by, type(default) if default is not None else float | None
        extend_signature(command, more, eval_str=True)
        return command

    return decorate


def check_files(read: Iterable[Path], results: Iterable[Path | None] = (), *, hint: str = "") -> None:
    """Check before long work that files are there, and that all results can be written, each to a file of its own.

    None stands for a result that was not asked for; ``hint`` says what to try if a result would replace a file
    that is read. Raise ValueError for that and for two results in one file, FileNotFoundError or IsADirectoryError
    for a file to read, and UnwritableOutput for a result.
    """
    kept = set()
    for file in read:
        if not file.exists():
            raise FileNotFoundError(f"no such file: {file}")
        if file.is_dir():
            raise IsADirectoryError(f"{file} is a folder; name the file in it")
        kept.add(file.resolve())
    places = [place for place in results if place is not None and place != OUTPUT]
    if len({p.resolve() for p in places}) < len(places):
        raise ValueError(f"the results must be written to different files, got {', '.join(map(str, places))}")
    for place in places:
        if place.resolve() in kept:
            raise ValueError(f"a result must not replace a file that the command reads, got {place}{hint}")
        check_writable(place)


def place_of_result(file: Path) -> Path:
    """Return the place of a result, in a folder that is made if it is missing."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableOutput(f"{file.parent}: {error.strerror}") from None
    return check_writable(file)


def known_extractor(name: str) -> str:
    """Return the name of an extractor; raise UnknownName, with the nearest one, for any other name."""
    from workbench.extraction.api import extractor

    extractor(name)
    return name


def dimensions(texts: list[str], option: str = "--dim") -> dict[str, int] | None:
    """Return ``NAME=VALUE`` texts as a mapping, or None for an empty list.

    Raise ValueError if a text has another form, if its value is not a positive whole number of 64 bits, or if
    two texts give one name different values.
    """
    found: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value.isdecimal() and len(value) < 4300) or int(value) < 1:
            raise ValueError(f"{option} must be NAME=VALUE with a positive whole number, got {text}")
        if int(value) >= 1 << 63:
            raise ValueError(f"{option} must be below 2^63, got {text}")
        if found.setdefault(name, int(value)) != int(value):
            raise ValueError(f"{option} must give {name} one value, got {found[name]} and {int(value)}")
    return found or None


def to_json(data: object) -> str:
    """Return data as JSON text; numbers that are not finite become null."""
    import json
    import math

    def finite(value: object) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, dict):
            return {str(k): finite(v) for k, v in value.items()}
        return [finite(v) for v in value] if isinstance(value, list | tuple) else value

    return json.dumps(finite(data), indent=2, ensure_ascii=False, default=str) + "\n"


def write_json(path: Path | None, data: Callable[[], object]) -> None:
    """Write data as JSON, unless no file was asked for; ``-`` is the output. Errors are those of :func:`writing`."""
    if path == OUTPUT:
        print(to_json(data()), end="", file=RESULT.get())
    elif path is not None:
        write_text(path, to_json(data()))


def write_text(path: Path, text: str | bytes) -> None:
    """Write a text to a file; raise UnwritableOutput if it cannot be written."""
    writing(lambda: write_atomic(path, text))


def writing(action: Callable[[], object]) -> None:
    """Run an action that writes a file; raise UnwritableOutput in place of its OSError."""
    try:
        action()
    except OSError as error:
        raise UnwritableOutput(str(error)) from error


def chosen_rules(texts: list[str], *, as_published: bool = False) -> str | list[str] | RuleSet:
    """Return the rules that the texts name for :func:`workbench.optimize`: one name, several, or a set.

    With ``as_published`` all rules of another system are used, including unsound ones. Raise
    FileNotFoundError if a file is missing, and ValueError if two sets then give one name to different laws.
    """
    for text in texts:
        if (text.endswith(".rules") or os.sep in text) and not Path(text).is_file():
            several = " ".join(f"--rules {part.strip()}" for part in text.split(","))
            hint = f" (repeat the option: {several})" if "," in text else ""
            raise FileNotFoundError(f"no such rules file: {text}{hint}")
    if as_published:
        from workbench.rules.ruleset import published, union

        return union([published(text) for text in texts])
    return texts[0] if len(texts) == 1 else texts
