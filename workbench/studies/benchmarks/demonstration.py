"""The models of ``workbench demo``: real architectures as ONNX models with generated weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.graph import Graph
from workbench.studies.benchmarks.branched_networks import mobileone_s0, repvgg_a0
from workbench.studies.benchmarks.light import light_model, light_names
from workbench.support.messages import unknown

if TYPE_CHECKING:
    from onnx import ModelProto

#: Whole networks with branches, as they are trained; the light models are available too.
WHOLE: dict[str, Callable[[], Graph]] = {"repvgg": repvgg_a0, "mobileone": mobileone_s0}


def demonstration(name: str) -> ModelProto:
    """Return a real architecture as an ONNX model; raise ValueError for an unknown name."""
    from workbench.frontends import to_onnx

    if name in WHOLE:
        return to_onnx(WHOLE[name]())
    names = [*WHOLE, *light_names()]
    if name not in names:
        raise ValueError(unknown("architecture", name, names))
    return light_model(name)
