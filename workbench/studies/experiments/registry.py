"""Kinds of studies: each has settings in ``config.KINDS`` and a module of its name next to this one.

The module lists and does the runs, describes an outcome in a line, and renders the records as tables. A
record names its kind as ``config["study"]``.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from workbench.studies.experiments.config import KINDS, Study
from workbench.studies.experiments.plan import Plan, Record


def kind_of(study: Study) -> str:
    """Return the kind of a study, a key of ``KINDS``."""
    return next(name for name, settings in KINDS.items() if isinstance(study, settings))


def module_of(study: Study) -> ModuleType:
    """Import the module of a study's kind."""
    return import_module(f"workbench.studies.experiments.{kind_of(study)}")


def make_plan(study: Study, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, subject by subject.

    Paths in the study are relative to ``home``; ``folder`` is the folder of its records and tables.
    """
    plan: Plan = module_of(study).make_plan(study, home, folder)
    return plan


def outcome_line(record: Record) -> str:
    """Return the outcome of a run in one line, as the study of its kind words it."""
    row, name = record["row"], record["name"]
    if record["failed"]:
        return f"{name}: {row['status']}: {row['notes']}"
    study = import_module(f"workbench.studies.experiments.{record['config']['study']}")
    return f"{name}: {study.outcome(record)}"
