"""Which operator instances a device has to measure: all that saturated networks hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from workbench.costs import CostModel, chosen_instances, egraph_instances, instances_of, price_egraph
from workbench.costs.analytic import AnalyticCost, work
from workbench.costs.keys import instance_key, same_kernel
from workbench.costs.model import OpInstance
from workbench.devices.executor import executable
from workbench.graph import Graph
from workbench.ops import TensorType
from workbench.rules import RuleSet
from workbench.rules.pattern import Rule
from workbench.saturation import Limits, Saturation
from workbench.trace import Step


@dataclass(frozen=True, slots=True)
class Listing:
    """Hold distinct operator instances, those that matter most first, and where they occur.

    First those of the networks as they are, then those of their cheapest extractions by the roofline,
    then the rest, cheap ones before dear ones: what a device has no time for is estimated.
    ``counts`` says for every network how many distinct instances its saturated e-graph holds,
    ``unmeasured`` for every operator without a torch form how many instances were left out.
    """

    instances: tuple[OpInstance, ...]
    counts: Mapping[str, int]
    unmeasured: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.instances)


def saturated_instances(
    networks: Mapping[str, Graph],
    *,
    rules: RuleSet | Sequence[Rule],
    limits: Limits | None = None,
    cost: CostModel | None = None,
    progress: Callable[[str, Step | None], None] | None = None,
) -> Listing:
    """Saturate networks and return the distinct operator instances of their e-graphs.

    ``limits`` are those of :func:`workbench.optimize` by default; ``cost`` orders the instances (default:
    the roofline of an H200). Views and weight-only work take no time and are left out; instances that one
    kernel runs are one. Ctrl-C raises KeyboardInterrupt: a part of the list would pass for all of it.
    """
    from workbench.extraction.extract import extract

    model = cost or AnalyticCost("h200")
    tell = progress or (lambda name, step: None)
    first: dict[str, OpInstance] = {}
    second: dict[str, OpInstance] = {}
    rest: dict[str, OpInstance] = {}
    counts: dict[str, int] = {}
    unmeasured: dict[str, set[str]] = {}

    def add(found: Sequence[OpInstance], to: dict[str, OpInstance]) -> int:
        added = 0
        for instance in map(same_kernel, found):
            if work(instance).free:
                continue
            key = instance_key(instance)
            if not executable(instance.op) or not isinstance(instance.type, TensorType):
                unmeasured.setdefault(instance.op, set()).add(key)
                continue
            added += 1
            to.setdefault(key, instance)
        return added

    for name, graph in networks.items():
        tell(name, None)
        add(instances_of(graph), first)
        with Saturation(graph, rules, limits or Limits(settle=4)) as saturation:
            stop = saturation.run(partial(tell, name))
            if stop.value == "interrupted":
                raise KeyboardInterrupt
            egraph = saturation.egraph()
        whole: dict[str, OpInstance] = {}
        add(egraph_instances(egraph), whole)
        counts[name] = len(whole)
        for key, instance in whole.items():
            rest.setdefault(key, instance)
        cheapest = extract(egraph, price_egraph(egraph, model), "dag")
        add(chosen_instances(egraph, cheapest.choice), second)
    estimates = dict(zip(rest, model.price(list(rest.values())).tolist(), strict=True))
    ordered = dict.fromkeys((*first, *second, *sorted(rest, key=lambda k: (estimates[k], k))))
    known = rest | second | first
    return Listing(
        tuple(known[key] for key in ordered), counts, {op: len(keys) for op, keys in unmeasured.items()}
    )
