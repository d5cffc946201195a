"""The whole way in one call: import, saturate, extract, certify."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from workbench.costs import CostModel
from workbench.costs.measured import economical
from workbench.costs.model import Accelerator
from workbench.costs.registry import Given
from workbench.costs.registry import cost_model as cost_model_of
from workbench.extraction.cost_history import cost_by_step
from workbench.frontends.model import ModelLike
from workbench.frontends.model_file import open_model
from workbench.graph import Graph
from workbench.optimizer.candidates import Choice, first_certified, holds, ranked, untimed
from workbench.optimizer.dynamic import fate_of
from workbench.optimizer.job import Job, default_cost, job_of
from workbench.optimizer.result import Optimized, trace_meta
from workbench.optimizer.search_loop import Run, saturate, search
from workbench.optimizer.settings import Settings, recorded
from workbench.rules.ruleset import Rules, rules_of
from workbench.run.progress import Progress, Stages, seen_in_notebooks
from workbench.run.settings import changed, takes_settings
from workbench.support.deadline import OutOfTime, TimeUp, deadline
from workbench.support.wings import offered

if TYPE_CHECKING:
    from workbench.devices.ranking import Ranking

#: Seconds that a model may take to be read if the limit of the call is shorter.
READING_SECONDS: Final = 10.0

#: Up to this size the trace also gets the best cost after every step.
HISTORY_E_NODES = 20_000

#: Seconds of each extraction while the rule behind a wrong result is looked for.
_BLAME_SECONDS: Final = 30.0


@seen_in_notebooks
@takes_settings(Settings)
def optimize(
    model: ModelLike | object,
    args: object = None,
    *,
    rules: Rules = "default",
    cost: str | os.PathLike[str] | Given | None = None,
    dims: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    keep_inputs: bool = False,
    accelerator: str | os.PathLike[str] | Accelerator | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
    **changes: Any,
) -> Optimized:
    """Optimise a model and return the certified result, or the original if nothing better is proved.

    Ctrl-C ends the saturation or the extraction and continues with the results so far. If it ends the timing or
    the certificate, or ``seconds`` have passed since the call, the original is the result: ``ended`` says why.

    A model file that is priced by this machine, and any model with ``time=True``, is timed in the end: the
    result and the cleaned original run in alternation in ONNX Runtime on one thread. If the costs are this
    machine's, the times decide: the result is the original unless another graph is faster beyond the
    noise. An original that does not run at the sizes of the prices is timed at others; if it runs at none,
    it is the result. With ``time=False`` costs alone decide. If the costs are another device's, the times
    are for information. An original that is saved is the model as it was given, its initialisers taken out
    of the inputs.

    With ``measure=N`` the N best extractions are timed end to end on ``measure_on``, and the fastest is
    the result, or the original if none is faster beyond the noise.

    Args:
        model: a graph, the path of an ONNX file or of a TASO ``.model`` file, the bytes of an ONNX file,
            an ``onnx.ModelProto``, or a torch module.
        args: an example of a torch module's inputs, as for :func:`workbench.load_torch`. The module is optimised like
            its file.
        rules: the name of a rule set, the path of a file, rules, or several of these together:
            ``["default", "mine.rules"]``. The rules of a ``.rules`` file are judged before they are used, and
            of a file of TASO or Tensat the sound ones are used.
        cost: the name of a cost model (``"analytic"``, ``"cpu"``), a cost model, a function from an operator
            instance to microseconds, or the path of a recorded table. By default a graph is priced by
            ``"analytic"``, any other model by ``"cpu"``: this machine.
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
        UnknownName: (a LookupError) if no accelerator has the name.
        DeviceMissing: if the target of ``measure`` or the timing is not there.
        OutOfTime: (a TimeoutError) if the model is not read within ``seconds``, or 10 s if these are fewer.
    """
    settings = changed(settings or Settings(), changes, "optimize")
    until = time.perf_counter() + settings.seconds
    if accelerator is not None:
        rules, cost = _for_accelerator(accelerator, rules, cost)
    stages = Stages(progress)
    with stages("import"), _reading(max(settings.seconds, READING_SECONDS)):
        from workbench.saturation.process import warm

        warm()  # the engine's process starts while the rest is imported and model and rules are read
        if args is not None:
            model = offered("exported")(model, args)
        given = None if cost is None else cost_model_of(cost)
        ruleset = rules_of(rules, keep_refuted=settings.keep_refuted)
        if settings.measure:  # the error of a target that is not there comes before anything runs
            from workbench.devices.targets import checked_target

            checked_target(settings.measure, settings.measure_on)
        opened = open_model(model, dims, sizes, keep_inputs=keep_inputs)
        if opened.symbols and not sizes:
            from workbench.certification.end_to_end import at_accepted_sizes

            opened = at_accepted_sizes(opened, settings.seed, until)
        cost_model = economical(given or cost_model_of(default_cost(opened)), named=cost)
        job = job_of(opened, ruleset, cost_model, settings, stages, until=until)
    while True:
        run = saturate(job)
        ranking, choice, culprits, again = _chosen(job, run)
        if not again:
            with stages("result", quiet=True):
                result = _result(job, run, ranking, choice, culprits)
            return replace(result, seconds=stages.ordered())
        assert choice.certificate is not None
        job = job.without(culprits, choice.certificate.reason)


@contextmanager
def _reading(seconds: float) -> Iterator[None]:
    """Raise OutOfTime if the block, which reads a model, takes more than its seconds."""
    try:
        with deadline(time.perf_counter() + seconds):
            yield
    except TimeUp:
        why = f"the model must be read within {seconds:g} s, got no end (try seconds={10 * seconds:g})"
        raise OutOfTime(why) from None


def _chosen(job: Job, run: Run) -> tuple[Ranking | None, Choice, tuple[str, ...], bool]:
    """Time, certify and blame; whatever ends this early leaves the original.

    The last value is whether the run is to be repeated without the rules to blame: the result is wrong at some
    sizes alone, and the original passes the checks at all of them.
    """
    ranking, choice = None, Choice(job.model.graph, None, None)
    model, seed = job.model, job.settings.seed
    try:
        with deadline(job.until):
            ranking, candidates = ranked(job, run)
            choice = first_certified(job, candidates, run.trace, run.egraph)
            culprits = blame(job, run) if choice.failed else ()
            at_some_sizes = any(c.why for c in choice.checked)
            again = bool(culprits) and at_some_sizes and holds(model, model.searched, seed)
            return ranking, choice, culprits, again
    except KeyboardInterrupt:
        ended = "it was interrupted"
    except TimeUp:
        ended = f"the call reached its limit of {job.settings.seconds:g} s"
    if ranking is None and job.trial is not None:
        ranking, _ = untimed(job, run, job.trial, ended)
    return ranking, choice if choice.failed else replace(choice, ended=ended), (), False


def _for_accelerator(
    accelerator: str | os.PathLike[str] | Accelerator, rules: Rules, cost: object
) -> tuple[Rules, CostModel]:
    """Return the rules with those of a unit, and the unit's formulas as the costs."""
    if cost is not None:
        raise ValueError("an accelerator has costs of its own, got a cost model too (try leaving cost out)")
    unit = offered("accelerator")(accelerator)
    return [rules, offered("accelerator_rules")(unit)], offered("accelerator_cost")(unit)


