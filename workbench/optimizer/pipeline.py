"""The whole way in one call: import, saturate, extract, certify, and the result object."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.costs import CostModel
from workbench.costs.lazy_measured import Economical, economical
from workbench.costs.registry import cost_model as cost_model_of
from workbench.egraph import EGraph
from workbench.extraction import Solution
from workbench.graph import Graph
from workbench.optimizer.dynamic import Dynamic, open_model, without
from workbench.optimizer.job import Choice, Job, Model, Option, choose, read_job, with_early_runs
from workbench.optimizer.record import SaturationFigures
from workbench.optimizer.result import Result
from workbench.optimizer.rule_selection import Rules, rules_of
from workbench.optimizer.search_loop import Extracted, explore, hurried
from workbench.optimizer.settings import Settings, recorded
from workbench.optimizer.stages import correspondence, trace_meta
from workbench.optimizer.timing_trial import Given, Trial, default_cost, trial_of
from workbench.rules import RuleSet
from workbench.run.progress import seen_in_notebooks
from workbench.run.settings import changed, takes_settings
from workbench.run.stages import Progress, Stages
from workbench.run.trace import StopReason, Trace

if TYPE_CHECKING:
    from workbench.certification.certificate import Certificate
    from workbench.devices.ranking import Ranking
    from workbench.kernels.accelerators import Placement, Unit
    from workbench.studies.analysis.comparison import Comparison

#: Up to this size the trace also gets the best cost after every step.
HISTORY_E_NODES = 20_000

#: Seconds of each extraction while the rule behind a wrong result is looked for.
_BLAME_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Optimized(Result):
    """The result of :func:`optimize`.

    ``graph`` is certified equal to ``original``, or is ``original`` itself. Costs are sums over
    operators in microseconds by ``cost_source``; ``costs`` are those of the e-graph's e-nodes.
    ``seconds`` has the time of each stage: ``engine`` is the compiling of rules, the start of the engine
    and the loading of the solver, ``pricing`` the cost model.
    """

    original: Graph
    graph: Graph
    cost_before: float
    cost_after: float
    cost_source: str
    trace: Trace
    egraph: EGraph
    solution: Solution
    rules: tuple[str, ...]
    ruleset: RuleSet
    certificate: Certificate | None
    stop_reason: StopReason
    e_nodes: int
    e_classes: int
    iterations: int
    seconds: Mapping[str, float]
    settings: Mapping[str, Any]
    costs: np.ndarray
    coverage: Any = None
    offending: tuple[str, ...] = ()
    measured: Ranking | None = None
    dynamic: Dynamic | None = None
    given: Given | None = None
    accelerator: Unit | None = None

    @property
    def placement(self) -> Placement | None:
        """Return which products run on the accelerator and which do not; None without an accelerator."""
        if self.accelerator is None:
            return None
        from workbench.kernels.accelerators import placement

        return placement(self.graph, self.accelerator)

    def compare(self) -> Comparison:
        """Return the fate of every operator, and the rules behind it."""
        from workbench.studies.analysis.comparison import compare

        return compare(self)

    def _way(self) -> tuple[float, SaturationFigures]:
        sizes = np.bincount(self.egraph.eclass, minlength=self.egraph.n_classes)
        figures = SaturationFigures(
            e_nodes=self.e_nodes,
            e_classes=self.e_classes,
            priced=len(self.egraph),
            log2_terms=float(np.log2(sizes[sizes > 0]).sum()),
            iterations=self.iterations,
            extractor=self.solution.method,
            status=self.solution.status,
            scope=self.solution.scope,
            bound=self.solution.bound,
            endings=self.solution.endings,
            measured=self.measured,
            dynamic=self.dynamic,
            placement=self.placement,
        )
        return min(self.cost_before, self.solution.cost), figures


def rules_behind(egraph: EGraph, choice: Sequence[int]) -> tuple[str, ...]:
    """Return the rules that made the chosen e-nodes, most productive first."""
    counts: dict[str, int] = {}
    for i in sorted({int(i) for i in choice if i >= 0}):
        rule = int(egraph.birth_rule[i])
        if rule >= 0:
            counts[egraph.rules[rule]] = counts.get(egraph.rules[rule], 0) + 1
    return tuple(sorted(counts, key=lambda r: (-counts[r], r)))


@seen_in_notebooks
@takes_settings(Settings)
def optimize(
    model: Model,
    *,
    rules: Rules = "default",
    cost: str | os.PathLike[str] | CostModel | None = None,
    dims: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    keep_inputs: bool = False,
    accelerator: str | os.PathLike[str] | Unit | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
    **changes: Any,
) -> Optimized:
    """Optimise a model and return the certified result, or the original if nothing better is proved.

    Ctrl-C ends the saturation, the extraction or the timing and continues with the results so far.

    A model file that is priced by this machine, and any model with ``time=True``, is timed in the end: the
    result and the cleaned original run in alternation in ONNX Runtime on one thread. If the costs are this
    machine's, the times decide: the result is the original unless another graph is faster beyond the
    noise. If the costs are another device's, the times are for information. An original that is saved is
    the model as it was given, its initialisers taken out of the inputs.

    With ``measure=N`` the N best extractions are timed end to end on ``measure_on``, and the fastest is
    the result, or the original if none is faster beyond the noise.

    Args:
        model: a graph, the path of an ONNX file or of a TASO ``.model`` file, the bytes of an ONNX file,
            or an ``onnx.ModelProto``.
        rules: the name of a rule set, the path of a file, rules, or several of these together:
            ``["default", "mine.rules"]``. The rules of a ``.rules`` file are judged before they are used, and
            of a file of TASO or Tensat the sound ones are used.
        cost: the name of a cost model (``"analytic"``, ``"cpu"``), a cost model, or the path of a recorded
            table. By default a graph is priced by ``"analytic"``, any other model by ``"cpu"``: this
            machine.
        dims: sizes at which symbolic dimensions are fixed on purpose.
        sizes: sizes of symbolic dimensions to price at; the dimensions stay symbolic. ``dynamic`` of the
            result reports on every dimension.
        keep_inputs: keep inputs that have initial values as inputs; otherwise they become weights.
        accelerator: a hardware unit: its name, the path of its ``.toml`` file, or a
            :class:`~workbench.kernels.accelerators.Unit`. Its rules are added to ``rules``, and its formulas are the
            costs. ``placement`` of the result names the operators that run on it.
        settings: all other settings; each is also an argument of its own.
        progress: called as ``progress(stage, detail)``.
        changes: single settings, which override those of ``settings``.

    Raises:
        TypeError: for an argument that is not a setting.
        ValueError: for a setting out of its bounds, for a model that cannot be read, and for refuted rules
            in a ``.rules`` file.
        UnknownUnit: (a LookupError) if no accelerator has the name.
        DeviceMissing: if the target of ``measure`` or the timing is not there.

    """
    settings = changed(settings or Settings(), changes, "optimize")
    if accelerator is not None:
        rules, cost = _for_accelerator(accelerator, rules, cost)
    from workbench.saturation.process import warm

    warm()  # the engine's process starts while the rest is imported and model and rules are read
    stages = Stages(progress)
    cost_model = economical(cost_model_of(default_cost(model) if cost is None else cost), named=cost)
    trial = trial_of(model, cost_model.source, settings)
    job = read_job(
        model,
        lambda: open_model(model, dims, sizes, keep_inputs=keep_inputs),
        rules_of(rules, keep_refuted=settings.keep_refuted),
        cost_model,
        stages,
        dims=dims,
        keep_inputs=keep_inputs,
        seed=settings.seed,
        certify=settings.certify,
    )
    if trial is not None:
        trial.target.check(job.graph)
    if settings.certify and trial is None and cost_model.analytic:  # nothing is timed meanwhile
        job = with_early_runs(job)
    found = saturated(job, settings)
    ranking, queue = timed(job, found, trial)
    choice = choose(job, options_of(job, found, queue), found.trace)
    if not choice.failed:
        return _result(job, settings, found, choice, trial, ranking, queue)
    stages.tell("blame")
    offending = _blame(job, found, settings)
    if offending and any(c.why for c in choice.checked) and job.source.holds(job.searched, job.seed):
        # A rule that holds at some sizes only is left out, so that the dimensions stay symbolic.
        fewer = replace(job.rules, rules=tuple(r for r in job.rules if r.name not in offending))
        again = optimize(
            model, rules=fewer, cost=cost, dims=dims, sizes=sizes, keep_inputs=keep_inputs,
            settings=settings, progress=progress,
        )  # fmt: skip
        assert choice.certificate is not None
        return replace(again, dynamic=without(again.dynamic, offending, choice.certificate.reason))
    return _result(job, settings, found, choice, trial, ranking, queue, offending)


def _for_accelerator(
    accelerator: str | os.PathLike[str] | Unit, rules: Rules, cost: object
) -> tuple[Rules, CostModel]:
    """Return the rules with those of a unit, and the unit's formulas as the costs."""
    if cost is not None:
        raise ValueError("an accelerator has costs of its own, got a cost model too (try leaving cost out)")
    from workbench.kernels.accelerators import AcceleratorCost, unit, unit_rules

    chosen = unit(accelerator)
    return [rules, unit_rules(chosen)], AcceleratorCost(chosen)


