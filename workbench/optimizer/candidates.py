"""Candidates: graphs that may be the result, how they are timed, and how one of them passes its certificate.

A cost model adds up operators, but the runtime fuses them. So the results are timed. If none is faster, the
model stays as it was given, cleaned (:mod:`workbench.frontends.runtime`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.certification.regions import Correspondence, Merged, beside
from workbench.costs.pricing import blocked
from workbench.egraph import EGraph, rebuild
from workbench.egraph.rebuild import eclasses_of
from workbench.extraction import Solution, Status, extract, k_best
from workbench.extraction.exact.types import met
from workbench.extraction.problem import dag_cost
from workbench.frontends.model import Model
from workbench.graph import Graph
from workbench.graph.graph import cleaned_places
from workbench.optimizer.dynamic import Checked, checks_at_sizes, fate_of
from workbench.optimizer.job import Job, Trial
from workbench.optimizer.search_loop import LEAST, QUICK, Run, extraction_seconds, seconds_left
from workbench.rules import RuleSet
from workbench.run.trace import Trace
from workbench.support.messages import one_line
from workbench.symbolic.sizes import named

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.certification.certificate import Certificate
    from workbench.devices.ranking import Ranking
    from workbench.frontends.onnx.file import Apart

#: Bytes of weights from which only the best result is timed: every timed model holds a copy of them.
LARGE: Final = 1 << 28

#: Bytes of weights from which no whole model is timed, since the runtime keeps its own layout of each weight:
#: rewritten places are timed alone. The certificate then runs both models at two bindings of the dimensions only.
VAST: Final = 1 << 29

#: Bytes of weights up to which the model as it was given is timed too: it and its cleaned form are loaded.
UNCLEANED: Final = 1 << 27

#: Share by which the original's operators are priced below their measured cost for a cautious result, and
#: the most e-nodes of an e-graph from which one is extracted.
CAUTION: Final = 0.1
MOST_E_NODES: Final = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A graph that may be the result.

    ``term`` is the graph as it was searched, ``graph`` the same at the sizes of the prices; ``cost`` is in
    microseconds. ``solution`` is the extraction that it comes from, ``made_by`` are the rules that made it, the most
    productive first, and ``place`` is its place among those timed. ``saved`` is the model that is saved in its place
    if the original has symbolic dimensions.
    """

    term: Graph = field(repr=False)
    graph: Graph = field(repr=False)
    cost: float
    solution: Solution | None = field(default=None, repr=False)
    made_by: tuple[str, ...] = ()
    place: int = 0
    saved: ModelProto | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of an optimisation and its certificate.

    ``candidate`` is None if the result is the original. If no candidate passed, ``certificate`` is that of the
    last one, which failed. ``checked`` are its checks at other sizes. ``ended`` says what ended the certificate early.
    """

    graph: Graph
    candidate: Candidate | None
    certificate: Certificate | None
    checked: tuple[Checked, ...] = ()
    ended: str = ""

    @property
    def failed(self) -> bool:
        """Return whether a graph was found that is not the original's equal."""
        return self.certificate is not None and not self.certificate.passed


# -- making ----------------------------------------------------------------------------------------------
def candidate_of(model: Model, egraph: EGraph, solution: Solution) -> Candidate:
    """Return the graph of an extraction."""
    births = egraph.birth_rule[np.unique(solution.choice[solution.choice >= 0])].tolist()
    counts = Counter(egraph.rules[rule] for rule in births if rule >= 0)
    made_by = tuple(sorted(counts, key=lambda rule: (-counts[rule], rule)))
    term = rebuild(model.searched, egraph, solution.choice)
    return Candidate(term, model.at_prices(term), solution.cost, solution, made_by)


def cheapest(
    model: Model, egraph: EGraph, costs: np.ndarray, solution: Solution, k: int, *, seconds: float = 60.0
) -> list[Candidate]:
    """Return the graphs of the ``k`` cheapest distinct extractions, without the model itself.

    Extractions that give the same graph count once.

    Args:
        model: The original.
        egraph: Its e-graph.
        costs: The cost of every e-node in microseconds.
        solution: The cheapest extraction.
        k: The number of graphs; fewer are returned if there are no more or time runs out.
        seconds: The time limit.
    """
    distinct: dict[str, Candidate] = {}
    for other in (solution, *k_best(egraph, costs, k + 1, seconds=seconds)):
        candidate = candidate_of(model, egraph, other)
        distinct.setdefault(candidate.graph.structural_hash(), candidate)
    distinct.pop(model.graph.copied().structural_hash(), None)  # equal applications shared
    return sorted(distinct.values(), key=lambda c: c.cost)[:k]


