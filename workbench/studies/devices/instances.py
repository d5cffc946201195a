"""The operator instances that a device has to measure: all instances in saturated networks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from workbench.costs import egraph_instances, instances_of, price_egraph
from workbench.costs.analytic import AnalyticCost, work
from workbench.costs.keys import instance_key, same_kernel
from workbench.costs.model import OpInstance
from workbench.graph import Graph
from workbench.ops import TensorType
from workbench.rules import RuleSet
from workbench.rules.pattern import Rule
from workbench.run.trace import Step, StopReason
from workbench.saturation import Limits, Saturation
from workbench.torch.executor import executable


@dataclass(frozen=True, slots=True)
class Listing:
    """Distinct operator instances in order of importance, with counts of their occurrences.

    The instances of the networks themselves come first, then those of their cheapest extractions by the
    roofline, then the others in order of estimated cost: instances for which a device has no time are
    estimated. ``counts`` maps every network to the number of distinct instances in its saturated e-graph,
    ``unmeasured`` every operator without a torch form to the number of instances left out.
    """

    instances: tuple[OpInstance, ...]
    counts: Mapping[str, int]
    unmeasured: Mapping[str, int]


def saturated_instances(
    networks: Mapping[str, Graph],
    *,
    rules: RuleSet | Sequence[Rule],
    limits: Limits | None = None,
    progress: Callable[[str, Step | None], None] | None = None,
) -> Listing:
    """Saturate networks and return the distinct operator instances of their e-graphs.

    Views and work on weights alone take no time and are left out; instances that run by the same kernel
    count as one. The roofline of an H200 orders them.

    Args:
        networks: The networks by name.
        rules: The rewrite rules.
        limits: The limits of each saturation; by default those of :func:`workbench.optimize`.
        progress: Called with a network's name and its saturation's last step (None before the first).

    Raises:
        KeyboardInterrupt: A saturation was interrupted; a partial list could be mistaken for a whole one.
    """
    from workbench.extraction.extract import extract

    model = AnalyticCost("h200")
    tell = progress or (lambda name, step: None)
    first, second, rest = dict[str, OpInstance](), dict[str, OpInstance](), dict[str, OpInstance]()
    counts: dict[str, int] = {}
    unmeasured: defaultdict[str, set[str]] = defaultdict(set)

    def measurable(found: Sequence[OpInstance]) -> dict[str, OpInstance]:
        kept: dict[str, OpInstance] = {}
        for instance in map(same_kernel, found):
            if work(instance).free:
                continue
            key = instance_key(instance)
            if executable(instance.op) and isinstance(instance.type, TensorType):
                kept.setdefault(key, instance)
            else:
                unmeasured[instance.op].add(key)
        return kept

    for name, graph in networks.items():
        tell(name, None)
        first |= measurable(instances_of(graph))
        with Saturation(graph, rules, limits or Limits(settle=4)) as saturation:
            stop = saturation.run(partial(tell, name))
            if stop is StopReason.INTERRUPTED:
                raise KeyboardInterrupt
            egraph = saturation.egraph()
        whole = measurable(egraph_instances(egraph))
        counts[name] = len(whole)
        rest |= whole
        cheapest = extract(egraph, price_egraph(egraph, model), "dag")
        second |= measurable(egraph_instances(egraph, cheapest.choice))
    estimates = dict(zip(rest, model.price(list(rest.values())).tolist(), strict=True))
    ordered = dict.fromkeys((*first, *second, *sorted(rest, key=lambda k: (estimates[k], k))))
    known = rest | second | first
    left_out = {op: len(keys) for op, keys in unmeasured.items()}
    return Listing(tuple(known[key] for key in ordered), counts, left_out)
