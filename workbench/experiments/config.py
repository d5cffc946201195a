"""Studies as YAML files, read into frozen, validated settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

import yaml

from workbench.experiments.branches_config import BranchesStudy
from workbench.experiments.deployment_config import DeploymentStudy
from workbench.experiments.reading import (
    StudyError,
    check_double,
    check_keys,
    check_names,
    check_numbers,
    check_rules,
    parse,
    read_object,
    said,
)
from workbench.experiments.resources import is_file_name

__all__ = [
    "KINDS", "MODES", "AblationStudy", "BranchesStudy", "DeploymentStudy", "ExtractionStudy", "Instances",
    "Method", "OptimisationStudy", "SaturationMethod", "SaturationSettings", "SearchMethod", "Study",
    "StudyError", "VerificationStudy", "read_study",
]  # fmt: skip


#: How rules can be verified: all in one e-graph, or each in one of its own.
MODES: Final = ("batch", "one-by-one")


@dataclass(frozen=True, slots=True)
class SaturationSettings:
    """Say how the e-graphs of networks are made; names and limits are those of ``optimize``."""

    rules: str = "default"
    cost: str = "analytic"
    e_nodes: int = 50_000
    seconds: float = 60.0
    iterations: int = 15
    k_multi: int = 1
    settle: int = 0

    def __post_init__(self) -> None:
        from workbench.costs.choose import cost_model
        from workbench.rules import rule_set
        from workbench.saturation import Limits

        Limits(self.e_nodes, self.seconds, self.iterations, self.k_multi, settle=self.settle)
        rule_set(self.rules)
        cost_model(self.cost)


@dataclass(frozen=True, slots=True)
class Instances:
    """Name the e-graphs of a study.

    ``files`` are patterns of egraph-serialize JSON files, relative to the study's own folder;
    ``${NAME}`` stands for an environment variable. ``networks`` are grown by our own rules.
    """

    files: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    saturation: SaturationSettings = field(default_factory=SaturationSettings)

    def __post_init__(self) -> None:
        from workbench.benchmarks import benchmarks

        check_names("networks", "network", self.networks, benchmarks())
        check_double("files", self.files)


@dataclass(frozen=True, slots=True)
class ExtractionStudy:
    """Ask for every e-graph to be extracted by every method.

    ``seconds`` bounds a run, ``seconds_for`` the runs of the methods it names; a run that is not over
    ``grace`` seconds later is killed. ``seed`` is that of Python's hashes, and so of the order in which
    sets are walked, on which no result should depend; every repeat takes the next one. A run's process
    has ``memory`` GiB, each solver's beside it what it asks for.
    """

    instances: Instances
    methods: tuple[str, ...]
    seconds: float = 60.0
    seconds_for: Mapping[str, float] = field(default_factory=dict)
    grace: float = 30.0
    memory: float = 12.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        from workbench.extraction import METHODS

        check_names("methods", "extraction method", self.methods, METHODS)
        check_names("seconds_for", "method of this study", self.seconds_for, self.methods)
        if not self.methods:
            raise StudyError("methods: name at least one")
        limits = {f"seconds_for.{name}": value for name, value in self.seconds_for.items()}
        check_numbers({"seconds": self.seconds, **limits}, self.grace, self.memory, self.repeats, self.seed)

    def limit(self, method: str) -> float:
        """Return the seconds that a run of a method may take."""
        return self.seconds_for.get(method, self.seconds)


@dataclass(frozen=True, slots=True)
class SaturationMethod:
    """Optimise by equality saturation: names and limits are those of :func:`workbench.optimize`.

    ``rules`` is a rule set of the library or a file; of other systems' rules the sound ones are used.
    ``extractor`` is a method of :data:`workbench.extraction.METHODS`: some break cycles first
    (``filtered``, ``tensat-filtered``), some leave them to the program (``tensat``, ``tensat-integer``).
    """

    BY: ClassVar[str] = "saturation"

    rules: str = "default"
    e_nodes: int = 50_000
    iterations: int = 15
    k_multi: int = 1
    settle: int = 4
    seconds: float = 60.0
    extractor: str = "exact"
    extraction_seconds: float = 60.0

    def __post_init__(self) -> None:
        from workbench.extraction import METHODS
        from workbench.saturation import Limits

        Limits(self.e_nodes, self.seconds, self.iterations, self.k_multi, settle=self.settle)
        check_numbers({"extraction_seconds": self.extraction_seconds})
        check_names("extractor", "extraction method", [self.extractor], METHODS)
        check_rules(self.rules)

    @property
    def limit(self) -> float:
        """Return the seconds that the limits allow."""
        return self.seconds + self.extraction_seconds


@dataclass(frozen=True, slots=True)
class SearchMethod:
    """Optimise by TASO's search: names are those of :func:`workbench.search_optimize`.

    The modes other than ``sound`` run TASO's rules as published and take their file.
    """

    BY: ClassVar[str] = "search"

    rules: str = "default"
    mode: str = "sound"
    alpha: float = 1.05
    budget: int = 100
    growth: float = 2.0
    seconds: float = 600.0

    def __post_init__(self) -> None:
        from workbench.search.modes import MODES

        check_names("mode", "search mode", [self.mode], MODES)
        if MODES[self.mode].handwritten and not is_file_name(self.rules):
            raise StudyError(
                f"rules: mode {self.mode} takes the file of TASO's rules, as PATH/graph_subst.pb"
            )
        for name, value, least in (
            ("alpha", self.alpha, 1),
            ("budget", self.budget, 0),
            ("growth", self.growth, 1),
        ):
            if not value >= least:
                raise StudyError(f"{name}: {value} is not {least} or more")
        check_numbers({"seconds": self.seconds})
        check_rules(self.rules)

    @property
    def limit(self) -> float:
        """Return the seconds that the limits allow."""
        return self.seconds


Method: TypeAlias = SaturationMethod | SearchMethod


@dataclass(frozen=True, slots=True)
class OptimisationStudy:
    """Ask for every network to be optimised by every method, under one source of costs.

    ``rules`` and ``cost`` may name files, relative to the study's own folder; ``${NAME}`` stands for an
    environment variable, and where a file is not there its runs are skipped. With ``certify`` every
    result is compared with its original. A run that is not over ``grace`` seconds after its method's
    limits (pricing, certificate and the search for a wrong rule are not among them) is killed; its
    process has ``memory`` GiB. ``seed`` is that of Python's hashes and of the certificate's inputs;
    every repeat takes the next one.
    """

    networks: tuple[str, ...]
    methods: Mapping[str, SaturationMethod | SearchMethod]
    cost: str = "analytic"
    certify: bool = True
    grace: float = 600.0
    memory: float = 12.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        _check_networks(self.networks, self.methods, self.cost)
        check_numbers({}, self.grace, self.memory, self.repeats, self.seed)

    def limit(self, method: str) -> float:
        """Return the seconds that a method's limits allow a run."""
        return self.methods[method].limit


