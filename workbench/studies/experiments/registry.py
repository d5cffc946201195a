"""Kinds of studies: each is one module, with its settings, its runs and their tables.

A module has the class of its settings, whose ``KIND`` is its name; ``make_plan`` lists the runs, ``outcome`` describes
one in a line, ``table`` and ``markdown`` render the records. A record names its kind as ``config["study"]``.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import yaml

from workbench.studies.experiments.config import Study, StudyError, check_names, parse, read_object, said
from workbench.studies.experiments.plan import Plan, Record
from workbench.studies.zoo import find_zoo
from workbench.support.plugins import Table

#: The kinds of studies and their modules; those in ``zoo`` come with the model zoo.
KINDS: Final = Table(
    "kind of study",
    {
        "extraction": "workbench.studies.experiments.extraction",
        "optimisation": "workbench.studies.experiments.optimisation",
        "ablation": "workbench.studies.experiments.ablation",
        "verification": "workbench.studies.experiments.verification",
        "branches": "zoo.studies.branches",
        "deployment": "zoo.studies.deployment",
        "synthesis": "workbench.studies.experiments.synthesis",
        "blocking": "workbench.studies.experiments.blocking",
        "kernels": "zoo.studies.kernels",
        "latency": "zoo.studies.latency",
        "training": "zoo.studies.training",
    },
)


def module_of(kind: str) -> ModuleType:
    """Import the module of a kind; raise FileNotFoundError if it needs the model zoo, which is missing."""
    if KINDS[kind].startswith("zoo."):
        find_zoo()
    return import_module(KINDS[kind])


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
        try:
            module = module_of(kind)
        except FileNotFoundError as error:
            raise StudyError(f"kind {kind}: {error}") from None
        settings: type[Study] = next(c for c in vars(module).values() if getattr(c, "KIND", "") == kind)
        return read_object(settings, data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StudyError(f"{file.name} must be readable YAML, got: {' '.join(str(error).split())}") from None
    except StudyError as error:
        raise StudyError(f"{file.name}: {error}") from None


def make_plan(study: Study, home: Path, folder: Path) -> Plan:
    """Plan a study's runs; its paths are relative to ``home``, ``folder`` is that of its records and tables."""
    plan: Plan = module_of(study.KIND).make_plan(study, home, folder)
    return plan


def outcome_line(record: Record) -> str:
    """Return the outcome of a run in one line, as the study of its kind words it."""
    row, name = record["row"], record["name"]
    if record["failed"]:
        return f"{name}: {row['status']}: {row['notes']}"
    return f"{name}: {module_of(record['config']['study']).outcome(record)}"
