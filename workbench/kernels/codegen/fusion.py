"""Fusion chosen by extraction: an e-graph gets an e-node for every cluster, priced by what its kernel saves.

A cluster's e-node stands for its operators at once: it belongs to the e-class of the result, and its children
are the e-classes that the cluster reads. Exact extraction then takes a cluster or its operators, whichever is
cheaper; an operator that is also needed elsewhere is paid for there.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from graphlib import CycleError
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from workbench.egraph import EGraph
from workbench.egraph.rebuild import Writing, rebuild
from workbench.extraction import Solution
from workbench.extraction.extract import extract
from workbench.graph import Builder, Graph
from workbench.kernels.codegen import attention, separable, winograd
from workbench.kernels.codegen.clusters import (
    MOST,
    Cluster,
    Member,
    Readers,
    as_graph,
    cluster_of,
    fusible,
    given,
    readers_of,
)
from workbench.kernels.codegen.compiler import Build
from workbench.kernels.codegen.custom_ops import Operator, library_of, operator, payload, source_of
from workbench.kernels.codegen.tuning import kept_times, measured_schedules
from workbench.kernels.composites.binding import bind
from workbench.ops import TensorType, Trait, spec_of, with_trait
from workbench.ops.activations import operator_of
from workbench.support.machine import microseconds
from workbench.support.orders import topological

#: The operator of a cluster's e-node.
FUSED: Final = "fused"

#: The operator of the e-node of a cluster that ONNX Runtime runs, in less time than its operators one by one.
TOGETHER: Final = "together"

#: Operators that are one number, and those that are stored.
_NUMBERS: Final = with_trait(Trait.NUMBER)
_STORED: Final = with_trait(Trait.NAMED) & with_trait(Trait.CONSTANT)

#: Activations that ONNX Runtime computes within a convolution, as operators with their attributes.
_WITHIN: Final = [
    (spec.name, attrs) for spec, attrs in map(operator_of, ("sigmoid", "relu", "tanh", "relu6"))
]

_PRODUCTS: Final = with_trait(Trait.PRODUCT)
_IMAGES: Final = with_trait(Trait.PRODUCT) & with_trait(Trait.FOUR_AXES)

#: Results of fewer elements are not worth a kernel.
LEAST: Final = 1 << 8

#: The most kinds of kernels that are measured for one e-graph.
KERNELS: Final = 24

#: The time limit on measuring them.
SECONDS: Final = 60.0

#: A kind whose operators take less than this part of the time of the most expensive kind's is not measured.
SHARE: Final = 0.01

#: The most operators of an e-class that clusters are grown with, and the most clusters grown from a result.
ALTERNATIVES, GROWN = 4, 8

#: The bytes that are read before a convolution is timed: in a network, its weights are far when their turn comes.
FAR: Final = 1 << 26

#: How much less time than its operators a kernel must take: less may be an error of measurement. Several layers in one
#: kernel need less, since it may save changes of layout around it; the whole program is timed in the end.
MARGIN: Final = 0.9
LAYERS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Beside:
    """The microseconds of a cluster's operators in ONNX Runtime and of its kernel, and the bytes that this keeps.

    In the place of its operators a convolution of the inner layout has its kernel of images channels first.
    """

    operators: float
    kernel: float
    memory: int = 0
    margin: float = MARGIN

    @property
    def pays(self) -> bool:
        """Return whether the kernel is faster beyond the error of measurement."""
        return self.kernel <= self.operators * self.margin

    def at(self, price: float) -> Beside:
        """Return the times if those of the operators are worth a price: both were measured with all values far."""
        return replace(self, operators=price, kernel=price * self.kernel / self.operators)


#: Returns the times of a cluster.
Measure = Callable[[Cluster], Beside]


@dataclass(frozen=True, slots=True, eq=False)
class Fusion:
    """An e-graph with e-nodes for clusters, and the costs of all e-nodes in microseconds.

    ``clusters`` maps e-nodes to clusters that kernels run, ``together`` to those that ONNX Runtime runs, in
    less time than their operators one by one. Their values are numbered by e-class.
    """

    egraph: EGraph
    costs: np.ndarray
    clusters: dict[int, Cluster]
    together: dict[int, Cluster]

    def solve(self) -> Solution:
        """Return the cheapest selection of operators and clusters."""
        return extract(self.egraph, self.costs, "auto", seconds=20.0)


def egraph_of(graph: Graph) -> EGraph:
    """Return a graph as an e-graph in which every e-class has one e-node; both have the graph's numbers."""
    own = np.arange(len(graph.nodes))
    return EGraph(
        ops=tuple(n.op for n in graph.nodes),
        attrs=tuple(n.attrs for n in graph.nodes),
        child_start=np.cumsum([0, *(len(n.inputs) for n in graph.nodes)]),
        children=np.array([j for n in graph.nodes for j in n.inputs], dtype=np.int64),
        eclass=own,
        n_classes=len(own),
        roots=graph.output_ids,
        types=tuple(n.type for n in graph.nodes),
        original=own,
    )


