"""Targets of the user's own: a class of targets, or a function that loads a model."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.graph import Graph
from workbench.support.plugins import Named

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.devices.targets import Target

#: The targets that are built in.
NAMES: Final = (
    "onnxruntime",
    "torch",
    "torch+compile",
    "torch:cuda",
    "torch:cuda+graph",
    "torch:cuda+compile",
)

#: Targets of other floors of the package, by name: the module and the class, which takes ``threads``.
PLUGGED: Final = {"c": "workbench.kernels.codegen.partitioned:CTarget"}

#: ``(the model as a ModelProto, its inputs by name) -> a function without arguments that runs it once``.
Load = Callable[["ModelProto", dict[str, np.ndarray]], Callable[[], object]]

OWN: Final = Named[Any](
    "target", "workbench.targets", "workbench.devices.plugins:OWN", lambda: (*NAMES, *PLUGGED)
)


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
        runs = [self.load(to_onnx(m) if isinstance(m, Graph) else m, inputs) for m in models]
        for run in runs:
            run()
        yield [_timer(run) for run in runs]


def _timer(run: Callable[[], object]) -> Callable[[], float]:
    def timed() -> float:
        began = time.perf_counter_ns()
        run()
        return (time.perf_counter_ns() - began) / 1000

    return timed


def plugged_target(name: str, threads: int | None) -> Target | None:
    """Return the target of another floor of the package that has this name, or None."""
    if name not in PLUGGED:
        return None
    module, _, made = PLUGGED[name].partition(":")
    return getattr(import_module(module), made)(threads)


def own_target(name: str) -> Target | None:
    """Return the user's target of this name, or None; raise TypeError if it is something else.

    A class is called without arguments. An object with a method ``timers`` is a target
    (:class:`workbench.devices.targets.Target`), any other function loads models (:data:`Load`).
    """
    found = OWN.find(name)
    made = found() if isinstance(found, type) else found
    if made is None or hasattr(made, "timers"):
        return made
    if callable(made):
        return Loading(name, made)
    raise TypeError(f"the target {name!r} must be a function or have a method timers, got {made!r}")
