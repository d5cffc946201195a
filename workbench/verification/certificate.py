"""Certify that an optimised graph computes what the original computes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from workbench.face import Face
from workbench.graph import Graph, Opaque, evaluate
from workbench.graph.evaluate import Memo, OpaqueRunner
from workbench.verification.inputs import Range, random_inputs
from workbench.verification.matching import matched
from workbench.verification.region_check import Difference, compare, difference, short_fault, work
from workbench.verification.regions import Correspondence, Merged, Region, Task
from workbench.verification.whole import Probe, WholeRun, probe, run_whole, tolerance_of

#: Rewrites are exact over the reals: in float64 the two graphs differ by rounding alone.
EXACT: Final = 1e-9
#: Rounding is measured against the whole original in float64 if that takes at most this many operations.
MEASURED: Final = 4e9


@dataclass(frozen=True, slots=True)
class Evidence:
    """A disagreement: of which value, at which entry, in which draw, and both numbers.

    ``output`` names the graph's output, or is empty for a value inside. ``region`` names the operators
    of the rewritten part that disagrees, ``rules`` the rules that made it.
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

    The graphs are compared in two ways. Each of the ``regions`` that was rewritten is compared on
    ``draws`` random values at its own boundary, in float64; of regions that differ in the data of their
    weights alone one is compared (``distinct`` in all). ``error`` is the largest difference, relative to
    the largest entry of a value. Then both models run once as they are saved, in their own dtype:
    ``whole`` says in what, or why they could not; ``deployed_error`` is the largest difference there, and
    ``errors`` holds it by output.

    ``rounding`` is how far the saved result is from the original in float64, ``own_rounding`` how far the
    original in its own dtype is itself: what rewriting costs in accuracy, beside what the dtype costs
    anyway. Both are None for a model that is too large to be computed in float64.

    A certificate is evidence on random inputs from ``seed``, not a proof for all inputs. ``rules`` says
    what is known of the rewrites themselves: the verdict on every rule that fired in the run, those that
    made the result first.
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

    def verdict(self) -> str:
        """Return the outcome in one line."""
        if not self.passed:
            return f"FAILED: {self.reason}"
        plural = "" if self.draws == 1 else "s"
        parts = [f"{self.regions} rewritten region{'' if self.regions == 1 else 's'}"]
        if self.distinct != self.regions:
            parts.append(f"{self.distinct} distinct")
        saved = f"as saved {self.deployed_error:.1e} (≤ {self.deployed_tolerance:.0e})"
        if self.whole.startswith("not run"):
            saved = f"as saved {self.whole}"
        return (
            f"equal on {self.draws} random input{plural} ({', '.join([*parts, self.arithmetic])}): relative "
            f"error {self.error:.1e} (≤ {self.tolerance:.0e}), {saved}"
        )

    def rounding_line(self) -> str:
        """Return in one line how far off the result is in the model's dtype, and the original itself."""
        if self.rounding is None or self.own_rounding is None:
            return "not measured: the model in float64 takes too long"
        if not self.rounding and not self.own_rounding:
            return "computed without rounding"
        return (
            f"in the model's dtype {self.rounding:.1e} off the original in float64; "
            f"the original itself is {self.own_rounding:.1e} off"
        )

    def rules_line(self) -> str:
        """Return in one line what is known of the rules that fired."""
        if not self.rules:
            return "no rule fired"
        counts: dict[str, int] = {}
        for verdict in self.rules.values():
            counts[verdict] = counts.get(verdict, 0) + 1
        known = ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
        weak = [name for name, verdict in self.rules.items() if verdict != "proved"]
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
    given: Any = None,
    whole: bool = True,
) -> Certificate:
    """Compare two graphs on random inputs; the certificate says whether they agree.

    Names, order and types of inputs and outputs must be the same. ``known`` numbers the nodes of both
    graphs by the values that they are said to compute (their e-classes): the rewritten regions between
    values that both have are compared one by one. Without it both graphs are evaluated once as a whole
    and values found equal are the cuts. Operators that are not modelled are compared by what they read;
    ``opaque`` runs those that stand inside a region. Then both models run as a whole in ONNX Runtime,
    unless ``whole=False``; ``given`` is the model that the original was imported from.
    """
    return _Certifier(original, optimised, draws, seed, opaque, whole).run(known, given, whole)


