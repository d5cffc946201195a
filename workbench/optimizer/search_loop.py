"""Alternate saturation and extraction: the operators of an extraction are merged once more."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.costs import price_egraph
from workbench.costs.analytic import AnalyticCost
from workbench.costs.measured import Economical
from workbench.costs.pricing import deciding_instances, graph_cost
from workbench.egraph import EGraph
from workbench.egraph.at_sizes import unusable_nodes
from workbench.egraph.rebuild import carried
from workbench.extraction import Extraction, Solution
from workbench.extraction.api import extractor
from workbench.extraction.exact.solve import begin_loading
from workbench.extraction.exact.types import Effort
from workbench.extraction.problem import below, dag_cost
from workbench.extraction.tie_breaking import gathered
from workbench.ops import TensorType, spec_of
from workbench.ops.inputs_and_opaque import RUNTIME
from workbench.run.trace import StepKind, StopReason, Trace
from workbench.support.deadline import INTERRUPTS, TimeUp, deadline
from workbench.support.wings import offered

if TYPE_CHECKING:
    from workbench.graph import Graph
    from workbench.optimizer.job import Job
    from workbench.saturation import Limits, Saturation

#: Share of what is left of a call that a stage takes at most, and the least seconds of a stage.
SHARE: Final = 0.6
LEAST: Final = 0.1

#: Times that the extracted operators are merged once more, and a graph is extracted again.
ROUNDS = 3

#: Cost of a term that cannot be used: more than any graph costs.
_FORBIDDEN: Final = 1e12

#: Operations on weights in float64 that a slow machine does in a second.
_FOLDED_PER_SECOND: Final = 1e10

#: Default effort of one of several extractions by measured costs: they are repeated as more operators are
#: measured, and figures of timings scatter by more than this gap. The limit on nodes ends a solve at the same
#: point on every machine.
QUICK = Effort(gap=0.005, nodes=100)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A saturation that ended, with the best extraction from its e-graph.

    ``costs`` are those of the e-graph's e-nodes, ``before`` is the cost of the original, in microseconds.
    ``e_nodes`` and ``e_classes`` count those of the engine, and of a union if ``blocks`` were saturated once.
    """

    egraph: EGraph
    costs: np.ndarray
    before: float
    solution: Solution
    trace: Trace
    stop: StopReason | None
    e_nodes: int
    e_classes: int
    blocks: Any = None

    @property
    def gains(self) -> bool:
        """Return whether the extraction is cheaper than the original."""
        return self.solution.cost < self.before * (1 - 1e-9)


def saturate(job: Job) -> Run:
    """Saturate, price and extract in turn, as :func:`search`; if the call ends before, the original is the result."""
    stages = job.stages
    stages.tell("saturation")
    begun: list[Saturation] = []
    with stages("engine", quiet=True):
        try:
            with deadline(job.until):
                return search(job, limits_of(job), begun=begun)
        except INTERRUPTS as error:
            stop = StopReason.TIME_LIMIT if isinstance(error, TimeUp) else StopReason.INTERRUPTED
        finally:
            stages.add("saturation", sum(saturation.seconds for saturation in begun))
        run = replace(_original(job), stop=stop)
    for last in begun[-1:]:
        run = replace(run, trace=last.trace, e_nodes=last.e_nodes, e_classes=last.e_classes)
    return run


def limits_of(job: Job) -> Limits:
    """Return the limits of the saturation: the rest of the call must suffice for what follows."""
    limits = job.settings.limits()
    return replace(limits, seconds=_part(job, limits.seconds, job.settings.saturation_seconds))


def extraction_seconds(job: Job) -> float:
    """Return the seconds that all extractions may take."""
    own = job.settings.extraction_seconds
    return _part(job, job.settings.seconds / 4 if own is None else own, own)


def _part(job: Job, most: float, own: float | None) -> float:
    """Return the seconds of a stage: a share of what is left of the call, or all of it if the user set a limit."""
    return max(LEAST, min(most, seconds_left(job) * (SHARE if own is None else 1)))


def seconds_left(job: Job) -> float:
    """Return the seconds that are left of a call."""
    return job.until - time.perf_counter()


def _left_of(job: Job, seconds: float) -> Callable[[], float]:
    """Return a function that returns what extractions from now on leave of some seconds."""
    spent = job.stages.seconds
    end = spent.get("extraction", 0.0) + seconds
    return lambda: end - spent.get("extraction", 0.0)


