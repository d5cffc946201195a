"""Reports of stored runs and studies: a notebook each, rendered from their files alone."""

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

from workbench.experiments.markdown import machines
from workbench.experiments.store import RECORD, load_record
from workbench.files import write_atomic

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from workbench.trace import Trace

#: What a report is called, in the folder of what it reports on.
REPORT: Final = "report.ipynb"
#: Bytes of a report; what is larger is no report but a data file.
LARGEST: Final = 1_000_000
#: Seconds that a cell of a report may take.
LIMIT: Final = 120
TRACES: Final = ("trace.parquet", "trace.jsonl")

_TEMPLATES: Final = Path(__file__).parent / "templates"


class ReportError(RuntimeError):
    """Say why there is no report."""


class Text(str):
    """Hold text that notebooks show as markdown."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Picture:
    """Hold a figure that notebooks show as PNG, whichever backend they have."""

    figure: Figure

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=96)
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class RunReport:
    """Hold a stored run and say what its report shows; without a trace the figures are missing."""

    folder: Path
    record: dict[str, Any]
    trace: Trace | None

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> RunReport:
        """Read a run; raise FileNotFoundError where none is stored, ValueError where it cannot be read."""
        from workbench.trace import Trace

        home = Path(folder)
        record = load_record(home)
        if record is None:
            raise FileNotFoundError(f"{home / RECORD}: no run is stored there")
        traces = [home / name for name in TRACES if (home / name).is_file()]
        return cls(home, record, Trace.load(traces[0]) if traces else None)

    @property
    def heading(self) -> Text:
        """Return the run's name, why it ended, and on which machine it was made."""
        record = self.record
        ended = f"**{record['row'].get('status', '')}**, ended by: {record.get('stop_reason') or 'nothing'}"
        command = record["provenance"].get("command")
        said = [
            f"## {record['name']}",
            f"{ended}; {record['wall_seconds']:.1f} s in all.",
            *machines([record]),
        ]
        return Text("\n\n".join([*said, *([f"Command: `{command}`"] if command else [])]))

    @property
    def row(self) -> pd.DataFrame:
        """Return the run's figures, a row each."""
        return _column(self.record["row"], "figure")

    @property
    def settings(self) -> pd.DataFrame:
        """Return the settings that the run's folder is named by, a row each."""
        return _column(_flat(self.record["config"]), "setting")

    @property
    def details(self) -> pd.DataFrame:
        """Return what the run found beside its figures: rules, operators or verdicts, as its kind has it."""
        import pandas as pd

        result = self.record.get("result", {})
        if "without" in result:
            return pd.DataFrame(result["without"])
        if "verdicts" in result:
            verdicts = pd.DataFrame(result["verdicts"].items(), columns=["rule", "verdict"])
            return verdicts.sort_values("verdict", kind="stable").reset_index(drop=True)
        if "operators_after" in result:
            before, after = (result[f"operators_{when}"] for when in ("before", "after"))
            forms = {"original": before, "optimised": after}
            if "operators_by_hand" in result:
                forms["by hand"] = result["operators_by_hand"]
            counts = pd.DataFrame(forms)
            return counts.fillna(0).astype(int)
        return _column(_flat(self.record.get("e_graph", {})), "e-graph")

    def draw(self) -> Picture | Text:
        """Return the figure of the run's trace, or why there is none."""
        from workbench import plots

        if self.trace is None:
            return Text("*The trace is not here: it is made again by running the study with `--force`.*")
        study, by = self.record["config"]["study"], self.record["row"].get("by")
        priced = "cost_before" in self.trace.meta and "cost_after" in self.trace.meta
        if study == "extraction" and any(step.cost is not None for step in self.trace):
            return _drawn(partial(plots.plot_gap, self.trace))
        if by == "saturation" and priced:
            return _drawn(partial(plots.plot_growth, self.trace), partial(plots.plot_cost_bars, self.trace))
        if by == "search" and priced:
            return _drawn(partial(plots.plot_cost_curve, self.trace))
        return Text("*The steps of such a run make no figure; the tables say what it found.*")


