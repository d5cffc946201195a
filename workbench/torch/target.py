"""Torch as a target: graphs run and timed on a device call by call, as CUDA graphs, or by torch.compile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.devices.device import open_device
from workbench.graph import Graph
from workbench.torch.executor import Program, Skipped, check_executable, compiled, draw_inputs, run_graph

if TYPE_CHECKING:
    from onnx import ModelProto


class Torch:
    """Torch on a device: graphs run call by call, as recorded CUDA graphs, or compiled by torch.compile.

    Raise :class:`~workbench.devices.device.DeviceMissing` if torch or the device is not available.

    Args:
        device: The name of the device, such as ``"cpu"`` or ``"cuda"``.
        graph: Whether a graph runs as one recorded CUDA graph.
        compile: Whether graphs are compiled by ``torch.compile``.
        threads: The number of threads on the CPU; by default torch's own choice.
    """

    def __init__(
        self, device: str = "cpu", *, graph: bool = False, compile: bool = False, threads: int | None = None
    ) -> None:
        self.device = open_device(device, threads=threads)
        self.graph, self.compile, self.patterns = graph, compile, True
        if graph and not self.device.cuda:
            raise ValueError(f"CUDA graphs need a CUDA device, got {device}")

    @property
    def title(self) -> str:
        """Return one line on the program and the device that run the models."""
        how = ", as a CUDA graph" if self.graph else ", torch.compile" if self.compile else ""
        return f"{self.device.title}{how}" + ("" if self.patterns else " without its patterns")

    def check(self, graph: Graph) -> None:
        """Raise :class:`~workbench.torch.executor.NotExecutable` if an operator has no torch form."""
        check_executable(graph)

    def run(self, graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs for inputs by name; raise NotExecutable if an operator has no torch form."""
        return run_graph(graph, feeds, self.device)

    @contextlib.contextmanager
    def timers(self, models: Sequence[Graph | ModelProto], seed: int) -> Iterator[list[Callable[[], float]]]:
        """Load graphs; see :class:`Target`.

        If torch's compiler fails on one, all are compiled without its patterns, which the title says then.
        Raise :class:`~workbench.torch.executor.Skipped` if that fails too.
        """
        from workbench.frontends import load_onnx

        graphs = [m if isinstance(m, Graph) else load_onnx(m) for m in models]
        with self.device.settings():
            inputs = draw_inputs(graphs[0], self.device, seed)
            runs = self._all_loaded(graphs, inputs)
            yield [self.device.timer(run) for run in runs]

    def _all_loaded(self, graphs: Sequence[Graph], inputs: Sequence[Any]) -> list[Callable[[], object]]:
        for self.patterns in (True, False):  # one of the patterns may have matched what it cannot replace
            try:
                return [self._loaded(g, inputs) for g in graphs]
            except Skipped as error:
                skipped = error
        self.patterns = True
        raise skipped

    def _loaded(self, graph: Graph, inputs: Sequence[Any]) -> Callable[[], object]:
        if self.compile:
            return compiled(graph, inputs, self.device, patterns=self.patterns)
        return Program(graph, self.device).bound(inputs, graph=self.graph)
