"""Extraction: choose one e-node per e-class, acyclic and cheap."""

from workbench.extraction.alternatives import k_best
from workbench.extraction.cost_history import add_costs
from workbench.extraction.extract import Extraction, extract
from workbench.extraction.problem import NoExtraction
from workbench.extraction.registry import METHODS
from workbench.extraction.result import Ending, Limit, Solution, Status

__all__ = [
    "METHODS", "Ending", "Extraction", "Limit", "NoExtraction", "Solution", "Status", "add_costs",
    "extract", "k_best",
]  # fmt: skip
