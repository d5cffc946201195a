"""TASO's backtracking search: the baseline, with the same rules, costs and graphs as saturation."""

from workbench.studies.search.modes import MODES
from workbench.studies.search.search import BacktrackingSearch

__all__ = ["MODES", "BacktrackingSearch"]
