"""E-graphs as data: columns, files, and graphs rebuilt from a selection."""

from workbench.egraph.egraph import EGraph, validate
from workbench.egraph.rebuild import rebuild
from workbench.egraph.serialize import EGraphFormatError, load_json, save_json

__all__ = ["EGraph", "EGraphFormatError", "load_json", "rebuild", "save_json", "validate"]
