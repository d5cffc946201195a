"""tamago workbench: tensor-graph superoptimisation by equality saturation.

>>> import workbench
>>> result = workbench.optimize("model.onnx")      # doctest: +SKIP
>>> result.save("optimised.onnx")                  # doctest: +SKIP

Everything named here is imported when it is first used: ``import workbench`` itself loads nothing heavy.
"""

import sys
from typing import TYPE_CHECKING

from workbench._version import __version__ as __version__
from workbench.support.lazy import MovedModules, lazy_names

if TYPE_CHECKING:
    from workbench.certification import certify
    from workbench.costs.registry import cost_model
    from workbench.devices.targets import target
    from workbench.extraction.api import Extracted as Extracted
    from workbench.extraction.api import extract
    from workbench.extraction.api import extractor as extractor
    from workbench.extraction.extract import Extraction as Extraction
    from workbench.frontends import import_onnx as import_onnx
    from workbench.frontends import load_model, load_onnx, load_torch, save_model, save_onnx
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


__all__ = [  # noqa: RUF022  (the order of the way through)
    "load_model", "load_onnx", "load_torch", "benchmark", "Graph", "GraphBuilder", "operator",
    "rule_set", "parse_rules", "optimize", "Optimized", "Saturation", "Limits", "extract",
    "cost_model", "target", "certify", "Trace", "save_model", "save_onnx",
]  # fmt: skip

#: The names of the core by the module that defines them; those that `__all__` lacks are for scripts.
_NAMES = {
    "certification": "certify",
    "costs.registry": "cost_model",
    "devices.targets": "target",
    "extraction.api": "extract Extracted extractor",
    "extraction.extract": "Extraction",
    "frontends": "import_onnx load_model load_onnx load_torch save_model save_onnx to_onnx",
    "graph": "evaluate Graph GraphBuilder",
    "ops.user_ops": "operator",
    "optimizer.pipeline": "optimize",
    "optimizer.result": "Optimized",
    "rules": "parse_rule parse_rules rule_set RuleSet",
    "run.trace": "StopReason Trace",
    "saturation": "Limits Saturation",
    "studies.benchmarks": "benchmark",
}
#: Names that are imported from their wing now.
_IN_WINGS = {
    "kernels": "composite load_program",
    "laws": "Grammar Synthesis Verification sound_rules",
    "studies": "Ablation BacktrackingSearch Searched ablation contributions rule_table search_optimize",
}
_HOMES = {name: f"workbench.{module}" for module, names in _NAMES.items() for name in names.split()}
_MOVED_NAMES = {name: f"workbench.{wing}" for wing, names in _IN_WINGS.items() for name in names.split()}

#: Names that are gone, with what to use.
_GONE = {"extract_whole": "judge the terms of workbench.extraction.alternatives.k_best by the cost"}

