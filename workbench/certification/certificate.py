"""Certificates: evidence that an optimised graph computes the same outputs as the original."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy as np

from workbench.certification.end_to_end import Probe, not_run, probe, run_whole, tolerance_of
from workbench.certification.fingerprints import matched
from workbench.certification.inputs import Range, random_inputs
from workbench.certification.prefetch import EarlyRuns
from workbench.certification.region_check import Difference, compare, difference, short_fault, work
from workbench.certification.regions import Correspondence, Merged, Region, Task
from workbench.graph import Graph, Opaque, evaluate
from workbench.graph.evaluate import Memo, OpaqueRunner
from workbench.run.display import Face
from workbench.support.messages import one_line

#: Rewrites are exact over the reals, so in float64 the two graphs differ only by rounding.
EXACT: Final = 1e-9
#: Rounding is measured against the original in float64 if evaluating it takes at most this many operations.
MEASURED: Final = 4e9


@dataclass(frozen=True, slots=True)
class Evidence:
    """A disagreement between two graphs: the value, the entry, the draw and both numbers.

    ``output`` names the graph's output, or is empty for an inner value; ``what`` then describes that value.
    ``form`` is the arithmetic in which they disagree. ``region`` lists the operators of the rewritten part
    that disagrees, ``rules`` the rules that made it.
    """

    output: str
    draw: int
    index: tuple[int, ...]
    expected: float
    found: float
    form: str
    what: str = ""
    region: str = ""
    rules: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = f"output {self.output!r}" if self.output else self.what
        region = f"; region: {self.region}" if self.region else ""
        return (
            f"{what} at {list(self.index)}: {self.expected:.9g} in the original, "
            f"{self.found:.9g} in the optimised graph ({self.form}, draw {self.draw}){region}"
        )


@dataclass(frozen=True, slots=True)
class Certificate(Face):
    """The outcome of comparing an optimised graph with its original.

    The graphs are compared in two ways. First, each rewritten region is compared on ``draws`` random values
    at its own boundary, in float64. ``regions`` counts these regions; of those that differ only in the data
    of their weights, one is compared (``distinct`` counts these). ``error`` is the largest difference found,
    relative to the largest entry of the value; if ``arithmetic`` says so, without what the model's numbers,
    such as sqrt(2) in float32, change by their own rounding. Second, both models run once as they are saved,
    in their own dtype. ``whole`` names the runtime, or gives the reason if they did not run (``whole_ran`` is
    then False); ``lacking`` names operators for which ONNX Runtime has no kernel, so that both models ran in
    numpy. ``deployed_error`` is the largest difference between their outputs; ``errors`` contains it
    for each output.

    ``rounding`` is the distance of the saved result from the original in float64, ``own_rounding`` that of
    the original in its own dtype: the first minus the second is the accuracy that rewriting costs. Both are
    None if the model was not evaluated in float64, for example because it is too large.

    A certificate is evidence on random inputs from ``seed``, not a proof for all inputs. ``rules`` maps each
    rule that fired in the run to the verdict on it; the rules that made the result come first.
    """

    passed: bool
    draws: int
    seed: int
    arithmetic: str
    error: float
    tolerance: float
    deployed_error: float
    deployed_tolerance: float
    outputs: tuple[str, ...]
    reason: str = ""
    evidence: Evidence | None = None
    seconds: float = 0.0
    errors: Mapping[str, float] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    rounding: float | None = None
    own_rounding: float | None = None
    regions: int = 0
    distinct: int = 0
    whole: str = ""
    whole_ran: bool = True
    lacking: tuple[str, ...] = ()

    def verdict(self) -> str:
        """Return the outcome in one line."""
        if not self.passed:
            return f"FAILED: {self.reason}"
        plural = "" if self.draws == 1 else "s"
        parts = [f"{self.regions} rewritten region{'' if self.regions == 1 else 's'}"]
        if self.distinct != self.regions:
            parts.append(f"{self.distinct} distinct")
        steady = self.deployed_error <= self.deployed_tolerance
        bound = f"≤ {self.deployed_tolerance:.0e}" if steady else self.whole
        saved = f"as saved {self.deployed_error:.1e} ({bound})"
        if self.lacking:
            saved += f" in numpy, as ONNX Runtime has no kernel for {', '.join(self.lacking)}"
        if not self.whole_ran:
            saved = f"as saved {self.whole}"
        return (
            f"equal on {self.draws} random input{plural} ({', '.join([*parts, self.arithmetic])}): relative "
            f"error {self.error:.1e} (≤ {self.tolerance:.0e}), {saved}"
        )

    def rounding_line(self) -> str:
        """Return one line with the rounding error of the result and of the original in the model's dtype."""
        if self.rounding is None or self.own_rounding is None:
            return "not measured: the model in float64 takes too long"
        if not self.rounding and not self.own_rounding:
            return "computed without rounding"
        return (
            f"in the model's dtype {self.rounding:.1e} off the original in float64; "
            f"the original itself is {self.own_rounding:.1e} off"
        )

    def rules_line(self) -> str:
        """Return one line with the number of rules that fired and the verdicts on them."""
        if not self.rules:
            return "no rule fired"
        counts: dict[str, int] = {}
        for verdict in self.rules.values():
            counts[verdict] = counts.get(verdict, 0) + 1
        names = {"theorem": "theorems"}
        known = ", ".join(f"{n} {names.get(v, v) if n > 1 else v}" for v, n in sorted(counts.items()))
        weak = [name for name, verdict in self.rules.items() if verdict not in ("theorem", "proved")]
        named = f" ({', '.join(weak[:6])}{', …' if len(weak) > 6 else ''} not proved)" if weak else ""
        return f"{len(self.rules)} rules fired: {known}{named}"

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "passed": self.passed,
            "draws": self.draws,
            "seed": self.seed,
            "arithmetic": self.arithmetic,
            "error": _plain(self.error),
            "tolerance": self.tolerance,
            "deployed_error": _plain(self.deployed_error),
            "deployed_tolerance": self.deployed_tolerance,
            "rounding": _plain(self.rounding),
            "own_rounding": _plain(self.own_rounding),
            "regions": self.regions,
            "distinct_regions": self.distinct,
            "whole": self.whole,
            "lacking": list(self.lacking),
            "outputs": list(self.outputs),
            "reason": self.reason,
            "rules": dict(self.rules),
        }

    def __repr__(self) -> str:
        return f"Certificate: {self.verdict()}"


