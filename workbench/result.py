"""What every optimised graph can say of itself, however it was found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workbench.costs.described import described
from workbench.face import Face
from workbench.summary import running_operators
from workbench.trace import StopReason
from workbench.units import gain, speedup

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
    def speedup(self) -> float:
        """Return how many times as fast the cost model predicts the result to be: before / after."""
        return speedup(self.cost_before, self.cost_after)

    @property
    def gain(self) -> float:
        """Return ``speedup - 1``, 0 where the result costs nothing."""
        return self.cost_before / self.cost_after - 1 if self.cost_after > 0 else 0.0

    def predicted(self) -> str:
        """Say what the cost model predicts, and for which device."""
        return f"{gain(self.cost_before, self.cost_after)} {described(self.cost_source)}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the optimised graph as ONNX, or as TASO's text where the path ends in ``.model``.

        Where the result is the original, an ONNX model is written as it was given, cleaned. The file
        appears whole or not at all. Symbolic dimensions that were kept are symbolic in it.
        """
        from workbench.frontends import save_model
        from workbench.frontends.model_file import is_taso_model

        given = getattr(self, "given", None)
        if self.graph is self.original and given is not None and not is_taso_model(path):
            given.cleaned().save(path)
            return
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
            "speedup": self.speedup,
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
