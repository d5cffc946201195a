"""Prices of operators on generic extents, at the sizes that were chosen for the symbolic dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from workbench.costs import CostModel
from workbench.costs.model import OpInstance
from workbench.egraph.at_sizes import attrs_at, attrs_depend, depends, type_at
from workbench.egraph.egraph import EGraph
from workbench.graph import Graph
from workbench.ops.inputs_and_opaque import RUNTIME
from workbench.symbolic import Generic
from workbench.symbolic.sizes import named

#: Cost of a term that cannot be used: more than any graph costs.
_FORBIDDEN: Final = 1e12


class PricedAt(CostModel):
    """A cost model that asks another one for prices at chosen sizes.

    It brings instances of generic extents to these sizes first. A weight whose extents depend on a symbol
    could not be computed once and stored: :meth:`settle` keeps such terms from being extracted.
    """

    def __init__(self, model: CostModel, generic: Generic, sizes: Mapping[str, int]) -> None:
        self.inner = model
        self._generic = generic
        self._sizes = sizes

    @property
    def source(self) -> str:
        """Return a description of the source of the figures."""
        return f"{self.inner.source}, at {named(self._sizes)}"

    @property
    def device(self) -> str:
        """Return the device that the figures are of."""
        return self.inner.device

    @property
    def analytic(self) -> bool:
        """Return whether the prices are those of a roofline."""
        return self.inner.analytic

    @property
    def measured(self) -> bool:
        """Return whether :meth:`measure` can replace estimates."""
        return self.inner.measured

    def bind(self, graph: Graph) -> None:
        """Name the current model."""
        self.inner.bind(graph)

    def measure(self, instances: Sequence[OpInstance]) -> int:
        """Measure these instances at the chosen sizes; return the number of new measurements."""
        return self.inner.measure(self._moved(instances))

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        from workbench.frontends.onnx.symbolic_values import SIZE_KEY

        moved = self._moved(instances)
        places = {instance: i for i, instance in enumerate(dict.fromkeys(moved))}
        prices = np.asarray(self.inner.price(list(places)), dtype=float)
        costs = np.array([prices[places[m]] for m in moved])
        # An operator that computes a size reads the shape of an input, not its elements.
        free = [i.op == "opaque" and str(i.attrs[0]).startswith(SIZE_KEY) for i in moved]
        return np.where(free, 0.0, costs)

    def with_model(self, model: CostModel) -> PricedAt:
        """Return a model for the same sizes with the prices of another model."""
        return PricedAt(model, self._generic, self._sizes)

    def settle(self, egraph: EGraph, costs: np.ndarray) -> np.ndarray:
        """Return the costs with weights of symbolic size made too expensive to be extracted."""
        constant = egraph.constant_classes().tolist()
        symbolic = [depends(k, self._generic) for k in egraph.types]
        eclass = egraph.eclass.tolist()
        changed = costs.copy()
        for i, (op, attrs) in enumerate(zip(egraph.ops, egraph.attrs, strict=True)):
            if op in RUNTIME or not constant[eclass[i]]:
                continue
            if all(constant[c] for c in egraph.operands(i).tolist()) and (
                symbolic[eclass[i]] or attrs_depend(op, attrs, self._generic)
            ):
                changed[i] = _FORBIDDEN
        return changed

    def _moved(self, instances: Sequence[OpInstance]) -> list[OpInstance]:
        generic, sizes = self._generic, self._sizes
        return [
            OpInstance(
                i.op,
                attrs_at(i.op, i.attrs, generic, sizes),
                tuple(type_at(k, generic, sizes) for k in i.inputs),
                type_at(i.type, generic, sizes),
                i.constant,
            )
            for i in instances
        ]