def _plain(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else "infinite"


def certify(
    original: Graph,
    optimised: Graph,
    *,
    draws: int = 3,
    seed: int = 0,
    opaque: OpaqueRunner | None = None,
    known: Correspondence | None = None,
    given: object = None,
    whole: bool = True,
    early: EarlyRuns | None = None,
) -> Certificate:
    """Compare two graphs on random inputs and return a certificate of the outcome.

    The rewritten regions are compared one by one, then both models run as a whole in ONNX Runtime. Opaque
    operators are compared by their operands. The names, order and types of inputs and outputs must be
    the same in both graphs.

    Args:
        original: The graph before rewriting.
        optimised: The graph after rewriting.
        draws: The number of random inputs per region.
        seed: The seed of the random inputs.
        opaque: Runs the opaque operators that occur inside a region, by default in ONNX Runtime.
        known: Numbers for the nodes of both graphs (their e-classes): equal numbers claim equal values. The
            values that both graphs contain bound the regions. Without it both graphs are evaluated once as
            a whole, and values found equal are the boundaries.
        given: The model from which the original was imported.
        whole: Whether both models also run as a whole.
        early: Runs of the original, with the same ``given`` and ``seed``, that may have been made already.

    Returns:
        A certificate, which has passed if no difference beyond its tolerances was found.
    """
    if opaque is None and original.opaques:
        from workbench.frontends import opaque_runner

        opaque = opaque_runner()
    return _Certifier(original, optimised, draws, seed, opaque, whole, early).run(known, given, whole)


class _Certifier:
    """One certification: its inputs, and the measurements made so far."""

    def __init__(
        self,
        original: Graph,
        optimised: Graph,
        draws: int,
        seed: int,
        opaque: OpaqueRunner | None,
        whole: bool,
        early: EarlyRuns | None,
    ) -> None:
        self.began = time.perf_counter()
        self.early = early
        self.original, self.optimised = original, optimised
        self.draws, self.seed = draws, seed
        self.opaque = _Replayed(opaque) if opaque is not None else None
        self.memo: Memo = {}
        # Holding the generated weights keeps them cached: each is generated once.
        self.generated = [w.value() for w in original.weights.values() if whole and w.data is None]
        self.ranges: dict[int, Range] = {}
        self.probe: Probe | None = None
        self.error = 0.0
        self.numbers = False
        self.regions = self.distinct = 0
        self.run_whole = not_run("the graphs were not compared as a whole")
        self.rounding: tuple[float | None, float | None] = (None, None)

    def run(self, known: Correspondence | None, given: object, whole: bool) -> Certificate:
        """Compare interfaces, regions and whole models, in this order, up to the first disagreement."""
        why = _interface(self.original, self.optimised)
        if why:
            return self._result(why)
        if self.optimised is not self.original:
            why, evidence = self._compare_regions(known, whole)
            if why:
                return self._result(why, evidence)
        if whole:
            self.run_whole = run_whole(
                self.original,
                self.optimised,
                given=given,
                seed=self.seed,
                memo=self.memo,
                known=self.probe,
                earlier=None if self.early is None else self.early.first(),
            )
            if self.run_whole.why:
                return self._result(self.run_whole.why, self._whole_evidence())
            self._measure_rounding()
        return self._result("")

    def _result(self, why: str, evidence: Evidence | None = None) -> Certificate:
        mixed = ", opaque operators in their own dtype" if self.original.opaques else ""
        mixed += ", numbers within their rounding" if self.numbers else ""
        return Certificate(
            passed=not why,
            draws=self.draws,
            seed=self.seed,
            arithmetic="float64" + mixed,
            error=self.error,
            tolerance=EXACT,
            deployed_error=self.run_whole.error,
            deployed_tolerance=tolerance_of(self.original),
            outputs=tuple(name for name, _ in self.original.outputs),
            reason=why,
            evidence=evidence,
            seconds=time.perf_counter() - self.began,
            errors=self.run_whole.errors,
            rounding=self.rounding[0],
            own_rounding=self.rounding[1],
            regions=self.regions,
            distinct=self.distinct,
            whole=self.run_whole.note,
            whole_ran=self.run_whole.ran,
            lacking=self.run_whole.lacking,
        )

    # -- regions ----------------------------------------------------------------------------------
    def _compare_regions(self, known: Correspondence | None, whole: bool) -> tuple[str, Evidence | None]:
        guessed = known is None
        if known is None:
            try:
                known = matched(
                    self.original, self.optimised, random_inputs(self.original, self.seed, 0), self.opaque
                )
            except (RuntimeError, ValueError):  # an opaque operator does not run: only outputs are matched
                if not self.original.opaques:
                    raise
        merged = Merged(self.original, self.optimised, known)
        if merged.mismatch:
            return merged.mismatch, None
        tasks = merged.tasks()
        if whole and tasks:
            node = {m: i for i, m in reversed(list(enumerate(merged.place)))}
            shown = [node[i] for t in _distinct(tasks) for i in t.leaves]
            made = None if self.early is None else self.early.probe(shown)
            self.probe = made or probe(self.original, shown, seed=self.seed, memo=self.memo)
            self.ranges = {merged.place[i]: seen for i, seen in self.probe.ranges.items()}
        why, evidence = self._compare_tasks(merged, tasks)
        if why and guessed and known is not None:
            # Two matched values may have been equal only by chance: compare the outputs alone.
            self.error = 0.0
            merged = Merged(self.original, self.optimised)
            why, at = self._compare_tasks(merged, merged.tasks())
            return (why, evidence or at) if why else ("", None)
        return why, evidence

    def _compare_tasks(self, merged: Merged, tasks: list[Task]) -> tuple[str, Evidence | None]:
        self.regions = len(tasks)
        distinct = _distinct(tasks)
        self.distinct = len(distinct)
        for task in distinct:
            found: tuple[Region, Difference] | None = None
            refusal, worst = "", 0.0
            for attempt in chain([task], merged.wider(task)):
                region = merged.region(attempt)
                ranges = {f"v{k}": self.ranges[i] for k, i in enumerate(region.leaves) if i in self.ranges}
                try:
                    outcome = compare(
                        region,
                        draws=self.draws,
                        seed=self.seed,
                        tolerance=EXACT,
                        opaque=self.opaque,
                        ranges=ranges,
                        memo=self.memo,
                    )
                except (RuntimeError, ValueError) as error:  # an opaque operator does not run
                    refusal = one_line(error)
                    continue
                for key in [k for k in self.memo if k[1] is None]:
                    del self.memo[key]  # float64 copies of weights, which other regions do not share
                if outcome.difference is None:
                    self.error = max(self.error, outcome.error)
                    self.numbers |= outcome.numbers
                    fault = short_fault(region, seed=self.seed, ranges=ranges)
                    if fault is not None:
                        return f"{fault}; region: {region}", None
                    break
                found = (region, outcome.difference)
                worst = outcome.error
            else:
                if found is None:
                    return f"a rewritten region does not run: {refusal}", None
                self.error = worst
                evidence = _evidence(*found)
                return str(evidence), evidence
        return "", None

    # -- the whole --------------------------------------------------------------------------------
    def _whole_evidence(self) -> Evidence | None:
        run = self.run_whole
        if not run.output:
            return None
        try:
            expected, found = (float(v[run.output][run.index]) for v in (run.outputs, run.found))
        except (IndexError, TypeError, ValueError):
            return None
        return Evidence(run.output, 0, run.index, expected, found, "as saved")

    def _measure_rounding(self) -> None:
        """Measure the distance of both models' outputs, as they ran, from the original in float64."""
        run = self.run_whole
        if not run.outputs or self.original.opaques or work(self.original) > MEASURED:
            return
        exact = None if self.early is None else self.early.exact(run.inputs)
        if exact is None:
            exact = evaluate(self.original, run.inputs, precise=True)
        self.rounding = (_off(exact, run.found), _off(exact, run.outputs))


def _distinct(tasks: list[Task]) -> list[Task]:
    """Return the first task of each key: tasks with equal keys differ only in the data of their weights."""
    return list({task.key: task for task in reversed(tasks)}.values())[::-1]


def _off(exact: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> float:
    return max(difference(value, found[name].astype(value.dtype))[0] for name, value in exact.items())


def _evidence(region: Region, at: Difference) -> Evidence:
    output, label = region.outputs[at.output], region.labels[at.output]
    return Evidence(
        output, at.draw, at.index, at.expected, at.found, "float64", label, str(region), region.rules
    )


def _interface(original: Graph, optimised: Graph) -> str:
    for what, ours, theirs in (
        ("inputs", original.input_types, optimised.input_types),
        ("outputs", original.output_types, optimised.output_types),
    ):
        if list(ours.items()) != list(theirs.items()):
            return f"the {what} differ: {ours} in the original, {theirs} in the optimised graph"
    return ""


class _Replayed:
    """A runner of opaque operators that gives the second graph the random results of the first."""

    def __init__(self, runner: OpaqueRunner) -> None:
        self._runner = runner
        self._seen: dict[int, Sequence[np.ndarray]] = {}

    def __call__(self, record: Opaque, operands: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Return the results of an opaque operator on these operands."""
        if record.deterministic:
            return self._runner(record, operands)
        if id(record) not in self._seen:
            self._seen[id(record)] = self._runner(record, operands)
        return self._seen[id(record)]
