"""Studies as YAML files, read into frozen, validated settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

import yaml

from workbench.optimizer.settings import Settings
from workbench.run.settings import check, same
from workbench.saturation.limits import Limits
from workbench.studies.experiments.blocking.config import BlockingStudy
from workbench.studies.experiments.branches.config import BranchesStudy
from workbench.studies.experiments.config_loader import (
    StudyError,
    check_double,
    check_given,
    check_keys,
    check_names,
    check_numbers,
    check_rules,
    parse,
    read_object,
    said,
)
from workbench.studies.experiments.deployment.config import DeploymentStudy
from workbench.studies.experiments.kernels.config import KernelsStudy
from workbench.studies.experiments.policies.config import PoliciesStudy
from workbench.studies.experiments.resources import is_file_name

__all__ = [
    "KINDS", "MODES", "AblationStudy", "BlockingStudy", "BranchesStudy", "DeploymentStudy",
    "ExtractionStudy", "Instances", "KernelsStudy", "Method", "OptimisationStudy", "PoliciesStudy",
    "SaturationMethod", "SaturationSettings", "SearchMethod", "Study", "StudyError", "VerificationStudy",
    "read_study",
]  # fmt: skip


#: The modes of verification: all rules in one e-graph, or each rule in its own e-graph.
MODES: Final = ("batch", "one-by-one")


@dataclass(frozen=True, slots=True)
class SaturationSettings:
    """Settings that grow the e-graph of a network; names and limits are those of ``optimize``."""

    rules: str = "default"
    cost: str = "analytic"
    e_nodes: int = same(Limits, "e_nodes")
    seconds: float = same(Limits, "seconds")
    iterations: int = same(Limits, "iterations")
    k_multi: int = same(Limits, "k_multi")
    settle: int = same(Limits, "settle")

    def __post_init__(self) -> None:
        from workbench.costs.registry import cost_model
        from workbench.rules import rule_set

        check(self)
        rule_set(self.rules)
        cost_model(self.cost)


@dataclass(frozen=True, slots=True)
class Instances:
    """The e-graphs of a study.

    ``files`` are glob patterns of egraph-serialize JSON files, relative to the study's own folder;
    ``${NAME}`` is replaced by the environment variable. ``networks`` are published networks, whose e-graphs
    are grown with the settings ``saturation``.
    """

    files: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    saturation: SaturationSettings = field(default_factory=SaturationSettings)

    def __post_init__(self) -> None:
        from workbench.studies.benchmarks import benchmarks

        check_names("networks", "network", self.networks, benchmarks())
        check_double("files", self.files)


@dataclass(frozen=True, slots=True)
class ExtractionStudy:
    """A study that extracts every e-graph by every method.

    ``seconds`` limits a run; ``seconds_for`` limits the runs of the methods that it names instead. A run
    that has not ended ``grace`` seconds after its limit is killed. ``seed`` is the seed of Python's hashes,
    and so determines the iteration order of sets, on which no result should depend; every repeat takes the
    next seed. A run's process may use ``memory`` GiB; the processes of solvers have their own limits.
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
        from workbench.extraction.own import methods

        check_names("methods", "extraction method", self.methods, methods())
        check_names("seconds_for", "method of this study", self.seconds_for, self.methods)
        check_given(methods=self.methods)
        limits = {f"seconds_for.{name}": value for name, value in self.seconds_for.items()}
        check_numbers({"seconds": self.seconds, **limits}, self.grace, self.memory, self.repeats, self.seed)

    def limit(self, method: str) -> float:
        """Return the limit in seconds on a run of a method."""
        return self.seconds_for.get(method, self.seconds)


@dataclass(frozen=True, slots=True)
class SaturationMethod:
    """Settings of a method that saturates; names and limits are those of :func:`workbench.optimize`.

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
    seconds: float = same(Settings, "seconds")
    extractor: str = same(Settings, "extractor")
    extraction_seconds: float = same(Settings, "extraction_seconds", 60.0)

    def __post_init__(self) -> None:
        from workbench.extraction.own import methods

        check(self)
        check_names("extractor", "extraction method", [self.extractor], methods())
        check_rules(self.rules)

    @property
    def limit(self) -> float:
        """Return the seconds that the limits allow."""
        return self.seconds + self.extraction_seconds


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


Method: TypeAlias = SaturationMethod | SearchMethod


@dataclass(frozen=True, slots=True)
class OptimisationStudy:
    """A study that optimises every network by every method, under one source of costs.

    ``rules`` and ``cost`` may name files, relative to the study's own folder; ``${NAME}`` is replaced by the
    environment variable, and the runs of a missing file are skipped. With ``certify`` every result is
    compared with its original. A run is killed if it has not ended ``grace`` seconds after the limits of its
    method; these limits exclude pricing, the certificate and the search for a wrong rule. A run's process
    may use ``memory`` GiB. ``seed`` is the seed of Python's hashes and of the certificate's inputs; every
    repeat takes the next seed.
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
        """Return the seconds that a method's limits allow for a run."""
        return self.methods[method].limit


