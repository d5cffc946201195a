"""The runs of studies in which every network is optimised by every method, under one source of costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from workbench.studies.experiments.config import Method
from workbench.studies.experiments.plan import Record
from workbench.studies.experiments.resources import resource

M_co = TypeVar("M_co", bound=Method, covariant=True)


class Crossed(Protocol[M_co]):
    """A study of networks and methods."""

    @property
    def networks(self) -> Sequence[str]:
        """Return the names of the networks."""

    @property
    def methods(self) -> Mapping[str, M_co]:
        """Return the methods by name."""

    @property
    def cost(self) -> str:
        """Return the source of costs."""


@dataclass(frozen=True, slots=True)
class Cell(Generic[M_co]):
    """One method on one network; ``rules`` and ``cost`` are names or paths.

    ``config`` is the beginning of a run's settings. ``absent`` says which file is missing, if any.
    """

    network: str
    name: str
    method: M_co
    rules: str
    cost: str
    config: Record
    absent: str


def cells(study: Crossed[M_co], kind: str, home: Path) -> tuple[list[Cell[M_co]], tuple[str, ...]]:
    """Return every method on every network, network by network, and the reasons why some are skipped.

    ``kind`` is the kind of the study; its paths are relative to ``home``.
    """
    cost, cost_config, no_costs = resource(study.cost, home)
    skipped = {no_costs: None} if no_costs else {}
    found: list[Cell[M_co]] = []
    for network in study.networks:
        for name, method in study.methods.items():
            rules, rules_config, no_rules = resource(method.rules, home)
            if no_rules:
                skipped[f"{name}: {no_rules}"] = None
            config = {
                "study": kind,
                "network": network,
                "method": {"by": method.BY, **asdict(method), "rules": rules_config},
                "cost": cost_config,
            }
            found.append(Cell(network, name, method, rules, cost, config, no_costs or no_rules))
    return found, tuple(skipped)
