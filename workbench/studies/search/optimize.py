"""Optimise a model with TASO's search in place of saturation: import, search, certify."""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.costs import node_costs
from workbench.costs.pricing import instances_of
from workbench.costs.registry import Given
from workbench.costs.registry import cost_model as cost_model_of
from workbench.frontends.model import ModelLike
from workbench.frontends.model_file import fixed_model
from workbench.optimizer.candidates import Candidate, first_certified
from workbench.optimizer.job import default_cost, job_of
from workbench.optimizer.result import SEARCH_NAMES, Result, trace_meta
from workbench.optimizer.settings import Settings
from workbench.optimizer.summary import Row, left_out
from workbench.rules import RuleSet
from workbench.rules.ruleset import Rules, published, rules_of
from workbench.run.progress import Progress, Stages, seen_in_notebooks
from workbench.studies.search.modes import MODES
from workbench.studies.search.search import BacktrackingSearch
from workbench.support.formatting import thousands


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Searched(Result):
    """The result of :func:`search_optimize`.

    ``history`` names the substitutions that made the result in order; ``rules`` names each of these rules once, the
    most used first. ``expanded`` is the number of graphs taken from the queue and rewritten, ``found`` the number of
    distinct graphs queued.
    """

    history: tuple[str, ...]
    expanded: int
    found: int

    stages = ("search",)
    own_names = SEARCH_NAMES

    @property
    def rules(self) -> tuple[str, ...]:
        """Return the rules that made the result, the most used first."""
        return tuple(sorted(set(self.history), key=lambda r: (-self.history.count(r), r)))

    @property
    def cost_claimed(self) -> float:
        """Return the cost of the cheapest graph found, whether or not it passed its certificate."""
        return self._best()[0]

    @property
    def log2_terms(self) -> float | None:
        """Return log2 of the graphs queued, or None if there is none."""
        return math.log2(self.found) if self.found else None

    @property
    def seconds_best(self) -> float:
        """Return the seconds until the cheapest graph was found."""
        return self._best()[1]

    def rules_used(self) -> str:
        """Return the rules that made the result, with their numbers of substitutions."""
        return ", ".join(f"{rule} × {self.history.count(rule)}" for rule in self.rules)

    def way_rows(self) -> list[Row]:
        """Return the rows of the summary on the search."""
        used = self.settings
        grown = f"{thousands(self.expanded)} graphs expanded, {thousands(self.found)} found"
        how = f"{used['mode']}, alpha {used['alpha']:g}, budget {used['budget']}, rules {used['rules']}"
        text = f"{how}: {grown}: {self.stop_reason.value}"
        return [*left_out(self), Row("search", self.seconds.get("search"), text)]

    def way_lines(self) -> list[str]:
        """Return the first lines of the text of the result."""
        mode, alpha, budget = (self.settings[name] for name in ("mode", "alpha", "budget"))
        grown = f"{self.expanded} graphs expanded, {self.found} found, {self.stop_reason.value}"
        return [
            f"Searched {self.network!r}: {self.predicted()}",
            f"  search: {mode}, alpha {alpha:g}, budget {budget}: {grown}",
            f"  {len(self.history)} substitutions by: {', '.join(self.rules) or 'none'}",
        ]

    def _best(self) -> tuple[float, float]:
        """Return the cost of the cheapest graph found, and the seconds until it was found."""
        elapsed, best, reached = 0.0, self.cost_before, 0.0
        for step in self.trace:
            elapsed += step.seconds
            if step.cost is not None and step.cost < best * (1 - 1e-9):
                best, reached = step.cost, elapsed
        return best, reached


