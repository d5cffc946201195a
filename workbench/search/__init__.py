"""TASO's backtracking search: the baseline, on the same rules, costs and graphs as the saturation."""

from workbench.search.modes import MODES, Mode
from workbench.search.search import BacktrackingSearch

__all__ = ["MODES", "BacktrackingSearch", "Mode"]
