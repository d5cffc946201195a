"""What optimised graphs are run by, and timed on: ONNX Runtime on the CPU, or torch on a device."""

from __future__ import annotations

import contextlib
import difflib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from workbench.devices.device import open_device
from workbench.devices.executor import Program, check_executable
from workbench.devices.latency import compiled, draw_inputs
from workbench.graph import Graph

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.frontends.onnx_mapped import Apart

NAMES = (
    "onnxruntime",
    "torch",
    "torch+compile",
    "torch:cuda",
    "torch:cuda+graph",
    "torch:cuda+compile",
)


#: Weights of more bytes are loaded once, however often a model is given.
LARGE: Final = 1 << 25


class UnknownTarget(LookupError):
    """Say which targets there are, and which is nearest to the one asked for."""


class Target(Protocol):
    """Run models and say how long they took."""

    @property
    def title(self) -> str:
        """Say in one line what runs the models."""
        ...

    def check(self, graph: Graph) -> None:
        """Raise an error that says why where the target cannot run a graph."""
        ...

    def timers(
        self, models: Sequence[Graph | ModelProto], seed: int
    ) -> contextlib.AbstractContextManager[list[Callable[[], float]]]:
        """Load models; each timer runs one once, on inputs that all share, and returns microseconds."""
        ...


def checked_target(count: int, given: str | Target) -> Target:
    """Return what so many candidates are to be timed on; raise ValueError where they are fewer than one."""
    if count < 1:
        raise ValueError(f"measure is how many candidates are timed, 0 or more, not {count}")
    return target(given) if isinstance(given, str) else given


