"""One optimisation in progress: the model that was read, the rules and costs to optimise it by.

Saturation and TASO's search differ in how they find graphs. Both begin with :func:`job_of` and end with
:func:`~workbench.optimizer.candidates.first_certified`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from workbench.costs import CostModel
from workbench.costs.model import is_this_machine
from workbench.frontends.model import Model
from workbench.graph import Graph
from workbench.ops.registry import replacements
from workbench.optimizer.result import versions
from workbench.optimizer.settings import Settings
from workbench.rules import RuleSet
from workbench.rules.pattern import Rule
from workbench.rules.verdicts import law_of, statuses
from workbench.run.progress import Stages
from workbench.support.wings import offered
from workbench.symbolic.sizes import named

if TYPE_CHECKING:
    from concurrent.futures import Future

    from workbench.certification.graphs import Early
    from workbench.devices.targets import Target


def default_cost(model: Model) -> str:
    """Return the default cost source of a model: this machine for a file, a T4 for a graph."""
    return "analytic" if model.coverage is None else "cpu"


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


def trial_of(settings: Settings, cost_source: str, *, is_file: bool) -> Trial | None:
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
    if settings.time is False or (settings.time is None and not (is_file and here)):
        return None
    return Trial(OnnxRuntime(threads=1), 1, settings.time_seconds, decides=here, quick=True)


def rules_for(graph: Graph, rules: RuleSet) -> tuple[RuleSet, tuple[str, ...]]:
    """Return the rules for a graph, and the names of those left out as they lose range or accuracy in 16-bit floats."""
    from workbench.certification.half_precision import short_dtype

    dtype = short_dtype(graph)
    if dtype is None:
        return rules, ()
    kept = tuple(rule for rule in rules if rule.name in rules.in_range or keeps_range(rule, dtype))
    names = {rule.name for rule in kept}
    return replace(rules, rules=kept), tuple(rule.name for rule in rules if rule.name not in names)


def keeps_range(rule: Rule, dtype: str) -> bool:
    """Return whether a rule keeps range and accuracy in a 16-bit type, by the record or by judging it now."""
    known = statuses().get(rule.name, {})
    if known.get("law") == law_of(rule) and dtype in known.get("ranges", {}):
        return bool(known["ranges"][dtype] == "kept")
    return _judged(rule, dtype, replacements())


@lru_cache(maxsize=4096)
def _judged(rule: Rule, dtype: str, replaced: int) -> bool:
    return offered("judge_range")(rule, dtype) is None


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A model that was read, with everything to optimise it by.

    ``left_out`` are rules that do not hold in the model's arithmetic, ``reference`` is the model that runs as a whole
    beside the result, ``early`` what the original computes, evaluated in the background for the certificate.
    ``notes`` are remarks on the symbolic dimensions; the whole call ends at ``until`` of ``time.perf_counter``.
    """

    model: Model
    rules: RuleSet
    cost_model: CostModel
    settings: Settings
    stages: Stages
    trial: Trial | None = None
    left_out: tuple[str, ...] = ()
    reference: Any = None
    early: Future[Early] | None = None
    notes: tuple[str, ...] = ()
    until: float = math.inf

    @property
    def cost_source(self) -> str:
        """Return the source of the costs, with the sizes of symbolic dimensions that they are at."""
        sizes = self.model.sizes
        return f"{self.cost_model.source}, at {named(sizes)}" if sizes else self.cost_model.source

    def only(self, names: Sequence[str]) -> RuleSet:
        """Return the rules of these names."""
        return replace(self.rules, rules=tuple(r for r in self.rules if r.name in set(names)))

    def without(self, names: Sequence[str], why: str) -> Job:
        """Return the job without rules that hold at some sizes only, so that its dimensions stay symbolic."""
        self.cost_model.bind(self.model.graph)
        note = f"left out {', '.join(names)}: valid at some sizes only ({why})"
        left = self.only([r.name for r in self.rules if r.name not in names])
        return replace(self, rules=left, notes=(*self.notes, note))

    def recorded(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a result: those of its own kind, rules left out, seed, versions."""
        left_out = {"left_out": list(self.left_out)} if self.left_out else {}
        return {"rules": self.rules.name, **own, "seed": self.settings.seed, **left_out, **versions()}


def job_of(
    model: Model,
    rules: RuleSet,
    cost_model: CostModel,
    settings: Settings,
    stages: Stages,
    *,
    as_published: bool = False,
    whole: bool = True,
    until: float = math.inf,
) -> Job:
    """Prepare everything that finding and certifying need; raise DeviceMissing if the timing has no target.

    Args:
        model: the model.
        rules: the rules that were chosen.
        cost_model: the source of costs; it is bound to the model.
        settings: all settings.
        stages: reports and times the stages.
        as_published: whether rules are used even if they do not hold in the model's arithmetic.
        whole: whether the model runs as a whole too: beside the result in the certificate, and to be timed.
        until: the end of the whole call, of ``time.perf_counter``.
    """
    chosen, left_out = (rules, ()) if as_published else rules_for(model.searched, rules)
    cost_model.bind(model.graph)
    trial = early = None
    if whole:
        trial = trial_of(settings, cost_model.source, is_file=model.coverage is not None)
    if trial is not None:
        trial.target.check(model.graph)
    elif whole and settings.certify and cost_model.analytic and model.source is None:
        from workbench.certification.graphs import begin_early

        # Nothing is timed while the original runs.
        early = begin_early(model.cleaned_from or model.graph, settings.seed)
    reference = model.source if whole else None
    return Job(model, chosen, cost_model, settings, stages, trial, left_out, reference, early, until=until)
