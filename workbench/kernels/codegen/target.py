"""The target ``c``: kernels in C for the clusters of a graph, ONNX Runtime for the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from workbench.certification.inputs import random_inputs
from workbench.costs.analytic import AnalyticCost
from workbench.costs.registry import cost_model
from workbench.graph import Graph, fold_constants
from workbench.kernels.codegen.c_expressions import NoKernel
from workbench.kernels.codegen.compiler import Build, build_from, compiler
from workbench.kernels.codegen.fusion import Beside
from workbench.kernels.codegen.partitioned import Mixed, plan_of
from workbench.kernels.codegen.tuning import timer
from workbench.support.machine import machine

if TYPE_CHECKING:
    from onnx import ModelProto


class CTarget:
    """Mixed programs on this machine; see :mod:`workbench.kernels.codegen.partitioned`.

    Args:
        threads: The number of threads of a kernel and of an operator; by default 1.
        build: The options of the compiler; by default those of the environment.
        cost: The prices of operators in ONNX Runtime, against which kernels are chosen.

    """

    def __init__(self, threads: int | None = None, *, build: Build | None = None, cost: str = "cpu") -> None:
        self.threads = threads or 1
        self.build = build_from() if build is None else build
        self.cost = cost_model(cost)
        compiler(self.build)

    @property
    def title(self) -> str:
        """Return one line on the programs and the device that run the models."""
        import onnxruntime as ort

        name = compiler(self.build).name
        count = f"{self.threads} thread{'s' if self.threads != 1 else ''}"
        flags = " ".join(self.build.flags)
        return f"kernels by {name} {flags}, ONNX Runtime {ort.__version__}, {machine()}, {count}"

    def check(self, graph: Graph) -> None:
        """Accept every graph: operators without a kernel run in ONNX Runtime."""

    def run(self, graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs for inputs by name, with every operator in a kernel that can be in one.

        Raise :class:`~workbench.kernels.codegen.c_expressions.NoKernel` if none can.
        """
        plan = plan_of(
            graph,
            AnalyticCost(),
            build=self.build,
            threads=self.threads,
            measure=lambda cluster: Beside(1.0, 0.0),
        )
        if not plan.clusters:
            names = ", ".join(sorted(fold_constants(graph).operators()))
            raise NoKernel(f"{names} has no kernel for these types, and runs in ONNX Runtime")
        return Mixed(plan, threads=self.threads, build=self.build).run(feeds)

    @contextlib.contextmanager
    def timers(self, models: Sequence[Graph | ModelProto], seed: int) -> Iterator[list[Callable[[], float]]]:
        """Load models as mixed programs; see :class:`workbench.devices.targets.Target`."""
        from workbench.frontends import load_onnx

        graphs = [m if isinstance(m, Graph) else load_onnx(m) for m in models]
        inputs = random_inputs(graphs[0], seed, 0)
        programs: dict[int, Mixed] = {}
        for graph in graphs:
            if id(graph) not in programs:
                plan = plan_of(graph, self.cost, threads=self.threads, build=self.build)
                programs[id(graph)] = Mixed(plan, threads=self.threads, build=self.build)
                programs[id(graph)].load(inputs)
        yield [timer(programs[id(g)], self.threads) for g in graphs]
