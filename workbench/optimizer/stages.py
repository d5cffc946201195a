"""The parts of every optimisation: reading model and rules, the certificate, the record of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.costs import CostModel, node_costs
from workbench.graph import Graph
from workbench.laws.theorems.records import THEOREM, is_theorem
from workbench.ops import TensorType
from workbench.optimizer.record import SaturationFigures
from workbench.rules import RuleSet
from workbench.run.trace import Trace

if TYPE_CHECKING:
    from workbench.certification.certificate import Certificate
    from workbench.certification.prefetch import EarlyRuns
    from workbench.certification.regions import Correspondence
    from workbench.egraph import EGraph
    from workbench.optimizer.result import Result


def graph_of(
    model: object, dims: Mapping[str, int] | None, *, keep_inputs: bool = False
) -> tuple[Graph, Any]:
    """Return a model as a graph, and the coverage of its import unless it was a graph."""
    if isinstance(model, Graph):
        return model, None
    from workbench.frontends import import_model

    imported = import_model(model, dims=dims, keep_inputs=keep_inputs)
    return imported.graph, imported.coverage


def rules_for(graph: Graph, rules: RuleSet) -> tuple[RuleSet, tuple[str, ...]]:
    """Return the rules that a graph may be rewritten by, and the names of those left out.

    In a graph of 16-bit floats, rules that may overflow or lose accuracy are left out.
    """
    kinds = (node.type for node in graph.nodes)
    if not any(isinstance(k, TensorType) and k.dtype in ("float16", "bfloat16") for k in kinds):
        return rules, ()
    from workbench.laws.verification.half_precision import rules_for

    return rules_for(graph, rules)


def operator_costs(graph: Graph, costs: np.ndarray) -> dict[str, float]:
    """Return the cost of a graph by operator; operators that cost nothing are left out."""
    found: dict[str, float] = {}
    for node, cost in zip(graph.nodes, costs.tolist(), strict=True):
        if cost > 0:
            found[node.op] = found.get(node.op, 0.0) + cost
    return found


def trace_meta(result: Result, cost_model: CostModel) -> dict[str, Any]:
    """Return the facts about a result that its trace carries: costs and their source, rules, versions."""
    record = result.record()
    before, after = (
        operator_costs(graph, node_costs(graph, cost_model)) for graph in (result.original, result.graph)
    )
    from workbench.extraction.cost_history import CURVE

    bound: dict[str, Any] = {}
    if isinstance(record.way, SaturationFigures):
        bound = {"cost_bound": record.way.bound, "cost_curve": CURVE}
    return {
        "cost_source": cost_model.source,
        "cost_before": record.cost_before,
        "cost_after": record.cost_after,
        "operator_costs": {"before": before, "after": after},
        "rule_set": record.settings["rules"],
        "seed": record.settings["seed"],
        "stop_reason": record.stop_reason.value,
        **versions(),
        **bound,
    }


def versions() -> dict[str, str]:
    """Return the versions that a figure depends on."""
    import platform
    from importlib.metadata import version

    from workbench._version import __version__

    return {
        "workbench": __version__,
        "egglog": version("egglog"),
        "highspy": version("highspy"),
        "python": platform.python_version(),
    }


def certified(
    original: Graph,
    optimised: Graph,
    seed: int,
    known: Correspondence | None = None,
    given: object = None,
    *,
    draws: int = 3,
    whole: bool = True,
    early: EarlyRuns | None = None,
) -> Certificate:
    """Compare two graphs on random inputs; operators that are not modelled run in ONNX Runtime.

    Args:
        original: The graph before rewriting.
        optimised: The graph after rewriting.
        seed: The seed of the random inputs.
        known: Numbers for the values of both graphs: equal numbers claim equal values.
        given: The model of the user, or None.
        draws: The number of random inputs per region.
        whole: Whether both models also run as a whole.
        early: Runs of the original that may have been made already.
    """
    from workbench.certification.certificate import certify

    runner = None
    if original.opaques:
        from workbench.frontends import opaque_runner

        runner = opaque_runner()
    return certify(
        original,
        optimised,
        draws=draws,
        seed=seed,
        opaque=runner,
        known=known,
        given=given,
        whole=whole,
        early=early,
    )


def correspondence(original: Graph, optimised: Graph, egraph: EGraph, choice: np.ndarray) -> Correspondence:
    """Return the e-classes of the nodes of a graph and of a term extracted from its e-graph.

    Args:
        original: The graph.
        optimised: The term as a graph.
        egraph: The e-graph.
        choice: The chosen e-node of each e-class; negative for an e-class that is not built.
    """
    from workbench.certification.regions import Correspondence
    from workbench.egraph.class_map import eclasses_of

    before = tuple(int(egraph.eclass[i]) if i >= 0 else -1 for i in egraph.original.tolist())
    after = eclasses_of(optimised, egraph)
    rules = []
    for c in after:
        rule = int(egraph.birth_rule[int(choice[c])]) if c >= 0 and choice[c] >= 0 else -1
        rules.append(egraph.rules[rule] if rule >= 0 else "")
    return Correspondence(before, after, tuple(rules))


def verdicts(trace: Trace, rules: RuleSet, made_by: Sequence[str]) -> dict[str, str]:
    """Return the verdict on every rule that fired, those that made the result first.

    A rule whose proof for all types is stored is a ``theorem``.
    """
    fired = {r.rule for step in trace for r in step.rules if r.matches}
    those = [rule for rule in rules if rule.name in fired]
    known = {rule.name: THEOREM if is_theorem(rule) else rules.verdict(rule) for rule in those}
    return {n: known[n] for n in [*(m for m in made_by if m in known), *sorted(set(known) - set(made_by))]}