def blame(job: Job, run: Run) -> tuple[str, ...]:
    """Return the rules whose removal makes the result right, by repeating the run with fewer rules."""
    from workbench.certification.bisect import find_offending
    from workbench.egraph import rebuild

    searched, seed = job.model.searched, job.settings.seed
    quiet = replace(job, stages=Stages())

    def reproduce(names: Sequence[str]) -> Graph:
        again = search(replace(quiet, rules=job.only(names)), job.settings.limits(), _BLAME_SECONDS)
        return rebuild(searched, again.egraph, again.solution.choice)

    # Every rule that matched: a wrong one may unite e-classes without making an e-node.
    active = sorted({r.rule for step in run.trace for r in step.rules})
    with job.stages("blame"):
        return find_offending(active, lambda names: holds(job.model, reproduce(names), seed))


def _result(
    job: Job, run: Run, ranking: Ranking | None, choice: Choice, offending: tuple[str, ...]
) -> Optimized:
    model, candidate = job.model, choice.candidate
    solution, after, term = run.solution, run.before, model.searched
    if candidate is not None:
        assert candidate.solution is not None
        solution, after, term = candidate.solution, candidate.cost, candidate.term
        if ranking is not None:
            ranking = replace(ranking, winner=candidate.place)
    steps = [step.index for step in run.trace]
    given = None if model.source is None else model
    # An original that is saved as it was given keeps every dimension open.
    unbound = candidate is None and given is not None and not model.symbols
    assert run.stop is not None
    result = Optimized(
        original=model.graph,
        graph=choice.graph,
        cost_before=run.before,
        cost_after=after,
        cost_source=job.cost_source,
        trace=run.trace,
        egraph=model.shown(run.egraph),
        solution=solution,
        rules=() if candidate is None else candidate.made_by,
        ruleset=job.rules,
        certificate=choice.certificate,
        stop_reason=run.stop,
        e_nodes=run.e_nodes,
        e_classes=run.e_classes,
        iterations=sum(index > 0 for index in steps),
        seconds=job.stages.ordered(),
        settings=job.recorded(recorded(job.settings, timed=job.trial is not None)),
        costs=run.costs,
        coverage=model.coverage,
        offending=offending,
        measured=ranking,
        dynamic=None if unbound else fate_of(model, term, job.notes, choice.checked, run.egraph),
        given=given,
        accelerator=job.cost_model.accelerator,
        ended=choice.ended,
        blocks="" if run.blocks is None else str(run.blocks),
    )
    run.trace.meta |= trace_meta(result, job.cost_model)
    if len(run.egraph) <= HISTORY_E_NODES:  # computed when the steps are first read
        run.trace.set_costs(partial(cost_by_step, run.egraph, run.costs, steps))
    return result