def search(job: Job, limits: Limits, seconds: float = math.inf, begun: list[Saturation] | None = None) -> Run:
    """Saturate a graph, or each of its distinct blocks once, and extract as :func:`explore`.

    Args:
        job: The optimisation.
        limits: The limits of the saturation; blocks have their share of the e-nodes.
        seconds: The most that all extractions together take.
        begun: A list to which the saturations are added.
    """
    from workbench.saturation import Saturation

    begun = [] if begun is None else begun

    def saturation(graph: Graph, share: float) -> Saturation:
        left = max(LEAST, limits.seconds - sum(saturation.seconds for saturation in begun))
        own = replace(limits, e_nodes=math.ceil(limits.e_nodes * share), seconds=left)
        profile = job.settings.profile
        made = Saturation(graph, job.rules, own, profile=profile, keep=0, background=[begin_loading])
        begun.append(made)
        return made

    graph = job.model.searched
    blocks = offered("blocks_of")(graph) if job.settings.blocks else None
    if blocks is not None:
        with saturation(blocks.graph, len(blocks.graph) / len(graph)) as running:
            run = _of_blocks(job, running, blocks, seconds)
        if run is not None and run.e_nodes <= limits.e_nodes:
            return run
    with saturation(graph, 1) as running:
        return explore(job, running, seconds)


def _of_blocks(job: Job, saturation: Saturation, blocks: Any, seconds: float) -> Run | None:
    """Explore distinct blocks and extract from all copies; None if blocks in a row cost less than by windows."""
    stages, cheapest = job.stages, extraction_of(job)
    seconds = min(seconds, extraction_seconds(job))
    left = _left_of(job, seconds)
    run = explore(job, saturation, seconds / 2)
    numbers = saturation.classes()
    if blocks.trial is not None and run.stop not in (StopReason.INTERRUPTED, StopReason.TIME_LIMIT):
        with stages("snapshot", quiet=True):
            roots = tuple(run.egraph.roots[k] for k in blocks.outputs)
            together = below(replace(run.egraph, roots=roots), run.solution.choice)
            apart = blocks.trial.union(run.egraph, numbers)
            apart = replace(apart, roots=tuple(apart.roots[k] for k in blocks.outputs))
        with stages("pricing", quiet=True):
            costs = prices(job, apart)
        with stages("extraction", quiet=True):
            best = cheapest(apart, costs, seconds=max(LEAST, left() / 2))
        gap = QUICK.gap if job.cost_model.measured else 1e-9
        if together is not None and best.cost > dag_cost(together, run.costs) * (1 + gap):
            return None
    with stages("snapshot", quiet=True):
        egraph = blocks.union(run.egraph, numbers)
    found = _extracted(job, saturation, egraph, left, cheapest)
    return replace(found, stop=run.stop, e_nodes=len(egraph), e_classes=egraph.n_classes, blocks=blocks)


def _original(job: Job) -> Run:
    """Return the run without rules, whose result is the original."""
    from workbench.saturation import Saturation

    with Saturation(job.model.searched, [], keep=0) as saturation:
        return _extracted(job, saturation, saturation.egraph(), lambda: LEAST, extraction_of(job))


def explore(job: Job, saturation: Saturation, seconds: float = math.inf) -> Run:
    """Run a saturation, then extract the cheapest term and merge its operators as long as that helps.

    Ctrl-C ends the running step; the result so far is kept. All extractions together take at most ``seconds``, and
    what the job gives them.
    """
    stages = job.stages
    saturation.start_engine()
    stop = saturation.run(lambda step: stages.tell("saturation", step))
    seconds = min(seconds, extraction_seconds(job))
    left = _left_of(job, seconds)
    roofline = job if job.cost_model.analytic else replace(job, cost_model=AnalyticCost())
    cheapest = extraction_of(job)
    with contextlib.suppress(KeyboardInterrupt):  # the merges until then are extracted from
        cheapest = extraction_of(job, _merging_greedily(roofline, saturation, seconds / 2))
        if not job.cost_model.analytic:
            # The operators that a roofline chooses are merged once more, too. Its prices cost nothing, and
            # merges of operators that other costs do not choose are not found otherwise.
            _merging(roofline, saturation, seconds / 2, cheapest)
    best = _merging(job, saturation, left(), cheapest)
    stop, e_nodes, e_classes = saturation.stop_reason or stop, saturation.e_nodes, saturation.e_classes
    return replace(best, stop=stop, e_nodes=e_nodes, e_classes=e_classes)


def extraction_of(job: Job, last: tuple[EGraph, np.ndarray] | None = None) -> Callable[..., Solution]:
    """Return the extraction of the settings, which starts from the e-graph and the selection that came ``last``."""
    settings = job.settings
    cheapest = partial(extractor(settings.extractor), memory=settings.extraction_memory)
    if settings.extraction_seconds is None and isinstance(job.cost_model, Economical):
        cheapest = partial(cheapest, effort=QUICK)

    def following(egraph: EGraph, costs: np.ndarray, **options: Any) -> Solution:
        nonlocal last
        start = None if last is None else carried(*last, egraph)
        solution = cheapest(egraph, costs, start=start, **options)
        last = egraph, solution.choice
        return solution

    return following


