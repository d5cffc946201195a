"""Ablation: the optimisation repeated without each of its rules in turn."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from workbench.costs.registry import Given, cost_model
from workbench.extraction.result import Limit, Status
from workbench.frontends.model_file import fixed_model
from workbench.optimizer.pipeline import optimize
from workbench.optimizer.result import Optimized
from workbench.rules import RuleSet
from workbench.rules.ruleset import Rules, rules_of
from workbench.run.stepper import Stepwise
from workbench.run.trace import Step, StepKind, StopReason, Trace
from workbench.studies.analysis.rule_activity import contributions
from workbench.support.formatting import change, gain, microseconds

if TYPE_CHECKING:
    import pandas as pd

    from workbench.frontends.model import ModelLike


@dataclass(frozen=True, slots=True)
class Without:
    """The result without ``rule``: its cost in microseconds, its proven bound, and the rules used instead.

    ``complete`` is whether the run saturated and its extraction is optimal. If not, a limit affected the
    result, and a small difference may be due to chance.
    """

    rule: str
    cost: float
    bound: float
    instead: tuple[str, ...]
    e_nodes: int
    stop_reason: StopReason
    complete: bool
    seconds: float


class Ablation(Stepwise):
    """A stepwise ablation: the first step optimises with all rules, each further step without one rule.

    ``best`` is the result with all rules, certified with ``certify``; ``rows`` holds the results without one of them.
    Ctrl-C keeps the finished rows; ``run()`` then continues with the interrupted rule. ``model``, ``rules``,
    ``candidates`` and ``cost`` are as for :func:`ablation` and :func:`workbench.optimize`.
    """

    def __init__(
        self,
        model: ModelLike,
        rules: Rules = "default",
        *,
        candidates: Sequence[str] | None = None,
        cost: str | os.PathLike[str] | Given = "analytic",
        certify: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.rules = rules_of(rules)
        for name in candidates or ():
            self.rules[name]  # raises KeyError for an unknown name
        # The model is read once, so that every run has the same graph and the same prices.
        self.graph = fixed_model(model, settings.pop("dims", None)).graph
        self.cost = cost_model(cost)
        self.settings = settings
        self.best: Optimized | None = None
        self.rows: list[Without] = []
        self._certify = certify
        self._candidates = None if candidates is None else tuple(dict.fromkeys(candidates))
        self.trace = Trace({"kind": "ablation", "graph": self.graph.name, "rule_set": self.rules.name})

    @property
    def candidates(self) -> tuple[str, ...]:
        """Return the rules that are left out in turn: the given ones, or those that made the best graph."""
        if self._candidates is None:
            return () if self.best is None else tuple(c.rule for c in contributions(self.best))
        return self._candidates

    @property
    def left(self) -> tuple[str, ...]:
        """Return the rules that are still to be left out."""
        done = {row.rule for row in self.rows}
        return tuple(name for name in self.candidates if name not in done)

    def step(self) -> Step:
        """Run the optimisation once; raise StopIteration if every rule has been left out."""
        if not self.unfinished:
            raise StopIteration("the ablation has finished")
        self.stop_reason = None
        began = time.perf_counter()
        if self.best is None:
            self.best = result = self._optimize(self.rules, self._certify)
            seconds = time.perf_counter() - began
            for name in ("cost_source", "cost_before", "cost_after"):
                self.trace.meta[name] = getattr(result, name)
            kind, note = StepKind.REFERENCE, "all rules"
        else:
            name = self.left[0]
            kept = tuple(rule for rule in self.rules if rule.name != name)
            result = self._optimize(replace(self.rules, rules=kept), False)
            seconds = time.perf_counter() - began
            made = (result.cost_after, result.solution.bound, result.rules, result.e_nodes)
            self.rows.append(Without(name, *made, result.stop_reason, _complete(result), seconds))
            kind, note = StepKind.WITHOUT, f"without {name}"
        sizes, best = (result.e_nodes, result.e_classes), (result.cost_after, result.solution.bound)
        step = Step(len(self.trace), kind, seconds, *sizes, (), *best, note)
        self.trace.add(step)
        if not self.left:
            self.stop_reason = StopReason.FINISHED
        return step

    def _optimize(self, rules: RuleSet, certify: bool) -> Optimized:
        result = optimize(self.graph, rules=rules, cost=self.cost, certify=certify, **self.settings)
        # An interrupted optimisation returns its best result so far, which is not comparable with the others.
        limits = result.solution.limits
        if result.stop_reason is StopReason.INTERRUPTED or Limit.INTERRUPTED in limits:
            raise KeyboardInterrupt
        return result

    run = Stepwise.drive

    def loss(self, row: Without) -> float:
        """Return the relative increase in cost without the rule: 0.07 is 7 % more than with all rules.

        Under limits the loss can be negative: without the rule the e-graph had room for a better graph.
        """
        best = 0.0 if self.best is None else self.best.cost_after
        return row.cost / best - 1 if best > 0 else 0.0

    @property
    def caution(self) -> str:
        """Return a caution if a limit affected some result, otherwise an empty text."""
        if self.best is None or (_complete(self.best) and all(row.complete for row in self.rows)):
            return ""
        return "a limit ended some run: small differences may be due to chance"

    def frame(self) -> pd.DataFrame:
        """Return one row per rule left out, the most needed first; ``loss`` is in percent."""
        import pandas as pd

        rows = [
            asdict(row)
            | {"loss": 100 * self.loss(row), "instead": ", ".join(row.instead)}
            | {"stop_reason": row.stop_reason.value}
            for row in sorted(self.rows, key=lambda r: (-r.cost, r.rule))
        ]
        rule, cost, *others = (f.name for f in fields(Without))
        return pd.DataFrame(rows, columns=[rule, cost, "loss", *others])

    def __repr__(self) -> str:
        name = self.graph.name
        if self.best is None:
            return f"Ablation of {name!r}: not begun"
        best, state = self.best, f", {len(self.left)} rules left" if self.left else ""
        told = f"{gain(best.cost_before, best.cost_after)} with all rules ({best.cost_source}){state}"
        lines = [f"Ablation of {name!r}: {told}"]
        if not self.candidates:
            lines.append("  no rule made the result: the original is the best graph found")
        rows = sorted(self.rows, key=lambda r: (-r.cost, r.rule))
        lines += [
            f"  without {row.rule}: {microseconds(row.cost)} ({change(best.cost_after, row.cost)})"
            + ("" if row.complete else " *")
            for row in rows[:8]
        ]
        lines += [f"  … {len(rows) - 8} more"] if len(rows) > 8 else []
        return "\n".join([*lines, f"  * {self.caution}"] if self.caution else lines)


def _complete(result: Optimized) -> bool:
    solution = result.solution
    proved = solution.status is Status.OPTIMAL and solution.scope == "e-graph"
    return proved and result.stop_reason is StopReason.SATURATED


def ablation(
    model: ModelLike,
    rules: Rules = "default",
    *,
    candidates: Sequence[str] | None = None,
    progress: Callable[[Step], None] | None = None,
    **settings: Any,
) -> Ablation:
    """Optimise a model, then again without each of the rules that made the result, and compare.

    A rule and its reverse (``NAME`` and ``NAME-back``) are two rules.

    Args:
        model: The model: a graph, a file, or any other model that :func:`workbench.optimize` accepts.
        rules: A rule set, its name, or rules.
        candidates: Rules to leave out instead, for example rules that only prepare a match of another rule.
        progress: A function called with the step after each run.
        settings: Settings of :func:`workbench.optimize`.

    Raises:
        KeyError: A candidate is not among the rules; the message has the nearest name.

    >>> import workbench
    >>> ablation(workbench.benchmark("bert", layers=1), certify=False).frame()["rule"].tolist()
    ['merge-matmuls']
    """
    made = Ablation(model, rules, candidates=candidates, **settings)
    made.run(progress)
    return made
