"""Settings of the study of kernels: chains and models as mixed programs against ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.studies.experiments.config_loader import StudyError, check_names, check_numbers


@dataclass(frozen=True, slots=True)
class KernelsStudy:
    """A study that runs chains of operators and whole models as mixed programs.

    ``chains`` are names of :data:`workbench.studies.benchmarks.kernel_chains.CHAINS`, ``models`` those of a study of
    deployment. Each runs with each number of ``threads`` against ONNX Runtime, in alternation, for
    ``seconds``. A run is killed ``grace`` seconds after ``limit``; its process may use ``memory`` GiB.
    """

    chains: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    threads: tuple[int, ...] = (1, 2)
    seconds: float = 4.0
    limit: float = 300.0
    grace: float = 60.0
    memory: float = 8.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        from workbench.studies.benchmarks.kernel_chains import CHAINS

        if not self.chains and not self.models:
            raise StudyError("chains or models must name at least one, got none")
        check_names("chains", "chain", self.chains, CHAINS)
        if self.models:
            from workbench.studies.experiments.deployment.config import known_models

            check_names("models", "model", self.models, known_models())
        if not self.threads or len(set(self.threads)) < len(self.threads) or min(self.threads) < 1:
            raise StudyError(f"threads must be distinct numbers, each at least 1, got {list(self.threads)}")
        limits = {"seconds": self.seconds, "limit": self.limit}
        check_numbers(limits, self.grace, self.memory, self.repeats, self.seed)
