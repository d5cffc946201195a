"""One optimisation in progress: the model given, the graph read from it, and the result's certificate.

Saturation and TASO's search differ in how they find graphs. Everything before and after is this module:
:func:`read_job`, then :func:`choose` among the results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from workbench.costs import CostModel
from workbench.graph import Graph
from workbench.optimizer.dynamic import OpenModel
from workbench.optimizer.file_checks import Checked
from workbench.optimizer.stages import certified, rules_for, verdicts, versions
from workbench.optimizer.timing_trial import Given, source_of
from workbench.rules import RuleSet
from workbench.run.stages import Stages
from workbench.run.trace import Trace

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.certification.certificate import Certificate
    from workbench.certification.prefetch import EarlyRuns
    from workbench.certification.regions import Correspondence

Model: TypeAlias = "Graph | str | os.PathLike[str] | bytes | ModelProto"


@dataclass(frozen=True, slots=True)
class Job:
    """A model that was read, with the rules and costs to optimise it by.

    ``graph`` is the model at the sizes of its prices, ``searched`` the graph to rewrite: they differ if
    symbolic dimensions are kept. ``left_out`` names rules that do not hold in the model's arithmetic.
    ``given`` is the ONNX file or bytes it came from, ``reference`` the model to run as a whole. ``early`` are
    the original's own runs, if the certificate may find them made.
    """

    source: OpenModel
    rules: RuleSet
    left_out: tuple[str, ...]
    cost_model: CostModel
    stages: Stages
    seed: int
    certify: bool
    given: Given | None = None
    reference: Any = None
    early: EarlyRuns | None = None

    @property
    def graph(self) -> Graph:
        """Return the model at the sizes of its prices."""
        return self.source.graph

    @property
    def searched(self) -> Graph:
        """Return the graph to rewrite."""
        return self.source.searched

    def settings(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a result: those of its own kind, rules left out, seed, versions."""
        left_out = {"left_out": list(self.left_out)} if self.left_out else {}
        return {"rules": self.rules.name, **own, "seed": self.seed, **left_out, **versions()}


def read_job(
    model: Model,
    read: Callable[[], OpenModel],
    rules: RuleSet,
    cost_model: CostModel,
    stages: Stages,
    *,
    dims: Mapping[str, int] | None,
    keep_inputs: bool = False,
    as_published: bool = False,
    seed: int,
    certify: bool,
    whole: bool = True,
) -> Job:
    """Read a model and prepare everything that finding and certifying need.

    Args:
        model: the model as it was given.
        read: reads it; the seconds count as the stage ``import``.
        rules: the rules that were chosen.
        cost_model: the source of costs; it is bound to the graph if it asks for that.
        stages: reports and times the stages.
        dims: symbolic dimensions that are fixed on purpose.
        keep_inputs: whether initialisers that may be overridden stay inputs.
        as_published: whether rules are used even if they do not hold in the model's arithmetic.
        seed: the seed of the certificate's inputs.
        certify: whether results are compared with the original.
        whole: whether the certificate also runs the model as it was given.

    """
    came = source_of(model, dims, keep_inputs=keep_inputs)
    with stages("import"):
        source = read()
        rules, left_out = (rules, ()) if as_published else rules_for(source.searched, rules)
        reference = None
        if whole and certify and not isinstance(model, Graph):
            from workbench.certification.end_to_end import given_of

            reference = given_of(model)
    cost_model.bind(source.graph)
    return Job(source, rules, left_out, cost_model, stages, seed, certify, came, reference)


def with_early_runs(job: Job) -> Job:
    """Return a job whose certificate shares the runs of the original that the job begins early."""
    from workbench.certification.prefetch import EarlyRuns

    return replace(job, early=EarlyRuns(job.graph, job.reference, job.seed))


@dataclass(frozen=True, slots=True)
class Option:
    """A graph that may be the result, as it was searched, with its cost in microseconds.

    ``made_by`` names the rules that made it, the most productive first. ``known`` relates its values to
    those of the original; without it the certificate looks for equal values itself. ``place`` is its place
    among the options.
    """

    term: Graph
    cost: float
    made_by: tuple[str, ...]
    known: Correspondence | None = None
    place: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of an optimisation and its certificate.

    ``option`` is None if the result is the original. If no option passed, ``certificate`` is that of the
    last one, which failed.
    """

    graph: Graph
    option: Option | None
    certificate: Certificate | None
    checked: tuple[Checked, ...] = ()

    @property
    def failed(self) -> bool:
        """Return whether a graph was found that is not the original's equal."""
        return self.certificate is not None and not self.certificate.passed


def choose(job: Job, options: Iterable[Option], trace: Trace, rules: RuleSet | None = None) -> Choice:
    """Return the first option that passes its certificate, or the original if none does.

    Args:
        job: The optimisation.
        options: Graphs that may be the result, best first.
        trace: The run that found them.
        rules: The rules whose verdicts the certificate cites; by default the job's.
    """
    certificate: Certificate | None = None
    checked: tuple[Checked, ...] = ()
    cited = job.rules if rules is None else rules
    for option in options:
        graph = job.source.at_prices(option.term)
        if not job.certify:
            return Choice(graph, option, None)
        certificate, checked = _certificate(job, graph, option, trace, cited)
        if certificate.passed:
            return Choice(graph, option, certificate, checked)
    if job.certify and certificate is None:
        original = Option(job.searched, 0.0, ())
        certificate, checked = _certificate(job, job.graph, original, trace, cited)
    return Choice(job.graph, None, certificate, checked)


def _certificate(
    job: Job,
    graph: Graph,
    option: Option,
    trace: Trace,
    rules: RuleSet,
) -> tuple[Certificate, tuple[Checked, ...]]:
    """Compare a graph with the original, at the sizes of the prices and at others."""
    with job.stages("certificate"):
        found = certified(job.graph, graph, job.seed, option.known, job.reference, early=job.early)
        found = replace(found, rules=verdicts(trace, rules, option.made_by))
        return job.source.checked(found, option.term, option.known, job.seed, job.reference)
