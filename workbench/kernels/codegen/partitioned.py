"""Mixed programs: ONNX Runtime runs a graph in which kernels in C stand for clusters of operators.

The kernels are operators of the runtime (:mod:`workbench.kernels.codegen.custom_ops`), so that all runs in one
session.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workbench.certification.inputs import random_inputs
from workbench.costs import CostModel, node_costs
from workbench.costs.registry import cost_model
from workbench.egraph import EGraph
from workbench.graph import Builder, Graph, GraphError, fold_constants
from workbench.kernels.codegen import fusion
from workbench.kernels.codegen.clusters import Cluster
from workbench.kernels.codegen.compiler import Build, build_from, compiler
from workbench.kernels.codegen.custom_ops import DOMAIN, Operator, library_of, operator, payload
from workbench.ops import TensorType
from workbench.support.files import write_atomic
from workbench.support.machine import machine, microseconds

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.frontends.model import SymbolTable


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A graph in which some operators are kernels.

    ``source`` is the graph without kernels, which is certified, and ``graph`` the graph with them:
    opaque operators of the domain ``workbench.kernels``. ``operators`` are its kernels in their order.
    ``generic`` is the graph with generic extents, and ``table`` their symbols, if the program serves any number of
    images.
    """

    source: Graph
    graph: Graph
    operators: tuple[Operator, ...]
    generic: Graph | None = None
    table: SymbolTable | None = None

    @property
    def memory(self) -> int:
        """Return the bytes of weights that kernels transform and keep."""
        return sum(op.memory for op in self.operators)

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """Return the clusters that kernels run."""
        return tuple(op.cluster for op in self.operators)

    @property
    def others(self) -> int:
        """Return the number of operators that ONNX Runtime runs."""
        kernels = [k for k, o in self.graph.opaques.items() if o.domain == DOMAIN]
        nodes = zip(self.graph.nodes, self.graph.constant(), strict=True)
        moving = [n for n, constant in nodes if not constant and n.op != "input"]
        return sum(n.op != "opaque" or n.attr("key") not in kernels for n in moving)

    def __str__(self) -> str:
        inside = sum(len(c.members) for c in self.clusters)
        count = len(self.clusters)
        return f"{count} kernel{'s' * (count != 1)} for {inside} operators, {self.others} in ONNX Runtime"


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """An e-graph in which kernels are chosen: of one graph, or saturated.

    ``graph`` is the graph that it was grown from, ``costs`` are those of its e-nodes in ONNX Runtime, in
    microseconds, and ``numbers`` the e-classes that are one known number. ``source`` is the graph of which a
    certificate speaks, if it is known: folded weights are rounded to the model's element type.
    """

    graph: Graph
    egraph: EGraph
    costs: np.ndarray
    numbers: Mapping[int, float]
    source: Graph | None = None

    @classmethod
    def of(cls, graph: Graph, cost: CostModel) -> Basis:
        """Return a graph with folded weights as an e-graph of single e-nodes, at the prices of a cost model."""
        folded = fold_constants(graph)
        costs, numbers = node_costs(folded, cost), fusion.numbers_of(folded)
        return cls(folded, fusion.egraph_of(folded), costs, numbers, graph)


def plan_of(
    graph: Graph | Basis,
    cost: CostModel,
    *,
    threads: int = 1,
    build: Build | None = None,
    measure: fusion.Measure | None = None,
    bench: fusion.Bench | None = None,
    memory: int | None = None,
    generic: Graph | None = None,
) -> Plan:
    """Return a graph with the kernels that exact extraction chooses by what they save.

    Raise CompilerMissing without a C compiler.

    Args:
        graph: The graph, or an e-graph.
        cost: The prices of a graph's operators in ONNX Runtime.
        threads: The number of threads of a session.
        build: The options of the compiler; by default those of the environment.
        measure: Returns the times of a cluster; by default they are measured.
        bench: Measures schedules; by default kernels have the usual ones if ``measure`` is given.
        memory: The most bytes that the kernels may keep; by default any number.
        generic: The graph with generic extents, if the number of images is one; it gets the same kernels.
    """
    options = build_from() if build is None else build
    basis = graph if isinstance(graph, Basis) else Basis.of(graph, cost)
    times = fusion.Bench(options, threads) if measure is None else measure
    timed = times if isinstance(times, fusion.Bench) else bench
    found = fusion.fused(
        basis.egraph,
        basis.costs,
        basis.numbers,
        times,
        memory=memory,
        inner=generic is None and memory is None,  # a value in both layouts would keep weights twice
        bench=timed,
    )

    def choose(cluster: Cluster) -> Operator:
        made = operator(cluster) if timed is None else timed.fastest(cluster)
        return replace(made, build=options)

    choice = found.solve().choice
    plan = _planned(basis.graph, found, choice, choose)
    if generic is not None:
        folded, made = fold_constants(generic), {op.cluster.result: op for op in plan.operators}
        types, attrs = zip(*((n.type, n.attrs) for n in folded.nodes), strict=True)
        attrs = (*attrs, *found.egraph.attrs[len(attrs) :])
        twin = replace(found, egraph=replace(found.egraph, types=types, attrs=attrs))
        plan = replace(plan, generic=_planned(folded, twin, choice, lambda c: made[c.result]).graph)
    return plan if basis.source is None else replace(plan, source=basis.source)