def fused(
    egraph: EGraph,
    costs: np.ndarray,
    numbers: Mapping[int, float],
    measure: Measure,
    *,
    memory: int | None = None,
    inner: bool = True,
    bench: Bench | None = None,
) -> Fusion:
    """Return an e-graph with e-nodes for clusters: one if its kernel pays, one if ONNX Runtime fuses it.

    Clusters are grown from all operators of all e-classes. A value between two convolutions has one e-class more: the
    same value in the inner layout, which kernels alone read and write.

    Args:
        egraph: The e-graph.
        costs: The cost of every e-node in microseconds.
        numbers: E-classes whose value is one known number.
        measure: Returns the times of a cluster's operators and of its kernel.
        memory: The most bytes that all kernels may keep; those that save most for a byte are taken.
        inner: Whether kernels may read and write values in the inner layout.
        bench: Compiles the kernels that will be measured next together.
    """
    began = time.monotonic()
    cheapest = np.full(egraph.n_classes, np.inf)
    np.minimum.at(cheapest, egraph.eclass, costs)
    known = readers_of(egraph, numbers)
    found: dict[tuple[int, tuple[int, ...], str], Cluster] = {}
    for cluster in (
        *winograd.convolutions(known),
        *separable.layers(known),
        *attention.attentions(known),
        *_candidates(egraph, known),
    ):
        if cluster.result not in cluster.inputs:
            found.setdefault((cluster.result, cluster.inputs, str(cluster.composite)), cluster)
    kinds: dict[str, list[Cluster]] = {}
    for cluster in found.values():
        kinds.setdefault(kind_of(cluster), []).append(cluster)
    chosen: list[tuple[str, Cluster, float]] = []
    timed: list[tuple[Beside, Cluster]] = []
    worth = {k: sum(cheapest[m.place] for m in c[0].members) * len(c) for k, c in kinds.items()}
    least = max(worth.values(), default=0.0) * SHARE
    order = sorted(kinds, key=lambda k: (-worth[k], k))[:KERNELS]
    if bench is not None:
        bench.compile_ahead([kinds[k][0] for k in order if worth[k] >= least])
    for kind in order:
        if worth[kind] < least or time.monotonic() - began > SECONDS:
            break
        times = measure(kinds[kind][0])
        for cluster in kinds[kind]:
            apart = sum(cheapest[m.place] for m in cluster.members)
            if times.pays:
                timed.append((times.at(apart) if _far(cluster) else times, cluster))
            if times.operators < apart * MARGIN:
                chosen.append((TOGETHER, cluster, times.operators))
    room = math.inf if memory is None else memory
    for times, cluster in sorted(timed, key=lambda t: -(t[0].operators - t[0].kernel) / max(t[0].memory, 1)):
        if times.memory <= room:
            room -= times.memory
            chosen.append((FUSED, cluster, times.kernel))
    # Convolutions by fewer products may read and write the inner layout.
    kernels = [(c, p) for op, c, p in chosen if op == FUSED and not separable.is_separable(c)]
    fewer = [(c, p) for c, p in kernels if winograd.convolution_of(c)]
    more, types = _with_inner(egraph, fewer if inner else [], measure, bench)
    chosen = sorted([*chosen, *more], key=lambda found: (found[1].result, found[0]))
    return _extended(egraph, costs, chosen, types)


