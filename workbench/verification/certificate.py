"""Certify that an optimised graph computes what the original computes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from workbench.face import Face
from workbench.graph import Graph, Opaque, evaluate, fold_constants
from workbench.graph.evaluate import OpaqueRunner
from workbench.ops import TensorType
from workbench.ops.types import FLOAT_DTYPES

#: Rewrites are exact over the reals: in float64 the two graphs differ by rounding alone.
EXACT: Final = 1e-9
#: Folded weights are rounded once to the model's dtype: what that may change in the outputs.
DEPLOYED: Final[dict[str, float]] = {"float64": 1e-9, "float32": 1e-4, "float16": 5e-2, "bfloat16": 2e-1}


@dataclass(frozen=True, slots=True)
class Evidence:
    """Hold one disagreement: where, in which draw, and both values."""

    output: str
    draw: int
    index: tuple[int, ...]
    expected: float
    found: float
    form: str

    def __str__(self) -> str:
        return (
            f"output {self.output!r} at {list(self.index)}: {self.expected:.9g} in the original, "
            f"{self.found:.9g} in the optimised graph ({self.form}, draw {self.draw})"
        )


@dataclass(frozen=True, slots=True)
class Certificate(Face):
    """Hold the outcome of a comparison on random inputs.

    ``error`` is the largest difference in float64, relative to the largest entry of its output;
    ``deployed_error`` the same with weights folded and rounded to the model's dtype, as they are saved.
    ``rounding`` is how far the saved form, computed in the model's dtype, is from the original in float64
    on the first input, ``own_rounding`` how far the original in that dtype is itself: what rewriting costs
    in accuracy, beside what the dtype costs anyway. A certificate is evidence on ``draws`` inputs from
    ``seed``, not a proof for all inputs; what is known of the rewrites themselves says ``rules``: the
    verdict on every rule that fired in the run, those that made the result first.
    """

    passed: bool
    draws: int
    seed: int
    arithmetic: str
    error: float
    tolerance: float
    deployed_error: float
    deployed_tolerance: float
    outputs: tuple[str, ...]
    reason: str = ""
    evidence: Evidence | None = None
    seconds: float = 0.0
    errors: Mapping[str, float] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    rounding: float = 0.0
    own_rounding: float = 0.0

    def verdict(self) -> str:
        """Return the outcome in one line."""
        if not self.passed:
            return f"FAILED: {self.reason}"
        plural = "" if self.draws == 1 else "s"
        return (
            f"equal on {self.draws} random input{plural} ({self.arithmetic}): relative error "
            f"{self.error:.1e} (≤ {self.tolerance:.0e}), as saved {self.deployed_error:.1e} "
            f"(≤ {self.deployed_tolerance:.0e})"
        )

    def rounding_line(self) -> str:
        """Return in one line how far off the result is in the model's dtype, and the original itself."""
        if not self.rounding and not self.own_rounding:
            return "computed without rounding"
        return (
            f"in the model's dtype {self.rounding:.1e} off the original in float64; "
            f"the original itself is {self.own_rounding:.1e} off"
        )

    def rules_line(self) -> str:
        """Return in one line what is known of the rules that fired."""
        if not self.rules:
            return "no rule fired"
        counts: dict[str, int] = {}
        for verdict in self.rules.values():
            counts[verdict] = counts.get(verdict, 0) + 1
        known = ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
        weak = [name for name, verdict in self.rules.items() if verdict != "proved"]
        named = f" ({', '.join(weak[:6])}{', …' if len(weak) > 6 else ''} not proved)" if weak else ""
        return f"{len(self.rules)} rules fired: {known}{named}"

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "passed": self.passed,
            "draws": self.draws,
            "seed": self.seed,
            "arithmetic": self.arithmetic,
            "error": _plain(self.error),
            "tolerance": self.tolerance,
            "deployed_error": _plain(self.deployed_error),
            "deployed_tolerance": self.deployed_tolerance,
            "rounding": _plain(self.rounding),
            "own_rounding": _plain(self.own_rounding),
            "outputs": list(self.outputs),
            "reason": self.reason,
            "rules": dict(self.rules),
        }

    def __repr__(self) -> str:
        return f"Certificate: {self.verdict()}"


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else "infinite"


