"""Output of the command line: progress on stderr, tables on stdout, errors with an exit code."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import shutil
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

import typer

from workbench.faces.cli.options import OUTPUT, RESULT, F, GroupedCommand, write_json, write_text, writing
from workbench.faces.cli.process import FULL, UNWRITABLE, begun, discard_output
from workbench.run.progress import progress_line
from workbench.support.files import UnwritableOutput

if TYPE_CHECKING:
    from rich.status import Status

    from workbench.optimizer.result import Result
    from workbench.studies.devices.floors import Floors


P = ParamSpec("P")
R = TypeVar("R")

#: Exit codes; the option parser also ends with 2 on usage errors.
OK, FAILED, BAD_INPUT, UNDECIDED, INTERRUPTED = 0, 1, 2, 4, 130

#: Approximate limit on the characters of a message: names in a model may have any length.
LONGEST_MESSAGE = 1_000


def complain(message: str) -> None:
    """Write a message on stderr; the middle of a message longer than LONGEST_MESSAGE is left out."""
    if len(message) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        message = f"{message[:half]} […] {message[-half:]}"
    print(f"workbench: {message}", file=sys.stderr)


def stop(code: int, message: str) -> NoReturn:
    """End the command with a message and an exit code."""
    complain(message)
    raise typer.Exit(code)


@contextlib.contextmanager
def _results_alone(arguments: Mapping[str, Any]) -> Iterator[None]:
    """Leave the output to a result if the command writes one to ``-``."""
    if OUTPUT not in arguments.values():
        yield
        return
    token = RESULT.set(sys.stdout)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        RESULT.reset(token)


def command(app: typer.Typer, name: str | None = None, **more: Any) -> Callable[[F], F]:
    """Return a decorator that adds a command to an application; its errors become a message and an exit code."""

    def add(given: F) -> F:
        app.command(name, cls=GroupedCommand, **more)(_reporting_errors(given))
        return given

    return add


def _reporting_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command: exceptions become a message and an exit code, or a traceback with ``WORKBENCH_DEBUG=1``."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        begun()
        if os.environ.get("WORKBENCH_DEBUG"):
            return command(*args, **kwargs)
        try:
            with warnings.catch_warnings(), _results_alone(kwargs):
                # In the form of every other message, without the source line that raised it.
                warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
                return command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            stop(INTERRUPTED, "interrupted; nothing was written")
        except UnwritableOutput as error:
            stop(UNWRITABLE, f"cannot write: {error}")
        except BrokenPipeError:
            # The reader of the pipe has closed it (| head): print nothing more, at exit either.
            discard_output()
            raise typer.Exit(OK) from None
        except (ValueError, LookupError, OSError) as error:
            full = isinstance(error, OSError) and error.errno in FULL
            stop(UNWRITABLE if full else BAD_INPUT, f"cannot write: {error}" if full else describe(error))
        except MemoryError:
            stop(FAILED, "out of memory; try smaller sizes, a smaller model or lower limits")
        except Exception as error:
            stop(FAILED, f"{type(error).__name__}: {describe(error)} (WORKBENCH_DEBUG=1 shows the traceback)")

    return run


def describe(error: BaseException) -> str:
    """Return an error's message and its notes on one line, without the quotes that a KeyError puts around it.

    An error with an attribute ``on_command_line`` provides its own wording for the command line.
    """
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"no such file: {error.filename}"
    first = error.args[0] if isinstance(error, LookupError) and error.args else None
    text = first if isinstance(first, str) else getattr(error, "on_command_line", str(error))
    said = " ".join(text.split()) or type(error).__name__
    return ", ".join([said, *getattr(error, "__notes__", ())])


class Progress:
    """A progress display on stderr: one live line on a terminal, otherwise one line per stage."""

    def __init__(self, title: str = "", *, quiet: bool = False) -> None:
        self._title = f"{title}: " if title else ""
        self._quiet = quiet
        self._live: Status | None = None
        self._stage = ""
        self._began = time.perf_counter()

    def __enter__(self) -> Progress:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console

            self._live = Console(stderr=True, highlight=False).status(f"{self._title}starting")
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, stage: str, detail: Any = None) -> None:
        """Show the beginning of a stage, or an event in the current one."""
        if self._quiet:
            return
        text = self._title + progress_line(stage, detail)
        if self._live is not None:
            self._live.update(text)
        elif stage != self._stage:
            print(f"[{time.perf_counter() - self._began:6.1f} s] {text}", file=sys.stderr, flush=True)
        self._stage = stage


def show_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", right: Iterable[int] = ()
) -> None:
    """Print a table on stdout.

    On a terminal the last column wraps; in a pipe or a file every row is one line.

    Args:
        headings: The column headings.
        rows: The rows, each with one cell per heading; cells are converted with ``str``.
        title: A line above the table, or an empty string for none.
        right: The indices of the columns that are aligned to the right.
    """
    table = [[str(cell) for cell in row] for row in rows]
    aligned = set(right)
    widths = [max(map(len, column)) for column in zip(headings, *table, strict=True)]
    left = sum(widths[:-1]) + 2 * (len(widths) - 1)
    live = sys.stdout.isatty()
    room = max(24, shutil.get_terminal_size().columns - left) if live else None

    def lines(row: Sequence[str]) -> str:
        cells = [
            c.rjust(w) if i in aligned else c.ljust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        start = "".join(cell + "  " for cell in cells[:-1])
        last = textwrap.wrap(row[-1], room) if room and len(row[-1]) > room else [cells[-1]]
        return "\n".join((start if i == 0 else " " * left) + part for i, part in enumerate(last)).rstrip()

    bold = functools.partial(typer.style, bold=True) if live else str
    if title:
        print(bold(title))
    print(bold(lines(headings)))
    for row in table:
        print(lines(row))


@dataclass(slots=True)
class Files:
    """The files of a result; ``written`` names those that were written so far.

    Every method raises UnwritableOutput if its file cannot be written. None stands for a file that was not
    asked for.
    """

    result: Result
    written: list[str] = field(default_factory=list)

    def model(self, path: Path | None) -> None:
        """Write the optimised model."""
        if path is not None:
            from workbench.frontends.model_file import is_taso_model

            writing(lambda: self.result.save(path))
            lacking = ", without weights: the format has none" if is_taso_model(path) else ""
            self.written.append(f"{path} ({path.stat().st_size / 2**20:.1f} MiB{lacking})")

    def json(self, path: Path | None, figures: Callable[[], Mapping[str, Any]]) -> None:
        """Write figures as JSON."""
        write_json(path, figures)
        if path is not None:
            self.written.append(str(path))

    def report(self, path: Path | None, title: str, floors: Floors | None = None) -> None:
        """Write the report as a page, with floors that are known already."""
        if path is not None:
            from workbench.faces.views.report import report_html

            write_text(path, report_html(self.result, title=title, floors=floors))
            self.written.append(str(path))