def _with_inner(
    egraph: EGraph, made: Sequence[tuple[Cluster, float]], measure: Measure, bench: Bench | None
) -> tuple[list[tuple[str, Cluster, float]], list[TensorType]]:
    """Return convolutions that read and write values in the inner layout, and the types of these.

    The values have the numbers after the e-graph's. A kernel that reads its image so and writes its result so is
    measured beside one that does neither, of which ``made`` has the microseconds; one that does one of both saves half
    as much. Added values may be read so, at no cost.
    """
    types = {c: t for c, t in enumerate(egraph.types) if isinstance(t, TensorType)}
    shared = {c.result for c, _ in made if winograd.blocked(c.type)} & {j for c, _ in made for j in c.inputs}
    number = {c: egraph.n_classes + k for k, c in enumerate(sorted(shared))}
    inner = [t for c in number if (t := winograd.blocked(types[c])) is not None]
    types |= dict(zip(number.values(), inner, strict=True))
    known: dict[str, float] = {}
    found = []
    forms = []
    for cluster, price in made:
        own = {m.place for m in cluster.members}
        read = {j for m in cluster.members if m.op == "add" for j in m.operands} - own
        near = cluster.inputs[0], cluster.result, *read
        parts: list[list[dict[int, int]]] = [[{}, {j: number[j]}] if j in shared else [{}] for j in near]
        turned = [
            (winograd.convolution(cluster.members, types, x | y | dict(*z)), bool(x) + bool(y))
            for x, y, *z in product(*parts)
        ][1:]
        if turned:
            forms.append((turned, price))
    if bench is not None and forms:
        bench.compile_ahead(list({kind_of(t[-1][0]): t[-1][0] for t, _ in forms if t[-1][1]}.values()))
    for turned, price in forms:
        whole, most = turned[-1]
        if most and kind_of(whole) not in known:
            times = measure(whole)
            known[kind_of(whole)] = times.kernel / max(times.operators, 1e-9)
        ratio = known[kind_of(whole)] if most else 1.0
        found += [(FUSED, c, price * (1 - (1 - ratio) * used / max(most, 1))) for c, used in turned]
    return found, inner


def has_algorithm(cluster: Cluster) -> bool:
    """Return whether a cluster's kernel has an algorithm in the place of a schedule."""
    return winograd.convolution_of(cluster) is not None or attention.is_attention(cluster)


def _far(cluster: Cluster) -> bool:
    """Return whether a cluster is several layers or attention: changes of layout around it may go with it."""
    return separable.is_separable(cluster) or attention.is_attention(cluster)


def kind_of(cluster: Cluster) -> str:
    """Return the key that clusters with the same kernel share."""
    return f"{cluster.composite} {cluster.types}"


def _extended(
    egraph: EGraph,
    costs: np.ndarray,
    chosen: Sequence[tuple[str, Cluster, float]],
    inner: Sequence[TensorType],
) -> Fusion:
    count, more = len(egraph), [c for _, c, _ in chosen]
    ends = egraph.child_start[-1] + np.cumsum([len(c.inputs) for c in more], dtype=np.int64)
    read = np.array([j for c in more for j in c.inputs], dtype=np.int64)
    grown = replace(
        egraph,
        ops=(*egraph.ops, *(op for op, _, _ in chosen)),
        attrs=(*egraph.attrs, *[(k,) for k in range(len(more))]),
        child_start=np.concatenate([egraph.child_start, ends]),
        children=np.concatenate([egraph.children, read]),
        eclass=np.concatenate([egraph.eclass, np.array([c.result for c in more], dtype=np.int64)]),
        birth_rule=np.empty(0, np.int32),
        birth_step=np.empty(0, np.int32),
        node_names=(),
        class_names=(),
        n_classes=egraph.n_classes + len(inner),
        types=(*egraph.types, *inner),
    )
    prices = np.concatenate([costs, np.array([p for _, _, p in chosen], dtype=float)])
    kernels, others = (
        {count + k: c for k, (op, c, _) in enumerate(chosen) if op == kind} for kind in (FUSED, TOGETHER)
    )
    return Fusion(grown, prices, kernels, others)