def certify(
    original: Graph,
    optimised: Graph,
    *,
    draws: int = 3,
    seed: int = 0,
    opaque: OpaqueRunner | None = None,
    seconds: float = 60.0,
) -> Certificate:
    """Compare two graphs on random inputs; the certificate says whether they agree.

    Names, order and types of inputs and outputs must be the same. On each draw the original is
    computed in float64 (operators by their reference semantics; opaque ones by ``opaque``, in their
    own dtype), the optimised graph as it is, and once more with its weights folded. After ``seconds``
    no further draw is begun; one is always made.
    """
    began = time.perf_counter()
    names = tuple(name for name, _ in original.outputs)
    mixed = bool(original.opaques)
    arithmetic = "float64" + (", opaque operators in their own dtype" if mixed else "")
    loose = max([DEPLOYED.get(k.dtype, 0.0) for k in _types(original)], default=EXACT) or EXACT
    strict = loose if mixed else EXACT

    rounding = (0.0, 0.0)

    def result(
        done: int, worst: dict[str, float], deployed: float, why: str, at: Evidence | None
    ) -> Certificate:
        return Certificate(
            passed=not why,
            draws=done,
            seed=seed,
            arithmetic=arithmetic,
            error=max(worst.values(), default=0.0),
            tolerance=strict,
            deployed_error=deployed,
            deployed_tolerance=loose,
            outputs=names,
            reason=why,
            evidence=at,
            seconds=time.perf_counter() - began,
            errors=worst,
            rounding=rounding[0],
            own_rounding=rounding[1],
        )

    why = _interface(original, optimised)
    if why:
        return result(0, {}, 0.0, why, None)
    try:
        folded = fold_constants(optimised)
    except OverflowError as overflow:
        return result(0, {}, math.inf, str(overflow), None)
    worst: dict[str, float] = {}
    deployed = 0.0
    done = 0
    for draw in range(draws):
        if done and time.perf_counter() - began > seconds:
            break
        inputs = random_inputs(original, seed, draw)
        runner = _Replayed(opaque) if opaque is not None else None
        expected = evaluate(original, inputs, precise=True, opaque=runner)
        for form, graph, limit in (("rewritten", optimised, strict), ("as saved", folded, loose)):
            found = evaluate(graph, inputs, precise=True, opaque=runner)
            for name in names:
                error, where = difference(expected[name], found[name])
                if form == "rewritten":
                    worst[name] = max(worst.get(name, 0.0), error)
                else:
                    deployed = max(deployed, error)
                if error > limit:
                    index = tuple(int(i) for i in where)
                    at = Evidence(
                        name, draw, index, float(expected[name][index]), float(found[name][index]), form
                    )
                    return result(done + 1, worst, deployed, str(at), at)
        if not done:
            rounding = (_off(folded, inputs, expected, runner), _off(original, inputs, expected, runner))
        done += 1
    return result(done, worst, deployed, "", None)


def _off(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    exact: Mapping[str, np.ndarray],
    opaque: OpaqueRunner | None,
) -> float:
    """Return how far a graph computed in its own dtypes is from exact outputs."""
    found = evaluate(graph, inputs, opaque=opaque)
    return max(difference(exact[name], value.astype(exact[name].dtype))[0] for name, value in found.items())


def _types(graph: Graph) -> list[TensorType]:
    return [n.type for n in graph.nodes if isinstance(n.type, TensorType)]


def _interface(original: Graph, optimised: Graph) -> str:
    for what, ours, theirs in (
        ("inputs", original.input_types, optimised.input_types),
        ("outputs", original.output_types, optimised.output_types),
    ):
        if list(ours.items()) != list(theirs.items()):
            return f"the {what} differ: {ours} in the original, {theirs} in the optimised graph"
    return ""


