"""Models in ONNX Runtime that are timed: loaded when they are first needed, with the kernels of their run.

The runtime fuses operators and folds constants before it runs a model. Two models of which it makes the same
kernels on the same shapes take the same time, even if their files differ.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.graph import Graph
from workbench.support.machine import microseconds
from workbench.support.mmap import give_back, kept_small

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession

    from workbench.frontends.onnx.file import Apart

#: Of models with weights of more bytes, one candidate is loaded at a time.
LARGE: Final = 1 << 26

#: Seconds of a run from which on a model that is loaded again is not run once more before it is timed.
LONG: Final = 1.0

#: How often each kernel runs, by its name and the types and shapes of its operands and results.
Kernels = Counter[str]

#: Return the inputs of all models, which are those that the given session takes.
Feeds = Callable[["InferenceSession"], Mapping[str, Any]]


class Loaded:
    """A model that is loaded when it is first needed; a call runs it once and returns microseconds.

    With one thread a run takes the processor time of that thread if it is shorter than the clock's, which
    leaves out the time that other processes take of the core.

    Args:
        given: The model.
        feeds: The inputs by name.
        threads: The number of threads; by default the runtime's own choice.
    """

    def __init__(self, given: Graph | ModelProto | Apart, feeds: Feeds, threads: int | None) -> None:
        self._given, self._feeds, self._threads = given, feeds, threads
        self._session: InferenceSession | None = None
        self._inputs: Mapping[str, Any] = {}
        self._kernels: Kernels | None = None
        self._long = False
        self.large = False

    @property
    def kernels(self) -> Kernels | None:
        """Return the kernels that a run executes, or None for a model with a loop."""
        if self._kernels is None:
            self.load()
        return self._kernels

    def unload(self) -> None:
        """Drop the session; it is loaded again when it is needed."""
        held = self._session is not None and self.large
        self._session, self._inputs = None, {}
        if held:
            give_back()

    def load(self) -> InferenceSession:
        """Return the model's session; load the model and run it once if that was not done.

        Raise RuntimeFailure if the runtime refuses the model or a loop does not end.
        """
        if self._session is None:
            self._session = self._loaded()
        return self._session

    def __call__(self) -> float:
        """Run the model once and return the microseconds that it took."""
        session = self.load()
        return microseconds(lambda: session.run(None, self._inputs), self._threads)

    def _loaded(self) -> InferenceSession:
        from workbench.frontends.onnx.file import weight_bytes
        from workbench.frontends.runtime import LOOP_SECONDS, may_not_end, run_session, session

        apart = _apart(self._given)
        weights = weight_bytes(apart.model) + sum(array.nbytes for array in apart.arrays.values())
        self.large = weights > LARGE
        known, endless = self._kernels is not None, may_not_end(apart.model)
        # Kernels make their own layout of most weights while the session is loaded and first run. The weights
        # that they read from the file itself come back with the next run.
        with tempfile.TemporaryDirectory(prefix="workbench-") as folder, kept_small():
            profile = None if endless or known else Path(folder) / "run"
            loaded = session(apart, threads=self._threads, spin=False, profile=profile)
            self._inputs = self._feeds(loaded)

            def recorded() -> None:
                self._kernels = _executed(loaded, self._inputs)

            if endless:
                run_session(loaded, self._inputs, seconds=LOOP_SECONDS)
            elif not known:
                self._long = microseconds(recorded, self._threads) > 1e6 * LONG
            elif not self._long:
                loaded.run(None, self._inputs)
        return loaded


def _executed(session: InferenceSession, inputs: Mapping[str, Any]) -> Kernels:
    """Run a session that records its run, end the record, and return the kernels in it."""
    try:
        session.run(None, inputs)
    finally:
        record = Path(session.end_profiling())  # no later run is recorded
    fields = ("op_name", "input_type_shape", "output_type_shape")
    return Counter(
        json.dumps([event["args"][field] for field in fields])
        for event in json.loads(record.read_text())
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    )


def _apart(given: Graph | ModelProto | Apart) -> Apart:
    """Return a model with its large weights apart, as it is if they are so already."""
    from workbench.frontends.onnx.exporter import to_onnx_apart
    from workbench.frontends.onnx.file import Apart, taken_apart

    if isinstance(given, Apart):
        return given
    return to_onnx_apart(given) if isinstance(given, Graph) else taken_apart(given)
