"""Other optimisers of ONNX models, each in its own process, because they print and may crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from workbench.studies.devices.other_runtimes import WRONG
from workbench.studies.experiments.process import Job, run_jobs

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True, slots=True)
class Rival:
    """The result of a rival on a model; if it failed, ``model`` is None and ``note`` is the reason.

    ``difference`` is the largest difference of the outputs from the original's in ONNX Runtime, as a part of
    the largest output.
    """

    name: str
    model: ModelProto | None = field(default=None, repr=False)
    version: str = ""
    seconds: float = 0.0
    difference: float | None = None
    note: str = ""


def rival(
    name: str,
    model: ModelProto,
    *,
    seconds: float = 120.0,
    memory: int | None = None,
    seed: int = 0,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Rival:
    """Optimise a model by a rival and compare the outputs on random inputs.

    Args:
        name: A key of :data:`RIVALS`.
        model: The original model.
        seconds: Limit on the rival's time.
        memory: Limit on the rival's memory in bytes, or None.
        seed: Seed of the random inputs.
        shapes: Shapes of inputs with open dimensions, by name; otherwise open dimensions are 1.

    Returns:
        The result; failures of the rival are reported in its note.
    """
    if find_spec(name) is None:
        return Rival(name, note=f"{name} is not installed: pip install 'tamago-workbench[rivals]'")
    job = Job(name, _optimised, (name, model.SerializeToString()), seconds, memory=memory)
    ((_, outcome),) = run_jobs([job])
    if outcome.status != "done":
        return Rival(name, version=version(name), note=f"it {outcome.status}: {outcome.note}")
    import onnx

    made, spent = outcome.value
    found = onnx.load_from_string(made)
    difference, note = _judged(model, found, seed, shapes)
    return Rival(name, None if note else found, version(name), spent, difference, note)


def _judged(
    model: ModelProto, made: ModelProto, seed: int, shapes: Mapping[str, Sequence[int]] | None
) -> tuple[float | None, str]:
    """Return the difference of the outputs of two models, and the defect of the second or an empty text.

    Args:
        model: The first model.
        made: The second model.
        seed: Seed of the random inputs.
        shapes: Shapes of inputs with open dimensions, by name.
    """
    from workbench.devices.timing import random_feeds
    from workbench.frontends.runtime import session
    from workbench.studies.devices.latency import difference

    loaded = session(model, threads=1)
    feeds = random_feeds(loaded, seed, shapes)
    expected = loaded.run(None, feeds)
    try:
        found = session(made, threads=1).run(None, feeds)
    except Exception as error:  # the rival's file cannot be loaded or run, for any reason
        return None, f"its model does not run: {' '.join(str(error).split())[:200]}"
    apart = difference(expected, found)
    wrong = f"its model is wrong: outputs differ by {apart:.1e} of the largest" if apart > WRONG else ""
    return (apart if apart < float("inf") else None), wrong


# -- in the process of a run ---------------------------------------------------------------------------
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


#: The rivals with their own default settings, by the names of their packages.
RIVALS: Final[Mapping[str, Callable[[ModelProto], ModelProto]]] = {
    "onnxsim": _onnxsim,
    "onnxslim": _onnxslim,
}
