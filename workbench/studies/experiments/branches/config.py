"""Settings of the study of branches: families of networks, methods, latency and scaling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from workbench.optimizer.settings import Settings
from workbench.run.settings import check, same
from workbench.studies.experiments.config_loader import (
    StudyError,
    check_double,
    check_given,
    check_keys,
    check_names,
    check_numbers,
    check_rules,
    said,
)
from workbench.studies.experiments.resources import is_file_name

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
    """A study that optimises families of :mod:`workbench.studies.benchmarks.all_families` by every method.

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
        from workbench.studies.benchmarks.all_families import ALL_FAMILIES

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
    from workbench.studies.benchmarks.all_families import ALL_FAMILIES

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
