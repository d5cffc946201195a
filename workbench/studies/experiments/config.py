"""Studies as YAML files, read into frozen, validated settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import yaml

from workbench.optimizer.settings import Settings
from workbench.run.settings import check, same
from workbench.saturation.limits import Limits
from workbench.studies.benchmarks.zoo import find_zoo
from workbench.studies.experiments.config_loader import (
    StudyError,
    check_double,
    check_given,
    check_keys,
    check_names,
    check_numbers,
    check_rules,
    is_file_name,
    parse,
    read_object,
    said,
)

#: The sets of rules: tiles one by one by generic rules or on demand of products, whole products in the
#: orientation of Glenside, and whole products in any orientation.
METHODS: Final = ("generic", "demanded", "glenside-orientation", "any-orientation")
#: The network that is not among the published ones.
MOBILENET: Final = "mobilenetv1"


@dataclass(frozen=True, slots=True)
class BlockingStudy:
    """A study that puts the products of every network on every hardware unit by every set of rules.

    ``networks`` are published networks or ``mobilenetv1``; ``units`` are names of
    :func:`workbench.kernels.accelerators.units`, or files. ``e_nodes`` and ``seconds`` limit each saturation. With
    ``certify`` every result is compared with its original. A run is killed ``grace`` seconds after its
    limits; its process may use ``memory`` GiB.
    """

    networks: tuple[str, ...]
    units: tuple[str, ...]
    methods: tuple[str, ...] = METHODS
    e_nodes: int = same(Settings, "e_nodes")
    seconds: float = same(Settings, "seconds")
    certify: bool = True
    grace: float = 300.0
    memory: float = 12.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        from workbench.kernels.accelerators import unit
        from workbench.studies.benchmarks import benchmarks

        check_given(networks=self.networks, units=self.units, methods=self.methods)
        check_names("networks", "network", self.networks, [*benchmarks(), MOBILENET])
        check_names("methods", "method of blocking", self.methods, METHODS)
        for name in self.units:
            try:
                unit(name)
            except (LookupError, ValueError, OSError) as error:
                raise StudyError(f"units: {error}") from None
        sizes = {"seconds": self.seconds, "e_nodes": self.e_nodes}
        check_numbers(sizes, self.grace, self.memory, self.repeats, self.seed)


Parameters: TypeAlias = Mapping[str, int | float | bool | str]


@dataclass(frozen=True, slots=True)
class BranchesMethod:
    """Settings of a method that saturates under its own cost source.

    Names and limits are those of :func:`workbench.optimize`. If ``measure`` = k > 0, the k cheapest results
    are timed end to end in ONNX Runtime and the fastest is taken. ``cost: cpu`` measures with the number of
    threads of the study's timing.
    """

    cost: str = "analytic"
    rules: str = "default"
    measure: int = same(Settings, "measure")
    measure_seconds: float = same(Settings, "measure_seconds")
    e_nodes: int = same(Settings, "e_nodes")
    seconds: float = same(Settings, "seconds")
    extraction_seconds: float = same(Settings, "extraction_seconds", 60.0)

    def __post_init__(self) -> None:
        from workbench.costs.registry import cost_model

        check(self)
        check_rules(self.rules)
        if not is_file_name(self.cost):
            cost_model(self.cost)

    @property
    def limit(self) -> float:
        """Return the seconds that the limits allow."""
        return self.seconds + self.extraction_seconds + (self.measure_seconds if self.measure else 0)


@dataclass(frozen=True, slots=True)
class Latency:
    """Settings of the timing: targets, rivals, number of threads, and seconds.

    All forms of a network on all targets run in alternation for ``seconds`` in total. ``targets`` are those
    of ``workbench.target.names()``; without targets nothing is timed. ``rivals`` are timed in
    ONNX Runtime only.
    """

    targets: tuple[str, ...] = ("onnxruntime", "torch", "torch+compile")
    rivals: tuple[str, ...] = ("onnxsim", "onnxslim")
    threads: int = 1
    seconds: float = 10.0

    def __post_init__(self) -> None:
        from workbench.devices.targets import target
        from workbench.studies.experiments.baselines import RIVALS

        check_names("targets", "target", self.targets, target.names())
        check_names("rivals", "rival", self.rivals, RIVALS)
        check_numbers({"threads": self.threads, "seconds": self.seconds})


@dataclass(frozen=True, slots=True)
class Scaling:
    """Runs of some families with each number of ``blocks``, by some of the methods, without timing.

    Parameters of a family are those of the study unless they are given here.
    """

    families: Mapping[str, Parameters] = field(default_factory=dict)
    blocks: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = {"families": self.families, "blocks": self.blocks, "methods": self.methods}
        if any(given.values()):
            check_given(**given)
        for count in self.blocks:
            if count < 1:
                raise StudyError(f"blocks must be at least 1, got {count}")
        check_double("blocks", [str(count) for count in self.blocks])


@dataclass(frozen=True, slots=True)
class BranchesStudy:
    """A study that optimises families of :mod:`zoo.all_families` by every method.

    The original, the results of rivals, the form merged by hand and the workbench's result are then timed
    against each other. ``families`` maps names to parameters. Files, ``grace``, ``memory``, ``repeats``
    and ``seed`` are as in an :class:`~workbench.studies.experiments.config.OptimisationStudy`.
    """

    families: Mapping[str, Parameters]
    methods: Mapping[str, BranchesMethod]
    latency: Latency = field(default_factory=Latency)
    scaling: Scaling = field(default_factory=Scaling)
    grace: float = 600.0
    memory: float = 12.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        find_zoo()
        from zoo.all_families import ALL_FAMILIES

        check_given(families=self.families, methods=self.methods)
        check_names("families", "family", self.families, ALL_FAMILIES)
        for family, parameters in self.families.items():
            _check_parameters(family, parameters)
        check_keys("methods", self.methods)
        check_names("scaling.families", "family of this study", self.scaling.families, self.families)
        for family, more in self.scaling.families.items():
            _check_parameters(family, {**self.families[family], **more}, "scaling.families")
        check_names("scaling.methods", "method of this study", self.scaling.methods, self.methods)
        check_numbers({}, self.grace, self.memory, self.repeats, self.seed)

    def limit(self, method: str) -> float:
        """Return the seconds that a method's limits and the timing allow for a run."""
        return self.methods[method].limit + (self.latency.seconds if self.latency.targets else 0)