class _Certifier:
    """Collects what the steps of a certification find."""

    def __init__(
        self,
        original: Graph,
        optimised: Graph,
        draws: int,
        seed: int,
        opaque: OpaqueRunner | None,
        whole: bool,
    ) -> None:
        self.began = time.perf_counter()
        self.original, self.optimised = original, optimised
        self.draws, self.seed = draws, seed
        self.opaque = _Replayed(opaque) if opaque is not None else None
        self.memo: Memo = {}
        # Generated weights are made once, as long as somebody holds them.
        self.generated = [w.value() for w in original.weights.values() if whole and w.data is None]
        self.ranges: dict[int, Range] = {}
        self.probe: Probe | None = None
        self.error = 0.0
        self.regions = self.distinct = 0
        self.run_whole = WholeRun("not run: the graphs were not compared as a whole")
        self.rounding: tuple[float | None, float | None] = (None, None)

    def run(self, known: Correspondence | None, given: Any, whole: bool) -> Certificate:
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
                self.original, self.optimised, given=given, seed=self.seed, memo=self.memo, known=self.probe
            )
            if self.run_whole.why:
                return self._result(self.run_whole.why, self._whole_evidence())
            self._measure_rounding()
        return self._result("")

    def _result(self, why: str, evidence: Evidence | None = None) -> Certificate:
        mixed = ", opaque operators in their own dtype" if self.original.opaques else ""
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
        )

    # -- regions ----------------------------------------------------------------------------------
    def _compare_regions(self, known: Correspondence | None, whole: bool) -> tuple[str, Evidence | None]:
        guessed = known is None
        if known is None:
            try:
                known = matched(
                    self.original, self.optimised, random_inputs(self.original, self.seed, 0), self.opaque
                )
            except (RuntimeError, ValueError):  # an opaque operator that does not run: outputs alone are cuts
                if not self.original.opaques:
                    raise
        merged = Merged(self.original, self.optimised, known)
        if merged.mismatch:
            return merged.mismatch, None
        tasks = merged.tasks()
        if whole and tasks:
            node = {m: i for i, m in reversed(list(enumerate(merged.place)))}
            shown = [node[i] for t in _distinct(tasks) for i in t.leaves]
            self.probe = probe(self.original, shown, seed=self.seed, memo=self.memo)
            self.ranges = {merged.place[i]: seen for i, seen in self.probe.ranges.items()}
        why, evidence = self._compare_tasks(merged, tasks)
        if why and guessed and known is not None:
            # Two values that only looked equal, perhaps: the outputs alone decide.
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
            for attempt in (task, *merged.wider(task)):
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
                except (RuntimeError, ValueError) as error:  # an operator that is not modelled does not run
                    refusal = " ".join(str(error).split())[:200]
                    continue
                for key in [k for k in self.memo if k[1] is None]:
                    del self.memo[key]  # float64 copies of weights: other regions have weights of their own
                if outcome.difference is None:
                    self.error = max(self.error, outcome.error)
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
        """Measure how far both models as they ran are from the original in float64."""
        run = self.run_whole
        if not run.outputs or self.original.opaques or work(self.original) > MEASURED:
            return
        exact = evaluate(self.original, run.inputs, precise=True)
        self.rounding = (_off(exact, run.found), _off(exact, run.outputs))


def _distinct(tasks: list[Task]) -> list[Task]:
    """Return the first of all tasks that differ in the data of their weights alone."""
    return list({task.key: task for task in reversed(tasks)}.values())[::-1]


def _off(exact: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> float:
    return max(difference(value, found[name].astype(value.dtype))[0] for name, value in exact.items())


def _evidence(region: Region, at: Difference) -> Evidence:
    label = region.labels[at.output]
    output = label.removeprefix("output ").strip("'\"") if label.startswith("output ") else ""
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
    """Runs opaque operators, and repeats for the second graph what a random one gave the first."""

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