def prices(job: Job, egraph: EGraph) -> np.ndarray:
    """Return the cost of every e-node in microseconds, at the sizes of the symbolic dimensions.

    A weight whose extents depend on a symbol could not be computed once and stored, an e-node may fit at the
    generic extents only, and a product of weights may exceed the limits: all are too expensive to be extracted.
    """
    model = job.model
    costs = price_egraph(model.shown(egraph), job.cost_model)
    costs[unusable_nodes(egraph, model.generic) + _large_folds(egraph, job.settings.limits())] = _FORBIDDEN
    return costs


def _large_folds(egraph: EGraph, limits: Limits) -> list[int]:
    """Return the new e-nodes on weights alone whose value takes more time or memory than the search may."""
    constant, original = egraph.constant_classes().tolist(), set(egraph.original.tolist())
    found = []
    for i, (op, attrs) in enumerate(zip(egraph.ops, egraph.attrs, strict=True)):
        read = egraph.operands(i).tolist()
        if op in RUNTIME or not read or i in original or not all(constant[c] for c in read):
            continue
        kinds = [k for c in (*read, egraph.eclass[i]) if isinstance(k := egraph.types[c], TensorType)]
        named = dict(zip(spec_of(op).attr_names, attrs, strict=True))
        seconds = spec_of(op).flops(named, kinds[:-1], kinds[-1]) / _FOLDED_PER_SECOND
        if seconds > limits.seconds or 8 * sum(k.elements for k in kinds) > limits.memory:
            found.append(i)
    return found


def _merging_greedily(job: Job, saturation: Saturation, seconds: float) -> tuple[EGraph, np.ndarray] | None:
    """Merge the operators of greedy extractions in turn, as long as each is cheaper than the one before.

    An optimum is one of many terms of nearly equal cost, and a greedy one may have more operators to merge.
    Return the last extraction: its e-graph and the chosen e-nodes.
    """
    stages = job.stages
    until = time.perf_counter() + seconds
    best, last = math.inf, None
    for _ in range(ROUNDS):
        left = until - time.perf_counter()
        if saturation.stop_reason is not StopReason.SATURATED or left <= 0:
            break
        with stages("snapshot", quiet=True):
            egraph = saturation.egraph()
        with stages("pricing", quiet=True):
            costs = prices(job, egraph)
        with stages("extraction", quiet=True):
            extraction = Extraction(egraph, costs, "dag", seconds=left)
            for step in extraction:
                if step.kind is StepKind.DAG:
                    break
            solution = extraction.solution
        if solution is None:
            break
        last = egraph, solution.choice
        if solution.cost >= best * (1 - 1e-9):
            break
        best = solution.cost
        taken = np.flatnonzero(gathered(egraph, costs, solution.choice) >= 0).tolist()
        if not saturation.merge_among(taken):
            break
    return last


def _merging(job: Job, saturation: Saturation, seconds: float, cheapest: Callable[..., Solution]) -> Run:
    """Extract by ``cheapest`` and merge the extracted operators in turn; return the best extraction."""
    stages, left = job.stages, _left_of(job, seconds)
    best: Run | None = None
    for _ in range(1 + ROUNDS):
        try:
            with stages("snapshot", quiet=True):
                egraph = saturation.egraph()
            with stages("engine", quiet=True):
                import highspy  # noqa: F401 (outside any timed solve)
            found = _extracted(job, saturation, egraph, left, cheapest)
        except KeyboardInterrupt:
            if best is None:
                raise
            break
        if best is not None and found.solution.cost >= best.solution.cost * (1 - 1e-9):
            break
        best = found
        stages.tell("saturation")
        taken = np.flatnonzero(gathered(egraph, best.costs, best.solution.choice) >= 0).tolist()
        if left() <= 0 or not saturation.merge_among(taken, lambda step: stages.tell("saturation", step)):
            break
    assert best is not None
    return best


def _extracted(
    job: Job,
    saturation: Saturation,
    egraph: EGraph,
    left: Callable[[], float],
    cheapest: Callable[..., Solution],
) -> Run:
    """Price and extract an e-graph in the seconds ``left``; measure estimated operators that decide, and repeat."""
    graph, cost_model, stages = job.model.graph, job.cost_model, job.stages
    for _ in range(9):
        with stages("pricing"):
            costs = prices(job, egraph)
            before = graph_cost(graph, cost_model)
        with stages("extraction"):
            solution = cheapest(egraph, costs, seconds=max(LEAST, left()))
        with stages("pricing", quiet=True):
            if not cost_model.measured:
                break
            chosen = deciding_instances(graph, job.model.shown(egraph), solution.choice)
            if not cost_model.measure(chosen):
                break
    stop, e_nodes, e_classes = saturation.stop_reason, saturation.e_nodes, saturation.e_classes
    return Run(egraph, costs, before, solution, saturation.trace, stop, e_nodes, e_classes)
