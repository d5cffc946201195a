"""tamago workbench: tensor-graph superoptimisation by equality saturation.

>>> import workbench
>>> result = workbench.optimize("model.onnx")      # doctest: +SKIP
>>> result.save("optimised.onnx")                  # doctest: +SKIP

Everything named here is imported when it is first used: ``import workbench`` itself loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workbench.activity import contributions, rule_table
    from workbench.benchmarks import benchmark
    from workbench.certifying import certify
    from workbench.costs.choose import cost_model
    from workbench.extraction.extract import Extraction, extract
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
    from workbench.pipeline import Optimized, optimize
    from workbench.rules import RuleSet, parse_rule, parse_rules, rule_set
    from workbench.saturation import Limits, Saturation
    from workbench.search import BacktrackingSearch
    from workbench.search.optimize import Searched, search_optimize
    from workbench.trace import StopReason, Trace
    from workbench.verification import Verification, sound_rules
    from workbench.without import Ablation, ablation

_HOMES = {
    "Ablation": "workbench.without",
    "BacktrackingSearch": "workbench.search",
    "Extraction": "workbench.extraction.extract",
    "Graph": "workbench.graph",
    "GraphBuilder": "workbench.graph",
    "Limits": "workbench.saturation",
    "Optimized": "workbench.pipeline",
    "RuleSet": "workbench.rules",
    "Saturation": "workbench.saturation",
    "Searched": "workbench.search.optimize",
    "StopReason": "workbench.trace",
    "Trace": "workbench.trace",
    "Verification": "workbench.verification",
    "ablation": "workbench.without",
    "benchmark": "workbench.benchmarks",
    "certify": "workbench.certifying",
    "contributions": "workbench.activity",
    "cost_model": "workbench.costs.choose",
    "evaluate": "workbench.graph",
    "extract": "workbench.extraction.extract",
    "import_onnx": "workbench.frontends",
    "load_model": "workbench.frontends",
    "load_onnx": "workbench.frontends",
    "load_torch": "workbench.frontends",
    "optimize": "workbench.pipeline",
    "parse_rule": "workbench.rules",
    "parse_rules": "workbench.rules",
    "rule_set": "workbench.rules",
    "rule_table": "workbench.activity",
    "save_model": "workbench.frontends",
    "save_onnx": "workbench.frontends",
    "search_optimize": "workbench.search.optimize",
    "sound_rules": "workbench.verification",
    "to_onnx": "workbench.frontends",
}

__all__ = [  # noqa: RUF022  (the order of the way through)
    "load_model", "load_onnx", "import_onnx", "load_torch", "benchmark", "Graph", "GraphBuilder", "evaluate",
    "rule_set", "RuleSet", "parse_rule", "parse_rules",
    "Verification", "sound_rules",
    "optimize", "Optimized", "Saturation", "Limits", "cost_model", "extract", "Extraction",
    "certify", "Trace", "StopReason",
    "rule_table", "contributions", "ablation", "Ablation",
    "search_optimize", "Searched", "BacktrackingSearch", "to_onnx", "save_onnx", "save_model",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "results":
        return import_module("workbench.results")
    if name not in _HOMES:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
