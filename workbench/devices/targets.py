"""Targets that run and time optimised graphs: ONNX Runtime, torch and others, on the CPU or a GPU.

ONNX Runtime fuses operators and folds constants before it runs a model. Two models of which it makes the same
kernels on the same shapes take the same time, even if their files differ.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from workbench.graph import Graph
from workbench.support.machine import microseconds
from workbench.support.mmap import give_back, kept_small
from workbench.support.plugins import Named, naming
from workbench.support.wings import offered

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession

    from workbench.frontends.onnx.file import Apart


#: The targets that are built in.
NAMES: Final = (
    "onnxruntime",
    "torch",
    "torch+compile",
    "torch:cuda",
    "torch:cuda+graph",
    "torch:cuda+compile",
    "torch:cuda+compile+graph",
    "onnxruntime:cuda",
    "onnxruntime:cuda+graph",
    "c",
    "openvino",
    "ncnn",
)

#: ``(the model as a ModelProto, its inputs by name) -> a function without arguments that runs it once``.
Load = Callable[["ModelProto", dict[str, np.ndarray]], Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Loading:
    """A target that is a function: it loads a model and returns a function that runs it once."""

    title: str
    load: Load

    def check(self, graph: Graph) -> None:
        """Accept every graph: the function reports unsupported ones when it loads them."""

    @contextlib.contextmanager
    def timers(self, models: Sequence[Any], seed: int) -> Iterator[list[Callable[[], float]]]:
        """Load models; a timer runs its model once, after one run to warm up, and returns µs."""
        from workbench.certification.inputs import random_inputs
        from workbench.frontends import load_onnx, to_onnx

        inputs = random_inputs(models[0] if isinstance(models[0], Graph) else load_onnx(models[0]), seed, 0)
        with naming(f"the target {self.title!r}"):
            runs = [self.load(to_onnx(m) if isinstance(m, Graph) else m, inputs) for m in models]
        for run in runs:
            if not callable(run):
                raise TypeError(
                    f"the target {self.title!r} must return a function that runs the model, got {run!r}"
                )
            with naming(f"the target {self.title!r}"):
                run()
        yield [partial(microseconds, run) for run in runs]


class Target(Protocol):
    """A program that runs models and times them."""

    @property
    def title(self) -> str:
        """Return one line on the program and the device that run the models."""

    def check(self, graph: Graph) -> None:
        """Raise an error with the reason if the target cannot run a graph."""

    def timers(
        self, models: Sequence[Graph | ModelProto], seed: int
    ) -> contextlib.AbstractContextManager[Sequence[Callable[[], float]]]:
        """Return a timer for each model: a call runs it once, on inputs that all share, and returns µs."""


def checked_target(count: int, given: str | Target | Load) -> Target:
    """Return the target on which ``count`` candidates are timed; raise ValueError if ``count`` is below 1."""
    if count < 1:
        raise ValueError(f"measure, the number of candidates to time, must be 0 or more, got {count}")
    return target(given)


@dataclass(frozen=True, slots=True)
class OnnxRuntime:
    """ONNX Runtime on the CPU, with its own graph optimisations on.

    ``shapes`` are the shapes of inputs by name, for models that leave some dimensions open; ``inputs`` are the
    inputs themselves. See :class:`Loaded` for the clock.
    """

    threads: int | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Return one line on the program and the device that run the models."""
        import onnxruntime as ort

        cores = f"{self.threads} thread{'s' if self.threads != 1 else ''}" if self.threads else "all cores"
        return f"ONNX Runtime {ort.__version__}, CPU, {cores}, its optimiser on"

    def check(self, graph: Graph) -> None:
        """Accept every graph: ONNX Runtime reports unsupported graphs when it loads them."""

    @contextlib.contextmanager
    def timers(self, models: Sequence[Graph | ModelProto | Apart], seed: int) -> Iterator[list[Loaded]]:
        """Return timers that load models when needed; they raise RuntimeFailure if one is refused or does not end."""
        from workbench.devices.timing import random_feeds

        drawn: dict[str, Any] = {}

        def feeds(session: InferenceSession) -> Mapping[str, Any]:
            if not drawn:
                drawn.update(self.inputs or random_feeds(session, seed, self.shapes))
            return drawn

        timers = [Loaded(given, feeds, self.threads) for given in models]
        try:
            yield timers
        finally:
            for timer in timers:
                timer.unload()