def _check_parameters(family: str, given: Parameters, where: str = "families") -> None:
    """Raise :class:`StudyError` for an invalid parameter, or if a network of one block cannot be built."""
    find_zoo()
    from zoo.all_families import ALL_FAMILIES

    known = ALL_FAMILIES.parameters(family)
    check_names(f"{where}.{family}", "parameter", given, known)
    for name, value in given.items():
        key, usual = f"{where}.{family}.{name}", known[name]
        kinds = (int, float) if isinstance(usual, float) else type(usual)
        if isinstance(value, bool) != isinstance(usual, bool) or not isinstance(value, kinds):
            raise StudyError(f"{key} must be like its default {said(usual)}, got {said(value)}")
        if isinstance(value, int) and not isinstance(value, bool) and value < (name != "seed"):
            raise StudyError(f"{key} must be at least {int(name != 'seed')}, got {value}")
    try:
        small = {**given, "blocks": 1} if "blocks" in known else given
        ALL_FAMILIES.build(family, small, by_hand=False)
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise StudyError(f"{where}.{family}: {error.args[0] if error.args else error}") from None


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

    ``models`` are those of :mod:`zoo.exports`, with the prefix ``quantised/`` the same in 8
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
    find_zoo()
    from workbench.studies.benchmarks.light import light_names
    from zoo.exports import architectures

    found = architectures()
    return [*(LIGHT + name for name in light_names()), *found, *(QUANTISED + name for name in found)]


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
            check_names("models", "model", self.models, known_models())
        if not self.threads or len(set(self.threads)) < len(self.threads) or min(self.threads) < 1:
            raise StudyError(f"threads must be distinct numbers, each at least 1, got {list(self.threads)}")
        limits = {"seconds": self.seconds, "limit": self.limit}
        check_numbers(limits, self.grace, self.memory, self.repeats, self.seed)


__all__ = [
    "KINDS", "MODES", "AblationStudy", "BlockingStudy", "BranchesStudy", "DeploymentStudy",
    "ExtractionStudy", "Instances", "KernelsStudy", "Method", "OptimisationStudy",
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
        from workbench.extraction.registry import methods

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
        from workbench.extraction.registry import methods

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