def _candidates(egraph: EGraph, known: Readers) -> Iterator[Cluster]:
    """Yield clusters grown from every operator that has a form in index notation."""
    readers = np.repeat(egraph.eclass, np.diff(egraph.child_start))
    read = np.unique(np.stack([readers, egraph.children[: egraph.child_start[-1]]]), axis=1)[1]
    shared = np.bincount(read, minlength=egraph.n_classes) > 1
    options: dict[int, list[Member]] = {}
    for eclass in sorted(known.makers):
        # No operator of a cluster computes what it reads.
        made = (m for m in known.makers[eclass] if eclass not in m.operands and fusible(m))
        found = dict.fromkeys(m for m in made if not _rides_along(known, m, shared))
        if found:
            options[eclass] = list(found)[:ALTERNATIVES]
    for root in (m for members in options.values() for m in members):
        if any(known.types[j].elements >= LEAST for j in (root.place, *root.operands)):
            for outside in (None, shared):
                yield from _grown(root, options, known, outside)


def _grown(
    root: Member, options: Mapping[int, Sequence[Member]], known: Readers, shared: np.ndarray | None
) -> list[Cluster]:
    """Return the largest clusters found from a result upwards, one for each choice; ``shared`` values stay outside."""
    found: list[Cluster] = []
    first = cluster_of([root], known.types, known.numbers)
    waiting = [] if first is None else [(first, frozenset([root.place]))]
    while waiting and len(found) < GROWN:
        cluster, tried = waiting.pop()
        inside = (j for j in cluster.inputs if j in options and j not in tried)
        near = next((j for j in inside if shared is None or not shared[j]), None)
        if near is None or len(cluster.members) >= MOST:
            found.append(cluster)
            continue
        more = (_sorted(root, [*cluster.members, member]) for member in options[near])
        larger = [c for m in more if m and (c := cluster_of(m, known.types, known.numbers)) is not None]
        waiting += [(c, tried | {near}) for c in reversed(larger or [cluster])]
    return found


def _sorted(root: Member, members: Sequence[Member]) -> list[Member] | None:
    """Return members with operands first and the root last, or None if that is impossible."""
    made = {m.place: m for m in members}
    try:
        return topological([root], lambda m: [made[j] for j in m.operands if j in made])
    except CycleError:
        return None


def _rides_along(known: Readers, member: Member, shared: np.ndarray) -> bool:
    """Return whether the other runtime computes an operator within the product before it, for nothing.

    That is an activation after a convolution that nothing else reads, and a bias after any product.
    """

    def made_by(ops: Set[str], eclass: int) -> bool:
        return any(m.op in ops for m in known.makers.get(eclass, ()))

    if (member.op, member.named) in _WITHIN:
        return not shared[member.operands[0]] and made_by(_IMAGES, member.operands[0])
    pairs = (member.operands, member.operands[::-1]) if (member.op, member.named) == ("add", {}) else ()
    return any(known.constant[bias] and made_by(_PRODUCTS, product) for product, bias in pairs)


def numbers_of(graph: Graph) -> dict[int, float]:
    """Return the values of a graph that are one known number, by node."""
    found = {}
    for i, node in enumerate(graph.nodes):
        if not isinstance(node.type, TensorType) or node.type.elements != 1 or "float" not in node.type.dtype:
            continue
        if node.op in _NUMBERS:
            evaluate = spec_of(node.op).evaluate
            assert evaluate is not None
            found[i] = float(evaluate([], node.named_attrs()).reshape(()))
        elif node.op in _STORED:
            found[i] = float(graph.weights[node.attr("name")].value().reshape(()))
    return found