@seen_in_notebooks
def search_optimize(
    model: ModelLike,
    *,
    rules: Rules | None = None,
    cost: str | os.PathLike[str] | Given | None = None,
    alpha: float = 1.05,
    budget: int = 100,
    mode: str = "sound",
    seconds: float = 600.0,
    growth: float = 2.0,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    certify: bool = True,
    keep_refuted: bool = False,
    progress: Progress | None = None,
) -> Searched:
    """Optimise a model by TASO's search and return the certified result, or the original.

    A result that wrong rules have changed does not pass its certificate. The original is then the result,
    and ``offending`` names the first rule of the history that changed the function of the model. Ctrl-C
    ends the search; the best graph so far is then certified and returned.

    Args:
        model: As in :func:`workbench.optimize`.
        rules: As in :func:`workbench.optimize`, by default the default set. The modes other than
            ``"sound"`` need the path of another system's file (TASO's ``graph_subst.pb``) and use its rules
            as published.
        cost: As in :func:`workbench.optimize`.
        alpha: As in :class:`~workbench.studies.search.BacktrackingSearch`, and so are the next four.
        budget: Number of graphs to expand.
        mode: The way to run the search.
        seconds: Time limit of the search.
        growth: Limit on the number of nodes, relative to the start graph.
        seed: As in :func:`workbench.optimize`.
        dims: As in :func:`workbench.optimize`.
        certify: Whether the result is certified.
        keep_refuted: As in :func:`workbench.optimize`.
        progress: Callback with the stage and details.
    """
    stages = Stages(progress)
    settings = Settings(seed=seed, certify=certify)
    own = dict[str, Any](mode=mode, alpha=alpha, budget=budget, seconds=seconds, growth=growth)
    with stages("import"):
        ruleset = _rules(rules, mode, keep_refuted)
        given = None if cost is None else cost_model_of(cost)
        source = fixed_model(model, dims)
        cost_model = given or cost_model_of(default_cost(source))
        job = job_of(source, ruleset, cost_model, settings, stages, as_published=mode != "sound", whole=False)
    with stages("search"):
        search = BacktrackingSearch(source.graph, job.rules, job.cost_model, **own)
        stop = search.run(lambda step: stages.tell("search", step))
    graph, best = source.graph, search.best
    with stages("pricing"):
        # Operators that a measured model had no time for are measured if the result depends on them.
        job.cost_model.measure(instances_of(graph) + instances_of(best))
        before, after = (float(node_costs(g, job.cost_model).sum()) for g in (graph, best))
    cheaper = after < before * (1 - 1e-9)
    made_by = tuple(dict.fromkeys(search.history))
    candidates = [Candidate(best, best, after, made_by=made_by)] if cheaper else []
    applied = RuleSet(job.rules.name, search.rules, job.rules.verdicts)
    choice = first_certified(job, candidates, search.trace, rules=applied)
    offending: tuple[str, ...] = ()
    if choice.failed:
        with stages("blame"):
            offending = _blame(search, seed)
    result = Searched(
        original=source.graph,
        graph=choice.graph,
        cost_before=before,
        cost_after=before if choice.candidate is None else choice.candidate.cost,
        cost_source=job.cost_model.source,
        trace=search.trace,
        history=() if choice.candidate is None else search.history,
        certificate=choice.certificate,
        stop_reason=stop,
        expanded=search.expanded,
        found=search.found,
        seconds=stages.ordered(),
        settings=job.recorded(own),
        coverage=source.coverage,
        offending=offending,
        given=None if source.source is None else source,
    )
    search.trace.meta |= trace_meta(result, job.cost_model)
    return result


def _rules(rules: Rules | None, mode: str, keep_refuted: bool) -> RuleSet:
    if MODES[mode]():
        if rules is None:
            raise ValueError(
                f"mode {mode} must have TASO's own rules, got none (try rules=<path of graph_subst.pb>)"
            )
        if isinstance(rules, str) and Path(rules).is_file():
            return replace(published(rules), name=rules)
    return rules_of("default" if rules is None else rules, keep_refuted=keep_refuted)


def _blame(search: BacktrackingSearch, seed: int) -> tuple[str, ...]:
    """Return the rule behind a wrong result: the one between a right and a wrong graph of the history."""
    from workbench.certification import certify

    path, history = search.path(), search.history
    wrong = bisect_left(
        range(1, len(path) - 1), True, key=lambda k: not certify(search.graph, path[k], seed=seed).passed
    )
    return history[wrong : wrong + 1]
