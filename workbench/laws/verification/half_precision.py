"""Check whether rewriting keeps numbers in the range of 16-bit floats and as accurate as before.

Over the reals the two sides of a rule are equal. In float16 one side may overflow although the other does
not, and in float16 and bfloat16 it may lose digits that the other keeps. Here graphs are computed as a device
computes them in such a type: the result of every operator is rounded, sums inside an operator are not, and
values that depend on weights alone are computed exactly and rounded once.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.graph import Graph, Node
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.ops.inputs_and_opaque import RUNTIME
from workbench.ops.registry import replacements
from workbench.ops.types import FLOAT_DTYPES
from workbench.rules.pattern import Rule
from workbench.rules.verdicts import law_of, statuses

if TYPE_CHECKING:
    from workbench.rules.ruleset import RuleSet

#: The simulated types, each with the distance from 1 to the next number.
UNITS: Final[dict[str, float]] = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
#: The error of the rewritten side may be this many times the original's error, or half a unit if larger.
FACTOR: Final = 8.0
#: Powers of ten for the size of entries of running operands, and of weights.
RUNNING: Final = (-2.5, 0.0, 2.5)
WEIGHTS: Final = (-1.5, -0.5, 0.0)
#: Instances per rule, and draws of magnitudes per instance.
INSTANCES, DRAWS = 8, 32

#: Operators that do no arithmetic in the element type of their result.
_WITHOUT_ARITHMETIC: Final = RUNTIME | {"cast", "identity"}


@dataclass(frozen=True, slots=True)
class RangeFault:
    """A value that a rewrite drives out of range (kind ``overflows``) or makes less accurate (``loses``).

    ``error`` and ``own`` are the errors of the rewritten and of the original side, relative to the largest
    entry of ``output``; the error of an overflow is infinite.
    """

    kind: str
    dtype: str
    output: str
    error: float
    own: float
    where: str = ""

    def __str__(self) -> str:
        at = f" ({self.where})" if self.where else ""
        if self.kind == "overflows":
            return f"{self.output} overflows in {self.dtype} although the original does not{at}"
        return (
            f"{self.output} is {self.error:.1e} off in {self.dtype}, the original {self.own:.1e}, "
            f"more than {FACTOR:g} times as much{at}"
        )


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array of float64 with every entry rounded to a 16-bit type."""
    import ml_dtypes

    with np.errstate(over="ignore", invalid="ignore"):
        short = array.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return np.asarray(short.astype(np.float64))


# -- graphs -------------------------------------------------------------------------------------------
def range_fault(
    original: Graph, rewritten: Graph, boundary: Sequence[Mapping[str, np.ndarray]], dtype: str | None = None
) -> RangeFault | None:
    """Return the fault of a rewritten region in 16-bit floats, or None if there is none.

    A draw on which the original itself is not finite is skipped, and so is an output that is not a float.

    Args:
        original: The original region.
        rewritten: The rewritten region, with the same names of inputs and outputs.
        boundary: Values of the inputs by name, one mapping per draw.
        dtype: The 16-bit type; by default that of the regions. If they have none, the result is None.
    """
    dtype = dtype or short_dtype(original) or short_dtype(rewritten)
    if dtype is None:
        return None
    for draw, inputs in enumerate(boundary):
        exact = _computed(original, inputs, None)
        ours = _computed(original, inputs, dtype)
        if ours.strange:
            continue
        theirs = _computed(rewritten, inputs, dtype)
        gross = _computed(original, inputs, None, positive=True)
        outputs = dict(rewritten.outputs)
        for name, i in original.outputs:
            sides = ours.values[i], theirs.values[outputs[name]]
            fault = _fault(exact.values[i], gross.values[i], *sides, f"output {name!r}", dtype)
            if fault is not None:
                where = f"draw {draw}" + (f", first in {theirs.strange}" if theirs.strange else "")
                return RangeFault(fault.kind, dtype, fault.output, fault.error, fault.own, where)
    return None