def written(graph: Graph, fusion: Fusion, choice: np.ndarray, kernel: Writing | None = None) -> Graph:
    """Return the graph of a selection; it has the inputs, outputs and weights of ``graph``.

    Args:
        graph: The graph from which the e-graph was grown.
        fusion: The e-graph with clusters.
        choice: The e-node of every e-class that is needed.
        kernel: Writes the result of a cluster that a kernel runs; by default its operators are in its place, and a
            certificate is about that graph.
    """
    clusters, egraph = fusion.clusters | fusion.together, fusion.egraph

    def writing(builder: Builder, node: int, place: Mapping[int, int]) -> int | None:
        if kernel is not None and node in fusion.clusters:
            return kernel(builder, node, place)
        if node not in clusters:
            return None
        inner = dict(place)
        for j in sorted(j for j, _ in clusters[node].known if j not in place):
            # A number, which is in the kernel's text; exact, if it is written out.
            nodes = [
                i for i in np.flatnonzero(egraph.eclass == j).tolist() if egraph.ops[i] in _NUMBERS | _STORED
            ]
            i = min(nodes, key=lambda i: egraph.ops[i] in _STORED)
            inner[j] = builder.apply(egraph.ops[i], [], egraph.attrs[i])
        return clusters[node].write(builder, inner)

    return rebuild(graph, fusion.egraph, choice, writing)


