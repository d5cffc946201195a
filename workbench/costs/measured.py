"""Costs measured on this machine's CPU with ONNX Runtime, one operator instance at a time."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench.costs.analytic import AnalyticCost, work
from workbench.costs.estimate import Calibrated
from workbench.costs.model import OpInstance
from workbench.costs.pricing import instances_of
from workbench.costs.store import PROTOCOL, Measurement, Store, cache_folder, instance_key, machine
from workbench.graph import Graph, GraphBuilder, Opaque
from workbench.ops import TensorType

#: A measured model as small as this is the call into the runtime itself, which is subtracted.
_BASELINE = OpInstance("relu", (), (TensorType("float32", (1,)),), TensorType("float32", (1,)), (False,))


def same_kernel(instance: OpInstance) -> OpInstance:
    """Return the instance that is measured for this one.

    A convolution's bias and relu are the epilogue of one kernel and cost nothing there that can be
    measured: all four variants share one measurement, of the whole. Told apart they would differ by the
    noise of a long run, which is more than a short operator costs.
    """
    if instance.op != "conv2d" or instance.attrs[-1] not in ("none", "relu"):
        return instance
    assert isinstance(instance.type, TensorType)
    bias = TensorType(instance.type.dtype, (1, instance.type.shape[1], 1, 1))
    return OpInstance(
        "conv2d",
        (*instance.attrs[:-1], "relu"),
        (*instance.inputs[:2], bias),
        instance.type,
        (*instance.constant[:2], True),
    )


class MeasuredCost:
    """Price operators by running each alone in ONNX Runtime on this machine.

    Each instance is a one-operator model, its constant operands stored weights; two warm-up runs, then
    runs for ``milliseconds`` (3 to 60 of them); the median counts, less that of an empty call (see also
    :func:`same_kernel`). Figures
    are kept on disk by machine, runtime version and thread count, and measured by one process at a
    time. ``budget`` bounds the seconds one call of :meth:`price` may measure: the model at hand first,
    then cheap instances before dear ones. What is left is estimated by a roofline scaled to what was
    measured, and ``source`` says how much that was; :meth:`measure` closes the gap where it matters.
    """

    def __init__(
        self,
        cache: str | os.PathLike[str] | None = None,
        *,
        threads: int = 1,
        budget: float = 30.0,
        milliseconds: float = 15.0,
    ) -> None:
        import onnxruntime

        self.threads, self.budget, self.milliseconds = threads, budget, milliseconds
        plural = "" if threads == 1 else "s"
        self.device = f"ONNX Runtime {onnxruntime.__version__} CPU, {machine()}, {threads} thread{plural}"
        folder = Path(cache) if cache is not None else cache_folder()
        self._store = Store(folder, f"{self.device}, protocol {PROTOCOL}")
        self._known = self._store.read()
        self._opaques: dict[str, Opaque] = {}
        self._first: frozenset[str] = frozenset()
        self._calibrated = Calibrated(AnalyticCost("cpu"))
        self._failed: set[str] = set()
        self._used: dict[str, bool] = {}
        self.seconds = 0.0

    @property
    def source(self) -> str:
        """Say what the figures are."""
        measured = sum(self._used.values())
        estimated = len(self._used) - measured
        tail = f"; {measured} instances measured"
        tail += f", {estimated} estimated" if estimated else ""
        return f"measured: {self.device}{tail if self._used else ''}"

    def bind(self, graph: Graph) -> None:
        """Name the model at hand: its instances come first, and its opaque operators can be run."""
        self._opaques = dict(graph.opaques)
        self._first = frozenset(self._key(i) for i in instances_of(graph))

    def _key(self, instance: OpInstance) -> str:
        instance = same_kernel(instance)
        if instance.op != "opaque":
            return instance_key(instance)
        record = self._opaques.get(str(instance.attrs[0]))
        content = record.payload if record is not None else str(instance.attrs[0]).encode()
        # The same operator under another name in another model is the same instance.
        digest = hashlib.blake2b(content, digest_size=12).hexdigest()
        plain = OpInstance("opaque", (), instance.inputs, instance.type, instance.constant)
        return instance_key(plain, digest)

    # -- prices -----------------------------------------------------------------------------------
    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds, measuring what the budget allows."""
        keyed = [(self._key(i), i) for i in instances]
        missing = {k: i for k, i in keyed if not self._certain(k, i)}
        bounds = {k: float(self._calibrated.base.price([i])[0]) for k, i in missing.items()}
        order = sorted(missing, key=lambda k: (k not in self._first, bounds[k], k))
        self._measure([(k, missing[k]) for k in order], self.budget)
        self._calibrated.fit((i, self._known[k].median) for k, i in keyed if k in self._known)
        prices = []
        for key, instance in keyed:
            if work(instance).free:
                prices.append(0.0)
                continue
            self._used[key] = key in self._known
            known = self._known.get(key)
            prices.append(known.median if known else self._calibrated.estimate(instance))
        return np.array(prices, dtype=float)

    def measure(self, instances: Sequence[OpInstance]) -> int:
        """Measure these instances whatever the budget; return how many were new."""
        keyed = {self._key(i): i for i in instances}
        missing = [(k, i) for k, i in keyed.items() if not self._certain(k, i)]
        return self._measure(missing, float("inf"))

    def table(self) -> dict[str, Measurement]:
        """Return all that is known of this device: what a recorded table holds."""
        return dict(self._known)

    def _certain(self, key: str, instance: OpInstance) -> bool:
        return key in self._known or key in self._failed or work(instance).free

    # -- measuring --------------------------------------------------------------------------------
    def _measure(self, wanted: Sequence[tuple[str, OpInstance]], budget: float) -> int:
        if not wanted:
            return 0
        began = time.perf_counter()
        found: dict[str, Measurement] = {}
        try:
            with self._store.measuring():
                call = self._once(_BASELINE)
                for key, instance in wanted:
                    if time.perf_counter() - began > budget:
                        break
                    try:
                        taken = self._once(instance)
                    except Exception:  # whatever the runtime or the exporter cannot do is estimated
                        self._failed.add(key)
                        continue
                    cost = max(0.05, taken.median - call.median)
                    found[key] = Measurement(cost, taken.spread, taken.runs)
        finally:
            # Ctrl-C keeps what was measured.
            if found:
                self._known |= found
                self._store.write(found)
            self.seconds += time.perf_counter() - began
        return len(found)

    def _once(self, instance: OpInstance) -> Measurement:
        run = self._runner(same_kernel(instance))
        run()
        run()
        samples: list[float] = []
        until = time.perf_counter() + self.milliseconds / 1000
        while len(samples) < 3 or (time.perf_counter() < until and len(samples) < 60):
            start = time.perf_counter_ns()
            run()
            samples.append((time.perf_counter_ns() - start) / 1000)
        low, median, high = np.percentile(samples, [25, 50, 75])
        return Measurement(float(median), float(high - low), len(samples))

    def _runner(self, instance: OpInstance) -> Callable[[], Any]:
        """Return a function that runs the instance once."""
        from workbench.frontends import to_onnx
        from workbench.frontends.runtime import session

        builder = GraphBuilder("instance")
        rng = np.random.default_rng(0)
        feeds: dict[str, np.ndarray] = {}
        operands: list[int] = []
        for k, (kind, constant) in enumerate(zip(instance.inputs, instance.constant, strict=True)):
            assert isinstance(kind, TensorType)
            if constant:
                operands.append(builder.weight(kind.shape, dtype=kind.dtype))
                continue
            dtype = kind.numpy_dtype()
            # Index operands must stay in range; everything else is ordinary data.
            data = rng.standard_normal(kind.shape) if kind.dtype.startswith("float") else np.zeros(kind.shape)
            feeds[f"x{k}"] = data.astype(dtype)
            operands.append(builder.input(f"x{k}", kind.shape, kind.dtype))
        if instance.op == "opaque":
            results = builder.opaque(self._opaques[str(instance.attrs[0])], operands)
        else:
            results = [builder.apply(instance.op, operands, instance.attrs)]
        graph = builder.graph([(f"y{k}", value) for k, value in enumerate(results)])
        loaded = session(to_onnx(graph), threads=self.threads)
        names = {i.name for i in loaded.get_inputs()}
        given = {n: v for n, v in feeds.items() if n in names}
        return lambda: loaded.run(None, given)