def _planned(
    graph: Graph, found: fusion.Fusion, choice: np.ndarray, choose: Callable[[Cluster], Operator]
) -> Plan:
    """Return the plan of a selection, of whose clusters ``choose`` makes operators."""
    from workbench.frontends.onnx.exporter import default_opset, shell_of

    operators: list[Operator] = []
    opset = default_opset(shell_of(graph))

    def kernel(builder: Builder, node: int, places: Mapping[int, int]) -> int:
        op = choose(found.clusters[node])
        operators.append(op)
        kind = found.egraph.types[op.cluster.result]
        assert isinstance(kind, TensorType)
        record = replace(payload(op, opset), results=(kind,))
        (result,) = builder.opaque(record, [places[j] for j in op.cluster.inputs], op.name)
        return result

    program = fusion.written(graph, found, choice, kernel)
    return Plan(fusion.written(graph, found, choice), program, tuple(operators))


class Mixed:
    """A loaded plan. ``run`` takes the inputs by name and returns the outputs by name.

    ``library`` is the file of its kernels. ``threads`` is the number of threads of an operator, ``build`` has the
    options of the compiler, by default those of the environment. Raise CompilerMissing if a C compiler is missing, and
    RuntimeFailure if ONNX Runtime refuses the program.
    """

    def __init__(self, plan: Plan, *, threads: int = 1, build: Build | None = None) -> None:
        from workbench.frontends import to_onnx
        from workbench.frontends.runtime import session

        self.plan, self.build = plan, build_from() if build is None else build
        self.library: Path | None = library_of(plan.operators, self.build) if plan.operators else None
        self._feeds: dict[str, np.ndarray] = {}
        self._names = [name for name, _ in plan.graph.outputs]
        self._session = session(to_onnx(plan.graph), threads=threads, spin=False, operators=self.library)

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs for inputs by name."""
        self.load(feeds)
        return dict(zip(self._names, self._session.run(self._names, self._feeds), strict=True))

    def load(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Take inputs for calls; raise GraphError for inputs that do not fit."""
        for name, kind in self.plan.graph.input_types.items():
            if name not in feeds or tuple(feeds[name].shape) != kind.shape:
                came = f"shape {list(feeds[name].shape)}" if name in feeds else f"inputs {sorted(feeds)}"
                raise GraphError(f"input {name!r} must be {kind}, got {came}")
        self._feeds = {name: feeds[name] for name in self.plan.graph.input_types}

    def __call__(self) -> None:
        """Run on the loaded inputs."""
        self._session.run(None, self._feeds)

    def save(self, path: str | os.PathLike[str]) -> tuple[Path, Path | None]:
        """Write the program as an ONNX model, and its kernels as a library next to it; return both paths.

        ``SessionOptions.register_custom_ops_library`` of ONNX Runtime loads the library. Without it, and in
        other runtimes, the model runs as well: each kernel's operators are in it as a local function. Raise
        OSError if a file cannot be written.
        """
        from workbench.frontends import save_onnx

        place = Path(path)
        save_onnx(self.plan.generic or self.plan.graph, place, symbols=self.plan.table)
        if self.library is None:
            return place, None
        beside = library_beside(place)
        write_atomic(beside, self.library.read_bytes())  # a program that has loaded the old one keeps it
        return place, beside


def library_beside(model: str | os.PathLike[str]) -> Path:
    """Return the file of the library of a saved program."""
    return Path(model).with_suffix(".so")


class SavedProgram:
    """A model file that is loaded into ONNX Runtime, with the kernels of the library beside it.

    A call takes the inputs by name and returns the outputs by name. ``library`` is the file of the kernels,
    and None if there is none: the operators of every kernel then run as they are written in the model.
    """

    def __init__(self, path: str | os.PathLike[str], threads: int = 1) -> None:
        import onnx

        from workbench.frontends.runtime import session

        beside = library_beside(Path(path).resolve())  # a name alone would be looked up elsewhere
        self.path, self.threads = Path(path), threads
        self.library = beside if beside.is_file() else None
        self._session = session(onnx.load(path), threads=threads, spin=False, operators=self.library)
        self._names = [output.name for output in self._session.get_outputs()]

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs for inputs by name."""
        return dict(zip(self._names, self._session.run(self._names, dict(feeds)), strict=True))

    def __repr__(self) -> str:
        kernels = "no kernels" if self.library is None else f"kernels from {self.library.name}"
        return f"SavedProgram: {self.path.name}, {kernels}, {_threads(self.threads)}"


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count != 1)}"


def load_program(path: str | os.PathLike[str], *, threads: int = 1) -> SavedProgram:
    """Load a mixed program that was saved, to be called with its inputs by name.

    The library of the kernels has the name of the ONNX file with the ending ``.so``; a model without one is loaded as
    it is. ``threads`` is the number of threads of one operator; kernels run on as many as they were made for. Raise
    FileNotFoundError for a missing file, and RuntimeFailure if ONNX Runtime refuses the model or the library.
    """
    return SavedProgram(path, threads)


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
        flags, count = " ".join(self.build.flags), _threads(self.threads)
        return f"kernels by {name} {flags}, ONNX Runtime {ort.__version__}, {machine()}, {count}"

    def check(self, graph: Graph) -> None:
        """Accept every graph: operators without a kernel run in ONNX Runtime."""

    @contextlib.contextmanager
    def timers(self, models: Sequence[Graph | ModelProto], seed: int) -> Iterator[list[Callable[[], float]]]:
        """Load models as mixed programs; see :class:`workbench.devices.targets.Target`."""
        from workbench.frontends import load_onnx

        graphs = [m if isinstance(m, Graph) else load_onnx(m) for m in models]
        programs: dict[int, Mixed] = {}
        for key, graph in {id(g): g for g in graphs}.items():
            plan = plan_of(graph, self.cost, threads=self.threads, build=self.build)
            programs[key] = Mixed(plan, threads=self.threads, build=self.build)
            programs[key].load(random_inputs(graphs[0], seed, 0))
        yield [partial(microseconds, programs[id(g)], self.threads) for g in graphs]
