"""Saturation in stages: grow until a sketch is satisfied, keep the cheapest instance, and go on from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.graph import Graph
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import RuleSet
from workbench.run.trace import StopReason
from workbench.saturation.guided.policies import Policy
from workbench.saturation.guided.saturation import Guided
from workbench.saturation.guided.sketch import Instances, Sketch
from workbench.saturation.limits import Limits
from workbench.saturation.saturation import Saturation


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: whether its sketch was satisfied, the graph it ends with, and the size it took.

    If the sketch was not satisfied, ``graph`` is the graph that the stage began with.
    """

    sketch: Sketch
    satisfied: bool
    graph: Graph
    steps: int
    e_nodes: int
    stop_reason: StopReason | None


def staged(
    graph: Graph,
    rules: RuleSet | Sequence[Rule],
    sketches: Sequence[Sketch],
    costs: Callable[[EGraph], np.ndarray],
    limits: Limits | None = None,
    *,
    output: int = 0,
    policy: Callable[[], Policy] | None = None,
) -> Iterator[Stage]:
    """Yield one stage for every sketch; the first that is not satisfied is the last.

    Each stage grows an e-graph until an output is an instance of the sketch. The next one starts from the
    cheapest instance, so that everything else that was found is dropped.

    Args:
        graph: The start graph.
        rules: The rules.
        sketches: The sketches, in order.
        costs: The costs of an e-graph's e-nodes.
        limits: The limits of every stage.
        output: The number of the output to which the sketches apply.
        policy: A function that makes the policy of a stage; by default the rules run as they always do.
    """
    engine = None
    for sketch in sketches:
        run = (
            Saturation(graph, rules, limits, engine=engine, keep=0)
            if policy is None
            else Guided(graph, rules, policy(), limits, engine=engine)
        )
        engine = run.engine
        run.start_engine()
        found = _instances(run, sketch, costs)
        while not found.satisfied(found.egraph.roots[output]) and run.unfinished:
            try:
                run.step()
            except StopIteration:
                break
            found = _instances(run, sketch, costs)
        satisfied = found.satisfied(found.egraph.roots[output])
        if satisfied:
            graph = found.graph(graph, output)
        yield Stage(sketch, satisfied, graph, len(run.trace) - 1, run.e_nodes, run.stop_reason)
        if not satisfied:
            return


def _instances(run: Saturation, sketch: Sketch, costs: Callable[[EGraph], np.ndarray]) -> Instances:
    egraph = run.egraph()
    return Instances(egraph, sketch, costs(egraph))
