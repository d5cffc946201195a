"""What every optimised graph can say of itself, however it was found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workbench.face import Face
from workbench.summary import running_operators
from workbench.trace import StopReason

if TYPE_CHECKING:
    from workbench.graph import Graph
    from workbench.verification import Certificate


class Result(Face):
    """Give a result its gain, its file and the figures that all results share."""

    __slots__ = ()

    if TYPE_CHECKING:
        original: Graph
        graph: Graph
        cost_before: float
        cost_after: float
        cost_source: str
        certificate: Certificate | None
        stop_reason: StopReason
        seconds: Mapping[str, float]
        settings: Mapping[str, Any]
        offending: tuple[str, ...]

    @property
    def gain(self) -> float:
        """Return the speed-up that the cost model predicts: before / after - 1."""
        return self.cost_before / self.cost_after - 1 if self.cost_after > 0 else 0.0

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the optimised graph as ONNX, or as TASO's text where the path ends in ``.model``.

        The file appears whole or not at all. Symbolic dimensions that were kept are symbolic in it.
        """
        from workbench.frontends import save_model
        from workbench.frontends.model_file import is_taso_model

        dynamic = getattr(self, "dynamic", None)
        if dynamic is not None and dynamic.kept and not is_taso_model(path):
            dynamic.save(path)
            return
        save_model(self.graph, path)

    def figures(self) -> dict[str, Any]:
        """Return what all results have in common, as plain data."""
        return {
            "graph": self.original.name,
            "original": self.cost_before,
            "optimized": self.cost_after,
            "gain": self.gain,
            "cost_source": self.cost_source,
            "seconds": dict(self.seconds),
            "stop_reason": self.stop_reason.value,
            "certificate": None if self.certificate is None else self.certificate.summary(),
            "offending_rules": list(self.offending),
            "operators_before": running_operators(self.original),
            "operators_after": running_operators(self.graph),
            "settings": dict(self.settings),
        }

    def outline(self) -> list[str]:
        """Return the lines of the text face that all results share: certificate, verdicts, seconds."""
        checked = "not checked" if self.certificate is None else self.certificate.verdict()
        return [
            f"  certificate: {checked}",
            *([f"  {self.certificate.rounding_line()}"] if self.certificate is not None else []),
            *([f"  {self.certificate.rules_line()}"] if self.certificate is not None else []),
            "  seconds: " + ", ".join(f"{k} {v:.3f}" for k, v in self.seconds.items()),
        ]