def ranked(job: Job, run: Run) -> tuple[Ranking | None, list[Candidate]]:
    """Return the times of a run's candidates if they are timed, and the candidates to take, best first.

    If times are to decide and there are none, the original stays: Ctrl-C ends the timing, or a model does not
    run here.
    """
    if job.trial is None:
        with job.stages("extraction", quiet=True):
            return None, [candidate_of(job.model, run.egraph, run.solution)] if run.gains else []
    try:
        with job.stages("timing"):
            in_parts = job.trial.quick and weight_of(job.model.graph) > VAST
            return (_timed_in_parts if in_parts else _timed)(job, run, job.trial)
    except KeyboardInterrupt:
        return untimed(job, run, job.trial, "the timing was interrupted")


def _timed(job: Job, run: Run, trial: Trial) -> tuple[Ranking, list[Candidate]]:
    """Time the best extractions and the original.

    If the original does not run at the sizes of the prices, it is timed at others at which it runs.
    If a graph runs at none, no candidate of a quick trial is taken, nor any that needs an operator for which
    the runtime has no kernel. Any other trial raises the error of the target.
    """
    from workbench.certification.end_to_end import accepted, without_kernels
    from workbench.devices import targets
    from workbench.devices.ranking import rank
    from workbench.frontends.onnx.exporter import to_onnx_apart
    from workbench.frontends.runtime import cleaned_model

    model, target, seed = job.model, trial.target, job.settings.seed
    with job.stages("extraction", quiet=True):
        found = _entrants(job, run, trial)
    original: Graph | Apart = model.graph
    uncleaned, done = None, list[str]()
    if model.source is not None and isinstance(target, targets.OnnxRuntime):
        cleaned = cleaned_model(model)
        original = cleaned.apart
        done += ["initialisers taken out of the inputs"] if cleaned.removed else []
        done += [f"{named(model.dims)} fixed"] if model.dims else []
        if done and cleaned.weights <= UNCLEANED:
            uncleaned = cleaned_model(model, fixed=False).given()
        target = replace(target, shapes={n: kind.shape for n, kind in model.graph.input_types.items()})
    seconds = min(trial.seconds, max(LEAST, seconds_left(job) / 4))
    limits: dict[str, Any] = {"original_cost": run.before, "seconds": seconds}
    timed: Callable[..., Ranking] = partial(
        rank, original, found, **limits, seed=seed, uncleaned=uncleaned, quick=trial.quick
    )
    try:
        ranking = timed(target)
    except Exception as error:  # whatever a runtime or its inputs can come to
        if not trial.quick and not without_kernels(*(c.graph for c in found)):
            raise
        apart = to_onnx_apart(original) if isinstance(original, Graph) else original
        runs = accepted(model, apart, seed, trial.seconds) if trial.quick else None
        if runs is None or not isinstance(target, targets.OnnxRuntime):
            return untimed(job, run, trial, f"the model does not run here ({one_line(error)})", found)
        sizes, inputs = runs
        try:
            ranking = timed(replace(target, inputs=inputs))
        except Exception as again:
            return untimed(job, run, trial, f"the result does not run here ({one_line(again)})", found)
        if sizes != model.sizes:
            ranking = replace(ranking, target=f"{ranking.target}, at {named(sizes)}")
    ranking = replace(ranking, cleaned=" and ".join(done))
    if not trial.decides:
        ranking = replace(ranking, decided=False, winner=0 if found else None)
    order = ranking.order() if trial.decides else range(len(found))
    return ranking, [replace(found[i], place=i) for i in order]


