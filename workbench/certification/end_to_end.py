"""Runs of both saved models as a whole, in ONNX Runtime and in the model's own dtype."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx

from workbench.certification.inputs import Range, gentle_inputs, random_inputs
from workbench.certification.region_check import work
from workbench.certification.tolerance import (
    difference,
    round_weights_otherwise,
    rounded_otherwise,
    tolerance_of,
)
from workbench.frontends import runtime
from workbench.frontends.model import Model, ModelError
from workbench.frontends.onnx.exporter import to_onnx, to_onnx_apart
from workbench.frontends.onnx.file import Apart, copied
from workbench.graph import Graph, GraphError, evaluate, fold_constants, fold_moves
from workbench.graph.evaluate import Memo
from workbench.ops import TypeMismatch
from workbench.ops.onnx_form import without_kernel
from workbench.support.messages import one_line

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

#: The error may be this many times the change of the original's outputs when its inputs change by rounding.
_CONDITION: Final = 16.0
#: The time limit of one run of a model, in seconds.
RUN_SECONDS: Final = 120.0
#: Operations of the largest model that runs in numpy instead.
MOST_WORK: Final = 4e9
#: Elements of the largest weights that are rounded otherwise, all together.
MOST_ELEMENTS: Final = 1 << 25
#: Seconds in which sizes for the prices are looked for.
_SEARCHED: Final = 10.0


@dataclass(frozen=True, slots=True)
class WholeRun:
    """The outcome of running both models.

    ``note`` is a text for people: the runtime, or the reason why nothing was compared; ``ran`` is then
    False. ``why`` is empty unless the result differs, does not load, or fails on inputs that the original
    accepts. ``error`` is the largest relative difference, ``errors`` has it for each output. ``inputs`` and
    ``outputs`` are those of the original's run, ``found`` are the outputs of the result. ``steady`` is False
    if the original's outputs change as much when its inputs are rounded differently. ``lacking`` names
    operators for which ONNX Runtime has no kernel: both models then ran in numpy.
    """

    note: str
    why: str = ""
    error: float = 0.0
    errors: Mapping[str, float] = field(default_factory=dict)
    output: str = ""
    index: tuple[int, ...] = ()
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    found: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    steady: bool = True
    ran: bool = True
    lacking: tuple[str, ...] = ()


def not_run(reason: str) -> WholeRun:
    """Return the outcome if no model ran, for a reason in words."""
    return WholeRun(f"not run: {reason}", ran=False)


@dataclass(frozen=True, slots=True)
class Run:
    """The first drawn inputs that the original accepts, its outputs and the ranges of inner values, or its failure."""

    inputs: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    failure: str = ""
    ranges: Mapping[int, Range] = field(default_factory=dict)


def probe(original: Graph, nodes: Iterable[int], *, seed: int = 0, memo: Memo | None = None) -> Run:
    """Run a graph once as it would be exported and record the ranges of inner values.

    Args:
        original: The graph.
        nodes: The numbers of the nodes whose values are recorded.
        seed: The seed of the inputs.
        memo: A cache of values that depend only on weights.
    """
    given = set(original.output_ids) | set(original.inputs)
    names = {f"probe {i}": i for i in sorted(set(nodes) - given)}
    shown = replace(original, outputs=(*original.outputs, *names.items()))
    try:
        loaded = _session(fold_moves(shown, memo=memo))
    except (runtime.RuntimeFailure, ModelError) as refusal:
        return Run(failure=one_line(refusal, 240))
    run = first_run(loaded, original, seed)
    if not run.outputs:
        return run
    places = dict(shown.outputs) | {original.nodes[i].attr("name"): i for i in original.inputs}
    seen = {places[n]: Range.of(v) for n, v in chain(run.inputs.items(), run.outputs.items()) if n in places}
    outputs = {name: value for name, value in run.outputs.items() if name not in names}
    return replace(run, outputs=outputs, ranges={i: r for i, r in seen.items() if r is not None})


def first_run(loaded: InferenceSession, original: Graph, seed: int) -> Run:
    """Run a loaded model on inputs drawn for its graph until it accepts some."""
    failure, limit = "", _seconds(original)
    gentler = (gentle_inputs(original, seed, attempt) for attempt in range(3))
    for inputs in chain([random_inputs(original, seed, 0)], gentler):
        try:
            outputs = runtime.run_session(loaded, inputs, seconds=limit)
        except runtime.RuntimeFailure as refusal:
            if refusal.late:
                return Run(failure=str(refusal))
            failure = failure or f"the original fails on drawn inputs ({one_line(refusal, 240)})"
            continue
        # An input that is itself a shape may contradict the shapes that the model declares.
        declared = {name: t.shape for name, t in original.output_types.items() if name in outputs}
        if all(outputs[name].shape == shape for name, shape in declared.items()):
            return Run(inputs, outputs)
        failure = failure or "the original makes other shapes of drawn inputs than it declares"
    return Run(failure=failure)


def run_whole(
    original: Graph,
    optimised: Graph,
    *,
    given: object = None,
    seed: int = 0,
    memo: Memo | None = None,
    known: Run | None = None,
) -> WholeRun:
    """Export both graphs, load and run them once, and compare their outputs.

    Inputs on which the original itself fails are replaced by gentler ones; if it fails on all of them, the
    result is loaded but not run.

    Args:
        original: The graph before rewriting.
        optimised: The graph after rewriting.
        given: The model of the user, an ``onnx.ModelProto`` or the path of a file; if it is None, the
            original is exported unless ``known`` has its outputs.
        seed: The seed of the inputs.
        memo: A cache of values that depend only on weights.
        known: An earlier run of the original as it would be exported.
    """
    import onnxruntime as ort

    version = f"ONNX Runtime {ort.__version__}"
    if original.info is not None and original.info.tail:
        given = None  # the tail is equal in both models, and the whole file has other inputs and outputs

    def load() -> InferenceSession:
        if given is None:
            return _session(fold_moves(original, memo=memo))
        return runtime.session(given, optimise=False, arena=False, prepack=False)

    first: InferenceSession | None = None
    if given is None and known is not None and known.outputs:
        run = known
    else:
        try:
            first = load()
            run = first_run(first, original, seed)
        except (runtime.RuntimeFailure, ModelError) as refusal:
            try:
                to_onnx_apart(optimised)
            except ModelError as why:
                if optimised is not original:
                    reason = f"the result cannot be written: {one_line(why, 240)}"
                    return WholeRun(version, why=reason, error=math.inf)
            return _evaluated(original, optimised, seed) or not_run(one_line(refusal, 240))
    if run.failure and optimised is original and given is None:
        return not_run(run.failure)
    if optimised is original and first is not None and given is None:
        return _compared(version, run, run.outputs, tolerance_of(original))
    try:
        second = _session(fold_constants(optimised, keep_overflow=True, keep_transposed=True, memo=memo))
    except (runtime.RuntimeFailure, ModelError) as refusal:
        by_us = _evaluated(original, optimised, seed)
        if by_us is not None:
            return by_us
        return WholeRun(version, why=f"the result does not load: {one_line(refusal, 240)}", error=math.inf)
    if run.failure:
        return not_run(run.failure)

    def rounded() -> InferenceSession | None:
        try:
            model = _rounded_model(original, given)
            return (
                None if model is None else runtime.session(model, optimise=False, arena=False, prepack=False)
            )
        except (runtime.RuntimeFailure, ModelError):
            return None

    return _judged(second, original, run, version, lambda: first or load(), rounded)


def without_kernels(*graphs: Graph) -> tuple[str, ...]:
    """Return the operators of graphs for which ONNX Runtime has no kernel."""
    return tuple(sorted({n.op for g in graphs for n in g.nodes if without_kernel(n.op)}))


def _evaluated(original: Graph, optimised: Graph, seed: int) -> WholeRun | None:
    """Compare both graphs in numpy, in the model's dtype; None if all operators have kernels, or one is opaque."""
    lacking = without_kernels(original, optimised)
    if not lacking or original.opaques or optimised.opaques:
        return None
    if work(original) > MOST_WORK:
        why = f"ONNX Runtime has no kernel for {', '.join(lacking)}, and the model is too large for numpy"
        return replace(not_run(why), lacking=lacking)
    inputs = random_inputs(original, seed, 0)
    run = Run(inputs, evaluate(original, inputs))
    compared = _compared("numpy", run, evaluate(optimised, inputs), tolerance_of(original))
    return replace(compared, lacking=lacking)


