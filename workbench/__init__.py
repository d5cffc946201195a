"""tamago workbench: tensor-graph superoptimisation by equality saturation.

>>> import workbench
>>> result = workbench.optimize("model.onnx")      # doctest: +SKIP
>>> result.save("optimised.onnx")                  # doctest: +SKIP

Everything named here is imported when it is first used: ``import workbench`` itself loads nothing heavy.
"""

import sys
from typing import TYPE_CHECKING

from workbench._version import __version__ as __version__
from workbench.support.lazy import lazy_names
from workbench.support.moved import MovedModules

if TYPE_CHECKING:
    from workbench.certification import certify
    from workbench.costs.registry import cost_model
    from workbench.devices.targets import target
    from workbench.extraction.api import Extracted, extract
    from workbench.extraction.extract import Extraction
    from workbench.extraction.registry import extractor
    from workbench.extraction.whole import extract_whole
    from workbench.frontends import (
        import_onnx,
        load_model,
        load_onnx,
        load_torch,
        save_model,
        save_onnx,
        to_onnx,
    )
    from workbench.graph import Graph, GraphBuilder, evaluate
    from workbench.kernels.codegen.partitioned import load_program
    from workbench.kernels.composites.define import composite
    from workbench.laws.synthesis import Grammar, Synthesis
    from workbench.laws.verification import Verification, sound_rules
    from workbench.ops.user_ops import operator
    from workbench.optimizer.pipeline import optimize
    from workbench.optimizer.result import Optimized
    from workbench.rules import RuleSet, parse_rule, parse_rules, rule_set
    from workbench.run.trace import StopReason, Trace
    from workbench.saturation import Limits, Saturation
    from workbench.studies.analysis.ablation import Ablation, ablation
    from workbench.studies.analysis.rule_activity import contributions, rule_table
    from workbench.studies.benchmarks import benchmark
    from workbench.studies.search import BacktrackingSearch
    from workbench.studies.search.optimize import Searched, search_optimize


__all__ = [  # noqa: RUF022  (the order of the way through)
    "load_model", "load_onnx", "import_onnx", "load_torch", "benchmark", "Graph", "GraphBuilder", "evaluate",
    "operator", "composite", "rule_set", "RuleSet", "parse_rule", "parse_rules",
    "Verification", "sound_rules", "Grammar", "Synthesis",
    "optimize", "Optimized", "Saturation", "Limits", "extract", "Extraction", "Extracted", "extract_whole",
    "cost_model", "extractor", "target",
    "certify", "Trace", "StopReason",
    "rule_table", "contributions", "ablation", "Ablation",
    "search_optimize", "Searched", "BacktrackingSearch", "to_onnx", "save_onnx", "save_model",
    "load_program",
]  # fmt: skip

#: The public names by the module that defines them.
_NAMES = {
    "studies.analysis.ablation": "Ablation ablation",
    "studies.analysis.rule_activity": "contributions rule_table",
    "studies.benchmarks": "benchmark",
    "certification": "certify",
    "kernels.codegen.partitioned": "load_program",
    "kernels.composites.define": "composite",
    "costs.registry": "cost_model",
    "devices.targets": "target",
    "extraction.api": "extract Extracted",
    "extraction.registry": "extractor",
    "extraction.extract": "Extraction",
    "extraction.whole": "extract_whole",
    "frontends": "import_onnx load_model load_onnx load_torch save_model save_onnx to_onnx",
    "graph": "evaluate Graph GraphBuilder",
    "ops.user_ops": "operator",
    "optimizer.pipeline": "optimize",
    "optimizer.result": "Optimized",
    "rules": "parse_rule parse_rules rule_set RuleSet",
    "run.trace": "StopReason Trace",
    "saturation": "Limits Saturation",
    "studies.search": "BacktrackingSearch",
    "studies.search.optimize": "search_optimize Searched",
    "laws.synthesis": "Grammar Synthesis",
    "laws.verification": "sound_rules Verification",
}
_HOMES = {name: f"workbench.{module}" for module, names in _NAMES.items() for name in names.split()}

#: Packages by their former names.
_MOVED = {
    "accelerators": "kernels.accelerators",
    "analysis": "studies.analysis",
    "benchmarks": "studies.benchmarks",
    "certifying": "certification",
    "cli": "faces.cli",
    "codegen": "kernels.codegen",
    "composites": "kernels.composites",
    "costs.choose": "costs.registry",
    "experiments": "studies.experiments",
    "extraction.history": "extraction.cost_history",
    "plots": "faces.plots",
    "search": "studies.search",
    "synthesis": "laws.synthesis",
    "theorems": "laws.theorems",
    "verification": "laws.verification",
    "views": "faces.views",
}
if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
    sys.meta_path.insert(
        0, MovedModules({f"workbench.{old}": f"workbench.{new}" for old, new in _MOVED.items()})
    )

__getattr__ = lazy_names(__name__, _HOMES, modules=("results", "taso", *_MOVED))


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
