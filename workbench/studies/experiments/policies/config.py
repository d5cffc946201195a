"""Settings of the study of policies: which rules run when, in e-graphs that do not saturate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from workbench.studies.experiments.config_loader import StudyError, check_names, check_numbers, check_rules

#: The policies by name. ``plain`` is a saturation without a policy.
POLICIES: Final = ("plain", "backoff", "match-limited", "best-first", "tree-search")


@dataclass(frozen=True, slots=True)
class PoliciesStudy:
    """A study that grows the e-graph of every network by every policy and extracts from it.

    Every run has the same limits: ``e_nodes``, ``iterations``, and ``seconds`` for growing, trials
    included. ``k_multi`` are numbers of iterations with multi-pattern rules; each makes runs of its own.
    Costs are ``cost``'s; the final extraction has ``extraction_seconds``. A run's process is killed ``grace``
    seconds after its limits and may use ``memory`` GiB.
    """

    networks: tuple[str, ...]
    policies: tuple[str, ...] = POLICIES
    rules: str = "default"
    cost: str = "analytic"
    k_multi: tuple[int, ...] = (2,)
    e_nodes: int = 10_000
    iterations: int = 15
    seconds: float = 60.0
    extraction_seconds: float = 20.0
    grace: float = 60.0
    memory: float = 8.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        from workbench.costs.registry import cost_model
        from workbench.studies.benchmarks import benchmarks

        check_names("networks", "network", self.networks, benchmarks())
        check_names("policies", "policy", self.policies, POLICIES)
        if not self.networks or not self.policies or not self.k_multi:
            raise StudyError("networks, policies and k_multi must name at least one each")
        check_rules(self.rules)
        cost_model(self.cost)
        whole = {"e_nodes": self.e_nodes, "iterations": self.iterations}
        whole |= {f"k_multi[{i}]": k for i, k in enumerate(self.k_multi)}
        for name, value in whole.items():
            if value < 1:
                raise StudyError(f"{name} must be at least 1, got {value}")
        limits = {"seconds": self.seconds, "extraction_seconds": self.extraction_seconds}
        check_numbers(limits, self.grace, self.memory, self.repeats, self.seed)
