"""The whole way in one call: import, saturate, extract, certify, and the result object."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.costs import CostModel
from workbench.costs.economical import Economical, economical
from workbench.deployment import Given, default_cost, source_of, trial_of
from workbench.dynamic import Checked, Dynamic, OpenModel, open_model, without
from workbench.exploration import explore, hurried
from workbench.extraction import EGraph, Solution
from workbench.extraction.race import MEMORY
from workbench.graph import Graph
from workbench.progress import seen_in_notebooks
from workbench.result import Result
from workbench.rules import RuleSet
from workbench.rules.pattern import Rule
from workbench.stages import (
    Clock,
    Progress,
    certified,
    correspondence,
    cost_model_of,
    record_of,
    rules_for,
    rules_of,
    verdicts,
    versions,
)
from workbench.trace import StopReason, Trace

if TYPE_CHECKING:
    from workbench.comparison import Comparison
    from workbench.devices.fastest import Ranking
    from workbench.devices.targets import Target
    from workbench.saturation import Limits
    from workbench.verification import Certificate

#: Up to this size the trace also gets the best cost after every step.
HISTORY_E_NODES = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Optimized(Result):
    """Hold what :func:`optimize` found.

    ``graph`` is certified equal to ``original``, or is ``original`` itself. Costs are sums over
    operators in microseconds by ``cost_source``; ``costs`` are those of the e-graph's e-nodes.
    ``seconds`` says where the time went: ``engine`` is the compiling of rules, the start of the engine
    and the loading of the solver, ``pricing`` the cost model.
    """

    original: Graph
    graph: Graph
    cost_before: float
    cost_after: float
    cost_source: str
    trace: Trace
    egraph: EGraph = field(repr=False)
    solution: Solution
    rules: tuple[str, ...]
    ruleset: RuleSet = field(repr=False)
    certificate: Certificate | None
    stop_reason: StopReason
    e_nodes: int
    e_classes: int
    iterations: int
    seconds: Mapping[str, float]
    settings: Mapping[str, Any]
    costs: np.ndarray = field(repr=False)
    coverage: Any = None
    offending: tuple[str, ...] = ()
    measured: Ranking | None = None
    dynamic: Dynamic | None = None
    given: Given | None = None

    def compare(self) -> Comparison:
        """Return what became of every operator, and by which rules."""
        from workbench.comparison import compare

        return compare(self)

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return self.figures() | {
            "saturation": self.seconds["saturation"],
            "extraction": self.seconds["extraction"],
            "nodes": self.e_nodes,
            "classes": self.e_classes,
            "iterations": self.iterations,
            "rules": list(self.rules),
            "extractor": self.solution.method,
            "bound": self.solution.bound,
            "status": self.solution.status.value,
            "scope": self.solution.scope,
            "measured": None if self.measured is None else self.measured.summary(),
            "dynamic": None if self.dynamic is None else self.dynamic.summary(),
        }

    def __repr__(self) -> str:
        lines = [
            f"Optimized {self.original.name!r}: {self.predicted()}",
            f"  e-graph: {self.e_nodes} e-nodes, {self.e_classes} e-classes, "
            f"{self.iterations} iterations, {self.stop_reason.value}",
            f"  extraction: {self.solution.method}, {self.solution.status.value} "
            f"({self.solution.scope}), bound {self.solution.bound:.1f} µs",
            f"  rules: {', '.join(self.rules) or 'none'}",
            *([f"  measured: {self.measured}"] if self.measured is not None else []),
            *([f"  dimensions: {line}" for line in self.dynamic.lines()] if self.dynamic is not None else []),
            *self.outline(),
        ]
        return "\n".join(lines)


def rules_behind(egraph: EGraph, choice: Sequence[int]) -> tuple[str, ...]:
    """Return the rules that made the chosen e-nodes, most productive first."""
    counts: dict[str, int] = {}
    for i in sorted({int(i) for i in choice if i >= 0}):
        rule = int(egraph.birth_rule[i])
        if rule >= 0:
            counts[egraph.rules[rule]] = counts.get(egraph.rules[rule], 0) + 1
    return tuple(sorted(counts, key=lambda r: (-counts[r], r)))


@seen_in_notebooks
def optimize(
    model: Graph | str | os.PathLike[str] | bytes | Any,
    *,
    rules: str | RuleSet | Sequence[Rule] = "default",
    cost: str | os.PathLike[str] | CostModel | None = None,
    extractor: str = "exact",
    e_nodes: int = 50_000,
    seconds: float = 60.0,
    iterations: int = 15,
    k_multi: int = 1,
    settle: int = 4,
    extraction_seconds: float | None = None,
    extraction_memory: int = MEMORY,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    keep_inputs: bool = False,
    sizes: Mapping[str, int] | None = None,
    certify: bool = True,
    measure: int = 0,
    measure_on: str | Target = "onnxruntime",
    measure_seconds: float = 10.0,
    time: bool | None = None,
    time_seconds: float = 3.0,
    profile: bool = False,
    progress: Progress | None = None,
) -> Optimized:
    """Optimise a model and return the certified result, or the original where nothing better is proved.

    ``model`` is a graph, a path to an ONNX file or to one of TASO's text format (``.model``), the bytes
    of an ONNX file, or an ``onnx.ModelProto``. Its symbolic dimensions are kept as far as they can be:
    costs are those at ``sizes``, or at a usual size where none is given; ``dims`` fixes dimensions on
    purpose; ``dynamic`` of the result says what became of them. With ``keep_inputs`` inputs that have
    initial values stay inputs (else they become weights). ``rules`` names a rule set, gives rules, or is
    the path of a file of TASO's or Tensat's rules, of which the sound ones are used; ``cost`` names a
    cost model (``"analytic"``, ``"cpu"``), gives one, or is the path of a recorded table: without it a
    graph is priced by ``"analytic"``, any other model by ``"cpu"``, which is this machine; ``extractor``
    is ``"exact"``, ``"dag"`` or ``"tree"``. ``e_nodes``, ``seconds``, ``iterations`` and ``k_multi``
    bound the saturation (:class:`~workbench.saturation.Limits`; ``settle=0`` runs multi-pattern rules
    first, as Tensat does), ``extraction_seconds`` (``seconds`` unless given) and ``extraction_memory``,
    in bytes for each solver's process, the extraction. Ctrl-C ends the saturation and goes on with what
    is there.

    A model that is priced by this machine and was no graph, or any with ``time=True``, is timed in the end:
    the result and the cleaned original run in alternation in ONNX Runtime on one thread, for
    ``time_seconds`` at most. Costs of this machine decide so: the result is the original where no other is
    faster beyond the noise. With costs of another device the times are for information. What is saved is
    then the model as it was given, its initialisers taken out of the inputs.

    With ``measure`` the so many best extractions are timed end to end against the original for
    ``measure_seconds``, on the target ``measure_on`` (``"onnxruntime"``, ``"torch"``, ``"torch+compile"``,
    ``"torch:cuda"`` and so on, or a :class:`~workbench.devices.targets.Target`), and the fastest is the
    result, or the original where none is faster beyond the noise. Ctrl-C then leaves the choice to the
    cost model. Raise :class:`~workbench.devices.device.DeviceMissing` where the target is not there.
    """
    given_arguments: dict[str, Any] = dict(locals())
    from workbench.saturation.process import warm

    warm()  # the engine's process starts while the rest is imported and model and rules are read
    from workbench.extraction.extract import extract
    from workbench.extraction.history import cost_by_step
    from workbench.extraction.rebuild import rebuild
    from workbench.saturation import Limits, Saturation
    from workbench.verification.whole import given_of

    def tell(stage: str, detail: Any = None) -> None:
        if progress is not None:
            progress(stage, detail)

    limits = Limits(e_nodes, seconds, iterations, k_multi, settle=settle)
    cheapest: Callable[..., Solution] = partial(extract, method=extractor, memory=extraction_memory)
    clock = Clock()
    chosen = rules_of(rules)
    cost_model = economical(cost_model_of(default_cost(model) if cost is None else cost), named=cost)
    if extraction_seconds is None and isinstance(cost_model, Economical):
        cheapest = hurried(cheapest)
    trial = trial_of(
        model,
        cost_model.source,
        measure=measure,
        measure_on=measure_on,
        measure_seconds=measure_seconds,
        time=time,
        time_seconds=time_seconds,
    )
    came = source_of(model, dims, keep_inputs=keep_inputs)
    tell("import")
    with clock("import"):
        source = open_model(model, dims, sizes, keep_inputs=keep_inputs)
        graph, searched, coverage = source.graph, source.searched, source.coverage
        chosen, left_out = rules_for(searched, chosen)
        given_model = given_of(model) if certify and not isinstance(model, Graph) else None
    bind = getattr(cost_model, "bind", None)
    if bind is not None:
        bind(graph)
    if trial is not None:
        trial.target.check(graph)
    tell("saturation")
    left = seconds if extraction_seconds is None else extraction_seconds
    pricer = source.priced(cost_model)
    with Saturation(searched, chosen, limits, profile=profile, keep=0) as saturation:
        best, stop = explore(saturation, pricer, cheapest, left, clock, tell)
        clock.seconds["engine"] = clock.seconds.get("engine", 0.0) + saturation.engine_seconds
        clock.seconds["saturation"] = saturation.seconds
    egraph, costs, before, solution = source.shown(best.egraph), best.costs, best.before, best.solution
    with clock("history"):
        if len(egraph) <= HISTORY_E_NODES:
            steps = [step.index for step in saturation.trace]
            saturation.trace.set_costs(cost_by_step(egraph, costs, steps))
    # What may be the result, the best first; the original where nothing is left.
    queue = [(0, solution)] if solution.cost < before * (1 - 1e-9) else []
    ranking: Ranking | None = None
    if trial is not None:
        tell("measuring")
        with clock("measuring"), contextlib.suppress(KeyboardInterrupt):
            ranking, queue = trial.run(source, came, best, egraph, left, seed)
    result, after, term = graph, before, searched
    checked: tuple[Checked, ...] = ()
    made_by: tuple[str, ...] = ()
    certificate: Certificate | None = None
    offending: tuple[str, ...] = ()
    for place, option in queue:
        term, after = rebuild(searched, best.egraph, option.choice), option.cost
        result = source.at_prices(term)
        made_by = rules_behind(egraph, option.choice.tolist())
        if certify:
            tell("certificate")
            with clock("certificate"):
                known = correspondence(searched, term, best.egraph, option.choice)
                certificate = replace(
                    certified(graph, result, seed, known, given_model),
                    rules=verdicts(saturation.trace, chosen, made_by),
                )
                certificate, checked = source.checked(certificate, term, known, seed, given_model)
        if certificate is None or certificate.passed:
            solution = option
            if ranking is not None:
                ranking = replace(ranking, winner=place)
            break
        result, after, term, made_by = graph, before, searched, ()
    if certify and certificate is None:
        tell("certificate")
        with clock("certificate"):
            certificate = replace(
                certified(graph, graph, seed, given=given_model),
                rules=verdicts(saturation.trace, chosen, ()),
            )
            certificate, checked = source.checked(certificate, term, None, seed, given_model)
    elif certificate is not None and not certificate.passed:
        tell("blame")
        offending = _blame(source, saturation.trace, chosen, limits, pricer, cheapest, seed)
        if offending and any(c.why for c in checked) and source.holds(searched, seed):
            # What holds at some sizes only is left out, so that the dimensions are kept.
            fewer = replace(chosen, rules=tuple(r for r in chosen if r.name not in offending))
            again = optimize(**given_arguments | {"rules": fewer})
            return replace(again, dynamic=without(again.dynamic, offending, certificate.reason))
    saturation.trace.meta |= record_of(graph, result, cost_model, rules=chosen.name, seed=seed, stop=stop) | {
        "cost_before": before,
        "cost_after": after,
        "cost_bound": solution.bound,
    }
    unbound = result is graph and came is not None and source.opening is None
    settings = {
        "rules": chosen.name,
        "extractor": extractor,
        "e_nodes": e_nodes,
        "seconds": seconds,
        "iterations": iterations,
        "k_multi": k_multi,
        "settle": settle,
        "measure": measure,
        "time": trial is not None,
        "seed": seed,
        **({"left_out": list(left_out)} if left_out else {}),
        **versions(),
    }
    return Optimized(
        original=graph,
        graph=result,
        cost_before=before,
        cost_after=after,
        cost_source=pricer.source,
        trace=saturation.trace,
        egraph=egraph,
        solution=solution,
        rules=made_by,
        ruleset=chosen,
        certificate=certificate,
        stop_reason=stop,
        e_nodes=saturation.e_nodes,
        e_classes=saturation.e_classes,
        iterations=sum(step.index > 0 for step in saturation.trace),
        seconds=clock.ordered(),
        settings=settings,
        costs=costs,
        coverage=coverage,
        offending=offending,
        measured=ranking,
        # An original that is saved as it was given keeps every dimension open.
        dynamic=None if unbound else source.record(term, checked),
        given=came,
    )


def _blame(
    source: OpenModel,
    trace: Trace,
    rules: RuleSet,
    limits: Limits,
    cost_model: CostModel,
    cheapest: Callable[..., Solution],
    seed: int,
) -> tuple[str, ...]:
    """Find the rules without which the result is right, by repeating the run with fewer of them."""
    from workbench.extraction.rebuild import rebuild
    from workbench.saturation import Saturation
    from workbench.verification.blame import find_offending

    def reproduce(names: Sequence[str]) -> Graph:
        kept = replace(rules, rules=tuple(r for r in rules if r.name in set(names)))
        with Saturation(source.searched, kept, limits, keep=0) as run:
            found, _ = explore(run, cost_model, cheapest, 30.0, Clock(), lambda stage, detail: None)
        return rebuild(source.searched, found.egraph, found.solution.choice)

    # Every rule that matched: a wrong one may unite e-classes without making an e-node.
    active = sorted({r.rule for step in trace for r in step.rules})
    return find_offending(active, lambda names: source.holds(reproduce(names), seed))