def _timed_in_parts(job: Job, run: Run, trial: Trial) -> tuple[Ranking, list[Candidate]]:
    """Time what the best extraction rewrites, one place of each kind, against what was there."""
    from workbench.devices.ranking import rank

    model, timed = job.model, partial(rank, original_cost=run.before, seed=job.settings.seed, quick=True)
    if not run.gains:
        return timed(model.graph, [], trial.target), []
    with job.stages("extraction", quiet=True):
        found = candidate_of(model, run.egraph, run.solution)
    known = correspondence(model.searched, found.term, run.egraph, run.solution.choice)
    merged = Merged(model.graph, found.graph, known)
    parts = [merged.region(task) for task in {task.key: task for task in merged.tasks()}.values()]
    if not parts:
        return untimed(job, run, trial, "no operator that runs is rewritten")
    before, after = beside([part.before for part in parts]), beside([part.after for part in parts])
    seconds = min(trial.seconds, max(LEAST, seconds_left(job) / 4))
    try:
        ranking = timed(before, [replace(found, graph=after)], trial.target, seconds=seconds)
    except Exception as error:  # whatever a runtime or its inputs can come to
        return untimed(job, run, trial, f"what is rewritten does not run here ({one_line(error)})", [found])
    target = f"{ranking.target}, one of each of {len(parts)} rewritten places alone"
    ranking = replace(ranking, target=target, places=len(parts))
    if not trial.decides:
        return replace(ranking, decided=False, winner=0), [found]
    return ranking, [found] if ranking.order() else []


def untimed(
    job: Job, run: Run, trial: Trial, why: str, found: Sequence[Candidate] = ()
) -> tuple[Ranking, list[Candidate]]:
    """Return a ranking without times: the original stays, unless costs of another device decide.

    Args:
        job: The optimisation.
        run: Its saturation.
        trial: The timing that failed or ended.
        why: The reason.
        found: The candidates, if there are any yet.
    """
    from workbench.devices.ranking import Entrant, Ranking

    none = Entrant(run.before, 0.0, (0.0, 0.0))
    failure = f"the original stays: {why}" if trial.decides else f"nothing was timed: {why}"
    if trial.decides and trial.quick:
        failure += "; without timing (--no-time) costs alone decide"
    ranking = Ranking(none, (), 0.0, 0, trial.target.title, 0.0, decided=trial.decides, failure=failure)
    if trial.decides:
        return ranking, []
    kept = found or ([candidate_of(job.model, run.egraph, run.solution)] if run.gains else [])
    return ranking, [replace(candidate, place=i) for i, candidate in enumerate(kept)]


def _entrants(job: Job, run: Run, trial: Trial) -> list[Candidate]:
    """Return the candidates to time."""
    model, egraph = job.model, run.egraph
    if not trial.quick:
        seconds = min(extraction_seconds(job), 10.0)
        return cheapest(model, egraph, run.costs, run.solution, trial.count, seconds=seconds)
    if not run.gains:
        return []
    distinct: dict[str, Candidate] = {}
    for solution in (run.solution, *(_cautious(job, run) if trial.decides else ())):
        candidate = candidate_of(model, egraph, solution)
        if model.symbols and (dynamic := fate_of(model, candidate.term)) is not None:
            candidate = replace(candidate, saved=dynamic.model())
        distinct.setdefault(candidate.term.structural_hash(), candidate)
    distinct.pop(model.searched.copied().structural_hash(), None)  # nothing is timed against itself
    return list(distinct.values())


def _cautious(job: Job, run: Run) -> list[Solution]:
    """Return an extraction with the original's operators priced below their measured cost, if it is another one.

    The runtime fuses some of these operators, and the price of a single operator does not show it: a
    rewrite must gain more than that. Nor does it show the layout of operands, which is accounted for.
    """
    if weight_of(job.model.graph) > LARGE or len(run.egraph) > MOST_E_NODES:
        return []
    costs = blocked(run.egraph, run.costs)
    costs[run.egraph.original[run.egraph.original >= 0]] *= 1 - CAUTION
    other = extract(run.egraph, costs, seconds=extraction_seconds(job), effort=QUICK)
    cost = dag_cost(other.choice, run.costs)
    if not cost < run.before * (1 - 1e-9):
        return []
    bound = min(cost, run.solution.bound)
    status = Status.OPTIMAL if met(cost, bound) else Status.FEASIBLE
    return [replace(other, cost=cost, bound=bound, status=status)]


def weight_of(graph: Graph) -> int:
    """Return the bytes of a graph's stored weights."""
    return sum(int(node.tensor.nbytes) for node in graph.nodes if node.op == "weight")


