"""tamago workbench: tensor-graph superoptimisation by equality saturation.

>>> import workbench
>>> result = workbench.optimize("model.onnx")      # doctest: +SKIP
>>> result.save("optimised.onnx")                  # doctest: +SKIP

Everything named here is imported when it is first used: ``import workbench`` itself loads nothing heavy.
"""

from typing import TYPE_CHECKING

from workbench._version import __version__ as __version__
from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.certification import certify
    from workbench.costs.registry import cost_model
    from workbench.devices.targets import target
    from workbench.extraction.api import Extracted as Extracted
    from workbench.extraction.api import extract
    from workbench.extraction.api import extractor as extractor
    from workbench.extraction.extract import Extraction as Extraction
    from workbench.faces.views import lab
    from workbench.frontends import import_onnx as import_onnx
    from workbench.frontends import (
        load_model,
        load_onnx,
        save_model,
        save_onnx,
    )
    from workbench.frontends import to_onnx as to_onnx
    from workbench.graph import Graph, GraphBuilder
    from workbench.graph import evaluate as evaluate
    from workbench.ops.user_ops import operator
    from workbench.optimizer.pipeline import optimize
    from workbench.optimizer.result import Optimized
    from workbench.rules import RuleSet as RuleSet
    from workbench.rules import parse_rule as parse_rule
    from workbench.rules import parse_rules, rule_set
    from workbench.run.trace import StopReason as StopReason
    from workbench.run.trace import Trace
    from workbench.saturation import Limits, Saturation
    from workbench.studies.benchmarks import benchmark
    from workbench.torch.exported import load_torch


__all__ = [  # noqa: RUF022  (the order of the way through)
    "load_model", "load_onnx", "load_torch", "benchmark", "Graph", "GraphBuilder", "operator",
    "rule_set", "parse_rules", "optimize", "Optimized", "Saturation", "Limits", "extract",
    "cost_model", "target", "certify", "Trace", "lab", "save_model", "save_onnx",
]  # fmt: skip

#: The names of the core by the module that defines them; those that `__all__` lacks are for scripts.
_NAMES = {
    "certification": "certify",
    "costs.registry": "cost_model",
    "devices.targets": "target",
    "extraction.api": "extract Extracted extractor",
    "extraction.extract": "Extraction",
    "faces.views": "lab",
    "frontends": "import_onnx load_model load_onnx save_model save_onnx to_onnx",
    "graph": "evaluate Graph GraphBuilder",
    "ops.user_ops": "operator",
    "optimizer.pipeline": "optimize",
    "optimizer.result": "Optimized",
    "rules": "parse_rule parse_rules rule_set RuleSet",
    "run.trace": "StopReason Trace",
    "saturation": "Limits Saturation",
    "studies.benchmarks": "benchmark",
    "torch.exported": "load_torch",
}

__getattr__, _ = door(
    __name__,
    _NAMES,
    modules=("kernels", "laws", "results", "studies", "taso"),
    moved={
        "workbench.kernels": "composite load_program",
        "workbench.laws": "Grammar Synthesis Verification sound_rules",
        "workbench.studies": "Ablation BacktrackingSearch Searched ablation contributions rule_table search_optimize",
    },
)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
