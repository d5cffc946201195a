"""What the core asks of the wings, and a graph of the writer of files, by name.

The core imports no wing. It calls what a wing offers by a name of this table; the wing is imported then, and a
core without wings does everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

#: Modules and names of what the wings offer.
_OFFERS: Final = {
    "accelerator": "kernels.accelerators:unit",
    "accelerator_cost": "kernels.accelerators:AcceleratorCost",
    "accelerator_rules": "kernels.accelerators:unit_rules",
    "accelerator_placement": "kernels.accelerators:placement",
    "blocks_of": "studies.guided.blocks:blocks_of",
    "c_target": "kernels.codegen.partitioned:CTarget",
    "compare": "studies.analysis.comparison:compare",
    "rule_table": "studies.analysis.rule_activity:rule_table",
    "floors": "studies.devices.floors:floors",
    "explain": "laws.explain.api:ask_explain",
    "proof": "laws.run_proofs.api:checked_proof",
    "why_not": "laws.explain.api:ask_why_not",
    "judged_rules": "laws.verification.admission:judged",
    "judge_range": "laws.verification.half_precision:judge_range",
    "sound_set": "laws.verification.admission:sound_set",
    "dot_source": "faces.views.svg:drawn_source",
    "graph_svg": "faces.views.graphs:graph_svg",
    "page": "faces.views:page",
    "runtime_target": "studies.devices.other_runtimes:runtime_target",
    "plot_growth": "faces.plots:plot_growth",
    "static_html": "faces.views:static_html",
    "view": "faces.views:view",
    "import_taso_model": "studies.taso.model_reader:import_taso_model",
    "equations_rules": "laws.foreign.tensat_file:read_equations",
    "taso_rules": "laws.foreign.taso_file:read_taso",
    "tensat_rules": "laws.foreign.tensat_file:read_tensat",
    "save_taso_model": "studies.taso.model_writer:save_taso_model",
    "solve_tensat": "studies.tensat:solve_tensat",
    "certify_torch": "torch.certifying:certify_torch",
    "exported": "torch.exported:exported",
    "load_onnx": "frontends:load_onnx",
    "to_onnx": "frontends:to_onnx",
    "torch_target": "torch.executor:Torch",
    "to_torch": "torch.writer:to_module",
    "tensat_problem": "studies.tensat:tensat_problem",
}

#: The module that registers each operator of a wing.
OPERATORS: Final = {"blocked": "kernels.accelerators.operators", "unfold": "kernels.accelerators.operators"}
#: The module that registers the operators of a family, whose names begin so; no list of operators has them.
FAMILIES: Final = {"winograd_": "kernels.fast.winograd"}


def offered(name: str) -> Callable[..., Any]:
    """Return what a wing offers by a name.

    >>> offered("sound_set").__name__
    'sound_set'
    """
    module, _, attribute = _OFFERS[name].partition(":")
    return getattr(import_module(f"workbench.{module}"), attribute)


def register_operator(name: str) -> None:
    """Import the wing's module that registers an operator, of a list or of a family, if there is one."""
    module = OPERATORS.get(name) or next((m for start, m in FAMILIES.items() if name.startswith(start)), None)
    if module is not None:
        import_module(f"workbench.{module}")
