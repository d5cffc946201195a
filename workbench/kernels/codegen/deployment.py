"""Deployment of a graph as a mixed program: certified, timed whole, and left alone if it is not faster."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.certification import Certificate, certify
from workbench.certification.inputs import random_inputs
from workbench.certification.tolerance import difference, tolerance_of
from workbench.costs import CostModel
from workbench.costs.registry import cost_model
from workbench.devices.timing import paired_speedup, rounds
from workbench.egraph import EGraph
from workbench.graph import Graph, evaluate, fold_constants
from workbench.kernels.codegen.clusters import Cluster
from workbench.kernels.codegen.compiler import Build, build_from, compiler
from workbench.kernels.codegen.fusion import Bench, Beside, Measure, numbers_of
from workbench.kernels.codegen.partitioned import Basis, Mixed, Plan, plan_of
from workbench.kernels.codegen.winograd import CHOICES
from workbench.support.formatting import gain
from workbench.support.machine import microseconds

if TYPE_CHECKING:
    from workbench.optimizer.dynamic import Dynamic
    from workbench.optimizer.result import Optimized

#: The most families of clusters that are timed one by one.
_FAMILIES: Final = 6

#: Up to this size clusters are also grown from the e-graph of a search, where they compete with rewrites.
COMPETING: Final = 5_000

#: How many times the original's own error in its element type a program's may be.
ERROR: Final = 10.0

#: The error of a result that is as near as its element type allows.
_UNIT: Final = 2.0**-23

#: The most elements of weights with which a program's error is measured.
_WEIGHTS: Final = 1 << 28

#: The least and the largest number of rounds in which programs are timed.
_LEAST, _MOST = 9, 300


@dataclass(frozen=True, slots=True)
class Timed:
    """The time of a mixed program against the fastest form without kernels in ONNX Runtime, in alternation.

    ``before`` and ``after`` are medians in microseconds; ``speedup`` is the median of the rounds' ratios,
    which ``interval`` contains with 95 %. ``noise`` is the difference between two copies of the original.
    """

    before: float
    after: float
    speedup: float
    interval: tuple[float, float]
    noise: float
    rounds: int

    @property
    def faster(self) -> bool:
        """Return whether the program is faster beyond the noise."""
        return self.interval[0] > 1 + self.noise


@dataclass(frozen=True, slots=True, eq=False)
class Deployed:
    """The outcome of :func:`deploy`.

    ``plan`` is the mixed program's, and None if the original stays: no cluster pays, the program is not
    faster when timed whole, or its certificate did not pass. ``tried`` is the plan that was timed, and
    ``program`` the loaded program of ``plan``.
    """

    original: Graph
    plan: Plan | None = None
    tried: Plan | None = None
    certificate: Certificate | None = None
    timed: Timed | None = None
    reason: str = ""
    program: Mixed | None = None

    @property
    def speedup(self) -> float:
        """Return the speed-up over the original, 1 if it stays."""
        return self.timed.speedup if self.plan is not None and self.timed is not None else 1.0

    def save(self, path: str | os.PathLike[str]) -> tuple[Path, Path | None]:
        """Write the program as an ONNX model and a library beside it; see :meth:`Mixed.save`.

        Raise ValueError if there is none, because the original stays, and OSError if a file cannot be written.
        """
        if self.program is None:
            raise ValueError(f"a mixed program must be faster to be saved: {self.reason}")
        return self.program.save(path)

    def __str__(self) -> str:
        if self.plan is None:
            return self.reason
        how = "not timed" if self.timed is None else gain(self.timed.before, self.timed.after)
        memory = f"; transformed weights take {self.plan.memory / 1e6:.1f} MB" if self.plan.memory else ""
        found = self.certificate
        if found is not None and found.rounding is not None:
            memory += f"; error {found.rounding:.1e}, the original's {found.own_rounding:.1e}"
        return f"{self.plan}{memory}; {how}"

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        plan, found = self.plan, self.certificate
        clusters = () if plan is None else plan.clusters
        return {
            "kernels": len(clusters),
            "clusters": [[m.op for m in c.members] for c in clusters],
            "others": None if plan is None else plan.others,
            "memory": 0 if plan is None else plan.memory,
            "reason": self.reason,
            "rounding": found and found.rounding,
            "own_rounding": found and found.own_rounding,
            "certified": found and found.passed,
            "arithmetic": found and found.arithmetic,
            "timing": None if self.timed is None else asdict(self.timed),
        }


def with_kernels(
    result: Optimized,
    *,
    cost: str | os.PathLike[str] | CostModel = "cpu",
    seconds: float = 5.0,
    time: bool = True,
    build: Build | None = None,
    measure: Measure | None = None,
    error: float = ERROR,
    memory: int | None = None,
) -> Deployed:
    """Return the fastest certified mixed program of a result.

    There is none if it is not faster, timed whole on one thread as it runs from its file, than both the
    original and the result without kernels. The certificate compares it with the original. If the number of
    images is symbolic, kernels are chosen for convolutions alone, and serve any number; other symbolic
    dimensions leave no kernels. Raise CompilerMissing without a C compiler.

    The arguments after the result of an optimisation are those of :func:`deploy`; ``cost`` may be a name or a file.
    """
    kept = () if result.dynamic is None else result.dynamic.kept
    if kept and not _images_alone(result):
        fixed = " ".join(f"{name}=1" for name in kept)
        why = f"no kernels: their shapes must be fixed, got symbolic {', '.join(kept)} (try --dim {fixed})"
        return Deployed(result.original, reason=why)
    competing = len(result.egraph) <= COMPETING and not kept
    return deploy(
        result.original,
        cost if isinstance(cost, CostModel) else cost_model(cost),
        candidates=[result.graph],
        saturated=(result.egraph, result.costs) if competing else None,
        generic=result.dynamic if kept else None,
        error=error,
        memory=memory,
        seconds=seconds,
        seed=int(result.settings.get("seed", 0)),
        build=build,
        measure=measure,
        time=time,
        saved=True,
    )


def _images_alone(result: Optimized) -> bool:
    """Return whether there are convolutions, of which the number of images is all that is symbolic."""
    dynamic = result.dynamic
    if dynamic is None or dynamic.graph is None or len(dynamic.kept) != 1:
        return False
    fixed, generic = fold_constants(result.graph), fold_constants(dynamic.graph)
    same = len(fixed.nodes) == len(generic.nodes) and "conv2d" in fixed.operators()
    return same and all(
        (a.op, a.inputs) == (b.op, b.inputs)
        and (a.op != "conv2d" or a.tensor.shape[1:] == b.tensor.shape[1:])
        for a, b in zip(fixed.nodes, generic.nodes, strict=True)
    )


def deploy(
    graph: Graph,
    cost: CostModel,
    *,
    candidates: Sequence[Graph] = (),
    saturated: tuple[EGraph, np.ndarray] | None = None,
    threads: int = 1,
    seconds: float = 5.0,
    seed: int = 0,
    build: Build | None = None,
    measure: Measure | None = None,
    time: bool = True,
    saved: bool = False,
    error: float = ERROR,
    memory: int | None = None,
    generic: Dynamic | None = None,
) -> Deployed:
    """Return the fastest certified mixed program of a graph, or the original.

    If the program's error is beyond its bound, kernels by more accurate algorithms are tried, at last those that
    sum as the original does. Raise CompilerMissing without a C compiler, and ValueError for a bound that is not
    positive.

    Args:
        graph: The original.
        cost: The prices of operators in ONNX Runtime.
        candidates: Other graphs of the same function, such as the result of an optimisation.
        saturated: A saturated e-graph of the original and the costs of its e-nodes: clusters become e-nodes
            of it, and exact extraction takes operators, rewrites and clusters together.
        threads: The number of threads of a session.
        seconds: The time limit on timing.
        seed: The seed of the inputs.
        build: The options of the compiler; by default those of the environment.
        measure: Returns the times of a cluster; by default they are measured.
        time: Whether programs are timed; otherwise the first one with kernels is taken.
        saved: Whether a program will be saved. It is then timed against the candidates without kernels, too.
        error: How many times the original's own error the program's may be; the certificate tells both.
        memory: The most bytes of transformed weights that kernels may keep; by default any number.
        generic: The form of the only candidate in which the number of images is symbolic.
    """
    if error <= 0 or (memory is not None and memory < 0):
        what, norm, given = ("error", "above 0", error) if error <= 0 else ("memory", "at least 0", memory)
        raise ValueError(f"the bound on {what} must be {norm}, got {given}")
    options = build_from() if build is None else build
    if measure is None:
        compiler(options)
    graphs = candidates if generic is not None else (graph, *candidates)
    bases = [Basis.of(g, cost) for g in {g.structural_hash(): g for g in graphs}.values()]
    if saturated is not None:
        egraph = saturated[0]
        places = {node: place for node, place in enumerate(egraph.original.tolist()) if place >= 0}
        numbers = {int(egraph.eclass[places[n]]): x for n, x in numbers_of(graph).items() if n in places}
        bases.insert(0, Basis(graph, *saturated, numbers))
    feeds = random_inputs(graph, seed, 0)
    rivals = candidates if saved else ()

    def attempt(algorithms: Sequence[str]) -> Deployed:
        bench = Bench(options, threads, algorithms)

        def planned_with(basis: Basis, families: frozenset[str] | None) -> Plan:
            def limited(cluster: Cluster) -> Beside:
                # Kernels of convolutions alone serve any number of images.
                family = _family(cluster)
                allowed = {"layers": True, "convolution": bool(algorithms)}.get(family, generic is None)
                if not allowed or (families is not None and family not in families):
                    return Beside(0.0, math.inf)  # its kernel takes for ever
                return (measure or bench)(cluster)

            plan = plan_of(
                basis,
                cost,
                threads=threads,
                build=options,
                measure=limited,
                bench=bench if measure is None else None,
                memory=memory,
                generic=None if generic is None else generic.graph,
            )
            return plan if generic is None else replace(plan, table=generic.table)

        plans = {k: planned_with(basis, None) for k, basis in enumerate(bases)}
        own = graph.structural_hash()
        # A candidate without kernels is a program, too; one that is saved is timed against the candidates instead.
        plans = {
            k: p for k, p in plans.items() if p.clusters or (not saved and p.source.structural_hash() != own)
        }
        if not plans:
            return Deployed(graph, reason="no cluster pays: the original stays")
        tried = list(plans.values())
        if time:
            for k, plan in plans.items():
                only = partial(planned_with, bases[k])
                tried += _selected(graph, plan, only, feeds, threads, seconds / 2 / len(plans), options)
        programs = [Mixed(p, threads=threads, build=options) for p in tried]
        times = _times(graph, programs, feeds, threads, seconds / 2, rivals) if time else []
        order = sorted(range(len(tried)), key=lambda k: -times[k].speedup) if times else range(len(tried))
        checked: dict[int, Certificate] = {}
        for k in order:  # the next best one, if the best is refused
            checked[k] = certified(graph, programs[k], seed=seed, error=error)
            if checked[k].passed:
                break
        best = k if checked[k].passed else order[0]
        found = Deployed(graph, None, tried[best], checked[best], times[best] if times else None)
        why = (
            "the mixed program is not faster beyond the noise"
            if checked[best].passed
            else checked[best].reason
        )
        if not checked[best].passed or (found.timed is not None and not found.timed.faster):
            return replace(found, reason=f"the original stays: {why}")
        return replace(found, plan=tried[best], program=programs[best])

    # Whole points have more than three times the error, and save at most six parts in a hundred of the time.
    first = ("4_3_whole", *CHOICES) if error > ERROR else CHOICES
    for algorithms in (first, CHOICES[1:], ()):
        done = attempt(algorithms)
        found = done.certificate
        if found is None or found.passed or found.rounding is None:
            break
    return done


def certified(original: Graph, program: Mixed, *, seed: int = 0, error: float = ERROR) -> Certificate:
    """Return the certificate of a mixed program.

    The graph that it runs is compared with the original as every result is, and the program's outputs with
    those of the original in ONNX Runtime. ``arithmetic`` says how the kernels were compiled. ``rounding`` is how far
    the program's outputs are off those of the original in float64, and ``own_rounding`` how far the original's are.
    They are None if the original was too large for the first certificate and no kernel sums otherwise.

    Args:
        original: The original graph.
        program: The program.
        seed: The seed of the inputs.
        error: How many times the original's own error the program's may be.
    """
    from workbench.frontends import opaque_runner, to_onnx
    from workbench.frontends.runtime import session

    opaque = opaque_runner() if original.opaques else None
    found = certify(original, program.plan.source, seed=seed, opaque=opaque)
    arithmetic = f"{found.arithmetic}, kernels with {program.build.arithmetic}"
    if not found.passed:
        return replace(found, arithmetic=arithmetic)
    feeds = random_inputs(original, seed, 0)
    names = [name for name, _ in original.outputs]
    expected = dict(zip(names, session(to_onnx(original), threads=1).run(names, feeds), strict=True))
    made = program.run(feeds)
    errors = {name: difference(np.asarray(expected[name]), made[name])[0] for name in names}
    worst, tolerance = max(errors.values()), tolerance_of(original)
    passed = worst <= tolerance
    reason = "" if passed else f"the mixed program is {worst:.1e} off, and at most {tolerance:.0e} may be"
    weights = sum(w.type.elements for w in original.weights.values())
    if found.rounding is not None or (program.plan.memory and not original.opaques and weights <= _WEIGHTS):
        exact = evaluate(original, feeds, precise=True, opaque=opaque)

        def off(outputs: Mapping[str, Any]) -> float:
            return max(
                difference(x, np.asarray(outputs[name]).astype(x.dtype))[0] for name, x in exact.items()
            )

        rounding, own = off(made), off(expected)
        found = replace(found, rounding=rounding, own_rounding=own)
        bound = f"at most {tolerance:.0e} of the largest value" if rounding > tolerance else ""
        if not bound and rounding > error * max(own, _UNIT):
            bound = f"at most {error:g} times the original's {own:.1e}"
        if bound:
            reason = reason or f"the program's error must be {bound}, got {rounding:.1e}"
    if program.plan.generic is not None and not reason:
        reason = _other_counts(program, seed, tolerance)
    return replace(
        found,
        passed=not reason,
        reason=reason,
        arithmetic=arithmetic,
        deployed_error=worst,
        errors=errors,
        whole=f"mixed program against ONNX Runtime: {program.plan}",
    )


def _other_counts(program: Mixed, seed: int, most: float) -> str:
    """Return why a program differs at other numbers of images from its graph without kernels, or an empty text."""
    from workbench.frontends import to_onnx
    from workbench.frontends.runtime import session

    plan, random = program.plan, np.random.default_rng(seed)
    assert plan.generic is not None
    model = to_onnx(plan.generic, symbols=plan.table)
    both = [session(model, threads=1, spin=False, operators=o) for o in (None, program.library)]
    pairs = [
        (plan.generic.nodes[i], plan.graph.nodes[j])
        for i, j in zip(plan.generic.inputs, plan.graph.inputs, strict=True)
    ]
    for count in (1, 2, 5):
        feeds = {}
        for symbolic, node in pairs:
            shape = [
                count if a != b else a for a, b in zip(node.tensor.shape, symbolic.tensor.shape, strict=True)
            ]
            feeds[node.attr("name")] = random.standard_normal(shape).astype(node.tensor.numpy_dtype())
        for (name, _), a, b in zip(plan.graph.outputs, *(s.run(None, feeds) for s in both), strict=True):
            if (worst := difference(a, b)[0]) > most:
                return f"output {name!r} for {count} images is {worst:.1e} off, and at most {most:.0e} may be"
    return ""


def _family(cluster: Cluster) -> str:
    """Return the formula of a cluster; convolutions are one family, and those channel by channel another one."""
    return str(cluster.composite) if cluster.composite.name == "fused" else cluster.composite.name


def _selected(
    graph: Graph,
    plan: Plan,
    only: Callable[[frozenset[str]], Plan],
    feeds: Mapping[str, Any],
    threads: int,
    seconds: float,
    build: Build,
) -> list[Plan]:
    """Return a plan of the families of clusters that are faster alone.

    The saving of one kernel does not show which operators ONNX Runtime would fuse across its border. So each
    family, all clusters of one formula, is timed without the others in the whole model.
    """
    families = [k for k, _ in Counter(map(_family, plan.clusters)).most_common(_FAMILIES)]
    if len(families) < 2:
        return []
    alone = {k: p for k in families if (p := only(frozenset([k]))).clusters}
    programs = [Mixed(p, threads=threads, build=build) for p in alone.values()]
    times = _times(graph, programs, feeds, threads, seconds)
    good = frozenset(k for k, t in zip(alone, times, strict=True) if t.speedup > 1)
    if not good or len(good) == len(families):
        return []
    return [alone[next(iter(good))] if len(good) == 1 else only(good)]


def _times(
    graph: Graph,
    programs: Sequence[Mixed],
    feeds: Mapping[str, Any],
    threads: int,
    seconds: float,
    rivals: Sequence[Graph] = (),
) -> list[Timed]:
    """Time programs against the graph and its rivals, of which the fastest counts."""
    from workbench.frontends import to_onnx
    from workbench.frontends.runtime import session

    for program in programs:
        program.load(feeds)
    others = {g.structural_hash(): g for g in rivals if g.structural_hash() != graph.structural_hash()}
    models = [to_onnx(g) for g in (graph, graph, *others.values())]
    loaded = [session(model, threads=threads, spin=False) for model in models]
    runs: list[Callable[[], object]] = [*(partial(s.run, None, feeds) for s in loaded), *programs]
    timers = [partial(microseconds, run, threads) for run in runs]
    taken = rounds(timers, seconds=seconds, least=_LEAST, most=_MOST)
    _, apart = paired_speedup(taken[0], taken[1])
    noise = max(abs(1 - edge) for edge in apart)
    first = min((taken[0], *taken[2 : len(models)]), key=median)
    mine = taken[len(models) :]
    faster = [paired_speedup(first, other, comparisons=len(programs)) for other in mine]
    pairs = zip(mine, faster, strict=True)
    return [Timed(median(first), median(other), *found, noise, len(first)) for other, found in pairs]