@dataclass(frozen=True, slots=True)
class Bench:
    """The measurement of clusters' operators and kernels; times are kept in the user's cache.

    Args:
        build: The options of the compiler.
        threads: The number of threads of a session.
        algorithms: The algorithms that kernels of convolutions may have.
        seconds: The time limit on measuring one cluster.

    """

    build: Build
    threads: int = 1
    algorithms: Sequence[str] = winograd.CHOICES
    seconds: float = 0.1

    def __call__(self, cluster: Cluster) -> Beside:
        """Return the times of a cluster's operators and of its kernel."""
        if not has_algorithm(cluster):
            operators, kernel = self._times(cluster, [self.fastest(cluster)])
            return Beside(operators, kernel)
        made = [op for op in self._measured_with(cluster) if op.cluster == cluster]
        if not made:
            return Beside(0.0, math.inf)
        operators, *kernels = self._times(cluster, made)
        margin = LAYERS if _far(cluster) else MARGIN
        return Beside(operators, min(kernels), made[int(np.argmin(kernels))].memory, margin)

    def compile_ahead(self, clusters: Sequence[Cluster]) -> None:
        """Compile the kernels of clusters with algorithms, on all processors: measuring finds them then."""
        made = [self._measured_with(c) for c in clusters if has_algorithm(c)]
        until = time.monotonic() + SECONDS / 2

        def compiled(operators: Sequence[Operator]) -> None:
            if time.monotonic() < until:
                library_of(operators, self.build)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compiled, filter(None, made)))

    def fastest(self, cluster: Cluster) -> Operator:
        """Return a cluster as an operator with the fastest of its schedules, measured or known from before."""
        if not has_algorithm(cluster):
            binding = bind(cluster.composite, cluster.types)
            return operator(
                cluster, measured_schedules(binding, self.build, seconds=0.05)[0].schedule, self.build
            )
        plain = winograd.channels_first(cluster)
        if plain != cluster:  # an inner layout changes little for an algorithm
            return operator(cluster, self.fastest(plain).schedule, self.build)
        made = self._with_algorithms(cluster)
        times = self._times(cluster, made)[1:] if len(made) > 1 else [0.0]
        return made[int(np.argmin(times))]

    def _measured_with(self, cluster: Cluster) -> list[Operator]:
        """Return the operators that are measured for a cluster with an algorithm; in the inner layout, both forms."""
        plain, made = winograd.channels_first(cluster), self._with_algorithms(cluster)
        return made if plain == cluster or not made else [self.fastest(c) for c in (plain, cluster)]

    def _with_algorithms(self, cluster: Cluster) -> list[Operator]:
        """Return a cluster as operators with what may be the fastest in the place of a schedule."""
        if attention.is_attention(cluster):
            return [operator(cluster, rows, self.build) for rows in attention.candidates(cluster)]
        if separable.is_separable(cluster):
            return [operator(cluster, rows, self.build) for rows in separable.candidates(cluster)]
        return [operator(cluster, how, self.build) for how in winograd.candidates(cluster, self.algorithms)]

    def _times(self, cluster: Cluster, operators: Sequence[Operator]) -> list[float]:
        """Return the microseconds of a cluster's operators and of its kernels.

        The runtime knows the weights of a convolution. In the place of its operators one of the inner layout has its
        kernel of images channels first.
        """
        import onnxruntime as ort

        special, threads, plain = has_algorithm(cluster), self.threads, winograd.channels_first(cluster)
        stored = [j for m in cluster.members if m.op == "conv2d" for j in m.operands[1:]]
        inner, held = plain != cluster, list[np.ndarray]()

        def shapes(one: Cluster) -> list[TensorType]:
            return [t for j, t in zip(one.inputs, one.read, strict=True) if j not in stored]

        def timed(run: Callable[[], object]) -> float:
            for array in held:
                array.sum()
            return microseconds(run, threads)

        def runs() -> list[Callable[[], object]]:
            random = np.random.default_rng(0)
            inputs = [random.standard_normal(t.shape).astype(t.numpy_dtype()) for t in shapes(cluster)]
            turned = [x.reshape(t.shape) for x, t in zip(inputs, shapes(plain), strict=True)]
            held.extend([np.ones(FAR // 4, np.float32), *inputs] if special else [])
            first = [operator(plain, operators[0].schedule, self.build)] if inner else []
            library = library_of([*first, *operators], self.build)
            others = [self.bound(_as_kernel(op, stored), turned, library) for op in first]
            kernels = [self.bound(_as_kernel(op, stored), inputs, library) for op in operators]
            return [*(others or [self.bound(as_graph(cluster, stored), inputs)]), *kernels]

        kinds, other = " ".join(map(str, cluster.read)), "channels first" if inner else "as operators"
        texts = [f"{source_of(op).text} {kinds}".encode() for op in operators]
        digests = [hashlib.blake2b(text, digest_size=12).hexdigest() for text in texts]
        keys = [f"cluster {digests[0]} {other} threads={threads}"]
        keys += [f"cluster {d} as kernel threads={threads}" for d in digests]
        return kept_times(
            self.build,
            keys,
            runs,
            timed,
            seconds=self.seconds,
            least=7 if special else 5,
            most=200,
            runtime=f"ONNX Runtime {ort.__version__}",
        )

    def bound(
        self, graph: Graph, inputs: Sequence[np.ndarray], operators: Path | None = None
    ) -> Callable[[], object]:
        """Return a function that runs a graph in ONNX Runtime on arrays that lie where they are.

        ``operators`` is a library of operators that the graph needs.
        """
        from workbench.frontends import to_onnx
        from workbench.frontends.runtime import session

        loaded = session(to_onnx(graph), threads=self.threads, spin=False, operators=operators)
        binding = loaded.io_binding()
        results = [
            np.empty(graph.nodes[i].tensor.shape, graph.nodes[i].tensor.numpy_dtype())
            for i in graph.output_ids
        ]
        given = zip((graph.nodes[i].attr("name") for i in graph.inputs), inputs, strict=True)
        for name, array in given:
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for (name, _), array in zip(graph.outputs, results, strict=True):
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

        def run(keep: object = (inputs, results)) -> None:
            loaded.run_with_iobinding(binding)

        return run


def _as_kernel(op: Operator, stored: Sequence[int]) -> Graph:
    builder = Builder("kernel")
    (y,) = builder.opaque(payload(op), given(builder, op.cluster, stored))
    return builder.graph({"y": y})
