"""Extraction: choose one e-node per e-class, acyclic and cheap."""

from workbench.extraction.egraph import EGraph
from workbench.extraction.solution import Solution, Status

__all__ = ["EGraph", "Solution", "Status"]
