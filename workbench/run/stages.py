"""The stages of a run: their names in order, their texts for people, and their seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

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
    "measuring": "timing the best results against the original",
    "certificate": "checking the result against the original",
    "blame": "the check failed: looking for the rule to blame",
    "whole call": "the whole call in a process of its own",
    "export": "writing the result",
    "verification": "judging rules",
    "comparison": "comparing the models",
    "timing": "timing both models in alternation",
    "report": "writing the report",
}


class Stages:
    """The stages of one run: each is reported when it begins, and its seconds are summed by name.

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
            self.add(stage, spent - self._inner.pop())
            self._inner[-1] += spent

    def add(self, stage: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def ordered(self) -> dict[str, float]:
        """Return the seconds in the order of :data:`STAGES`."""
        return {stage: self.seconds[stage] for stage in STAGES if stage in self.seconds}
