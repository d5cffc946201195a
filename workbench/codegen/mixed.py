"""Mixed programs: ONNX Runtime runs some operators of a graph, kernels in C run the clusters.

All values that pass from one to the other lie in arrays that are made once. A run is a sequence of calls
without arguments: the sessions and the kernels read and write these arrays where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.codegen.clusters import Cluster
from workbench.codegen.compiler import Build, build_from
from workbench.codegen.fusion import FUSED, Fusion, egraph_of, fused, numbers_of
from workbench.codegen.kernel import kernel_at
from workbench.codegen.tuning import measured_schedules
from workbench.composites.binding import bind
from workbench.costs import CostModel, node_costs
from workbench.graph import Graph, GraphBuilder, GraphError, fold_constants
from workbench.ops import Trait, spec_of

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a program: operators for ONNX Runtime, or one cluster.

    ``nodes`` are operators of the graph in order, ``reads`` and ``makes`` the values that pass its border.
    """

    nodes: tuple[int, ...]
    cluster: Cluster | None
    reads: tuple[int, ...]
    makes: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The parts of a graph in the order in which they run.

    ``source`` is the graph, ``graph`` the same with its weights folded, whose nodes the parts number.
    ``left`` is the number of clusters that were not priced.
    """

    source: Graph
    graph: Graph
    parts: tuple[Part, ...]
    left: int = 0

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """Return the clusters that kernels run."""
        return tuple(p.cluster for p in self.parts if p.cluster is not None)

    @property
    def sessions(self) -> int:
        """Return the number of sessions of ONNX Runtime."""
        return sum(p.cluster is None for p in self.parts)

    def __str__(self) -> str:
        inside = sum(len(c.members) for c in self.clusters)
        return f"{len(self.clusters)} kernels for {inside} operators, {self.sessions} sessions"


def plan_of(
    graph: Graph,
    cost: CostModel,
    *,
    threads: int = 1,
    build: Build | None = None,
    seconds: float = 30.0,
    price: Callable[[Cluster], float] | None = None,
) -> Plan:
    """Return the parts of a graph, its clusters chosen by exact extraction over measured prices.

    Args:
        graph: The graph.
        cost: The prices of operators in ONNX Runtime.
        threads: The number of threads of a kernel.
        build: The options of the compiler; by default those of the environment.
        seconds: The time limit on compiling and measuring kernels.
        price: The price of a cluster in microseconds; by default its kernel is measured.

    Raises:
        CompilerMissing: There is no C compiler.
    """
    folded = fold_constants(graph)
    options = build_from() if build is None else build
    found = fused(
        egraph_of(folded),
        node_costs(folded, cost),
        numbers_of(folded),
        build=options,
        threads=threads,
        seconds=seconds,
        price=price,
    )
    return planned(graph, found, found.solve().choice)


def planned(source: Graph, found: Fusion, choice: np.ndarray) -> Plan:
    """Return the parts of a graph for a selection of the operators and clusters of its folded form."""
    graph = fold_constants(source)
    order = _order(found, choice, graph.output_ids)
    constant = graph.constant()
    phase: dict[int, int] = {}
    for i in order:
        before = [phase[j] for j in found.egraph.operands(int(choice[i])).tolist() if j in phase]
        latest = max(before, default=0)
        if constant[i] or graph.nodes[i].op == "input":
            continue
        kernel = found.egraph.ops[int(choice[i])] == FUSED
        phase[i] = latest + (latest % 2 == 0) if kernel else latest + latest % 2
    groups: list[tuple[tuple[int, ...], Cluster | None]] = []
    for p in range(max(phase.values(), default=0) + 1):
        here = [i for i in order if phase.get(i) == p]
        if p % 2 == 0 and here:
            groups.append((tuple(here), None))
        elif p % 2:
            groups += [((i,), found.clusters[int(choice[i])]) for i in here]
    read = [
        dict.fromkeys(
            j for i in nodes for j in found.egraph.operands(int(choice[i])).tolist() if j not in nodes
        )
        for nodes, _ in groups
    ]
    outputs = set(graph.output_ids)
    parts = []
    for k, (nodes, cluster) in enumerate(groups):
        later = outputs.union(*read[k + 1 :])
        reads = tuple(j for j in read[k] if not constant[j]) if cluster is None else cluster.inputs
        parts.append(Part(nodes, cluster, reads, tuple(i for i in nodes if i in later)))
    return Plan(source, graph, tuple(parts), found.left)


def _order(found: Fusion, choice: np.ndarray, outputs: Sequence[int]) -> list[int]:
    """Return the needed values, operands first."""
    order: dict[int, None] = {}
    for root in outputs:
        stack = [root]
        while stack:
            i = stack[-1]
            waiting = [j for j in found.egraph.operands(int(choice[i])).tolist() if j not in order]
            if i in order or not waiting:
                order.setdefault(stack.pop())
            else:
                stack += waiting
    return list(order)


class Mixed:
    """A loaded plan. ``run`` takes the inputs by name and returns the outputs by name.

    ``build`` says how its kernels were compiled. Raise CompilerMissing if there is no C compiler, and
    RuntimeFailure if ONNX Runtime refuses a part.
    """

    def __init__(self, plan: Plan, *, threads: int = 1, build: Build | None = None) -> None:
        self.plan, self.threads = plan, threads
        self.build = build_from() if build is None else build
        graph = plan.graph
        passed = {i for part in plan.parts for i in (*part.makes, *part.reads)} | set(graph.inputs)
        passed |= set(graph.output_ids)
        self._arrays = {i: self._array(i) for i in sorted(passed)}
        self._held: list[Any] = []
        self._calls = [self._session(p) if p.cluster is None else self._kernel(p.cluster) for p in plan.parts]

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs for inputs by name."""
        self.load(feeds)
        self()
        return {name: self._arrays[i].copy() for name, i in self.plan.graph.outputs}

    def load(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Copy inputs to where the parts read them; raise GraphError for inputs that do not fit."""
        for i in self.plan.graph.inputs:
            name, kind = self.plan.graph.nodes[i].attr("name"), self.plan.graph.nodes[i].tensor
            if name not in feeds or tuple(feeds[name].shape) != kind.shape:
                came = f"shape {list(feeds[name].shape)}" if name in feeds else f"inputs {sorted(feeds)}"
                raise GraphError(f"input {name!r} must be {kind}, got {came}")
            np.copyto(self._arrays[i], feeds[name])

    def __call__(self) -> None:
        """Run all parts on the loaded inputs."""
        for call in self._calls:
            call()

    def _array(self, i: int) -> np.ndarray:
        node = self.plan.graph.nodes[i]
        if node.op == "weight":
            return np.ascontiguousarray(self.plan.graph.weights[node.attr("name")].value())
        if Trait.CONSTANT in spec_of(node.op).traits:
            evaluate = spec_of(node.op).evaluate
            assert evaluate is not None
            return np.ascontiguousarray(evaluate([], node.named_attrs()))
        return np.zeros(node.tensor.shape, node.tensor.numpy_dtype())

    def _kernel(self, cluster: Cluster) -> Callable[[], object]:
        binding = bind(cluster.composite, cluster.types)
        schedule = measured_schedules(binding, self.build, threads=self.threads, seconds=0.05)[0].schedule
        kernel = kernel_at(binding, schedule=schedule, build=self.build)
        inputs = [
            self._arrays[j].reshape(shape) for j, shape in zip(cluster.inputs, cluster.shapes, strict=True)
        ]
        result = self._arrays[cluster.result].reshape(kernel.binding.outputs()[0].shape)
        return kernel.bound(inputs, [result], self.threads)

    def _session(self, part: Part) -> Callable[[], object]:
        from workbench.frontends import to_onnx
        from workbench.frontends.runtime import session

        model = to_onnx(_piece(self.plan.graph, part))
        loaded: InferenceSession = session(model, threads=self.threads, spin=False)
        binding = loaded.io_binding()
        taken = {v.name for v in loaded.get_inputs()}
        for way, places in ((binding.bind_input, part.reads), (binding.bind_output, part.makes)):
            for i in places:
                if way == binding.bind_input and f"v{i}" not in taken:
                    continue
                array = self._arrays[i]
                way(f"v{i}", "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        self._held.append(binding)

        def run(session: InferenceSession = loaded) -> None:
            session.run_with_iobinding(binding)

        return run


def _piece(graph: Graph, part: Part) -> Graph:
    """Return the operators of a part as a graph, with the weights that they read."""
    builder = GraphBuilder(graph.name, share=False)
    builder.weights, builder.opaques = dict(graph.weights), dict(graph.opaques)
    place = {
        i: builder.input(f"v{i}", graph.nodes[i].tensor.shape, graph.nodes[i].tensor.dtype)
        for i in part.reads
    }

    def made(i: int) -> int:
        if i not in place:
            node = graph.nodes[i]
            place[i] = builder.apply(node.op, [made(j) for j in node.inputs], node.attrs)
        return place[i]

    for i in part.nodes:
        made(i)
    return builder.graph([(f"v{i}", place[i]) for i in part.makes])
