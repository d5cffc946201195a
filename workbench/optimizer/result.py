"""Optimised graphs, however they were found: their gain, their file, their record."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workbench.optimizer.record import RunRecord, SaturationFigures, SearchFigures, to_json
from workbench.optimizer.summary import running_operators, text_of
from workbench.run.display import Face
from workbench.run.trace import StopReason, Trace

if TYPE_CHECKING:
    from workbench.certification.certificate import Certificate
    from workbench.graph import Graph
    from workbench.optimizer.dynamic import Dynamic
    from workbench.optimizer.timing_trial import Given


class Result(Face, ABC):
    """An optimised graph; its texts, tables and files are made from its :meth:`record`."""

    __slots__ = ()

    #: The fate of the model's symbolic dimensions; None if it has none, or if they were fixed.
    dynamic: Dynamic | None = None

    if TYPE_CHECKING:
        original: Graph
        graph: Graph
        cost_before: float
        cost_after: float
        cost_source: str
        trace: Trace
        coverage: Any
        certificate: Certificate | None
        stop_reason: StopReason
        seconds: Mapping[str, float]
        settings: Mapping[str, Any]
        offending: tuple[str, ...]
        given: Given | None

        @property
        def rules(self) -> tuple[str, ...]:
            """Return the rules that made the result, the most productive first."""

    @property
    def speedup(self) -> float:
        """Return the factor by which the cost model predicts the result to be faster: before / after."""
        return self.record().speedup

    @property
    def gain(self) -> float:
        """Return ``speedup - 1``, or 0 if the result costs nothing."""
        return self.record().gain

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the optimised graph as ONNX, or as TASO's text if the path ends in ``.model``.

        If the result is the original, an ONNX model is written as it was given, cleaned. The file
        appears whole or not at all. Symbolic dimensions that were kept are symbolic in it.
        """
        from workbench.frontends import save_model
        from workbench.frontends.model_file import is_taso_model

        if is_taso_model(path):
            save_model(self.graph, path)
        elif self.graph is self.original and self.given is not None:
            self.given.cleaned().save(path)
        elif self.dynamic is not None and self.dynamic.kept:
            self.dynamic.save(path)
        else:
            save_model(self.graph, path)

    def record(self) -> RunRecord:
        """Return all figures of the result."""
        claimed, way = self._way()
        return RunRecord(
            network=self.original.name,
            cost_source=self.cost_source,
            cost_before=self.cost_before,
            cost_after=self.cost_after,
            cost_claimed=claimed,
            seconds=self.seconds,
            stop_reason=self.stop_reason,
            rules=self.rules,
            offending=self.offending,
            certificate=self.certificate,
            operators_before=running_operators(self.original),
            operators_after=running_operators(self.graph),
            fused=any(node.named_attrs().get("act", "none") != "none" for node in self.graph.nodes),
            settings=self.settings,
            coverage=self.coverage,
            way=way,
        )

    @abstractmethod
    def _way(self) -> tuple[float, SaturationFigures | SearchFigures]:
        """Return the cost of the cheapest graph found, in microseconds, and the figures of the way to it."""

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return to_json(self.record())

    def __repr__(self) -> str:
        return text_of(self.record())
