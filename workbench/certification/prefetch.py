"""Runs of an original that its certificate needs, made in the background while the engine works.

What the original computes does not depend on the result. The process that drives the engine waits for it most
of the time, so a small model runs then. The outcome is the same: whoever needs a run first makes it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

import numpy as np

from workbench.certification.end_to_end import Run, first_run, probe
from workbench.certification.region_check import work
from workbench.graph import Graph, evaluate
from workbench.ops import TensorType

T = TypeVar("T")

#: Operations, and elements of all values together, of the largest model that runs in the background.
MOST_WORK: Final = 1e9
MOST_ELEMENTS: Final = 1 << 25


class Once(Generic[T]):
    """A value that is computed once, by the first thread that asks for it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._turn = threading.Lock()
        self._found: list[T] = []

    def __call__(self) -> T:
        """Return the value; an exception of its computation is passed on, and the next call tries again."""
        with self._turn:
            if not self._found:
                self._found.append(self._make())
            return self._found[0]


class EarlyRuns:
    """The runs of an original, each made once: as it is saved, with inner values shown, and in float64.

    Args:
        original: The graph before rewriting.
        given: The model from which it was imported, or None.
        seed: The seed of the inputs.
    """

    def __init__(self, original: Graph, given: object = None, seed: int = 0) -> None:
        self.original = original
        # Holding the generated weights keeps them cached: each is generated once.
        self.generated: list[np.ndarray] = []
        self._probe = Once(lambda: probe(original, self._inner, seed=seed))
        self._first = Once(lambda: _run_of(given, original, seed))
        self._exact = Once(lambda: evaluate(original, self._inputs(), precise=True))
        constant = original.constant()
        self._inner = frozenset(
            i
            for i, node in enumerate(original.nodes)
            if not constant[i] and isinstance(node.type, TensorType)
        )
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the runs in the background, once, if the model is small."""
        if self._thread is None and small(self.original):
            # No daemon: the process must not end while native code of another thread runs.
            self._thread = threading.Thread(target=self._run, name="early runs")
            self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # the certificate repeats the run and meets the error itself
            self.generated = [w.value() for w in self.original.weights.values() if w.data is None]
            for run in (self._first, self._probe, self._exact):
                run()

    def _inputs(self) -> Mapping[str, np.ndarray]:
        first = self._first()
        return self._probe().inputs if first is None else first.inputs

    def first(self) -> Run | None:
        """Return the run of the given model, or None if no run was begun or none was given."""
        return None if self._thread is None else self._first()

    def probe(self, nodes: Iterable[int]) -> Run | None:
        """Return a run that records the ranges of these nodes, or None if no run does."""
        if self._thread is None:
            return None
        shown = {*self._inner, *self.original.output_ids, *self.original.inputs}
        return self._probe() if shown.issuperset(nodes) else None

    def exact(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray] | None:
        """Return the outputs in float64 on the inputs of the runs, or None for other inputs."""
        if self._thread is None or inputs is not self._inputs():
            return None
        return self._exact()


def _run_of(given: object, original: Graph, seed: int) -> Run | None:
    """Run a given model; return None if there is none, or if it cannot be read or the runtime refuses it."""
    from workbench.frontends.onnx.file import ModelError
    from workbench.frontends.onnx.sessions import shared_session
    from workbench.frontends.runtime import RuntimeFailure

    if given is None:
        return None
    try:
        return first_run(shared_session(given, optimise=False, arena=False), original, seed)
    except (RuntimeFailure, ModelError, OSError):
        return None


def small(graph: Graph) -> bool:
    """Return whether a graph is small enough to run in the background, and ends for certain."""
    if graph.opaques or (graph.info is not None and graph.info.tail):
        return False
    elements = sum(n.type.elements for n in graph.nodes if isinstance(n.type, TensorType))
    return elements <= MOST_ELEMENTS and work(graph) <= MOST_WORK
