"""Guided saturation: schedules, policies and sketches that decide which rules run, step by step."""

from workbench.saturation.guided.policies import (
    Backoff,
    BestFirst,
    MatchLimited,
    Policy,
    Scheduled,
    TreeSearch,
)
from workbench.saturation.guided.saturation import Guided
from workbench.saturation.guided.schedule import Repeat, Run, Schedule, Sequence, parse_schedule
from workbench.saturation.guided.sketch import ANY, Contains, Either, Op, Sketch, sketch_of
from workbench.saturation.guided.sketch_guided import Stage, staged

__all__ = [
    "ANY",
    "Backoff",
    "BestFirst",
    "Contains",
    "Either",
    "Guided",
    "MatchLimited",
    "Op",
    "Policy",
    "Repeat",
    "Run",
    "Schedule",
    "Scheduled",
    "Sequence",
    "Sketch",
    "Stage",
    "TreeSearch",
    "parse_schedule",
    "sketch_of",
    "staged",
]
