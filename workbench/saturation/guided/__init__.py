"""Guided saturation: schedules, policies and sketches that decide which rules run, step by step."""

from workbench.saturation.guided.saturation import Guided
from workbench.saturation.guided.schedule import (
    Backoff,
    Policy,
    Repeat,
    Run,
    Schedule,
    Scheduled,
    Sequence,
    parse_schedule,
)
from workbench.saturation.guided.sketch import ANY, Contains, Either, Op, Sketch, Stage, sketch_of, staged

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