class OnnxRuntime:
    """Run models in ONNX Runtime on the CPU, its own graph optimisations on.

    With one thread a run takes the processor time of that thread where it is shorter than the clock's,
    which leaves out what other processes take of the core. ``shapes`` are those of inputs by name, for
    models that leave some open.
    """

    def __init__(self, threads: int | None = None, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        self.threads, self.shapes = threads, dict(shapes or {})

    def at(self, shapes: Mapping[str, Sequence[int]]) -> OnnxRuntime:
        """Return the same for models with symbolic dimensions, whose inputs then have these shapes."""
        return OnnxRuntime(self.threads, shapes)

    @property
    def title(self) -> str:
        """Say in one line what runs the models."""
        from workbench.timing import executor

        return executor(self.threads, True)

    def check(self, graph: Graph) -> None:
        """Accept every graph: what ONNX Runtime refuses, it refuses when it loads it."""

    @contextlib.contextmanager
    def timers(
        self, models: Sequence[Graph | ModelProto | Apart], seed: int
    ) -> Iterator[list[Callable[[], float]]]:
        """Load models; see :class:`Target`. Raise RuntimeFailure if one is refused or does not end."""
        from workbench.frontends.onnx_clean import copied
        from workbench.frontends.onnx_shared import shared_session
        from workbench.frontends.runtime import LOOP_SECONDS, may_not_end, run_session
        from workbench.timing import random_feeds

        endless = False
        loaded_by: dict[int, Any] = {}
        sessions = []
        for given in models:
            # A second copy of a large model is the first: each session holds all weights in memory.
            again = loaded_by.get(id(given))
            if again is None:
                apart = _apart(given)
                model = copied(apart.model)  # loading changes it
                endless = endless or may_not_end(model)
                again = shared_session(model, apart.arrays, threads=self.threads, spin=False, prepack=True)
                if _weights(apart) > LARGE:
                    loaded_by[id(given)] = again
            sessions.append(again)
        feeds = random_feeds(sessions[0], seed, self.shapes)
        if endless:
            run_session(sessions[0], feeds, seconds=LOOP_SECONDS)

        def timed(run: Callable[[], object]) -> float:
            own, began = time.thread_time_ns(), time.perf_counter_ns()
            run()
            taken = time.perf_counter_ns() - began
            if self.threads == 1:
                taken = min(taken, time.thread_time_ns() - own)
            return taken / 1e3

        yield [partial(timed, partial(loaded.run, None, feeds)) for loaded in sessions]


def _apart(given: Graph | ModelProto | Apart) -> Apart:
    """Return a model with its large weights apart, where they are so already."""
    from workbench.frontends.onnx_export import to_onnx_apart
    from workbench.frontends.onnx_mapped import Apart

    if isinstance(given, Apart):
        return given
    return to_onnx_apart(given) if isinstance(given, Graph) else Apart(given, {})


def _weights(apart: Apart) -> int:
    from workbench.frontends.onnx_file import weight_bytes

    return weight_bytes(apart.model) + sum(array.nbytes for array in apart.arrays.values())


class Torch:
    """Run graphs in torch on a device: call by call, as recorded CUDA graphs, or as torch.compile makes them.

    Raise :class:`~workbench.devices.device.DeviceMissing` where torch or the device is not there.
    """

    def __init__(
        self, device: str = "cpu", *, graph: bool = False, compile: bool = False, threads: int | None = None
    ) -> None:
        self.device = open_device(device, threads=threads)
        self.graph, self.compile = graph, compile
        if graph and not self.device.cuda:
            raise ValueError(f"CUDA graphs need a CUDA device, not {device}")

    @property
    def title(self) -> str:
        """Say in one line what runs the models."""
        how = ", as a CUDA graph" if self.graph else ", torch.compile" if self.compile else ""
        return f"{self.device.title}{how}"

    def check(self, graph: Graph) -> None:
        """Raise :class:`~workbench.devices.executor.NotExecutable` where an operator has no torch form."""
        check_executable(graph)

    @contextlib.contextmanager
    def timers(self, models: Sequence[Graph | ModelProto], seed: int) -> Iterator[list[Callable[[], float]]]:
        """Load graphs; see :class:`Target`.

        Raise :class:`~workbench.devices.latency.Skipped` where torch cannot compile one.
        """
        from workbench.frontends import load_onnx

        graphs = [m if isinstance(m, Graph) else load_onnx(m) for m in models]
        with self.device.settings():
            inputs = draw_inputs(graphs[0], self.device, seed)
            runs = [self._loaded(g, inputs) for g in graphs]
            yield [partial(self.device.time, run, self._times(run)) for run in runs]

    def _loaded(self, graph: Graph, inputs: Sequence[Any]) -> Callable[[], object]:
        if self.compile:
            return compiled(graph, inputs, self.device)
        return Program(graph, self.device).bound(inputs, graph=self.graph)

    def _times(self, run: Callable[[], object]) -> int:
        """Return how often a model runs in one sample: on a GPU for two milliseconds."""
        run()
        if not self.device.cuda:
            return 1
        return max(1, min(100, math.ceil(2000 / max(1.0, self.device.time(run, 3)))))


def target(name: str, *, threads: int | None = None) -> Target:
    """Return a target by name: ``onnxruntime``, or ``torch`` with a device and a way, ``torch:cuda+graph``.

    ``threads`` bounds the threads of an operator on the CPU. Raise :class:`UnknownTarget` with the nearest
    name, and :class:`~workbench.devices.device.DeviceMissing` where torch or the device is not there.
    """
    if name == "onnxruntime":
        return OnnxRuntime(threads)
    where, _, way = name.partition("+")
    kind, _, device = where.partition(":")
    if kind == "torch" and (way in ("", "compile") or (way == "graph" and device)):
        return Torch(device or "cpu", graph=way == "graph", compile=way == "compile", threads=threads)
    near = difflib.get_close_matches(name, NAMES, 1) or [n for n in NAMES if name and name in n][:1]
    hint = f"; did you mean {near[0]}?" if near else "."
    raise UnknownTarget(f"no target is called {name!r}{hint} There are: {', '.join(NAMES)}")
