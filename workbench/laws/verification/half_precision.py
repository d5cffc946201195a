"""Check whether rules keep numbers in the range of 16-bit floats and as accurate as before, on random instances.

:mod:`workbench.certification.half_precision` computes the two sides of an instance.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from workbench.certification.half_precision import (
    UNITS,
    Computed,
    RangeFault,
    computed,
    fault_of,
    is_float,
    rounded,
    without_signs,
)
from workbench.graph import Node
from workbench.graph.graph import live
from workbench.laws.verification.instances.linear import Inconsistent, NotLinear
from workbench.laws.verification.instances.spaces import Ground, draw_family, instance_of
from workbench.laws.verification.refuting.refute import FULL, TINY
from workbench.laws.verification.refuting.sampling import draw_instance
from workbench.ops import TypeMismatch, spec_of
from workbench.rules.pattern import Rule

#: Powers of ten for the size of entries of running operands, and of weights.
RUNNING: Final = (-2.5, 0.0, 2.5)
WEIGHTS: Final = (-1.5, -0.5, 0.0)
#: Instances per rule, and draws of magnitudes per instance.
INSTANCES, DRAWS = 8, 32


def judge_range(rule: Rule, dtype: str, *, seed: int = 0) -> RangeFault | None:
    """Return the fault of the smallest instance on which a rule's target is worse than its source, or None.

    Instances are small, in a type of :data:`UNITS`. Operands that run are drawn with magnitudes from 0.003 to 300,
    and weights (the operands of a convolution or a batch norm other than the input) with ordinary magnitudes.
    """
    rng = random.Random(seed * 1_000_003 + zlib.crc32(rule.name.encode()))
    best: tuple[int, RangeFault] | None = None
    shown = done = tries = 0
    while done < INSTANCES and shown < 4 and tries < 40 * INSTANCES:
        tries += 1
        case = _instance(rule, rng, small=tries < 20 * INSTANCES)
        if case is None:
            continue
        done += 1
        for _ in range(DRAWS):
            fault = case.draw(dtype, np.random.default_rng(rng.getrandbits(32)))
            if fault is not None:
                shown += 1
                size = sum(case.nodes[i].tensor.elements for i in case.leaves.values())
                if best is None or size < best[0]:
                    best = size, fault
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

    def draw(self, dtype: str, rng: np.random.Generator) -> RangeFault | None:
        """Draw operands and return the fault of the right side relative to the left one, or None."""
        values: dict[int, np.ndarray] = {}
        text = []
        lefts, rights = ([pair[side] for pair in self.pairs] for side in (0, 1))
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
        try:
            left = self._run(lefts, values, dtype)
            if left.strange:
                return None
            exact, gross = self._run(lefts, values, None), self._run(lefts, without_signs(values), None)
            right = self._run(rights, values, dtype)
        except (ValueError, IndexError, ArithmeticError):
            return None
        for a, b in self.pairs:
            found = ((left.values[a], a), (right.values[b], b))
            x, y = (rounded(v, dtype) if self.constant[i] and is_float(v) else v for v, i in found)
            fault = fault_of(exact.values[a], gross.values[a], x, y, "the right side", dtype)
            if fault is not None:
                return RangeFault(fault.kind, dtype, fault.output, fault.error, fault.own, ", ".join(text))
        return None

    def _run(self, roots: Sequence[int], values: Mapping[int, np.ndarray], dtype: str | None) -> Computed:
        return computed(self.nodes, values, self.constant, live(self.nodes, roots), dtype)


def _instance(rule: Rule, rng: random.Random, *, small: bool) -> _Sides | None:
    menu, ground = TINY if small and rng.random() < 0.5 else FULL, Ground()
    with suppress(Inconsistent, TypeMismatch):
        try:
            family = draw_family(rule, rng, menu)
            instance = None if family is None else instance_of(*family)
        except NotLinear:
            instance = draw_instance(rule, rng)
        if instance is not None:
            pairs = ground.add(instance)
            return _Sides(ground.builder.nodes, ground.leaves, pairs, *_roles(ground.builder.nodes))
    return None


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
def range_record(rule: Rule) -> dict[str, str]:
    """Return the record of a rule's range by type: ``kept``, or the kind of fault and an instance."""
    record = dict.fromkeys(UNITS, "kept")
    for dtype in UNITS:
        if (fault := judge_range(rule, dtype)) is not None:
            off = f"{fault.error:.1e} off, the source {fault.own:.1e}; " * (fault.kind != "overflows")
            record[dtype] = f"{fault.kind}: {off}{fault.where}"
    return record
