"""Other people's optimisers of ONNX models, each in a process of its own: they print, and they may crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from workbench.experiments.process import Job, run_jobs

if TYPE_CHECKING:
    from onnx import ModelProto

#: Outputs that differ by more than this part of the largest are wrong, not rounded otherwise.
WRONG: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Rival:
    """Hold what a rival made of a model: nothing, with a note that says why, where it failed.

    ``difference`` is how far the model's outputs are from the original's in ONNX Runtime, as a part of the
    largest.
    """

    name: str
    model: ModelProto | None = field(default=None, repr=False)
    version: str = ""
    seconds: float = 0.0
    difference: float | None = None
    note: str = ""


def rival(
    name: str, model: ModelProto, *, seconds: float = 120.0, memory: int | None = None, seed: int = 0
) -> Rival:
    """Optimise a model by a rival of :data:`RIVALS`, whatever that does; compare outputs on random inputs."""
    if find_spec(name) is None:
        return Rival(name, note=f"{name} is not installed: pip install 'tamago-workbench[rivals]'")
    job = Job(name, _optimised, (name, model.SerializeToString()), seconds, memory=memory)
    ((_, outcome),) = run_jobs([job])
    if outcome.status != "done":
        return Rival(name, version=version(name), note=f"it {outcome.status}: {outcome.note}")
    import onnx

    made, spent = outcome.value
    found = onnx.load_from_string(made)
    difference, note = _judged(model, found, seed)
    return Rival(name, None if note else found, version(name), spent, difference, note)


def _judged(model: ModelProto, made: ModelProto, seed: int) -> tuple[float | None, str]:
    """Return how far the outputs of two models are apart, and what is wrong with the second."""
    from workbench.devices.latency import difference
    from workbench.frontends.runtime import session
    from workbench.timing import random_feeds

    loaded = session(model, threads=1)
    feeds = random_feeds(loaded, seed)
    expected = loaded.run(None, feeds)
    try:
        found = session(made, threads=1).run(None, feeds)
    except Exception as error:  # whatever it wrote, it is no model that runs
        return None, f"its model does not run: {' '.join(str(error).split())[:200]}"
    apart = difference(expected, found)
    wrong = f"its model is wrong: {apart:.1e} of the largest output off" if apart > WRONG else ""
    return (apart if apart < float("inf") else None), wrong


# -- in a process of their own ------------------------------------------------------------------------
def _optimised(order: tuple[str, bytes]) -> tuple[bytes, float]:
    import time

    import onnx

    name, content = order
    model = onnx.load_from_string(content)
    optimise = RIVALS[name]
    began = time.perf_counter()
    made = optimise(model)
    return made.SerializeToString(), time.perf_counter() - began


def _onnxsim(model: ModelProto) -> ModelProto:
    import onnxsim

    made: ModelProto = onnxsim.simplify(model)[0]
    return made


def _onnxslim(model: ModelProto) -> ModelProto:
    import onnxslim

    made: ModelProto = onnxslim.slim(model)
    return made


#: The rivals there are, by the names of their packages, with their own default settings.
RIVALS: Final[Mapping[str, Callable[[ModelProto], ModelProto]]] = {
    "onnxsim": _onnxsim,
    "onnxslim": _onnxslim,
}
