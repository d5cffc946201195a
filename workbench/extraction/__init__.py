"""Extraction: choose one e-node per e-class, acyclic and cheap."""

from workbench.extraction.extract import Extraction, extract
from workbench.extraction.limits import Ending, Limit
from workbench.extraction.own import METHODS
from workbench.extraction.problem import NoExtraction
from workbench.extraction.roots import Outputs, extract_weighted
from workbench.extraction.solution import Solution, Status

__all__ = [
    "METHODS", "Ending", "Extraction", "Limit", "NoExtraction", "Outputs", "Solution", "Status", "extract",
    "extract_weighted",
]  # fmt: skip
