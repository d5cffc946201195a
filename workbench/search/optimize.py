"""The whole way with TASO's search in place of the saturation: import, search, certify, and the result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.costs import CostModel, node_costs
from workbench.costs.pricing import instances_of
from workbench.deployment import Given, default_cost, source_of
from workbench.graph import Graph
from workbench.progress import seen_in_notebooks
from workbench.result import Result
from workbench.rules import RuleSet, load_rules
from workbench.rules.pattern import Rule
from workbench.search.modes import mode_of
from workbench.search.search import BacktrackingSearch
from workbench.stages import (
    Clock,
    Progress,
    certified,
    cost_model_of,
    graph_of,
    record_of,
    rules_for,
    rules_of,
    verdicts,
    versions,
)
from workbench.trace import StopReason, Trace

if TYPE_CHECKING:
    from workbench.verification import Certificate


@dataclass(frozen=True, slots=True, eq=False)
class Searched(Result):
    """Hold what :func:`search_optimize` found.

    ``graph`` is certified equal to ``original``, or is ``original`` itself. Costs are sums over
    operators in microseconds by ``cost_source``. ``history`` names the substitutions that made the
    result in order, ``rules`` each rule among them once, the most used first. ``expanded`` graphs were
    taken from the queue and rewritten, ``found`` distinct ones queued.
    """

    original: Graph
    graph: Graph
    cost_before: float
    cost_after: float
    cost_source: str
    trace: Trace = field(repr=False)
    history: tuple[str, ...]
    certificate: Certificate | None
    stop_reason: StopReason
    expanded: int
    found: int
    seconds: Mapping[str, float]
    settings: Mapping[str, Any]
    coverage: Any = None
    offending: tuple[str, ...] = ()
    given: Given | None = None

    @property
    def rules(self) -> tuple[str, ...]:
        """Return the rules that made the result, the most used first."""
        return tuple(sorted(set(self.history), key=lambda r: (-self.history.count(r), r)))

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return self.figures() | {
            "search": self.seconds["search"],
            "expanded": self.expanded,
            "found": self.found,
            "history": list(self.history),
            "rules": list(self.rules),
        }

    def __repr__(self) -> str:
        mode, alpha, budget = (self.settings[name] for name in ("mode", "alpha", "budget"))
        lines = [
            f"Searched {self.original.name!r}: {self.predicted()}",
            f"  search: {mode}, alpha {alpha:g}, budget {budget}: {self.expanded} graphs expanded, "
            f"{self.found} found, {self.stop_reason.value}",
            f"  {len(self.history)} substitutions by: {', '.join(self.rules) or 'none'}",
            *self.outline(),
        ]
        return "\n".join(lines)


@seen_in_notebooks
def search_optimize(
    model: Graph | str | os.PathLike[str] | bytes | Any,
    *,
    rules: str | RuleSet | Sequence[Rule] | None = None,
    cost: str | os.PathLike[str] | CostModel | None = None,
    alpha: float = 1.05,
    budget: int = 100,
    mode: str = "sound",
    seconds: float = 600.0,
    growth: float = 2.0,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    certify: bool = True,
    progress: Progress | None = None,
) -> Searched:
    """Optimise a model by TASO's search and return the certified result, or the original.

    ``alpha``, ``budget``, ``mode``, ``seconds`` and ``growth`` are those of
    :class:`~workbench.search.BacktrackingSearch`; everything else is as in :func:`workbench.optimize`.
    ``rules`` is the default rule set where it is not given; the other modes than ``"sound"`` are about
    another system's rules, take the path of its file (TASO's ``graph_subst.pb``), and use it as published.
    What wrong rules made of the model does not pass its certificate: then the original is the result,
    and ``offending`` names the first rule on the way that changed what the model computes. Ctrl-C ends
    the search and goes on with what is there.
    """

    def tell(stage: str, detail: Any = None) -> None:
        if progress is not None:
            progress(stage, detail)

    clock = Clock()
    given = _rules(rules, mode)
    cost_model = cost_model_of(default_cost(model) if cost is None else cost)
    tell("import")
    with clock("import"):
        graph, coverage = graph_of(model, dims)
        # Another system's rules are used as published, whatever they do.
        given, left_out = rules_for(graph, given) if mode == "sound" else (given, ())
    bind = getattr(cost_model, "bind", None)
    if bind is not None:
        bind(graph)
    search = BacktrackingSearch(
        graph, given, cost_model, alpha=alpha, budget=budget, mode=mode, seconds=seconds, growth=growth
    )
    tell("search")
    with clock("search"):
        stop = search.run(lambda step: tell("search", step))
    result, history = search.best, search.history
    tell("pricing")
    with clock("pricing"):
        # What a measured model had no time for is measured where the result depends on it.
        measure = getattr(cost_model, "measure", None)
        if measure is not None:
            measure(instances_of(graph) + instances_of(result))
        before, after = (float(node_costs(g, cost_model).sum()) for g in (graph, result))
    if not after < before * (1 - 1e-9):
        result, history, after = graph, (), before
    certificate: Certificate | None = None
    offending: tuple[str, ...] = ()
    if certify:
        tell("certificate")
        used = RuleSet(given.name, search.rules, given.verdicts)
        with clock("certificate"):
            certificate = replace(
                certified(graph, result, seed),
                rules=verdicts(search.trace, used, tuple(dict.fromkeys(history))),
            )
        if not certificate.passed:
            tell("blame")
            offending = _blame(search, seed)
            result, history, after = graph, (), before
    search.trace.meta |= record_of(graph, result, cost_model, rules=given.name, seed=seed, stop=stop)
    settings = {
        "rules": given.name,
        "mode": mode,
        "alpha": alpha,
        "budget": budget,
        "seconds": seconds,
        "growth": growth,
        "seed": seed,
        **({"left_out": list(left_out)} if left_out else {}),
        **versions(),
    }
    return Searched(
        original=graph,
        graph=result,
        cost_before=before,
        cost_after=after,
        cost_source=cost_model.source,
        trace=search.trace,
        history=history,
        certificate=certificate,
        stop_reason=stop,
        expanded=search.expanded,
        found=search.found,
        seconds=clock.ordered(),
        settings=settings,
        coverage=coverage,
        offending=offending,
        given=source_of(model, dims),
    )


def _rules(rules: str | RuleSet | Sequence[Rule] | None, mode: str) -> RuleSet:
    if mode_of(mode).handwritten:
        if rules is None:
            raise ValueError(
                f"mode {mode} runs TASO's own rules: give the path of its graph_subst.pb as rules"
            )
        if isinstance(rules, str) and Path(rules).is_file():
            return replace(load_rules(rules, strict=False), name=rules)
    return rules_of("default" if rules is None else rules)


def _blame(search: BacktrackingSearch, seed: int) -> tuple[str, ...]:
    """Return the rule behind a wrong result: between a right graph and a wrong one on the way to it."""
    path, history = search.path(), search.history
    right, wrong = 0, len(path) - 1
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if certified(search.graph, path[middle], seed).passed:
            right = middle
        else:
            wrong = middle
    return (history[right],) if wrong else ()