def _unit_of(model: CostModel) -> Unit | None:
    """Return the hardware unit that a cost model's figures are of, or None for any other device."""
    found = model.accelerator
    if found is None:
        return None
    from workbench.kernels.accelerators import Unit

    assert isinstance(found, Unit)
    return found


@dataclass(frozen=True, slots=True)
class Saturated:
    """A saturation that ended, with the best extraction and the e-graph as it is shown.

    ``before`` is the cost of the original in microseconds. ``pricer`` are the costs of the e-graph's
    e-nodes, ``left`` the seconds that all extractions may take.
    """

    best: Extracted
    egraph: EGraph
    pricer: CostModel
    left: float
    trace: Trace
    stop: StopReason
    e_nodes: int
    e_classes: int


def saturated(job: Job, settings: Settings) -> Saturated:
    """Saturate, price and extract in turn; see :func:`~workbench.optimizer.search_loop.explore`."""
    from workbench.saturation import Saturation

    stages, limits = job.stages, settings.limits()
    left = settings.seconds if settings.extraction_seconds is None else settings.extraction_seconds
    pricer = job.source.priced(job.cost_model)
    stages.tell("saturation")
    with Saturation(job.searched, job.rules, limits, profile=settings.profile, keep=0) as saturation:
        if job.early is not None:
            saturation.engine.meanwhile.append(job.early.begin)
        best, stop = explore(saturation, pricer, cheapest_of(job, settings), left, stages)
        stages.add("engine", saturation.engine_seconds)
        stages.add("saturation", saturation.seconds)
    egraph, trace = job.source.shown(best.egraph), saturation.trace
    return Saturated(best, egraph, pricer, left, trace, stop, saturation.e_nodes, saturation.e_classes)


