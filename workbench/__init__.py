"""tamago workbench: tensor-graph superoptimisation by equality saturation.

>>> import workbench
>>> result = workbench.optimize("model.onnx")      # doctest: +SKIP
>>> result.save("optimised.onnx")                  # doctest: +SKIP

Everything named here is imported when it is first used: ``import workbench`` itself loads nothing heavy.
"""

from typing import TYPE_CHECKING

from workbench._version import __version__ as __version__
from workbench.support.lazy import lazy_names

if TYPE_CHECKING:
    from workbench.analysis.ablation import Ablation, ablation
    from workbench.analysis.rule_activity import contributions, rule_table
    from workbench.benchmarks import benchmark
    from workbench.certifying import certify
    from workbench.codegen.saved import load_program
    from workbench.composites.define import composite
    from workbench.costs.choose import cost_model
    from workbench.devices.targets import target
    from workbench.extraction.anything import Extracted, extract
    from workbench.extraction.choose import extractor
    from workbench.extraction.extract import Extraction
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
    from workbench.ops.own import operator
    from workbench.optimizer.pipeline import Optimized, optimize
    from workbench.rules import RuleSet, parse_rule, parse_rules, rule_set
    from workbench.run.trace import StopReason, Trace
    from workbench.saturation import Limits, Saturation
    from workbench.search import BacktrackingSearch
    from workbench.search.optimize import Searched, search_optimize
    from workbench.synthesis import Grammar, Synthesis
    from workbench.verification import Verification, sound_rules


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
    "analysis.ablation": "Ablation ablation",
    "analysis.rule_activity": "contributions rule_table",
    "benchmarks": "benchmark",
    "certifying": "certify",
    "codegen.saved": "load_program",
    "composites.define": "composite",
    "costs.choose": "cost_model",
    "devices.targets": "target",
    "extraction.anything": "extract Extracted",
    "extraction.choose": "extractor",
    "extraction.extract": "Extraction",
    "extraction.whole": "extract_whole",
    "frontends": "import_onnx load_model load_onnx load_torch save_model save_onnx to_onnx",
    "graph": "evaluate Graph GraphBuilder",
    "ops.own": "operator",
    "optimizer.pipeline": "optimize Optimized",
    "rules": "parse_rule parse_rules rule_set RuleSet",
    "run.trace": "StopReason Trace",
    "saturation": "Limits Saturation",
    "search": "BacktrackingSearch",
    "search.optimize": "search_optimize Searched",
    "synthesis": "Grammar Synthesis",
    "verification": "sound_rules Verification",
}
_HOMES = {name: f"workbench.{module}" for module, names in _NAMES.items() for name in names.split()}

__getattr__ = lazy_names(__name__, _HOMES, modules=("results", "taso"))


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
