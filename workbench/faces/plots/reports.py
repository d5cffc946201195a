"""Reports of stored runs and studies: one notebook each, rendered from their files alone."""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.faces import plots
from workbench.run.trace import Trace
from workbench.studies.experiments.results import latency, latency_frame, load
from workbench.studies.experiments.store import RECORD, TRACE, load_record
from workbench.studies.experiments.tables import machines
from workbench.support.files import write_atomic
from workbench.support.messages import one_line

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The name of a report, in the folder of its run or study.
REPORT: Final = "report.ipynb"
#: Limit on the bytes of a report: larger files belong to the data, not to the reports.
LARGEST: Final = 1_000_000
#: Limit in seconds on a cell of a report.
LIMIT: Final = 120
_TEMPLATES: Final = Path(__file__).parent / "templates"


class ReportError(RuntimeError):
    """Raised when a report cannot be made; the message is the reason."""


class Text(str):
    """A text that notebooks show as markdown."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure that notebooks show as PNG with any matplotlib backend."""

    figure: Figure

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=96)
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class RunReport:
    """The contents of a stored run's report; no figure without a trace."""

    folder: Path
    record: dict[str, Any]
    trace: Trace | None

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> RunReport:
        """Read a run; raise FileNotFoundError if none is stored, and ValueError if it cannot be read."""
        home = Path(folder)
        record = load_record(home)
        if record is None:
            raise FileNotFoundError(f"{home / RECORD}: no run is stored there")
        trace = home / TRACE
        return cls(home, record, Trace.load(trace) if trace.is_file() else None)

    @property
    def heading(self) -> Text:
        """Return the run's name, the reason for its end, and the machine that made it."""
        record = self.record
        ended = f"**{record['row'].get('status', '')}**, ended by: {record.get('stop_reason') or 'nothing'}"
        said = [f"## {record['name']}", f"{ended}; {record['wall_seconds']:.1f} s in total."]
        said += machines([record])
        if command := record["provenance"].get("command"):
            said.append(f"Command: `{command}`")
        return Text("\n\n".join(said))

    @property
    def row(self) -> pd.DataFrame:
        """Return the run's figures, one row per figure."""
        return _column(self.record["row"], "figure")

    @property
    def settings(self) -> pd.DataFrame:
        """Return the settings whose digest names the run's folder, one row per setting."""
        return _column(self.record["config"], "setting")

    @property
    def details(self) -> pd.DataFrame:
        """Return rules left out, verdicts, kernels, counts of operators, timings, or the figures of the e-graph."""
        import pandas as pd

        study, result = self.record["config"]["study"], self.record.get("result", {})
        if study == "extraction" or not result:
            return _column(self.record.get("e_graph", {}), "e-graph")
        if study == "ablation":
            return pd.DataFrame(result["without"])
        if study == "verification":
            verdicts = pd.DataFrame(result["verdicts"].items(), columns=["rule", "verdict"])
            return verdicts.sort_values("verdict", kind="stable", ignore_index=True)
        if study == "synthesis":
            laws = pd.DataFrame.from_dict(result["laws"], "index", columns=["verdict", "equation"])
            return laws.rename_axis("law").reset_index()[["law", "equation", "verdict"]]
        if study == "kernels":
            return pd.DataFrame({"operators": map(", ".join, result["clusters"])}).rename_axis("kernel")
        if "operators_before" not in result:
            timed = latency_frame([self.record])[["target", "form", "median", "speedup", "skipped"]]
            return timed if len(timed) else _column(result, "result")
        forms = {"original": "before", "optimised": "after", "by hand": "by_hand"}
        found = {k: result[f"operators_{v}"] for k, v in forms.items() if f"operators_{v}" in result}
        return pd.DataFrame(found).fillna(0).astype(int)

    def draw(self) -> Picture | Text:
        """Return the figure of the run's trace, or a text with the reason why there is none."""
        if self.trace is None:
            return Text("*The trace is missing; running the study with `--force` makes it again.*")
        study, by = self.record["config"]["study"], self.record["row"].get("by")
        priced = "cost_before" in self.trace.meta and "cost_after" in self.trace.meta
        if study == "extraction" and any(step.cost is not None for step in self.trace):
            return _drawn(partial(plots.plot_gap, self.trace))
        if by == "saturation" and priced:
            return _drawn(partial(plots.plot_growth, self.trace), partial(plots.plot_cost_bars, self.trace))
        if by == "search" and priced:
            return _drawn(partial(plots.plot_cost_curve, self.trace))
        return Text("*The steps of such a run have no figure; the tables have its results.*")