@dataclass(frozen=True, slots=True)
class AblationStudy:
    """Ask for every network to be optimised by every method, then again without each rule in turn.

    The rules left out are those that made the result, and the ``candidates`` where some are named. A run
    is a network with all its rules; after ``seconds`` it stops before the next rule and keeps what it has.
    Files, ``grace``, ``memory`` and ``seed`` are as in an :class:`OptimisationStudy`.
    """

    networks: tuple[str, ...]
    methods: Mapping[str, SaturationMethod]
    candidates: tuple[str, ...] = ()
    cost: str = "analytic"
    seconds: float = 600.0
    grace: float = 600.0
    memory: float = 12.0
    seed: int = 0

    def __post_init__(self) -> None:
        _check_networks(self.networks, self.methods, self.cost)
        check_double("candidates", self.candidates)
        check_numbers({"seconds": self.seconds}, self.grace, self.memory, 1, self.seed)


@dataclass(frozen=True, slots=True)
class VerificationStudy:
    """Ask for every set of rules to be verified in every mode.

    ``rules`` are sets of the library or files, as in an :class:`OptimisationStudy`. ``batch`` proves all
    of a file in one e-graph, ``one-by-one`` each rule in one of its own. ``seconds`` bound a run,
    ``e_nodes`` and ``rounds`` an e-graph, as in :class:`workbench.verification.Effort`.
    """

    rules: tuple[str, ...]
    modes: tuple[str, ...] = MODES
    seconds: float = 600.0
    e_nodes: int = 30_000
    rounds: int = 10
    grace: float = 120.0
    memory: float = 12.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for key, given in {"rules": self.rules, "modes": self.modes}.items():
            if not given:
                raise StudyError(f"{key}: name at least one")
        check_double("rules", self.rules)
        check_names("modes", "way to verify", self.modes, MODES)
        for rules in self.rules:
            check_rules(rules)
        sizes = {"seconds": self.seconds, "e_nodes": self.e_nodes, "rounds": self.rounds}
        check_numbers(sizes, self.grace, self.memory, self.repeats, self.seed)


Study: TypeAlias = (
    ExtractionStudy | OptimisationStudy | AblationStudy | VerificationStudy | BranchesStudy | DeploymentStudy
)

#: The kinds of studies and their settings.
KINDS: Final[Mapping[str, type[Study]]] = {
    "extraction": ExtractionStudy,
    "optimisation": OptimisationStudy,
    "ablation": AblationStudy,
    "verification": VerificationStudy,
    "branches": BranchesStudy,
    "deployment": DeploymentStudy,
}


def read_study(path: str | Path) -> Study:
    """Read a study; raise :class:`StudyError` with the key at fault, and the nearest one that exists."""
    file = Path(path)
    try:
        data = parse(file.read_text(encoding="utf-8"))
        if "kind" not in data:
            raise StudyError(f"'kind' is missing; it is one of {', '.join(KINDS)}")
        kind = data.pop("kind")
        if not isinstance(kind, str):
            raise StudyError(f"kind: {said(kind)} where a text is expected")
        check_names("kind", "kind of study", [kind], KINDS)
        return read_object(KINDS[kind], data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StudyError(
            f"{file.name} is not YAML that can be read: {' '.join(str(error).split())}"
        ) from None
    except StudyError as error:
        raise StudyError(f"{file.name}: {error}") from None


def _check_networks(networks: tuple[str, ...], methods: Mapping[str, object], cost: str) -> None:
    from workbench.benchmarks import benchmarks
    from workbench.costs.choose import cost_model

    check_names("networks", "network", networks, benchmarks())
    for key, given in {"networks": networks, "methods": methods}.items():
        if not given:
            raise StudyError(f"{key}: name at least one")
    check_keys("methods", methods)
    if not is_file_name(cost):
        cost_model(cost)
