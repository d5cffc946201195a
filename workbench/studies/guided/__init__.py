"""Guided saturation: schedules, policies and sketches that decide which rules run, step by step."""

from workbench.studies.guided.saturation import Guided
from workbench.studies.guided.schedule import (
    Backoff,
    Policy,
    Repeat,
    Run,
    Schedule,
    Scheduled,
    Sequence,
    parse_schedule,
)
from workbench.studies.guided.sketch import ANY, Contains, Either, Op, Sketch, Stage, sketch_of, staged

__all__ = [
    "ANY",
    "Backoff",
    "Contains",
    "Either",
    "Guided",
    "Op",
    "Policy",
    "Repeat",
    "Run",
    "Schedule",
    "Scheduled",
    "Sequence",
    "Sketch",
    "Stage",
    "parse_schedule",
    "sketch_of",
    "staged",
]