@dataclass(frozen=True, slots=True)
class StudyReport:
    """The contents of a study's report, from the study's folder."""

    folder: Path

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> StudyReport:
        """Return a study's report; raise FileNotFoundError if the folder has no tables."""
        home = Path(folder)
        if not (home / "table.md").is_file():
            raise FileNotFoundError(f"{home / 'table.md'}: no tables of a study here")
        return cls(home)

    @property
    def tables(self) -> Text:
        """Return the study's tables."""
        return Text((self.folder / "table.md").read_text(encoding="utf-8"))

    def draw(self) -> Picture | Text:
        """Return the study's figure, or a text if its kind has none.

        Timed networks have their latencies and scaling; other studies have the trend over ``k_multi`` if it
        takes more than two values, and otherwise speed-up and seconds by network.
        """
        frame = load(self.folder)
        if frame["study"].isin(["branches", "latency"]).all():
            return self._timed(frame)
        runs = frame[frame["speedup"].notna() & frame["by"].isin(["saturation", "search"])]
        if frame["study"].isin(["deployment", "kernels"]).all() or runs.empty:
            return Text("*Such a study has no figure; the tables have its results.*")
        if runs["k_multi"].nunique() > 2:
            from matplotlib.figure import Figure

            return Picture(plots.plot_k_multi_trends(runs, Figure(figsize=(10.0, 3.6), layout="constrained")))
        bars = runs["network"].nunique() * runs["method"].nunique()
        draws = partial(plots.plot_speedup, runs), partial(plots.plot_optimiser_time, runs)
        return _drawn(*draws, stacked=bars > 12)

    def _timed(self, frame: pd.DataFrame) -> Picture | Text:
        timed = latency(self.folder)
        draws: list[Callable[[Axes], object]] = [
            partial(plots.plot_latency, timed, target=str(target))
            for target, rows in timed.groupby("target", sort=False)
            if rows["speedup"].notna().any()
        ]
        larger = frame[frame["blocks"].notna() & (frame["network"] != frame["family"])]
        if larger["seconds"].notna().any():
            draws.append(partial(plots.plot_scaling, larger))
        return _drawn(*draws, stacked=True) if draws else Text("*Nothing was timed.*")


def render(kind: str, folder: Path) -> Path:
    """Write the report of a stored ``run`` or a ``study`` into its folder and return it; raise ReportError."""
    try:
        import papermill
    except ImportError as error:
        raise ReportError(
            "papermill is not installed: pip install 'tamago-workbench[notebook]', or use --no-reports"
        ) from error
    with tempfile.TemporaryDirectory(prefix="workbench-") as scratch:
        output = Path(scratch) / REPORT
        try:
            papermill.execute_notebook(
                str(_TEMPLATES / f"{kind}.ipynb"),
                str(output),
                # The path is relative, so that the report can be moved and contains no machine's paths.
                {"folder": "."},
                cwd=str(folder),
                progress_bar=False,
                store_widget_state=False,
                execution_timeout=LIMIT,
                extra_arguments=["--log-level=ERROR"],
            )
            notebook = json.loads(output.read_text(encoding="utf-8"))
        except Exception as error:  # a kernel can fail in any way, and a report must never end a sweep
            reason = getattr(error, "evalue", None) or str(error) or type(error).__name__
            raise ReportError(one_line(reason, 300)) from error
    notebook["metadata"].pop("papermill", None)
    for cell in notebook["cells"]:
        cell["metadata"].pop("papermill", None)
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    size = len(text.encode())
    if size > LARGEST:
        raise ReportError(f"the report must have at most {LARGEST / 1e6:g} MB, got {size / 1e6:.1f} MB")
    try:
        write_atomic(folder / REPORT, text)
    except OSError as error:
        raise ReportError(f"{folder / REPORT}: {error.strerror or error}") from error
    return folder / REPORT


def _drawn(*draws: Callable[[Axes], object], stacked: bool = False) -> Picture:
    """Return a picture of plots next to each other, or below each other if ``stacked``."""
    from matplotlib.figure import Figure

    rows, columns = (len(draws), 1) if stacked else (1, len(draws))
    with plots.paper_style():
        figure = Figure(figsize=(11.0 if stacked else 6.4 * columns, 4.4 * rows), layout="constrained")
        for number, draw in enumerate(draws, 1):
            draw(figure.add_subplot(rows, columns, number))
    return Picture(figure)


def _column(data: Mapping[str, Any], name: str) -> pd.DataFrame:
    """Return data as texts, one row each; nested ones have dotted names, and empty ones are left out."""
    import pandas as pd

    flat = pd.json_normalize(dict(data)).to_dict("records")[0] if data else {}
    known = {str(key): value for key, value in flat.items() if value not in (None, "", [], {})}
    texts = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in known.values()]
    return pd.DataFrame({"": texts}, index=pd.Index(list(known), name=name))
