"""The settings that several kinds of studies have: limits of a run, networks, and methods that optimise them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeAlias

from workbench.optimizer.settings import Settings
from workbench.run.settings import check, same
from workbench.saturation.limits import Limits
from workbench.studies.experiments.config_loader import (
    StudyError,
    check_given,
    check_keys,
    check_names,
    check_numbers,
    check_rules,
    is_file_name,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The settings of every study; a kind adds its own.

    A run is killed if it has not ended ``grace`` seconds after its limits; its process may use ``memory``
    GiB. ``seed`` is the seed of Python's hashes and of random inputs; every repeat takes the next seed.
    """

    KIND: ClassVar[str]

    grace: float = 600.0
    memory: float = 12.0
    seed: int = 0

    def check_limits(self, **numbers: float) -> None:
        """Raise :class:`StudyError` unless the numbers are positive and the settings above in range."""
        check_numbers(numbers, self.grace, self.memory, self.seed)


@dataclass(frozen=True, slots=True)
class SaturationMethod:
    """Settings of a method that saturates; names and limits are those of :func:`workbench.optimize`.

    ``seconds`` limits the saturation.
    ``rules`` is a rule set of the library or a file; from other systems' files only sound rules are used.
    ``extractor`` is a name of ``workbench.extractor.names()``: some break cycles first
    (``filtered``, ``tensat-filtered``), some exclude cycles by constraints of the integer program
    (``tensat``, ``tensat-integer``).
    """

    BY: ClassVar[str] = "saturation"

    rules: str = "default"
    e_nodes: int = same(Settings, "e_nodes")
    iterations: int = same(Settings, "iterations")
    k_multi: int = same(Settings, "k_multi")
    settle: int = same(Settings, "settle")
    seconds: float = same(Limits, "seconds")
    extractor: str = same(Settings, "extractor")
    extraction_seconds: float = same(Settings, "extraction_seconds", 60.0)

    def __post_init__(self) -> None:
        from workbench.extraction.registry import methods

        check(self)
        check_names("extractor", "extraction method", [self.extractor], methods())
        check_rules(self.rules)

    @property
    def limit(self) -> float:
        """Return the seconds that the limits allow."""
        return self.seconds + self.extraction_seconds

    def arguments(self, grace: float) -> dict[str, Any]:
        """Return the method as arguments of :func:`workbench.optimize`; the rest of a call takes at most ``grace``."""
        return asdict(self) | {"saturation_seconds": self.seconds, "seconds": self.limit + grace}


@dataclass(frozen=True, slots=True)
class SearchMethod:
    """Settings of a method that runs TASO's search; names are those of :func:`workbench.studies.search_optimize`.

    The modes other than ``sound`` run TASO's rules as published and need their file as ``rules``.
    """

    BY: ClassVar[str] = "search"

    rules: str = "default"
    mode: str = "sound"
    alpha: float = 1.05
    budget: int = 100
    growth: float = 2.0
    seconds: float = 600.0

    def __post_init__(self) -> None:
        from workbench.studies.search.modes import MODES

        check_names("mode", "search mode", [self.mode], MODES)
        if MODES[self.mode].handwritten and not is_file_name(self.rules):
            raise StudyError(
                f"rules must be a TASO rule file for mode {self.mode}, got {self.rules!r} "
                "(try PATH/graph_subst.pb)"
            )
        for name, value, least in (
            ("alpha", self.alpha, 1),
            ("budget", self.budget, 0),
            ("growth", self.growth, 1),
        ):
            if not value >= least:
                raise StudyError(f"{name} must be at least {least}, got {value}")
        check_numbers({"seconds": self.seconds})
        check_rules(self.rules)

    @property
    def limit(self) -> float:
        """Return the seconds that the limits allow."""
        return self.seconds

    def arguments(self, grace: float) -> dict[str, Any]:
        """Return the method as arguments of :func:`workbench.studies.search_optimize`."""
        return asdict(self)


Method: TypeAlias = SaturationMethod | SearchMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkStudy(Study):
    """The settings of every study of networks by methods, under one source of costs."""

    networks: tuple[str, ...]
    methods: Mapping[str, Method]
    cost: str = "analytic"

    def check_networks(self) -> None:
        """Raise StudyError unless the study names networks, methods, and a source of costs."""
        from workbench.costs.registry import cost_model
        from workbench.studies.benchmarks import benchmarks

        check_names("networks", "network", self.networks, benchmarks())
        check_given(networks=self.networks, methods=self.methods)
        check_keys("methods", self.methods)
        if not is_file_name(self.cost):
            cost_model(self.cost)
