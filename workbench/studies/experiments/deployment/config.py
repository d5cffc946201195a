"""Settings of the study of deployment: model files, methods, and the timing against cleaned originals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from workbench.studies.experiments.config_loader import (
    StudyError,
    check_given,
    check_keys,
    check_names,
    check_numbers,
)

#: The prefix of the names of architectures that come with onnx.
LIGHT: Final = "light/"

#: The prefix of the names of architectures whose exported file is quantised to 8 bits.
QUANTISED: Final = "quantised/"

#: Options that a method must not have, because the study itself sets them.
_OWN: Final = ("-o", "--output", "--json", "--report", "--quiet", "-q", "--dim")


@dataclass(frozen=True, slots=True)
class DeploymentMethod:
    """A method: a call of ``workbench optimize`` with these options, by default none.

    ``seconds`` is the limit on the call.
    """

    options: tuple[str, ...] = ()
    seconds: float = 600.0

    def __post_init__(self) -> None:
        check_numbers({"seconds": self.seconds})
        for option in self.options:
            if option.partition("=")[0] in _OWN:
                raise StudyError(f"options must not have {option!r}: the study sets it itself; leave it out")


@dataclass(frozen=True, slots=True)
class DeploymentTiming:
    """Settings of the timing: numbers of threads, seconds for each of them, and rivals.

    ``0`` threads stands for ONNX Runtime's own default. Files of more than ``up_to`` MiB are optimised but
    not timed, because all forms of a model are in memory at once, some with repacked weights. The original
    and the result also run on the ``targets``, if any, as far as these have all operators. With
    ``by_hand``, an architecture that people rewrite by hand is timed in that form too.
    """

    threads: tuple[int, ...] = (1,)
    seconds: float = 6.0
    rivals: tuple[str, ...] = ("onnxsim", "onnxslim")
    up_to: float = 1024.0
    targets: tuple[str, ...] = ()
    by_hand: bool = False

    def __post_init__(self) -> None:
        from workbench.devices.targets import target
        from workbench.studies.experiments.baselines import RIVALS

        check_names("targets", "target", self.targets, [n for n in target.names() if n != "onnxruntime"])

        check_names("rivals", "rival", self.rivals, RIVALS)
        check_numbers({"seconds": self.seconds, "up_to": self.up_to})
        if not self.threads or len(set(self.threads)) < len(self.threads) or min(self.threads) < 0:
            raise StudyError(f"threads must be distinct numbers, each at least 0, got {list(self.threads)}")

    def config(self) -> dict[str, Any]:
        """Return the settings as plain data, without optional ones that the study does not use."""
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {k: v for k, v in plain.items() if v or k not in ("targets", "by_hand")}


@dataclass(frozen=True, slots=True)
class DeploymentStudy:
    """A study that optimises every model by every method as a user would: a file in, a file out.

    ``models`` are those of :mod:`workbench.studies.benchmarks.exports`, with the prefix ``quantised/`` the same in 8
    bits, and with the prefix ``light/`` those of :mod:`workbench.studies.benchmarks.light`. ``workbench optimize``
    optimises the file in its own process, whose seconds and memory are recorded. Then the cleaned original,
    the files of rivals and the result run in alternation. ``grace``, ``memory``, ``repeats`` and ``seed`` are
    as in an :class:`~workbench.studies.experiments.config.OptimisationStudy`.
    """

    models: tuple[str, ...]
    methods: Mapping[str, DeploymentMethod]
    timing: DeploymentTiming = field(default_factory=DeploymentTiming)
    grace: float = 600.0
    memory: float = 20.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        check_given(models=self.models, methods=self.methods)
        check_names("models", "model", self.models, known_models())
        check_keys("methods", self.methods)
        check_numbers({}, self.grace, self.memory, self.repeats, self.seed)

    def limit(self, method: str) -> float:
        """Return the seconds that a method's call and the timing allow for a run."""
        timed = len(self.timing.threads) + len(self.timing.targets)
        return self.methods[method].seconds + 4 * self.timing.seconds * timed


def known_models() -> list[str]:
    """Return the names of all models that a study can have."""
    from workbench.studies.benchmarks.exports import architectures
    from workbench.studies.benchmarks.light import light_names

    found = architectures()
    return [*(LIGHT + name for name in light_names()), *found, *(QUANTISED + name for name in found)]