def run_both(
    first: InferenceSession, second: InferenceSession, original: Graph, seed: int, version: str
) -> WholeRun:
    """Run two loaded models on inputs drawn for a graph and compare their outputs.

    Args:
        first: The original model.
        second: The result.
        original: The graph of the original model.
        seed: The seed of the inputs.
        version: The note of the outcome: the name and version of the runtime.
    """
    run = first_run(first, original, seed)
    return not_run(run.failure) if run.failure else _judged(second, original, run, version, lambda: first)


def _judged(
    second: InferenceSession,
    original: Graph,
    run: Run,
    version: str,
    loaded: Callable[[], InferenceSession],
    rounded: Callable[[], InferenceSession | None] = lambda: None,
) -> WholeRun:
    """Run a result on inputs that the original accepts; ``rounded`` loads that with its weights rounded otherwise."""
    try:
        found = runtime.run_session(second, run.inputs, seconds=_seconds(original))
    except runtime.RuntimeFailure as refusal:
        why = f"the result fails on inputs that the original takes: {one_line(refusal, 240)}"
        return WholeRun(version, why=why, error=math.inf)
    outcome = _compared(version, run, found, tolerance_of(original))
    if not outcome.why:
        return outcome
    if _unsteady(loaded(), rounded_otherwise(run.inputs), run.outputs, outcome.error):
        what = "inputs"
    elif _unsteady(rounded(), run.inputs, run.outputs, outcome.error):
        what = "weights"
    else:
        return outcome
    note = f"{version}; the original differs from itself as much when {what} are rounded otherwise"
    return replace(_compared(note, run, found, math.inf), steady=False)


