"""Extraction: choose one e-node per e-class, acyclic and cheap."""

from workbench.extraction.egraph import EGraph, validate
from workbench.extraction.extract import METHODS, Extraction, extract
from workbench.extraction.problem import NoExtraction
from workbench.extraction.rebuild import rebuild
from workbench.extraction.serialize import EGraphFormatError, load_json, save_json
from workbench.extraction.solution import Solution, Status

__all__ = [
    "METHODS",
    "EGraph",
    "EGraphFormatError",
    "Extraction",
    "NoExtraction",
    "Solution",
    "Status",
    "extract",
    "load_json",
    "rebuild",
    "save_json",
    "validate",
]