#: Packages by their former names.
_MOVED = {
    "accelerators": "kernels.accelerators",
    "analysis": "studies.analysis",
    "benchmarks": "studies.benchmarks",
    "certification.api": "certification",
    "certification.blame": "certification.bisect",
    "certification.rounded_constants": "certification.tolerance",
    "certifying": "certification",
    "cli": "faces.cli",
    "codegen": "kernels.codegen",
    "composites": "kernels.composites",
    "costs.choose": "costs.registry",
    "costs.table": "studies.analysis.cost_table",
    "devices.instances": "studies.devices.instances",
    "devices.latency": "studies.devices.latency",
    "devices.measure": "studies.devices.measure",
    "devices.operators": "studies.devices.operators",
    "devices.record": "studies.devices.record",
    "devices.report": "studies.devices.report",
    "devices.spec_io": "studies.devices.spec_io",
    "egraph.derivation": "studies.analysis.derivation",
    "egraph.every_size": "egraph.at_sizes",
    "experiments": "studies.experiments",
    "extraction.anything": "extraction.api",
    "extraction.choose": "extraction.api",
    "extraction.exact.decompose": "extraction.reduce.cycles",
    "extraction.exact.formulation": "extraction.exact.ilp",
    "extraction.exact.isomorphic_parts": "extraction.exact.solve",
    "extraction.exact.loops": "extraction.exact.cycle_constraints",
    "extraction.exact.program": "extraction.exact.ilp",
    "extraction.exact.root_tightening": "extraction.exact.solve",
    "extraction.exact.shapes": "extraction.exact.solve",
    "extraction.exact.solving": "extraction.exact.types",
    "extraction.exact.split": "extraction.reduce.cycles",
    "extraction.exact.tensat": "studies.tensat",
    "extraction.exact.tighten": "extraction.exact.solve",
    "extraction.greedy.beam": "extraction.greedy.dag",
    "extraction.greedy.selection": "extraction.greedy.local_search",
    "extraction.history": "extraction.cost_history",
    "extraction.limits": "extraction.result",
    "extraction.own": "extraction.registry",
    "extraction.reduce.ascent": "extraction.reduce.dual_ascent",
    "extraction.reduce.must": "extraction.reduce.dominators",
    "extraction.signed": "extraction.negative_costs",
    "extraction.solution": "extraction.result",
    "extraction.table": "extraction.csr_table",
    "extraction.terms": "extraction.egglog_python",
    "extraction.together": "extraction.tie_breaking",
    "extraction.typed": "extraction.egglog_python",
    "faces.plots.records": "studies.experiments.records",
    "frontends.onnx.mmap_weights": "frontends.onnx.file",
    "frontends.onnx.names": "frontends.onnx.opaque",
    "frontends.onnx.nodes": "frontends.onnx.prepare",
    "frontends.onnx.node_view": "frontends.onnx.shape_inference",
    "frontends.onnx.sessions": "frontends.runtime",
    "frontends.onnx.streaming_io": "frontends.onnx.file",
    "frontends.onnx.unsupported_suffix": "frontends.onnx.import_units",
    "frontends.taso": "studies.taso",
    "frontends.taso.exporter": "studies.taso.model_writer",
    "frontends.taso.importer": "studies.taso.model_reader",
    "frontends.taso.text": "studies.taso.model_text",
    "laws.theorems.countermodels": "laws.verification.refuting.models",
    "laws.theorems.library": "laws.verification.proofs",
    "laws.theorems.rewrite_chains": "laws.verification.proofs",
    "ops.blocked": "kernels.accelerators.blocked",
    "ops.im2col": "kernels.accelerators.im2col",
    "optimizer.asked_sizes": "frontends.onnx.symbolic_dims",
    "optimizer.file_checks": "optimizer.dynamic",
    "optimizer.model": "frontends.model_file",
    "plots": "faces.plots",
    "rules.foreign": "laws.foreign",
    "rules.foreign.reading": "rules.ruleset",
    "rules.library": "rules.ruleset",
    "rules.matching": "laws.matching",
    "saturation.explain": "laws.explain",
    "saturation.explain.explanation": "laws.explain.api",
    "saturation.explain.matching": "laws.proof_graph",
    "saturation.explain.proof_graph": "laws.proof_graph",
    "saturation.explain.rule_application": "laws.proof_graph",
    "saturation.guided": "studies.guided",
    "search": "studies.search",
    "studies.benchmarks.zoo": "studies.zoo",
    "studies.experiments.reports": "faces.plots.reports",
    "support.pool": "laws.pool",
    "synthesis": "laws.synthesis",
    "theorems": "laws.theorems",
    "verification": "laws.verification",
    "views": "faces.views",
}
#: Modules that were merged into one, by their former names next to it.
_MERGED = {
    "certification.bisect": "blame files.bisect",
    "certification.certificate": "files.result",
    "certification.files": "files.compare",
    "certification.inputs": "files.inputs",
    "certification.interface": "files.interface",
    "certification.model": "files.model",
    "certification.reducer": "files.reducer",
    "certification.regions": "fingerprints",
    "certification.runner": "files.runner",
    "certification.tolerance": "files.tolerance rounded_constants",
    "certification.unrunnable_ops": "files.unrunnable_ops",
    "certification.worker": "files.worker",
    "faces.plots.bars": "optimiser_time programs speedup stages",
    "faces.plots.cost": "ablation gap",
    "faces.plots.laws": "funnel verification",
    "faces.plots.saturation": "firing growth iteration_time",
    "faces.plots.scaling": "k_multi trajectory",
    "faces.views.compare": "changes",
    "faces.views.egraphs": "subgraph",
    "faces.views.graphs": "scene_data segments",
    "faces.views.rules": "patterns",
    "faces.views.static_html": "certificates faces why_not",
    "faces.views.widgets": "rule_browser runs_browser stepper still viewer widget",
    "kernels.accelerators.cost": "tiling",
    "kernels.accelerators.lowering": "operator",
    "kernels.accelerators.rules": "verdicts",
    "kernels.codegen.clusters": "decompose operators",
    "kernels.codegen.fusion": "cluster_timing",
    "kernels.codegen.partitioned": "loaded_program target",
    "kernels.codegen.schedule": "loop_fusion",
    "kernels.composites.binding": "typing",
    "kernels.composites.define": "declared",
    "kernels.composites.equations": "inline parsing",
    "kernels.composites.evaluate": "exact flops torch_form",
    "kernels.composites.files": "library picture",
    "kernels.composites.onnx_function": "onnx_model",
    "kernels.composites.scalar": "primitives",
    "kernels.composites.signature": "tokens",
    "kernels.composites.simplify": "simplifiers",
    "laws.explain.api": "targets",
    "laws.synthesis.derivation": "coverage samples",
    "laws.synthesis.grammar": "known",
    "laws.synthesis.judge": "rechecks",
    "laws.synthesis.naming": "tidying",
    "laws.synthesis.outputs": "extents",
    "laws.synthesis.synthesis": "writing",
    "laws.theorems.goals": "definitions equations",
    "laws.theorems.store": "records",
    "laws.verification.admission": "sound",
    "laws.verification.instances.spaces": "permutations",
    "laws.verification.proving.chain": "needed",
    "laws.verification.refuting.exact_arithmetic": "literals",
    "laws.verification.refuting.refute": "element_types",
    "studies.benchmarks.convolutional": "inception layers mobilenet nasnet resnet vgg",
    "studies.benchmarks.light": "demonstration",
    "studies.experiments.config_loader": "resources",
    "studies.experiments.plan": "grid sweep",
    "studies.experiments.pool": "cluster",
    "studies.experiments.process": "plugin_transfer",
    "studies.experiments.store": "stored",
    "studies.experiments.tables": "markdown",
    "studies.search.edits": "patterns plans",
    "studies.search.states": "nodes program",
    "studies.taso.modes": "errors",
    "studies.taso.operators": "tensor",
}
_MOVED |= {
    f"{home.rpartition('.')[0]}.{name}": home for home, names in _MERGED.items() for name in names.split()
}
if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
    sys.meta_path.insert(
        0, MovedModules({f"workbench.{old}": f"workbench.{new}" for old, new in _MOVED.items()})
    )

__getattr__ = lazy_names(
    __name__,
    _HOMES,
    modules=("kernels", "laws", "results", "studies", "taso", *_MOVED),
    moved=_MOVED_NAMES,
    gone=_GONE,
)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