def cheapest_of(job: Job, settings: Settings) -> Callable[..., Solution]:
    """Return the extraction that the settings ask for."""
    from workbench.extraction.registry import extractor

    chosen = partial(extractor(settings.extractor), memory=settings.extraction_memory)
    if settings.extraction_seconds is None and isinstance(job.cost_model, Economical):
        return hurried(chosen)
    return chosen


def timed(job: Job, found: Saturated, trial: Trial | None) -> tuple[Ranking | None, dict[int, Solution]]:
    """Time the best extractions if there is a trial; return how they did, and those to take, best first.

    The key of an extraction is its place in the ranking.
    """
    best = found.best
    queue = {0: best.solution} if best.solution.cost < best.before * (1 - 1e-9) else {}
    if trial is None:
        return None, queue
    ranking: Ranking | None = None
    with job.stages("measuring"), contextlib.suppress(KeyboardInterrupt):
        ranking, order = trial.run(job.source, job.given, best, found.egraph, found.left, job.seed)
        queue = dict(order)
    return ranking, queue


def options_of(job: Job, found: Saturated, queue: Mapping[int, Solution]) -> Iterator[Option]:
    """Rebuild the graphs of extractions, one after the other."""
    from workbench.egraph import rebuild

    egraph = found.best.egraph
    for place, solution in queue.items():
        term = rebuild(job.searched, egraph, solution.choice)
        made_by = rules_behind(found.egraph, solution.choice.tolist())
        known = correspondence(job.searched, term, egraph, solution.choice) if job.certify else None
        yield Option(term, solution.cost, made_by, known, place)