@dataclass(frozen=True, slots=True)
class StudyReport:
    """Hold a study's folder and say what its report shows."""

    folder: Path

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> StudyReport:
        """Return a study's report; raise FileNotFoundError where it has no tables."""
        home = Path(folder)
        if not (home / "table.md").is_file():
            raise FileNotFoundError(f"{home / 'table.md'}: no study has its tables there")
        return cls(home)

    @property
    def tables(self) -> Text:
        """Return the study's tables."""
        return Text((self.folder / "table.md").read_text(encoding="utf-8"))

    def draw(self) -> Picture | Text:
        """Return the study's figure: speed-up and seconds by network, and the trend where k_multi varies."""
        from workbench import plots
        from workbench.experiments.results import load

        frame = load(self.folder)
        if (frame["study"] == "branches").all():
            return self._branches(frame)
        if (frame["study"] == "deployment").all():
            return Text("*Such a study has no figure of its own; the tables say what it found.*")
        runs = frame[frame["speedup"].notna() & frame["by"].isin(["saturation", "search"])]
        if runs.empty:
            return Text("*Such a study has no figure of its own; the tables say what it found.*")
        if runs["k_multi"].nunique() > 2:
            from matplotlib.figure import Figure

            return Picture(plots.plot_k_multi_trends(runs, Figure(figsize=(10.0, 3.6), layout="constrained")))
        bars = runs["network"].nunique() * runs["method"].nunique()
        return _drawn(
            lambda ax: plots.plot_speedup(runs, ax),
            lambda ax: plots.plot_optimiser_time(runs, ax),
            stacked=bars > 12,
        )

    def _branches(self, frame: pd.DataFrame) -> Picture | Text:
        from workbench import plots
        from workbench.experiments.results import latency

        timed = latency(self.folder)
        draws: list[Callable[[Axes], object]] = [
            partial(plots.plot_latency, timed, target=str(target))
            for target, rows in timed.groupby("target", sort=False)
            if rows["speedup"].notna().any()
        ]
        larger = frame[frame["network"] != frame["family"]]
        if larger["seconds"].notna().any():
            draws.append(partial(plots.plot_scaling, larger))
        return _drawn(*draws, stacked=True) if draws else Text("*Nothing was timed.*")


def render_run(folder: Path) -> Path:
    """Write the report of a stored run into its folder and return it; raise :class:`ReportError`."""
    return _render("run", folder)


def render_study(folder: Path) -> Path:
    """Write the report of a study into its folder and return it; raise :class:`ReportError`."""
    return _render("study", folder)


def _render(template: str, folder: Path) -> Path:
    try:
        import papermill
    except ImportError as error:
        raise ReportError(
            "papermill is not installed: pip install 'tamago-workbench[notebook]', or --no-reports"
        ) from error
    with tempfile.TemporaryDirectory(prefix="workbench-") as scratch:
        output = Path(scratch) / REPORT
        try:
            papermill.execute_notebook(
                str(_TEMPLATES / f"{template}.ipynb"),
                str(output),
                # Seen from its own folder, so that the report can be moved and names no machine's paths.
                {"folder": "."},
                cwd=str(folder),
                progress_bar=False,
                store_widget_state=False,
                execution_timeout=LIMIT,
                extra_arguments=["--log-level=ERROR"],
            )
            notebook = json.loads(output.read_text(encoding="utf-8"))
        except Exception as error:  # whatever a kernel can die of; a report is never worth a run
            reason = getattr(error, "evalue", None) or str(error) or type(error).__name__
            raise ReportError(" ".join(str(reason).split())[:300]) from error
    notebook["metadata"].pop("papermill", None)
    for cell in notebook["cells"]:
        cell["metadata"].pop("papermill", None)
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    size = len(text.encode())
    if size > LARGEST:
        raise ReportError(f"it would have {size / 1e6:.1f} MB, more than {LARGEST / 1e6:g} MB")
    try:
        write_atomic(folder / REPORT, text)
    except OSError as error:
        raise ReportError(f"{folder / REPORT}: {error.strerror or error}") from error
    return folder / REPORT


def _drawn(*draws: Callable[[Axes], object], stacked: bool = False) -> Picture:
    """Return a picture of figures beside each other, or below each other where they need the width."""
    from matplotlib.figure import Figure

    from workbench.plots import paper_style

    rows, columns = (len(draws), 1) if stacked else (1, len(draws))
    with paper_style():
        figure = Figure(figsize=(11.0 if stacked else 6.4 * columns, 4.4 * rows), layout="constrained")
        for number, draw in enumerate(draws, 1):
            draw(figure.add_subplot(rows, columns, number))
    return Picture(figure)


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings with dotted names."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _column(data: Mapping[str, Any], name: str) -> pd.DataFrame:
    import pandas as pd

    known = {key: value for key, value in data.items() if value not in (None, "", [])}
    texts = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in known.values()]
    return pd.DataFrame({"": texts}, index=pd.Index(list(known), name=name))
