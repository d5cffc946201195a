"""Certificates of graphs: rewritten regions compared in float64, then both models as they are saved."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import numpy as np

from workbench.certification.certificate import Certificate, Evidence
from workbench.certification.end_to_end import Run, WholeRun, probe, run_whole
from workbench.certification.inputs import Range, random_inputs
from workbench.certification.region_check import compare, short_fault, work
from workbench.certification.regions import Correspondence, Merged, Task, matched
from workbench.certification.tolerance import EXACT, difference, tolerance_of
from workbench.graph import Graph, Opaque, evaluate
from workbench.graph.evaluate import Memo, OpaqueRunner
from workbench.ops import TensorType
from workbench.support.messages import one_line

#: Rounding is measured against the original in float64 if evaluating it takes at most this many operations, and its
#: weights have at most this many elements: each is held in float64.
MEASURED: Final = 4e9
MOST_WEIGHTS: Final = 1 << 27
_NUMBERS: Final = ", numbers within their rounding"
#: The errors of a graph that does not run: an opaque operator refuses its operands, an index is beyond its axis.
_NO_RUN: Final = (RuntimeError, ValueError, IndexError)

#: Operations, and elements of all values together, of the largest model that runs in the background.
MOST_WORK: Final = 1e9
MOST_ELEMENTS: Final = 1 << 25


@dataclass(frozen=True, slots=True, eq=False)
class Early:
    """What an original computes whatever the result is: a run as it is saved, and its outputs in float64.

    The run has the ranges of the nodes that are ``shown``. ``generated`` are the generated weights, which are
    generated once as long as they are held.
    """

    run: Run
    shown: frozenset[int]
    exact: Mapping[str, np.ndarray] = field(repr=False)
    generated: tuple[np.ndarray, ...] = field(repr=False)


def begin_early(original: Graph, seed: int = 0) -> Future[Early] | None:
    """Begin to run a small graph in the background; return None for others, also if a loop might never end."""
    if original.opaques or (original.info is not None and original.info.tail):
        return None
    elements = sum(n.type.elements for n in original.nodes if isinstance(n.type, TensorType))
    if elements > MOST_ELEMENTS or work(original) > MOST_WORK:
        return None
    # No daemon: the process must not end while native code of another thread runs.
    pool = ThreadPoolExecutor(1, "early run")
    begun = pool.submit(_early, original, seed)
    pool.shutdown(wait=False)
    return begun


def _early(original: Graph, seed: int) -> Early:
    generated = tuple(w.value() for w in original.weights.values() if w.data is None)
    inner = [i for i, constant in enumerate(original.constant()) if not constant]
    run = probe(original, inner, seed=seed)
    shown = frozenset((*inner, *original.output_ids, *original.inputs))
    return Early(run, shown, evaluate(original, run.inputs, precise=True), generated)


def certify_graphs(
    original: Graph,
    optimised: Graph,
    *,
    draws: int = 3,
    seed: int = 0,
    opaque: OpaqueRunner | None = None,
    known: Correspondence | None = None,
    given: object = None,
    whole: bool = True,
    early: Future[Early] | None = None,
) -> Certificate:
    """Compare two graphs on random inputs; the certificate has passed if none differs beyond its tolerance.

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
        early: What the original computes with the same ``seed``, if it was begun before (:func:`begin_early`).
    """
    if opaque is None and original.opaques:
        from workbench.frontends import opaque_runner

        opaque = opaque_runner()
    made, began = None, time.perf_counter()
    if early is not None:
        with contextlib.suppress(Exception):  # the certificate repeats the run and meets the error itself
            made = early.result()
    found = Certificate(
        passed=True,
        draws=draws,
        seed=seed,
        arithmetic="float64" + (", opaque operators in their own dtype" if original.opaques else ""),
        tolerance=EXACT,
        deployed_tolerance=tolerance_of(original),
        outputs=tuple(name for name, _ in original.outputs),
        whole="not run: the graphs were not compared as a whole",
        whole_ran=False,
    )
    replayed = None if opaque is None else _replayed(opaque)
    found = _Certifier(original, optimised, replayed, made, found).run(known, given, whole)
    return replace(found, seconds=time.perf_counter() - began)


@dataclass(slots=True, eq=False)
class _Certifier:
    """One certification: its inputs, and the outcome so far."""

    original: Graph
    optimised: Graph
    opaque: OpaqueRunner | None
    early: Early | None
    found: Certificate
    memo: Memo = field(default_factory=dict)
    ranges: dict[int, Range] = field(default_factory=dict)
    probe: Run | None = None

    def run(self, known: Correspondence | None, given: object, whole: bool) -> Certificate:
        """Compare interfaces, regions and whole models, in this order, up to the first disagreement."""
        # Holding the generated weights keeps them cached: each is generated once.
        kept = [w.value() for w in self.original.weights.values() if whole and w.data is None]
        why = _interface(self.original, self.optimised)
        evidence: Evidence | None = None
        if not why and self.optimised is not self.original:
            why, evidence = self._compare_regions(known, whole)
        if not why and whole:
            why, evidence = self._compare_whole(given)
        del kept
        return replace(self.found, passed=not why, reason=why, evidence=evidence)

    # -- regions ----------------------------------------------------------------------------------
    def _compare_regions(self, known: Correspondence | None, whole: bool) -> tuple[str, Evidence | None]:
        guessed = known is None
        if known is None:
            given = random_inputs(self.original, self.found.seed, 0)
            with contextlib.suppress(*_NO_RUN):  # only outputs are matched
                known = matched(self.original, self.optimised, given, self.opaque)
        merged = Merged(self.original, self.optimised, known)
        if merged.mismatch:
            return merged.mismatch, None
        tasks = merged.tasks()
        if whole and tasks:
            node = {m: i for i, m in reversed(list(enumerate(merged.place)))}
            shown = [node[i] for t in _distinct(tasks) for i in t.leaves]
            early = self.early
            made = early.run if early is not None and early.shown.issuperset(shown) else None
            self.probe = made or probe(self.original, shown, seed=self.found.seed, memo=self.memo)
            self.ranges = {merged.place[i]: seen for i, seen in self.probe.ranges.items()}
        why, evidence = self._compare_tasks(merged, tasks)
        if why and guessed and known is not None:
            # Two matched values may have been equal only by chance: compare the outputs alone.
            self.found = replace(self.found, error=0.0)
            merged = Merged(self.original, self.optimised)
            why, at = self._compare_tasks(merged, merged.tasks())
            evidence = (evidence or at) if why else None
        return why, evidence

    def _compare_tasks(self, merged: Merged, tasks: list[Task]) -> tuple[str, Evidence | None]:
        distinct = _distinct(tasks)
        self.found = replace(self.found, regions=len(tasks), distinct=len(distinct))
        for task in distinct:
            found: Evidence | None = None
            refusal, worst = "", 0.0
            for attempt in chain([task], merged.wider(task)):
                region = merged.region(attempt)
                ranges = {f"v{k}": self.ranges[i] for k, i in enumerate(region.leaves) if i in self.ranges}
                try:
                    outcome = compare(
                        region,
                        draws=self.found.draws,
                        seed=self.found.seed,
                        tolerance=EXACT,
                        opaque=self.opaque,
                        ranges=ranges,
                        memo=self.memo,
                    )
                except _NO_RUN as error:
                    refusal = one_line(error)
                    continue
                for key in [k for k in self.memo if k[1] is None]:
                    del self.memo[key]  # float64 copies of weights, which other regions do not share
                if outcome.difference is None:
                    more = _NUMBERS if outcome.numbers and _NUMBERS not in self.found.arithmetic else ""
                    most, arithmetic = max(self.found.error, outcome.error), self.found.arithmetic + more
                    self.found = replace(self.found, error=most, arithmetic=arithmetic)
                    fault = short_fault(region, seed=self.found.seed, ranges=ranges)
                    if fault is not None:
                        return f"{fault}; region: {region}", None
                    break
                found, worst = outcome.difference, outcome.error
            else:
                if found is None:
                    return f"a rewritten region does not run: {refusal}", None
                self.found = replace(self.found, error=worst)
                return str(found), found
        return "", None

    # -- the whole --------------------------------------------------------------------------------
    def _compare_whole(self, given: object) -> tuple[str, Evidence | None]:
        seed, memo = self.found.seed, self.memo
        run = run_whole(self.original, self.optimised, given=given, seed=seed, memo=memo, known=self.probe)
        self.found = replace(
            self.found,
            deployed_error=run.error,
            errors=run.errors,
            whole=run.note,
            whole_ran=run.ran,
            lacking=run.lacking,
        )
        if not run.why:
            self._measure_rounding(run)
            return "", None
        try:
            expected, found = (float(v[run.output][run.index]) for v in (run.outputs, run.found))
        except (KeyError, IndexError, TypeError, ValueError):
            return run.why, None
        return run.why, Evidence(run.output, 0, run.index, expected, found, "as saved")

    def _measure_rounding(self, run: WholeRun) -> None:
        """Measure the distance of both models' outputs, as they ran, from the original in float64."""
        weights = sum(w.type.elements for w in self.original.weights.values())
        large = weights > MOST_WEIGHTS or work(self.original) > MEASURED
        if large or not run.outputs or self.original.opaques:
            return
        if self.early is not None and self.early.run.inputs is run.inputs:
            exact = self.early.exact
        else:
            exact = evaluate(self.original, run.inputs, precise=True)
        rounding, own = _off(exact, run.found), _off(exact, run.outputs)
        self.found = replace(self.found, rounding=rounding, own_rounding=own)


def _distinct(tasks: list[Task]) -> list[Task]:
    """Return the first task of each key: tasks with equal keys differ only in the data of their weights."""
    return list({task.key: task for task in reversed(tasks)}.values())[::-1]


def _off(exact: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> float:
    return max(difference(value, found[name].astype(value.dtype))[0] for name, value in exact.items())


def _interface(original: Graph, optimised: Graph) -> str:
    for what, ours, theirs in (
        ("inputs", original.input_types, optimised.input_types),
        ("outputs", original.output_types, optimised.output_types),
    ):
        if list(ours.items()) != list(theirs.items()):
            return f"the {what} differ: {ours} in the original, {theirs} in the optimised graph"
    return ""


def _replayed(runner: OpaqueRunner) -> OpaqueRunner:
    """Return a runner of opaque operators that gives the second graph the random results of the first."""
    seen: dict[int, Sequence[np.ndarray]] = {}

    def run(record: Opaque, operands: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        if record.deterministic:
            return runner(record, operands)
        if id(record) not in seen:
            seen[id(record)] = runner(record, operands)
        return seen[id(record)]

    return run