@dataclass(frozen=True, slots=True)
class AblationStudy:
    """A study that optimises every network by every method, then again without each rule in turn.

    The rules left out are the ``candidates`` if any are named, otherwise the rules that made the result. One
    run covers a network with all its rules; after ``seconds`` it stops before the next rule and keeps the
    figures so far. Files, ``grace``, ``memory`` and ``seed`` are as in an :class:`OptimisationStudy`.
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
    """A study that verifies every set of rules in every mode.

    ``rules`` are sets of the library or files, as in an :class:`OptimisationStudy`. ``batch`` proves all
    rules of a file in one e-graph, ``one-by-one`` proves each rule in its own e-graph. ``seconds``
    limits a run, ``e_nodes`` and ``rounds`` limit an e-graph, as in :class:`workbench.laws.verification.Effort`.
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
        check_given(rules=self.rules, modes=self.modes)
        check_double("rules", self.rules)
        check_names("modes", "mode of verification", self.modes, MODES)
        for rules in self.rules:
            check_rules(rules)
        sizes = {"seconds": self.seconds, "e_nodes": self.e_nodes, "rounds": self.rounds}
        check_numbers(sizes, self.grace, self.memory, self.repeats, self.seed)


@dataclass(frozen=True, slots=True)
class SynthesisStudy:
    """A study that synthesises the laws of every grammar at every size of terms.

    ``grammars`` are YAML files. ``sizes`` are the numbers of operators in a term. ``known`` is a rule set
    or a file whose laws are not found again, as far as a grammar has their operators; ``without`` are names
    of its files that are left out. ``against`` are files of rules, of which the tables report those that the
    laws imply. Without ``sizes`` each grammar has its own. ``seconds`` limits a synthesis. ``instances`` are
    drawn at the end of each law that is not proved; with 0 there are none.
    """

    grammars: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    known: str = ""
    without: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    seconds: float = 600.0
    instances: int = 0
    grace: float = 120.0
    memory: float = 12.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.grammars:
            raise StudyError("grammars must name at least one, got none")
        check_double("grammars", self.grammars)
        check_double("against", self.against)
        if self.known:
            check_rules(self.known)
        if self.instances < 0:
            raise StudyError(f"instances must not be negative, got {self.instances} (try 2000)")
        sizes = {f"sizes[{i}]": size for i, size in enumerate(self.sizes)}
        check_numbers({"seconds": self.seconds, **sizes}, self.grace, self.memory, self.repeats, self.seed)


Study: TypeAlias = (
    ExtractionStudy
    | OptimisationStudy
    | AblationStudy
    | VerificationStudy
    | BranchesStudy
    | DeploymentStudy
    | SynthesisStudy
    | BlockingStudy
    | KernelsStudy
    | PoliciesStudy
)

#: The kinds of studies and their settings.
KINDS: Final[Mapping[str, type[Study]]] = {
    "extraction": ExtractionStudy,
    "optimisation": OptimisationStudy,
    "ablation": AblationStudy,
    "verification": VerificationStudy,
    "branches": BranchesStudy,
    "deployment": DeploymentStudy,
    "synthesis": SynthesisStudy,
    "blocking": BlockingStudy,
    "kernels": KernelsStudy,
    "policies": PoliciesStudy,
}


def read_study(path: str | Path) -> Study:
    """Read a study; raise :class:`StudyError` with the key at fault and the nearest valid name."""
    file = Path(path)
    try:
        data = parse(file.read_text(encoding="utf-8"))
        if "kind" not in data:
            raise StudyError(f"'kind' is missing; it must be one of {', '.join(KINDS)}")
        kind = data.pop("kind")
        if not isinstance(kind, str):
            raise StudyError(f"kind must be a text, got {said(kind)}")
        check_names("kind", "kind of study", [kind], KINDS)
        return read_object(KINDS[kind], data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StudyError(f"{file.name} must be readable YAML, got: {' '.join(str(error).split())}") from None
    except StudyError as error:
        raise StudyError(f"{file.name}: {error}") from None


def _check_networks(networks: tuple[str, ...], methods: Mapping[str, object], cost: str) -> None:
    from workbench.costs.registry import cost_model
    from workbench.studies.benchmarks import benchmarks

    check_names("networks", "network", networks, benchmarks())
    check_given(networks=networks, methods=methods)
    check_keys("methods", methods)
    if not is_file_name(cost):
        cost_model(cost)
