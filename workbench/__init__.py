"""tamago workbench: tensor-graph superoptimisation by equality saturation.

>>> import workbench
>>> result = workbench.optimize("model.onnx")      # doctest: +SKIP
>>> result.save("optimised.onnx")                  # doctest: +SKIP

Everything named here is imported when it is first used: ``import workbench`` itself loads nothing heavy.
"""

import sys
from typing import TYPE_CHECKING

from workbench._version import __version__ as __version__
from workbench.support.lazy import MovedModules, door

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
#: Names that are imported from their wing now.
_IN_WINGS = {
    "kernels": "composite load_program",
    "laws": "Grammar Synthesis Verification sound_rules",
    "studies": "Ablation BacktrackingSearch Searched ablation contributions rule_table search_optimize",
}

#: Packages by their former names, and the module that the README ran by its former name.
_MOVED = {
    "accelerators": "kernels.accelerators",
    "analysis": "studies.analysis",
    "benchmarks": "studies.benchmarks",
    "certifying": "certification",
    "cli": "faces.cli",
    "codegen": "kernels.codegen",
    "composites": "kernels.composites",
    "devices.executor": "torch.executor",
    "devices.kernels": "torch.kernels",
    "devices.measure": "studies.devices.measure",
    "experiments": "studies.experiments",
    "frontends.taso": "studies.taso",
    "plots": "faces.plots",
    "rules.foreign": "laws.foreign",
    "saturation.explain": "laws.explain",
    "saturation.guided": "studies.guided",
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

__getattr__, _ = door(
    __name__,
    _NAMES,
    modules=("kernels", "laws", "results", "studies", "taso", *_MOVED),
    moved={f"workbench.{wing}": names for wing, names in _IN_WINGS.items()},
)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
