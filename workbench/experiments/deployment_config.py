"""The study of deployment: model files by ways to optimise them, timed against the cleaned originals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from workbench.experiments.reading import StudyError, check_keys, check_names, check_numbers

#: What stands before the names of the architectures that come with onnx.
LIGHT: Final = "light/"

#: What a study may not ask for: the study itself says where things are written.
_OWN: Final = ("-o", "--output", "--json", "--report", "--quiet", "-q", "--dim")


@dataclass(frozen=True, slots=True)
class DeploymentMethod:
    """Optimise by ``workbench optimize`` with these options; none are its defaults.

    ``seconds`` are those that the call may take.
    """

    options: tuple[str, ...] = ()
    seconds: float = 600.0

    def __post_init__(self) -> None:
        check_numbers({"seconds": self.seconds})
        for option in self.options:
            if option.partition("=")[0] in _OWN:
                raise StudyError(f"options: {option!r} is said by the study itself; leave it out")


@dataclass(frozen=True, slots=True)
class DeploymentTiming:
    """Say how models are timed: with how many threads, for how many seconds each, against whose optimisers.

    ``0`` threads are as many as ONNX Runtime takes by itself. Files of more than ``up_to`` MiB are optimised
    and not timed: all forms of a model are in memory at once, some with their weights packed anew.
    """

    threads: tuple[int, ...] = (1,)
    seconds: float = 6.0
    rivals: tuple[str, ...] = ("onnxsim", "onnxslim")
    up_to: float = 1024.0

    def __post_init__(self) -> None:
        from workbench.experiments.rivals import RIVALS

        check_names("rivals", "rival", self.rivals, RIVALS)
        check_numbers({"timing.seconds": self.seconds, "timing.up_to": self.up_to})
        if not self.threads or len(set(self.threads)) < len(self.threads) or min(self.threads) < 0:
            raise StudyError(f"timing.threads: {list(self.threads)} are no different numbers of threads")


@dataclass(frozen=True, slots=True)
class DeploymentStudy:
    """Ask for every model to be optimised by every method, as a user would: a file in, a file out.

    ``models`` are those of :mod:`workbench.benchmarks.exports`, or of :mod:`workbench.benchmarks.light`
    behind ``light/``. The file goes through ``workbench optimize`` in a process of its own, whose seconds
    and memory count; then the original after mere cleaning, what rivals make of it, and the result run in
    alternation. ``grace``, ``memory``, ``repeats`` and ``seed`` are as in an
    :class:`~workbench.experiments.config.OptimisationStudy`.
    """

    models: tuple[str, ...]
    methods: Mapping[str, DeploymentMethod]
    timing: DeploymentTiming = field(default_factory=DeploymentTiming)
    grace: float = 600.0
    memory: float = 20.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for key, given in {"models": self.models, "methods": self.methods}.items():
            if not given:
                raise StudyError(f"{key}: name at least one")
        check_names("models", "model", self.models, known_models())
        check_keys("methods", self.methods)
        check_numbers({}, self.grace, self.memory, self.repeats, self.seed)

    def limit(self, method: str) -> float:
        """Return the seconds that a method's call and the timing allow a run."""
        return self.methods[method].seconds + 4 * self.timing.seconds * len(self.timing.threads)


def known_models() -> list[str]:
    """Return the names of all models that a study may ask for."""
    from workbench.benchmarks.exports import architectures
    from workbench.benchmarks.light import light_names

    return [*(LIGHT + name for name in light_names()), *architectures()]
