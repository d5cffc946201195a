"""The choice of the model to save: the fastest of a few results and the cleaned original, timed here.

A cost model adds up operators, but the runtime fuses them. So the results are timed. If none is faster, the
model stays as it was given, cleaned (:mod:`workbench.frontends.onnx.baseline`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from workbench.costs.labels import is_this_machine
from workbench.graph import Graph
from workbench.optimizer.search_loop import hurried
from workbench.support.messages import one_line

if TYPE_CHECKING:
    from workbench.devices.ranking import Candidate, Ranking
    from workbench.devices.targets import Target
    from workbench.egraph import EGraph
    from workbench.extraction import Solution
    from workbench.frontends.onnx.baseline import Cleaned
    from workbench.frontends.onnx.mmap_weights import Apart
    from workbench.optimizer.dynamic import OpenModel
    from workbench.optimizer.search_loop import Extracted
    from workbench.optimizer.settings import Settings

#: The cost source of a model that is given as a file, as bytes or as a ``ModelProto``, and of a graph.
FILE_COST: Final = "cpu"
GRAPH_COST: Final = "analytic"

#: Bytes of weights from which only the best result is timed: every timed model holds a copy of them.
LARGE: Final = 1 << 28

#: Bytes of weights up to which the model as it was given is timed too: it and its cleaned form are loaded.
UNCLEANED: Final = 1 << 27

#: Share by which the original's operators are priced below their measured cost for a cautious result, and
#: the most e-nodes of an e-graph from which one is extracted.
CAUTION: Final = 0.1
MOST_E_NODES: Final = 20_000


def default_cost(model: object) -> str:
    """Return the default cost source of a model: this machine for a file, a T4 for a graph."""
    return GRAPH_COST if isinstance(model, Graph) else FILE_COST


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """A model as it was given: its source, and the dimensions that were fixed in it."""

    source: Any = field(repr=False)
    dims: Mapping[str, Any] | None = None
    keep_inputs: bool = False

    def cleaned(self) -> Cleaned:
        """Return the model with its initialisers taken out of the inputs, and nothing else changed."""
        from workbench.frontends.onnx.baseline import clean

        return clean(self.source, dims=self.dims, keep_inputs=self.keep_inputs)


def source_of(
    model: object, dims: Mapping[str, Any] | None = None, *, keep_inputs: bool = False
) -> Given | None:
    """Return the ONNX model that a graph was imported from, or None for another source."""
    from workbench.frontends.model_file import is_taso_model

    return None if isinstance(model, Graph) or is_taso_model(model) else Given(model, dims, keep_inputs)


@dataclass(frozen=True, slots=True)
class Trial:
    """A comparison of results with the original by time: the target, the number of results, the seconds.

    With ``decides`` the fastest is the result; otherwise the figures are for information. A ``quick`` trial
    ends as soon as the outcome is clear.
    """

    target: Target
    count: int
    seconds: float
    decides: bool = True
    quick: bool = False

    def run(
        self,
        source: OpenModel,
        given: Given | None,
        found: Extracted,
        egraph: EGraph,
        left: float,
        seed: int,
    ) -> tuple[Ranking, list[tuple[int, Solution]]]:
        """Time the best extractions; return their ranking, and the extractions to take, best first.

        Each extraction comes with its place in the ranking. If a graph does not run, a quick trial returns a
        ranking with the reason, and so does any trial of operators for which the runtime has no kernel. Any
        other trial raises the error of the target.

        Args:
            source: The model as it was read.
            given: The model as it was given; None if it was a graph.
            found: The best extraction.
            egraph: The searched e-graph at the sizes of the prices, at which all graphs run.
            left: The seconds that all extractions may take.
            seed: The seed of the inputs.
        """
        from workbench.certification.end_to_end import without_kernels
        from workbench.devices import targets
        from workbench.devices.ranking import rank

        entrants = self._candidates(source, found, egraph, left)
        original: Graph | Apart = source.graph
        uncleaned, target = None, self.target
        if given is not None and isinstance(target, targets.OnnxRuntime):
            cleaned = given.cleaned()
            original = cleaned.apart
            uncleaned = cleaned.given() if cleaned.removed and cleaned.weights <= UNCLEANED else None
            target = target.at({name: kind.shape for name, kind in source.graph.input_types.items()})
        try:
            ranking = rank(
                original,
                entrants,
                target,
                original_cost=found.before,
                seconds=self.seconds,
                seed=seed,
                uncleaned=uncleaned,
                quick=self.quick,
            )
        except Exception as error:  # whatever a runtime or its inputs can come to
            if not self.quick and not without_kernels(*(entrant.graph for entrant in entrants)):
                raise
            return self._failed(original, entrants, target, error, found.before, seed)
        if not self.decides:
            ranking = replace(ranking, decided=False, winner=0 if entrants else None)
        places = ranking.order() if self.decides else list(range(len(entrants)))
        return ranking, [(i, entrants[i].solution) for i in places]

    def _failed(
        self,
        original: Graph | Apart,
        entrants: list[Candidate],
        target: Target,
        error: Exception,
        cost: float,
        seed: int,
    ) -> tuple[Ranking, list[tuple[int, Solution]]]:
        """Keep the original, or leave the choice to the costs if the original does not run either."""
        from workbench.devices.ranking import Entrant, Ranking

        said = one_line(error)
        kept: list[tuple[int, Solution]] = []
        failure = f"the original stays: the result does not run here ({said})"
        try:
            with target.timers([original], seed) as timers:
                timers[0]()
        except Exception:
            failure = f"nothing was timed, the model does not run here ({said}): costs alone decided"
            kept = [(i, entrant.solution) for i, entrant in enumerate(entrants)]
        none = Entrant(cost, 0.0, (0.0, 0.0))
        return Ranking(none, (), 0.0, 0, self.target.title, 0.0, failure=failure), kept

    def _candidates(
        self, source: OpenModel, found: Extracted, egraph: EGraph, left: float
    ) -> list[Candidate]:
        from workbench.devices.ranking import Candidate, candidates
        from workbench.egraph.rebuild import rebuild

        solution = found.solution
        if not self.quick:
            seconds = min(left, 10.0)
            return candidates(source.graph, egraph, found.costs, solution, self.count, seconds=seconds)
        if not solution.cost < found.before * (1 - 1e-9):
            return []
        entrants: dict[str, Candidate] = {}
        for option in (solution, *self._cautious(source, found)):
            term = rebuild(source.searched, found.egraph, option.choice)
            dynamic = source.record(term, ())
            saved = dynamic.model() if dynamic is not None and dynamic.kept else None
            entrants.setdefault(term.structural_hash(), Candidate(source.at_prices(term), option, saved))
        return list(entrants.values())

    def _cautious(self, source: OpenModel, found: Extracted) -> list[Solution]:
        """Return an extraction with the original's operators priced below their measured cost.

        The runtime fuses some of these operators, and the price of a single operator does not show it: a
        rewrite must gain more than that. Nor does it show the layout of operands, which is accounted for.
        Return nothing if only the original is left, or if models are large.
        """
        from workbench.costs.blocked import blocked
        from workbench.extraction.exact.types import met
        from workbench.extraction.extract import extract
        from workbench.extraction.problem import dag_cost
        from workbench.extraction.solution import Status

        if not self.decides or weight_of(source.graph) > LARGE or len(found.egraph) > MOST_E_NODES:
            return []
        costs = blocked(found.egraph, found.costs)
        costs[found.egraph.original[found.egraph.original >= 0]] *= 1 - CAUTION
        other = hurried(extract)(found.egraph, costs, seconds=math.inf)
        cost = dag_cost(other.choice, found.costs)
        if not cost < found.before * (1 - 1e-9):
            return []
        bound = min(cost, found.solution.bound)
        status = Status.OPTIMAL if met(cost, bound) else Status.FEASIBLE
        return [replace(other, cost=cost, bound=bound, status=status)]


def weight_of(graph: Graph) -> int:
    """Return the bytes of a graph's stored weights."""
    return sum(int(node.tensor.nbytes) for node in graph.nodes if node.op == "weight")


def trial_of(model: object, cost_source: str, settings: Settings) -> Trial | None:
    """Return how results are timed, or None.

    With ``measure`` that many candidates are timed on any target. Otherwise a model that was given as a
    file is timed if its costs are this machine's, and with ``time=True`` every model is. The times decide
    only if the costs are this machine's.
    """
    from workbench.devices.targets import OnnxRuntime, checked_target

    if settings.measure:
        target = checked_target(settings.measure, settings.measure_on)
        return Trial(target, settings.measure, settings.measure_seconds)
    here = is_this_machine(cost_source)
    if settings.time is False or (settings.time is None and (isinstance(model, Graph) or not here)):
        return None
    return Trial(OnnxRuntime(threads=1), 1, settings.time_seconds, decides=here, quick=True)