def _seconds(graph: Graph) -> float:
    loops = any(b"Loop" in o.payload for o in graph.opaques.values())
    return runtime.LOOP_SECONDS if loops else RUN_SECONDS


def _session(graph: Graph) -> InferenceSession:
    """Load a graph as it is, without copying its weights."""
    apart = to_onnx_apart(graph, fold=False, whole=False)
    return runtime.session(apart, optimise=False, arena=False, prepack=False)


def _compared(note: str, run: Run, found: Mapping[str, np.ndarray], tolerance: float) -> WholeRun:
    """Compare the outputs of a result with those of a run of the original."""
    errors: dict[str, float] = {}
    why, output = "", ""
    index: tuple[int, ...] = ()
    for name, value in run.outputs.items():
        other = found.get(name)
        if other is None:
            return WholeRun(note, why=f"the result has no output {name!r}", error=math.inf)
        error, where = _distance(value, other)
        errors[name] = error
        if error > tolerance and not why:
            output, index = name, tuple(int(i) for i in where)
            shown = [_entry(v, index) for v in (value, other)]
            why = f"output {name!r} at {list(index)}: {shown[0]} in the original, {shown[1]} in the result"
    worst = max(errors.values(), default=0.0)
    return WholeRun(note, why, worst, errors, output, index, run.inputs, run.outputs, found)


def _distance(expected: np.ndarray, found: np.ndarray) -> tuple[float, Any]:
    return difference(expected, found) if expected.dtype == found.dtype else (math.inf, (0,) * expected.ndim)


def _entry(array: np.ndarray, index: tuple[int, ...]) -> str:
    if array.ndim != len(index) or any(i >= n for i, n in zip(index, array.shape, strict=True)):
        return f"an array of shape {array.shape}"
    value = array[index]
    return f"{float(value):.9g}" if array.dtype.kind in "fiub" else str(value)


def _unsteady(
    loaded: InferenceSession | None,
    moved: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    error: float,
) -> bool:
    """Return whether outputs change as much if inputs, or the loaded weights, are rounded otherwise."""
    try:
        again = {} if loaded is None else runtime.run_session(loaded, moved, seconds=RUN_SECONDS)
    except runtime.RuntimeFailure:
        again = {}
    own = max((_distance(expected[name], again[name])[0] for name in expected if again), default=0.0)
    return bool(again) and error <= _CONDITION * own


def _rounded_model(original: Graph, given: Any) -> onnx.ModelProto | None:
    """Return a model whose weights are changed by one rounding; None if they are many."""
    if sum(w.type.elements for w in original.weights.values()) > MOST_ELEMENTS:
        return None
    if given is None:
        model = to_onnx(original, fold=False, whole=False)
    else:
        model = copied(given) if isinstance(given, onnx.ModelProto) else onnx.load(given)
    round_weights_otherwise(model)
    return model


# -- sizes at which the original runs ------------------------------------------------------------------------
def at_accepted_sizes(model: Model, seed: int, until: float) -> Model:
    """Return a model priced at sizes at which the original runs, if some are found before ``until``.

    Only operators that are kept as they are may know that a mask is as long as a cache and the new tokens, so a
    model without any has its types at the sizes of its prices, and they tell.
    """
    if not model.symbols or not model.searched.opaques or model.source is None:
        return model
    left = min(_SEARCHED, until - time.perf_counter())
    runs = accepted(model, runtime.cleaned_model(model).apart, seed, left) if left > 0 else None
    if runs is None or runs[0] == model.sizes:
        return model
    try:
        return model.priced_at(runs[0])
    except (TypeMismatch, GraphError):  # such as an empty tensor, which graphs do not have
        return model


def accepted(
    model: Model, original: Apart, seed: int, seconds: float
) -> tuple[Mapping[str, int], Mapping[str, np.ndarray]] | None:
    """Return sizes and inputs on which the original runs in ONNX Runtime, or None if none are found in time.

    The sizes of the prices come first. Then come the certificate's, multiplied as far as the prices' sizes
    allow, and last as they are.

    Args:
        model: The model.
        original: The form of it that runs.
        seed: The seed of the inputs.
        seconds: The time limit; one run may exceed it.
    """
    ends = time.monotonic() + seconds
    try:
        loaded = runtime.session(original, threads=1)
    except (runtime.RuntimeFailure, ModelError):
        return None
    priced, *others = model.bindings()
    for sizes in (priced, *(_enlarged(small, model) for small in others), *others):
        run = first_run(loaded, model.graph if sizes is priced else model.drawn_at(sizes), seed)
        if run.outputs:
            return sizes, run.inputs
        if time.monotonic() > ends:
            return None
    return None


def _enlarged(sizes: Mapping[str, int], model: Model) -> dict[str, int]:
    """Return sizes times the largest number that leaves none above that of the prices; 1 stays 1 there."""
    grow = [name for name, most in model.sizes.items() if most > 1]
    factor = max(1, min((model.sizes[name] // sizes[name] for name in grow), default=1))
    return model.generic.completed({n: k * factor if n in grow else 1 for n, k in sizes.items()})
