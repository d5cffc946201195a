"""End-to-end latency of graphs on a device, in alternation, compared with other ways to run them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from workbench.costs.keys import instance_key, same_kernel
from workbench.costs.pricing import instances_of, node_instances
from workbench.devices.device import Device
from workbench.devices.timing import paired_speedup, rounds
from workbench.graph import Graph
from workbench.studies.devices.operators import STANDARD, Protocol, measure_instances
from workbench.studies.devices.spec_io import GraphEntry, Results
from workbench.support.machine import microseconds
from workbench.torch.executor import Program, Skipped, compiled, draw_inputs, first_line, to_array

#: The ways to run a graph: torch call by call; one recorded CUDA graph; torch.compile, call by call and
#: recorded; ONNX Runtime with its own optimiser on.
MODES: Final = ("eager", "cuda-graph", "compile", "compile+cuda-graph", "onnxruntime")


def measure_group(
    entries: Sequence[GraphEntry],
    device: Device,
    results: Results,
    *,
    modes: Sequence[str] = MODES,
    seconds: float = 5.0,
    protocol: Protocol = STANDARD,
    progress: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Time the graphs of a group in every mode, all in alternation, and return one row per graph and mode.

    All graphs get the same inputs and share weights of the same name.

    Args:
        entries: The graphs of the group; the first one is the reference.
        device: The device.
        results: The measurements of single operators, to which missing ones are added.
        modes: The ways to run a graph, from ``MODES``.
        seconds: The time for the rounds of the group.
        protocol: The way to measure single operators.
        progress: Called with a line of text before each step.

    Returns:
        Rows with the median and quartiles in microseconds; the speed-up over the first graph in the same mode
        (median of the rounds' ratios, with its 95 % interval); the sum of the graph's operators measured
        alone; and the largest difference of its outputs from those of the first graph, as a fraction of the
        largest output. If a mode does not work here, its row contains the reason instead.

    Raises:
        ValueError: A mode is unknown, there are no entries, or their inputs or outputs differ.
    """
    unknown = sorted(set(modes) - set(MODES))
    if unknown or not entries:
        raise ValueError(f"modes must be among {', '.join(MODES)}, got {', '.join(unknown) or 'no graph'}")
    first = entries[0].graph
    for entry in entries[1:]:
        if (entry.graph.input_types, entry.graph.output_types) != (first.input_types, first.output_types):
            raise ValueError(
                f"{entry.group}: {entry.label} must have the inputs and outputs of {entries[0].label}"
            )
    tell = progress or (lambda text: None)
    with device.settings():
        inputs = draw_inputs(first, device)
        programs = [Program(e.graph, device) for e in entries]
        outputs = [[to_array(y) for y in p(*inputs)] for p in programs]
        left = results.left
        for entry in entries:
            measure_instances(instances_of(entry.graph), device, results, protocol=protocol)
        results.left = left
        sums = [sum_of_operators(e.graph, results) for e in entries]
        if any(mode.startswith("compile") for mode in modes):
            with contextlib.suppress(ImportError):
                # Compilations for other groups must not count against this one.
                device.torch._dynamo.reset()
        rows: list[dict[str, Any]] = []
        timed: list[tuple[dict[str, Any], Callable[[], float]]] = []
        for mode in modes:
            for entry, program, total, found in zip(entries, programs, sums, outputs, strict=True):
                tell(f"{entry.group}: {entry.label}, {mode}")
                row: dict[str, Any] = {"group": entry.group, "label": entry.label, "mode": mode}
                rows.append(row)
                try:
                    timer = _timer(mode, entry.graph, program, inputs, device)
                except Skipped as reason:
                    row["skipped"] = str(reason)
                    continue
                row |= {"operators_us": total, "difference": difference(outputs[0], found)}
                timed.append((row, timer))
        tell(f"{entries[0].group}: {len(timed)} in alternation")
        taken = rounds([timer for _, timer in timed], seconds=seconds) if timed else []
    known = [(row, samples) for (row, _), samples in zip(timed, taken, strict=True)]
    reference = {row["mode"]: samples for row, samples in known if row["label"] == entries[0].label}
    for row, samples in known:
        row |= latency_figures(samples, reference.get(row["mode"]))
        if row["operators_us"] is not None:
            row["ratio"] = row["operators_us"] / row["median_us"]
    return rows


def sum_of_operators(graph: Graph, results: Results) -> float | None:
    """Return the sum of a graph's operators in microseconds, or None if one was not measured."""
    keys = [instance_key(same_kernel(i)) for i in node_instances(graph).values()]
    if any(key not in results.measured for key in keys):
        return None
    return sum(results.measured[key].median for key in keys)


def _timer(
    mode: str, graph: Graph, program: Program, inputs: Sequence[Any], device: Device
) -> Callable[[], float]:
    """Return a function that runs a graph in a mode and returns the microseconds per run."""
    if mode == "onnxruntime":
        return _onnxruntime(graph, inputs, device)
    if mode.endswith("graph") and not device.cuda:
        raise Skipped("CUDA graphs need a CUDA device")
    run = compiled(graph, inputs, device) if mode.startswith("compile") else program.bound(inputs)
    if mode.endswith("graph"):
        try:
            run = device.capture(run)
        except RuntimeError as error:
            raise Skipped(f"it cannot be recorded: {first_line(error)}") from None
    return device.timer(run)


def _onnxruntime(graph: Graph, inputs: Sequence[Any], device: Device) -> Callable[[], float]:
    if device.cuda:
        raise Skipped("ONNX Runtime is timed on the CPU")
    try:
        from workbench.frontends import to_onnx
        from workbench.frontends.runtime import session
    except ImportError as error:
        raise Skipped(f"{error.name or 'ONNX Runtime'} is not installed") from None
    try:
        loaded = session(to_onnx(graph), threads=device.threads, spin=False)
    except (RuntimeError, ValueError) as error:
        raise Skipped(f"ONNX Runtime: {first_line(error)}") from None
    feeds: Mapping[str, np.ndarray] = {
        name: to_array(x) for name, x in zip(graph.input_types, inputs, strict=True)
    }
    timer = partial(microseconds, partial(loaded.run, None, feeds))
    timer()
    return timer


def latency_figures(samples: Sequence[float], reference: Sequence[float] | None) -> dict[str, Any]:
    """Return the median and quartiles of samples, and the speed-up over a reference in the same rounds."""
    low, median, high = np.percentile(samples, [25, 50, 75]).tolist()
    row = {"median_us": median, "quartiles_us": [low, high], "rounds": len(samples)}
    if reference is None:
        return row
    speedup, interval = paired_speedup(reference, samples)
    return row | {"speedup": speedup, "interval": list(interval)}


def difference(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    """Return the largest difference as a fraction of the largest output; inf if NaNs or infinities differ.

    It is not the certificate's, which needs onnx: this module runs where only torch and numpy are.
    """
    worst = 0.0
    for a, b in zip(expected, found, strict=True):
        x, y = a.astype(np.float64), b.astype(np.float64)
        if x.shape != y.shape or not np.array_equal(np.isfinite(x), np.isfinite(y)):
            return math.inf
        finite = np.isfinite(x)
        if finite.any():
            worst = max(worst, float(np.abs(x - y)[finite].max() / max(1e-30, np.abs(x[finite]).max())))
    return worst
