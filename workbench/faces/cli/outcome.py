"""The end of ``workbench optimize`` and ``workbench search``: files, the table of stages, the exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.faces.cli.console import FAILED, complain, show_table, stop
from workbench.faces.cli.options import write_json, writing
from workbench.run.trace import StopReason
from workbench.support.files import write_atomic

if TYPE_CHECKING:
    from workbench.optimizer.result import Result
    from workbench.optimizer.summary import Row


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
        if path is None:
            return
        from workbench.frontends.model_file import is_taso_model

        writing(lambda: self.result.save(path))
        lacking = ", without weights: the format has none" if is_taso_model(path) else ""
        self.written.append(f"{path} ({path.stat().st_size / 2**20:.1f} MiB{lacking})")

    def json(self, path: Path | None, figures: Callable[[], Mapping[str, Any]]) -> None:
        """Write figures as JSON."""
        write_json(path, figures)
        if path is not None:
            self.written.append(str(path))

    def report(self, path: Path | None, title: str) -> None:
        """Write the report as a page."""
        if path is None:
            return
        from workbench.faces.views.report import report_html

        page = report_html(self.result, title=title)
        writing(lambda: write_atomic(path, page))
        self.written.append(str(path))


def finish(result: Result, title: str, rows: Sequence[Row], *, interrupted: str, kept: bool) -> None:
    """Print the table of stages, then end the command with 1 if the certificate failed.

    Args:
        result: The result.
        title: The title of the table.
        rows: The stages.
        interrupted: The message if the run was interrupted.
        kept: Whether the original was written.
    """
    show_table(
        ("stage", "seconds", "figures"),
        [(r.what, "" if r.seconds is None else f"{r.seconds:.3f}", r.figures) for r in rows],
        title=title,
        right=[1],
    )
    if result.stop_reason is StopReason.INTERRUPTED:
        complain(interrupted)
    if result.certificate is not None and not result.certificate.passed:
        blamed = ", ".join(result.offending) or "no single rule"
        also = "; the original was written" if kept else ""
        stop(FAILED, f"the certificate failed ({blamed}): the original stays{also}")
