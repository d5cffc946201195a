"""What every way through has in common: model and rules in, certificate, record, seconds by stage."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.costs import CostModel, node_costs
from workbench.graph import Graph
from workbench.rules import RuleSet
from workbench.rules.pattern import Rule
from workbench.trace import StopReason, Trace

if TYPE_CHECKING:
    from workbench.extraction import EGraph
    from workbench.verification import Certificate
    from workbench.verification.regions import Correspondence

#: Called as ``progress(stage, detail)``: the stage's name, and a trace step or a short text.
Progress = Callable[[str, Any], None]


def graph_of(model: Any, dims: Mapping[str, int] | None, *, keep_inputs: bool = False) -> tuple[Graph, Any]:
    """Return a model as a graph, with the coverage of its import where it was no graph."""
    if isinstance(model, Graph):
        return model, None
    from workbench.frontends import import_model

    imported = import_model(model, dims=dims, keep_inputs=keep_inputs)
    return imported.graph, imported.coverage


def rules_of(rules: str | RuleSet | Sequence[Rule]) -> RuleSet:
    """Return rules as a set: by name, from a file (of other systems' rules the sound ones), or given."""
    if isinstance(rules, str):
        from workbench.rules import rule_set

        if not rules.endswith(".rules") and Path(rules).is_file():
            # Another system's rules are used as far as they are sound with us.
            from workbench.verification.sound import sound_rules

            return replace(sound_rules(rules).rules, name=rules)
        found = replace(rule_set(rules), name=rules)
        if rules.endswith(".rules"):
            from workbench.verification.screening import warn_of_refuted

            warn_of_refuted(found)
        return found
    return rules if isinstance(rules, RuleSet) else RuleSet("given", tuple(rules), weights=False)


def rules_for(graph: Graph, rules: RuleSet) -> tuple[RuleSet, tuple[str, ...]]:
    """Return the rules that a graph may be rewritten by, and the names of those left out.

    In a graph of 16-bit floats those are left out that may overflow or lose accuracy there.
    """
    if not any(getattr(node.type, "dtype", "") in ("float16", "bfloat16") for node in graph.nodes):
        return rules, ()
    from workbench.verification.ranges import rules_for

    return rules_for(graph, rules)


def cost_model_of(cost: str | os.PathLike[str] | CostModel) -> CostModel:
    """Return a cost model: by name, from a recorded table, or given."""
    if isinstance(cost, CostModel):
        return cost
    from workbench.costs.choose import cost_model

    return cost_model(cost)


def operator_costs(graph: Graph, costs: np.ndarray) -> dict[str, float]:
    """Return the cost of a graph by operator, of those that cost anything."""
    found: dict[str, float] = {}
    for node, cost in zip(graph.nodes, costs.tolist(), strict=True):
        if cost > 0:
            found[node.op] = found.get(node.op, 0.0) + cost
    return found


def record_of(
    graph: Graph,
    result: Graph,
    cost_model: CostModel,
    *,
    rules: str,
    seed: int,
    stop: StopReason,
) -> dict[str, Any]:
    """Return what a trace says of the run that made it: costs and their source, rules, seed, versions."""
    before, after = node_costs(graph, cost_model), node_costs(result, cost_model)
    return {
        "cost_source": cost_model.source,
        "cost_before": float(before.sum()),
        "cost_after": float(after.sum()),
        "operator_costs": {"before": operator_costs(graph, before), "after": operator_costs(result, after)},
        "rule_set": rules,
        "seed": seed,
        "stop_reason": stop.value,
        **versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions that a figure depends on."""
    import platform
    from importlib.metadata import version

    import workbench

    return {
        "workbench": workbench.__version__,
        "egglog": version("egglog"),
        "highspy": version("highspy"),
        "python": platform.python_version(),
    }


def certified(
    original: Graph,
    optimised: Graph,
    seed: int,
    known: Correspondence | None = None,
    given: Any = None,
    *,
    draws: int = 3,
    whole: bool = True,
) -> Certificate:
    """Compare two graphs on random inputs; operators that are not modelled run in ONNX Runtime.

    ``known`` says which of their values should be equal, ``given`` is the model that the user gave;
    with ``whole=False`` the models do not run as a whole. Regions are compared on ``draws`` inputs.
    """
    from workbench.verification import certify

    runner = None
    if original.opaques:
        from workbench.frontends import opaque_runner

        runner = opaque_runner()
    return certify(
        original, optimised, draws=draws, seed=seed, opaque=runner, known=known, given=given, whole=whole
    )


def correspondence(original: Graph, optimised: Graph, egraph: EGraph, choice: np.ndarray) -> Correspondence:
    """Return the e-classes of the nodes of a graph and of a term extracted from its e-graph."""
    from workbench.comparison import eclasses_of
    from workbench.verification.regions import Correspondence

    before = tuple(int(egraph.eclass[i]) if i >= 0 else -1 for i in egraph.original.tolist())
    after = eclasses_of(optimised, egraph)
    rules = []
    for c in after:
        rule = int(egraph.birth_rule[int(choice[c])]) if c >= 0 and choice[c] >= 0 else -1
        rules.append(egraph.rules[rule] if rule >= 0 else "")
    return Correspondence(before, after, tuple(rules))


def verdicts(trace: Trace, rules: RuleSet, made_by: Sequence[str]) -> dict[str, str]:
    """Return the verdict on every rule that fired, those that made the result first."""
    fired = {r.rule for step in trace for r in step.rules if r.matches}
    known = {rule.name: rules.verdict(rule) for rule in rules if rule.name in fired}
    return {n: known[n] for n in [*(m for m in made_by if m in known), *sorted(set(known) - set(made_by))]}


class Clock:
    """Measure named stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stage = ""
        self._began = 0.0

    def __call__(self, stage: str) -> Clock:
        """Name the stage that comes next, as in ``with clock("import"):``."""
        self._stage = stage
        return self

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        spent = time.perf_counter() - self._began
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + spent

    def ordered(self) -> dict[str, float]:
        """Return the seconds in the order of the stages."""
        stages = (
            "import",
            "engine",
            "search",
            "saturation",
            "snapshot",
            "pricing",
            "extraction",
            "history",
            "measuring",
            "certificate",
        )
        return {s: self.seconds[s] for s in stages if s in self.seconds}
