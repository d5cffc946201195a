"""Progress of a run: its stages, their seconds, and one line of text per stage, shown below a notebook's cell."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, ParamSpec, TypeVar

from workbench.support.formatting import thousands

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds between two updates of a notebook's line during a stage.
PAUSE: Final = 0.1


def progress_line(stage: str, detail: object = None) -> str:
    """Return the line of text for a call ``progress(stage, detail)``."""
    from workbench.run.trace import Step

    text = STAGES.get(stage, stage)
    if isinstance(detail, Step) and stage == "search":
        return f"{text}: {thousands(detail.e_nodes)} graphs found, {detail.note}"
    if isinstance(detail, Step):
        sizes = f"{thousands(detail.e_nodes)} e-nodes, {thousands(detail.e_classes)} e-classes"
        return f"{text}: iteration {detail.index}, {sizes}"
    return text if detail is None else f"{text}: {detail}"


class NotebookLine:
    """One line of output below a notebook's cell that names the current stage and disappears at the end.

    It is a single output that is updated, so that a notebook that is run without a browser (papermill,
    nbconvert) keeps only an empty output.
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._stage = ""
        self._shown = 0.0
        self._began = time.perf_counter()

    def __enter__(self) -> NotebookLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)

    def __call__(self, stage: str, detail: Any = None) -> None:
        """Show that a stage has begun, or a detail of it."""
        now = time.perf_counter()
        if stage == self._stage and now - self._shown < PAUSE:
            return
        self._stage, self._shown = stage, now
        data = {"text/plain": f"{progress_line(stage, detail)} ({now - self._began:.1f} s)"}
        if self._handle is None:
            self._handle = sys.modules["IPython"].display.display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def in_notebook() -> bool:
    """Return whether this code runs in a Jupyter kernel, without importing IPython."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


def seen_in_notebooks(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to show its progress in a notebook if it is called there without ``progress``."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if "progress" in kwargs or not in_notebook():
            return function(*args, **kwargs)
        with NotebookLine() as line:
            kwargs["progress"] = line
            return function(*args, **kwargs)

    return run


#: Called as ``progress(stage, detail)``: the stage's name, and a trace step or a short text.
Progress = Callable[[str, Any], None]

#: Every stage that is timed or reported, in the order of a run, with the words for people.
STAGES: Final = {
    "import": "reading the model",
    "engine": "starting the engine",
    "search": "searching",
    "saturation": "growing the e-graph",
    "snapshot": "reading the e-graph",
    "pricing": "pricing operators",
    "extraction": "extracting the cheapest graph",
    "timing": "timing models in alternation",
    "certificate": "checking the result against the original",
    "result": "collecting the figures of the result",
    "blame": "the check failed: looking for the rule to blame",
    "whole call": "the whole call in a process of its own",
    "export": "writing the result",
    "verification": "judging rules",
    "comparison": "comparing the models",
    "report": "writing the report",
}


class Stages:
    """The stages of one run: each is reported when it begins, and its seconds are summed by name.

    Every second of a run is in one stage: the sum over the stages is the time of the run.

    >>> stages = Stages()
    >>> with stages("import"):
    ...     pass
    >>> list(stages.ordered())
    ['import']
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        self._inner = [0.0]  # seconds of the stages inside each open stage, the whole run first

    def tell(self, stage: str, detail: object = None) -> None:
        """Report that a stage begins, or a detail of it."""
        if self._progress is not None:
            self._progress(stage, detail)

    @contextlib.contextmanager
    def __call__(self, stage: str, *, quiet: bool = False) -> Iterator[None]:
        """Report a stage unless it is ``quiet``, and add its seconds when it ends.

        The seconds of a stage inside another one count for the inner stage alone.
        """
        if not quiet:
            self.tell(stage)
        began = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            inner = self._inner.pop()
            self.add(stage, spent - inner)
            self._inner[-1] += inner

    def add(self, stage: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere, of the open stage if there is one."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        self._inner[-1] += seconds

    def ordered(self) -> dict[str, float]:
        """Return the seconds in the order of :data:`STAGES`."""
        return {stage: self.seconds[stage] for stage in STAGES if stage in self.seconds}
