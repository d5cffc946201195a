"""The saving of a kernel: a cluster's operators and its kernel, measured in ONNX Runtime in alternation.

The operators run as one model, so that the runtime can compute several together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from workbench.costs.store import Measurement, Store
from workbench.devices.timing import rounds
from workbench.graph import Graph, GraphBuilder
from workbench.kernels.codegen.clusters import Cluster, as_graph
from workbench.kernels.codegen.compiler import Build, compiler
from workbench.kernels.codegen.custom_ops import Operator, library_of, operator, payload
from workbench.kernels.codegen.fusion import Beside, Measure
from workbench.kernels.codegen.tuning import measured_schedules, timer
from workbench.kernels.composites.binding import bind
from workbench.support.files import cache_folder
from workbench.support.machine import machine

if TYPE_CHECKING:
    from collections.abc import Iterator


def measured(build: Build, threads: int = 1, seconds: float = 0.1) -> Measure:
    """Return a function that measures a cluster's operators and its kernel.

    Times are kept in the user's cache.

    Args:
        build: The options of the compiler.
        threads: The number of threads of a session.
        seconds: The time limit on measuring one cluster.
    """
    return partial(_beside, build, threads, seconds)


def fastest(cluster: Cluster, build: Build, threads: int = 1) -> Operator:
    """Return a cluster as an operator with the fastest of its schedules, measured or known from before."""
    binding = bind(cluster.composite, cluster.types)
    return operator(cluster, threads, measured_schedules(binding, build, seconds=0.05)[0].schedule)


def _beside(build: Build, threads: int, seconds: float, cluster: Cluster) -> Beside:
    import onnxruntime as ort

    about = (
        f"{machine()}, {compiler(build).resolve()} {' '.join(build.flags)}, ONNX Runtime {ort.__version__}"
    )
    store = Store(cache_folder(), about)
    op = fastest(cluster, build, threads)
    shapes = " ".join(map(str, cluster.read))
    digest = hashlib.blake2b(f"{op.name} {shapes}".encode(), digest_size=12).hexdigest()
    keys = [f"cluster {digest} as {form} threads={threads}" for form in ("operators", "kernel")]
    known = store.read()
    if not all(key in known for key in keys):
        known = dict(zip(keys, _measured(cluster, op, build, threads, seconds), strict=True))
        store.write(known)
    operators, kernel = (known[key].median for key in keys)
    return Beside(operators, kernel)


def _measured(
    cluster: Cluster, op: Operator, build: Build, threads: int, seconds: float
) -> Iterator[Measurement]:
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(t.shape).astype(t.numpy_dtype()) for t in cluster.read]
    runs = [
        bound(as_graph(cluster), inputs, threads),
        bound(_as_kernel(op), inputs, threads, library_of([op], build)),
    ]
    for times in rounds([timer(run, threads) for run in runs], seconds=seconds, least=5, most=200):
        yield Measurement(median(times), float(np.subtract(*np.percentile(times, [75, 25]))), len(times))


def _as_kernel(op: Operator) -> Graph:
    builder = GraphBuilder("kernel")
    inputs = [builder.input(f"x{k}", t.shape, t.dtype) for k, t in enumerate(op.cluster.read)]
    (y,) = builder.opaque(payload(op), inputs)
    return builder.graph({"y": y})


def bound(
    graph: Graph, inputs: Sequence[np.ndarray], threads: int, operators: Path | None = None
) -> Callable[[], object]:
    """Return a function that runs a graph in ONNX Runtime on arrays that lie where they are.

    Args:
        graph: The graph.
        inputs: The values of its inputs, in order.
        threads: The number of threads.
        operators: A library of operators that the graph needs.
    """
    from workbench.frontends import to_onnx
    from workbench.frontends.runtime import session

    loaded = session(to_onnx(graph), threads=threads, spin=False, operators=operators)
    binding = loaded.io_binding()
    results = [
        np.empty(graph.nodes[i].tensor.shape, graph.nodes[i].tensor.numpy_dtype()) for i in graph.output_ids
    ]
    given = zip((graph.nodes[i].attr("name") for i in graph.inputs), inputs, strict=True)
    for name, array in given:
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    for (name, _), array in zip(graph.outputs, results, strict=True):
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

    def run(keep: object = (inputs, results)) -> None:
        loaded.run_with_iobinding(binding)

    return run