# -- certifying ------------------------------------------------------------------------------------------
def first_certified(
    job: Job,
    candidates: Iterable[Candidate],
    trace: Trace,
    egraph: EGraph | None = None,
    rules: RuleSet | None = None,
) -> Choice:
    """Return the first candidate that passes its certificate, or the original if none does.

    Args:
        job: The optimisation.
        candidates: Graphs that may be the result, best first.
        trace: The run that found them.
        egraph: The e-graph that they come from; it relates their values to those of the original.
        rules: The rules whose verdicts the certificate cites; by default the job's.
    """
    choice, cited = Choice(job.model.graph, None, None), rules or job.rules
    for candidate in candidates:
        if not job.settings.certify:
            return Choice(candidate.graph, candidate, None)
        certificate, checked = _certificate(job, candidate, trace, egraph, cited)
        if certificate.passed:
            return Choice(candidate.graph, candidate, certificate, checked)
        choice = replace(choice, certificate=certificate, checked=checked)
    if job.settings.certify and choice.certificate is None:
        original = Candidate(job.model.searched, job.model.graph, 0.0)
        return Choice(job.model.graph, None, *_certificate(job, original, trace, None, cited))
    return choice


def _certificate(
    job: Job, candidate: Candidate, trace: Trace, egraph: EGraph | None, rules: RuleSet
) -> tuple[Certificate, tuple[Checked, ...]]:
    """Compare a candidate with the original, as it was given, at the sizes of the prices and at others."""
    from workbench.certification.graphs import certify_graphs

    model, seed = job.model, job.settings.seed
    original = model.cleaned_from or model.graph
    vast = model.source is not None and weight_of(model.graph) > VAST
    # Of a vast model the certificate runs what was imported here and the file itself at another binding.
    given = None if vast and model.symbols else job.reference
    with job.stages("certificate"):
        if vast and candidate.graph is model.graph:  # the file stays as it was given
            return certify_graphs(original, original, seed=seed, whole=False), ()
        known = None
        if egraph is not None and candidate.solution is not None:
            known = correspondence(model.searched, candidate.term, egraph, candidate.solution.choice)
        found = certify_graphs(
            original, candidate.graph, seed=seed, known=_of_given(model, candidate.graph, known), given=given,
            early=job.early,
        )  # fmt: skip
        found = replace(found, rules=verdicts(trace, rules, candidate.made_by))
        if not found.passed:
            return found, ()
        checked = checks_at_sizes(model, candidate.term, known, seed, job.reference, once=vast)
        for failed in [c for c in checked if c.why]:
            found = replace(found, passed=False, reason=f"at {named(failed.sizes)}: {failed.why}")
        return found, checked


def _of_given(model: Model, graph: Graph, known: Correspondence | None) -> Correspondence | None:
    """Return the numbers of a graph and of what was given, from those of a graph and of what was searched."""
    if model.cleaned_from is None:
        return known
    if known is None and graph is model.graph:
        known = Correspondence(tuple(range(len(graph))), tuple(range(len(graph))))
    if known is None:
        return None
    places = cleaned_places(model.cleaned_from, model.graph)
    return replace(known, original=tuple(known.original[i] if i >= 0 else -1 for i in places))


def holds(model: Model, term: Graph, seed: int) -> bool:
    """Return whether a term computes the same as the original at all bindings that are checked."""
    from workbench.certification.graphs import certify_graphs

    if not certify_graphs(model.graph, model.at_prices(term), seed=seed).passed:
        return False
    return not any(c.why for c in checks_at_sizes(model, term, None, seed, None))


def correspondence(original: Graph, term: Graph, egraph: EGraph, choice: np.ndarray) -> Correspondence:
    """Return the e-classes of the nodes of a graph and of a term extracted from its e-graph.

    Args:
        original: The graph.
        term: The term as a graph.
        egraph: The e-graph.
        choice: The chosen e-node of each e-class; negative for an e-class that is not built.
    """
    before = tuple(int(egraph.eclass[i]) if i >= 0 else -1 for i in egraph.original.tolist())
    after = eclasses_of(term, egraph)
    births = (int(egraph.birth_rule[choice[c]]) if c >= 0 and choice[c] >= 0 else -1 for c in after)
    return Correspondence(before, after, tuple(egraph.rules[rule] if rule >= 0 else "" for rule in births))


def verdicts(trace: Trace, rules: RuleSet, made_by: Sequence[str]) -> Mapping[str, str]:
    """Return the verdict on every rule that fired, those that made the result first."""
    fired = {r.rule for step in trace for r in step.rules if r.matches}
    those = [rule for rule in rules if rule.name in fired]
    known = {rule.name: rules.verdict(rule) for rule in those}
    return {n: known[n] for n in [*(m for m in made_by if m in known), *sorted(set(known) - set(made_by))]}