def _result(
    job: Job,
    settings: Settings,
    found: Saturated,
    choice: Choice,
    trial: Trial | None,
    ranking: Ranking | None,
    queue: Mapping[int, Solution],
    offending: tuple[str, ...] = (),
) -> Optimized:
    from workbench.extraction.cost_history import cost_by_step

    option, best = choice.option, found.best
    solution, after, term = best.solution, best.before, job.searched
    if option is not None:
        solution, after, term = queue[option.place], option.cost, option.term
        if ranking is not None:
            ranking = replace(ranking, winner=option.place)
    steps = [step.index for step in found.trace]
    unbound = option is None and job.given is not None and job.source.opening is None
    result = Optimized(
        original=job.graph,
        graph=choice.graph,
        cost_before=best.before,
        cost_after=after,
        cost_source=found.pricer.source,
        trace=found.trace,
        egraph=found.egraph,
        solution=solution,
        rules=() if option is None else option.made_by,
        ruleset=job.rules,
        certificate=choice.certificate,
        stop_reason=found.stop,
        e_nodes=found.e_nodes,
        e_classes=found.e_classes,
        iterations=sum(index > 0 for index in steps),
        seconds=job.stages.ordered(),
        settings=job.settings(recorded(settings, timed=trial is not None)),
        costs=best.costs,
        coverage=job.source.coverage,
        offending=offending,
        measured=ranking,
        # An original that is saved as it was given keeps every dimension open.
        dynamic=None if unbound else job.source.record(term, choice.checked),
        given=job.given,
        accelerator=_unit_of(job.cost_model),
    )
    found.trace.meta |= trace_meta(result, job.cost_model)
    if len(found.egraph) <= HISTORY_E_NODES:  # computed when the steps are first read
        found.trace.set_costs(partial(cost_by_step, found.egraph, best.costs, steps))
    return result


def _blame(job: Job, found: Saturated, settings: Settings) -> tuple[str, ...]:
    """Find the rules whose removal makes the result right, by repeating the run with fewer rules."""
    from workbench.certification.blame import find_offending
    from workbench.egraph import rebuild
    from workbench.saturation import Saturation

    limits, cheapest = settings.limits(), cheapest_of(job, settings)

    def reproduce(names: Sequence[str]) -> Graph:
        kept = replace(job.rules, rules=tuple(r for r in job.rules if r.name in set(names)))
        with Saturation(job.searched, kept, limits, keep=0) as run:
            again, _ = explore(run, found.pricer, cheapest, _BLAME_SECONDS, Stages())
        return rebuild(job.searched, again.egraph, again.solution.choice)

    # Every rule that matched: a wrong one may unite e-classes without making an e-node.
    active = sorted({r.rule for step in found.trace for r in step.rules})
    return find_offending(active, lambda names: job.source.holds(reproduce(names), job.seed))
