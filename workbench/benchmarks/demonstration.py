"""What is demonstrated: real architectures as ONNX models, weights generated."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.benchmarks.branches.networks import mobileone_s0, repvgg_a0
from workbench.benchmarks.light import light_model, light_names
from workbench.graph import Graph

if TYPE_CHECKING:
    from onnx import ModelProto

#: Whole networks with branches, as they are trained; the light models come beside them.
WHOLE: dict[str, Callable[[], Graph]] = {"repvgg": repvgg_a0, "mobileone": mobileone_s0}


def demonstration(name: str) -> ModelProto:
    """Return a real architecture as an ONNX model; raise ValueError with the nearest name for another."""
    from workbench.frontends import to_onnx

    if name in WHOLE:
        return to_onnx(WHOLE[name]())
    names = [*WHOLE, *light_names()]
    if name not in names:
        near = difflib.get_close_matches(name, names, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise ValueError(f"no architecture is called {name!r}{hint} There are: {', '.join(names)}")
    return light_model(name)