def difference(expected: np.ndarray, found: np.ndarray) -> tuple[float, Sequence[int]]:
    """Return the largest relative difference of two arrays and where it is.

    Relative to the largest finite entry of ``expected``. Entries that are not finite must agree.
    """
    if expected.shape != found.shape:
        return math.inf, (0,) * expected.ndim
    if not np.issubdtype(expected.dtype, np.floating):
        wrong = np.argwhere(expected != found)
        return (math.inf, wrong[0].tolist()) if len(wrong) else (0.0, ())
    finite = np.isfinite(expected)
    strange = (finite != np.isfinite(found)) | (
        ~finite & ~((expected == found) | (np.isnan(expected) & np.isnan(found)))
    )
    if strange.any():
        return math.inf, np.argwhere(strange)[0].tolist()
    if not finite.any():
        return 0.0, ()
    gap = np.where(finite, np.abs(np.where(finite, expected, 0) - np.where(finite, found, 0)), 0.0)
    scale = float(np.abs(expected[finite]).max())
    where = np.unravel_index(int(gap.argmax()), gap.shape)
    largest = float(gap[where])
    return (largest / scale if scale > 0 else largest), [int(i) for i in where]


class _Replayed:
    """Run opaque operators, and repeat for the second graph what a random one gave the first."""

    def __init__(self, runner: OpaqueRunner) -> None:
        self._runner = runner
        self._seen: dict[int, Sequence[np.ndarray]] = {}

    def __call__(self, record: Opaque, operands: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        if record.deterministic:
            return self._runner(record, operands)
        if id(record) not in self._seen:
            self._seen[id(record)] = self._runner(record, operands)
        return self._seen[id(record)]


def random_inputs(graph: Graph, seed: int, draw: int) -> dict[str, np.ndarray]:
    """Return inputs that fit a graph: the same for the same seed and draw.

    Floats are normal in the first draw, in [0, 1) in the second, then normal of a larger scale with
    ties at zero. Integers used as indices stay in range; other integers are small.
    """
    limits = _index_limits(graph)
    inputs: dict[str, np.ndarray] = {}
    for k, i in enumerate(graph.inputs):
        kind = graph.nodes[i].tensor
        rng = np.random.default_rng([seed, draw, k])
        data: np.ndarray
        if kind.dtype in FLOAT_DTYPES:
            data = _floats(rng, kind.shape, draw)
        elif kind.dtype == "bool":
            data = rng.integers(0, 2, size=kind.shape)
        else:
            data = rng.integers(0, limits.get(i, 2), size=kind.shape)
        inputs[graph.nodes[i].attr("name")] = np.asarray(data).astype(kind.numpy_dtype())
    return inputs


def _floats(rng: np.random.Generator, shape: tuple[int, ...], draw: int) -> np.ndarray:
    if draw % 3 == 1:
        return np.asarray(rng.random(shape))
    data = np.asarray(rng.standard_normal(shape))
    if draw % 3 == 2:
        data = np.where(rng.random(shape) < 0.1, 0.0, 3.0 * data)
    return data


def _index_limits(graph: Graph) -> dict[int, int]:
    """Return for inputs that index a tensor the extent they must stay below."""
    limits: dict[int, int] = {}
    for node in graph.nodes:
        if node.op == "gather":
            extent = graph.nodes[node.inputs[0]].tensor.shape[node.attr("axis")]
            limits[node.inputs[1]] = min(limits.get(node.inputs[1], extent), extent)
    # Casts, reshapes and slices of an index are still that index.
    for j in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[j]
        if j in limits and node.op in ("reshape", "slice", "transpose", "expand", "identity", "cast"):
            source = node.inputs[0]
            limits[source] = min(limits.get(source, limits[j]), limits[j])
    return limits