def short_dtype(graph: Graph) -> str | None:
    """Return the 16-bit type in which a graph's operators compute: float16 if both, None if neither."""
    found = {
        node.type.dtype
        for node, live, constant in zip(graph.nodes, graph.reachable(), graph.constant(), strict=True)
        if live and not constant and isinstance(node.type, TensorType) and node.op not in _WITHOUT_ARITHMETIC
    }
    return next((dtype for dtype in UNITS if dtype in found), None)


@dataclass(slots=True, eq=False)
class _Run:
    """Values by node, and the first operator with a result that is not finite."""

    values: dict[int, np.ndarray]
    strange: str = ""


def _computed(
    graph: Graph, inputs: Mapping[str, np.ndarray], dtype: str | None, *, positive: bool = False
) -> _Run:
    """Compute a graph in float64; a given ``dtype`` rounds the results of operators that run.

    If ``positive``, all floats that the graph reads lose their signs.
    """
    leaves = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            leaves[i] = np.asarray(inputs[node.attr("name")])
        elif node.op == "weight":
            leaves[i] = graph.weights[node.attr("name")].value()
    if positive:
        leaves = _positive(leaves)
    return _run(list(graph.nodes), leaves, list(graph.constant()), list(graph.reachable()), dtype)


def _positive(leaves: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    return {i: np.abs(v.astype(np.float64)) if _is_float(v) else v for i, v in leaves.items()}


def _run(
    nodes: Sequence[Node],
    leaves: Mapping[int, np.ndarray],
    constant: Sequence[bool],
    live: Sequence[bool],
    dtype: str | None,
) -> _Run:
    found = _Run({})
    values = found.values
    for i, node in enumerate(nodes):
        if not live[i]:
            continue
        if i in leaves:
            value = np.asarray(leaves[i])
            values[i] = value.astype(np.float64) if _is_float(value) else value
            if dtype is not None and _is_float(value) and not constant[i]:
                values[i] = rounded(values[i], dtype)
            continue
        operands = [values[j] for j in node.inputs]
        if dtype is not None and not constant[i]:
            # A value computed from weights alone is rounded once, when an operator that runs reads it.
            operands = [
                rounded(v, dtype) if constant[j] and v.dtype == np.float64 else v
                for v, j in zip(operands, node.inputs, strict=True)
            ]
        attrs = node.named_attrs()
        if not node.inputs and attrs.get("dtype") in FLOAT_DTYPES:
            attrs["dtype"] = "float64"
        with np.errstate(all="ignore"):
            if node.op == "cast" and attrs.get("to") in FLOAT_DTYPES:
                value = operands[0].astype(np.float64)
            else:
                run = spec_of(node.op).evaluate
                assert run is not None, node.op
                value = np.asarray(run(operands, attrs))
            if dtype is not None and not constant[i] and value.dtype == np.float64:
                value = rounded(value, _type_of(node, dtype)) if _type_of(node, dtype) in UNITS else value
        values[i] = value
        if not found.strange and value.dtype == np.float64 and not np.isfinite(value).all():
            found.strange = node.op
    return found


def _type_of(node: Node, dtype: str) -> str:
    """Return the type to which a result is rounded; wider types of mixed graphs stay exact."""
    declared = node.type.dtype if isinstance(node.type, TensorType) else dtype
    return dtype if declared in ("float16", "bfloat16", _DRAWN) else declared


#: Instances of rules are drawn in this type, which represents any float type.
_DRAWN: Final = "float32"


def _is_float(value: np.ndarray) -> bool:
    return value.dtype.kind == "f" or str(value.dtype) == "bfloat16"


def _fault(
    exact: np.ndarray, gross: np.ndarray, ours: np.ndarray, theirs: np.ndarray, output: str, dtype: str
) -> RangeFault | None:
    """Compare both sides of a value; ``gross`` is the value for positive operands, without cancellation."""
    if exact.dtype != np.float64 or not exact.size or not np.isfinite(ours).all():
        return None
    if not np.isfinite(theirs).all():
        return RangeFault("overflows", dtype, output, float("inf"), _off(exact, gross, ours))
    own, error = _off(exact, gross, ours), _off(exact, gross, theirs)
    if error > FACTOR * max(own, UNITS[dtype] / 2):
        return RangeFault("loses", dtype, output, error, own)
    return None


def _off(exact: np.ndarray, gross: np.ndarray, found: np.ndarray) -> float:
    size = max(float(np.abs(exact).max()), float(np.abs(gross[np.isfinite(gross)]).max(initial=0.0)))
    gap = float(np.abs(exact - found).max())
    return gap / size if size else (0.0 if not gap else float("inf"))


# -- rules --------------------------------------------------------------------------------------------
def judge_range(rule: Rule, dtype: str, *, seed: int = 0, instances: int = INSTANCES) -> RangeFault | None:
    """Return the fault of the smallest instance on which a rule's target is worse than its source, or None.

    Instances are small. Operands that run are drawn with magnitudes from 0.003 to 300, and weights (the
    operands of a convolution or a batch norm other than the input) with ordinary magnitudes.

    Args:
        rule: The rule.
        dtype: A type of :data:`UNITS`.
        seed: Seed of the random instances.
        instances: Number of instances.
    """
    rng = random.Random(seed * 1_000_003 + zlib.crc32(rule.name.encode()))
    best: tuple[int, RangeFault] | None = None
    shown = done = tries = 0
    while done < instances and shown < 4 and tries < 40 * instances:
        tries += 1
        case = _instance(rule, rng, small=tries < 20 * instances)
        if case is None:
            continue
        done += 1
        for _ in range(DRAWS):
            fault = case.draw(dtype, np.random.default_rng(rng.getrandbits(32)))
            if fault is not None:
                shown += 1
                if best is None or case.size < best[0]:
                    best = case.size, fault
                break
    return best[1] if best else None


@dataclass(slots=True, eq=False)
class _Sides:
    """Both sides of one instance as nodes, with marks of weights and variances."""

    nodes: Sequence[Node]
    leaves: Mapping[str, int]
    pairs: Sequence[tuple[int, int]]
    constant: list[bool]
    variances: set[int]

    @property
    def size(self) -> int:
        """Return the number of entries of all operands."""
        return sum(self.nodes[i].tensor.elements for i in self.leaves.values())

    def draw(self, dtype: str, rng: np.random.Generator) -> RangeFault | None:
        """Draw operands and return the fault of the right side relative to the left one, or None."""
        values: dict[int, np.ndarray] = {}
        text = []
        for name, i in self.leaves.items():
            kind = self.nodes[i].tensor
            power = float(rng.choice(WEIGHTS if self.constant[i] else RUNNING))
            # All entries have similar sizes: an accidentally tiny entry shows nothing about the rule.
            data = rng.choice((-1.0, 1.0), kind.shape) * rng.uniform(0.5, 2.0, kind.shape) * 10.0**power
            if i in self.variances:
                data = np.asarray(rng.uniform(0.25, 4.0, kind.shape))
            elif self.constant[i] and kind.rank == 4:
                data /= max(1.0, float(np.prod(kind.shape[1:]))) ** 0.5
            values[i] = rounded(data, dtype)
            text.append(f"{name}{list(kind.shape)} about {float(np.abs(values[i]).max(initial=0.0)):.2g}")
        left = self._run([a for a, _ in self.pairs], values, dtype)
        if left is None or left.strange:
            return None
        exact = self._run([a for a, _ in self.pairs], values, None)
        gross = self._run([a for a, _ in self.pairs], _positive(values), None)
        right = self._run([b for _, b in self.pairs], values, dtype)
        if exact is None or gross is None or right is None:
            return None
        for a, b in self.pairs:
            found = ((left.values[a], a), (right.values[b], b))
            x, y = (rounded(v, dtype) if self.constant[i] and _is_float(v) else v for v, i in found)
            fault = _fault(exact.values[a], gross.values[a], x, y, "the right side", dtype)
            if fault is not None:
                return RangeFault(fault.kind, dtype, fault.output, fault.error, fault.own, ", ".join(text))
        return None

    def _run(self, roots: Sequence[int], values: Mapping[int, np.ndarray], dtype: str | None) -> _Run | None:
        live = [False] * len(self.nodes)
        for root in roots:
            live[root] = True
        for i in range(len(self.nodes) - 1, -1, -1):
            if live[i]:
                for j in self.nodes[i].inputs:
                    live[j] = True
        try:
            return _run(self.nodes, values, self.constant, live, dtype)
        except (ValueError, IndexError, ArithmeticError):
            return None


def _instance(rule: Rule, rng: random.Random, *, small: bool) -> _Sides | None:
    from workbench.laws.verification.instances.ground import Ground, instance_of, sample
    from workbench.laws.verification.instances.linear import Inconsistent, NotLinear
    from workbench.laws.verification.instances.nondeterminism import RandomChoices
    from workbench.laws.verification.instances.spaces import open_space
    from workbench.laws.verification.refuting import sampling
    from workbench.laws.verification.refuting.refute import FULL, TINY

    menu = TINY if small and rng.random() < 0.5 else FULL
    try:
        space = open_space(rule, RandomChoices(rng), menu)
        values = sample(space, rng, menu)
        if values is None:
            return None
        instance = instance_of(space, values)
    except NotLinear:
        drawn = sampling.draw_instance(rule, rng)
        if drawn is None:
            return None
        instance = drawn
    except (Inconsistent, TypeMismatch):
        return None
    ground = Ground()
    try:
        pairs = ground.add(instance)
    except TypeMismatch:
        return None
    return _Sides(ground.builder.nodes, ground.leaves, pairs, *_roles(ground.builder.nodes))


def _roles(nodes: Sequence[Node]) -> tuple[list[bool], set[int]]:
    """Return for every node whether it depends on weights alone, and the set of leaves that are variances."""
    weights: set[int] = set()
    variances: set[int] = set()
    for i in range(len(nodes) - 1, -1, -1):
        node, spec = nodes[i], spec_of(nodes[i].op)
        if spec.weights_from is not None:
            weights.update(node.inputs[spec.weights_from :])
        if i in weights:
            weights.update(node.inputs)
        if spec.variance is not None and len(node.inputs) > spec.variance:
            variances.add(node.inputs[spec.variance])
    constant: list[bool] = []
    for i, node in enumerate(nodes):
        constant.append(i in weights if node.op == "input" else all(constant[j] for j in node.inputs))
    return constant, variances


# -- the library's record -------------------------------------------------------------------------------
def range_record(rule: Rule, seed: int = 0) -> dict[str, str]:
    """Return the record of a rule's range by type: ``kept``, or the kind of fault and an instance."""
    found = {}
    for dtype in UNITS:
        fault = judge_range(rule, dtype, seed=seed)
        found[dtype] = "kept" if fault is None else f"{fault.kind}: {_evidence(fault)}"
    return found


def _evidence(fault: RangeFault) -> str:
    if fault.kind == "overflows":
        return fault.where
    return f"{fault.error:.1e} off, the source {fault.own:.1e}; {fault.where}"


@lru_cache(maxsize=4096)
def _judged(rule: Rule, dtype: str, replaced: int) -> bool:
    return judge_range(rule, dtype) is None


def keeps_range(rule: Rule, dtype: str) -> bool:
    """Return whether a rule keeps range and accuracy in a 16-bit type, by the record or by judging it now."""
    known = statuses().get(rule.name, {})
    if known.get("law") == law_of(rule) and dtype in known.get("ranges", {}):
        return bool(known["ranges"][dtype] == "kept")
    return _judged(rule, dtype, replacements())


def rules_for(graph: Graph, rules: RuleSet) -> tuple[Any, tuple[str, ...]]:
    """Return the rules that may rewrite a graph, and the names of those left out.

    A graph that computes in float16 or bfloat16 is not rewritten by rules that may overflow or lose
    accuracy if the original does not. Any other graph is rewritten by all rules.
    """
    from dataclasses import replace

    dtype = short_dtype(graph)
    if dtype is None:
        return rules, ()
    known: frozenset[str] = getattr(rules, "in_range", frozenset())
    kept = tuple(rule for rule in rules if rule.name in known or keeps_range(rule, dtype))
    names = {rule.name for rule in kept}
    return replace(rules, rules=kept), tuple(rule.name for rule in rules if rule.name not in names)