class _Targets(Named[Any]):
    """The targets by name.

    A user's own is a class of :class:`Target`, or a function ``(model, inputs)`` that loads an
    ``onnx.ModelProto`` and returns a function without arguments that runs it once on these inputs;
    ``measure_on=`` and ``--measure-on`` then know its name.
    """

    def __call__(
        self, name: str | Target | Load, *, threads: int | None = None, tf32: bool = False
    ) -> Target:
        """Return a target by name: ``onnxruntime`` or ``torch`` with a device and a mode, or a registered one.

        A target is returned as it is, and a function that loads models becomes one. ``torch:cuda+graph`` is torch on
        a CUDA device, as CUDA graphs; ``tf32`` lets products round to 10 bits there. ``c`` runs clusters of operators
        as kernels in C and the rest in ONNX Runtime; it raises CompilerMissing without a compiler. ``openvino`` and
        ``ncnn`` run whole models, in float32. ``threads`` limits the threads of an operator on the CPU. Raise
        :class:`~workbench.support.messages.UnknownName`, with the nearest name, for an unknown name, and
        :class:`~workbench.devices.device.DeviceMissing` if torch or the device is not available.
        """
        if not isinstance(name, str):
            return _target(name, getattr(name, "__name__", type(name).__name__))
        if name == "onnxruntime":
            return OnnxRuntime(threads)
        where, _, way = name.partition("+")
        kind, _, device = where.partition(":")
        graph, compiled = way.endswith("graph"), way.startswith("compile")
        if kind == "torch" and way in (("", "compile") + (("graph", "compile+graph") if device else ())):
            how = {"graph": graph, "compile": compiled, "tf32": tf32}
            return offered("torch_target")(device or "cpu", **how, threads=threads)
        if kind == "onnxruntime" and re.fullmatch(r"cuda(:\d+)?", device) and way in ("", "graph"):
            from workbench.devices.cuda_runtime import OnnxRuntimeOnCuda

            return OnnxRuntimeOnCuda(int(device[5:] or 0), graph, tf32)
        if name == "c":
            return offered("c_target")(threads)
        if name in ("openvino", "ncnn"):
            return offered("runtime_target")(name, threads)
        own = self.find(name)
        if own is None:
            raise self.unknown(name)
        return _target(own, name)


def _target(given: Any, name: str) -> Target:
    """Return what a user gave or registered as a target, of which a class is called; raise TypeError if it is none."""
    made = given() if isinstance(given, type) else given
    if hasattr(made, "timers"):
        return made
    if callable(made):
        return Loading(name, made)
    raise TypeError(f"the target {name!r} must be a function or have a method timers, got {made!r}")


#: Return a target by name: ``target("onnxruntime")``.
target: Final = _Targets("target", "workbench.targets", "workbench.devices.targets:target", lambda: NAMES)


# -- models in ONNX Runtime that are timed ---------------------------------------------------------------
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
    leaves out the time that other processes take of the core. By default the runtime chooses ``threads``.
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
        """Return the session, loaded and run once; raise RuntimeFailure if it is refused or a loop does not end."""
        if self._session is None:
            self._session = self._loaded()
        return self._session

    def __call__(self) -> float:
        """Run the model once and return the microseconds that it took."""
        session = self.load()
        return microseconds(lambda: session.run(None, self._inputs), self._threads)

    def _loaded(self) -> InferenceSession:
        from workbench.frontends.onnx.exporter import model_apart
        from workbench.frontends.onnx.file import weight_bytes
        from workbench.frontends.runtime import LOOP_SECONDS, may_not_end, run_session, session

        apart = model_apart(self._given)
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
