"""Costs measured on this machine's CPU with ONNX Runtime, one operator instance at a time."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.costs.analytic import AnalyticCost, work
from workbench.costs.keys import same_kernel
from workbench.costs.lookup import Lookup
from workbench.costs.model import OpInstance
from workbench.costs.pricing import instances_of
from workbench.costs.store import PROTOCOL, Measurement, Store, cache_folder, machine
from workbench.graph import Graph, GraphBuilder
from workbench.ops import TensorType
from workbench.ops.types import DTYPE_CODES

if TYPE_CHECKING:
    from onnx import ModelProto

#: Instances whose operands and result take more bytes than this are estimated, never run: the runtime
#: holds weights several times over while it loads them.
LARGEST: Final = 1 << 29

#: Seconds to wait, at most, for another process that measures.
_PATIENCE: Final = 120.0

#: The least a measured operator costs, in µs: below it there is only the clock's noise.
_LEAST: Final = 0.05

#: A measurement scatters when its interquartile range is more than this part of its median; it is made
#: again then, and the quieter one counts.
_SCATTER: Final = 0.2

#: Runs end early, after so many milliseconds, when their interquartile range is less than this part of the
#: median. Where two runs took longer than ``_LONG`` milliseconds there is no third.
_ENOUGH, _QUIET, _LONG = 2.0, 0.05, 100.0

#: Whether a thread's processor time is known finely enough to time operators with.
_OWN_TIME: Final = time.get_clock_info("thread_time").resolution <= 1e-7

#: Runs take copies of weights of at least so many bytes in turn, more than processors keep at hand, but at
#: most so many: in a network, other operators' weights have been there since the last run. Only operators
#: that do less than ``_REUSE`` FLOP with a byte of them wait for weights.
_LARGE, _CACHES, _COPIES, _REUSE = 1 << 18, 1 << 26, 8, 16.0

_SCALAR: Final = TensorType("float32", (1,))


class MeasuredCost:
    """Price operators by running each alone in ONNX Runtime on this machine.

    Each instance is a one-operator model, its constant operands stored weights, its other operands and
    its result bound to the runtime's own memory; runs take copies of large weights in turn, so that they
    are found where a network finds them. One warm-up run, then runs for ``milliseconds`` (2 to 100 of
    them), or fewer where they agree; the median counts, less that of a model without operators (see also
    :func:`~workbench.costs.keys.same_kernel`). Figures are kept on disk by machine, runtime version and
    thread count, and measured by one process at a time.

    ``budget`` bounds the seconds that :meth:`price` measures, from the making of the model or from the
    last :meth:`bind`: the model at hand first, then cheap instances before dear ones. What is left is
    estimated by a roofline scaled to what was measured, and ``source`` says how much that was;
    :meth:`measure` closes the gap where it matters. ``seconds`` is what measuring has taken so far,
    ``failures`` says by key why an instance could not be run.
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

        if threads < 1 or not 0 < milliseconds < math.inf or math.isnan(budget):
            raise ValueError(
                "threads >= 1, milliseconds > 0 and a budget in seconds are expected, "
                f"not {threads}, {milliseconds}, {budget}"
            )
        self.threads, self.budget, self.milliseconds = threads, budget, milliseconds
        plural = "" if threads == 1 else "s"
        self.device = f"ONNX Runtime {onnxruntime.__version__} CPU, {machine()}, {threads} thread{plural}"
        folder = Path(cache) if cache is not None else cache_folder()
        self._store = Store(folder, f"{self.device}, protocol {PROTOCOL}")
        self._lookup = Lookup(self._store.read(), AnalyticCost("cpu"))
        self._first: frozenset[str] = frozenset()
        self._left = budget
        self._call: Measurement | None = None
        self.failures: dict[str, str] = {}
        self.seconds = 0.0

    @property
    def source(self) -> str:
        """Say what the figures are."""
        return f"measured: {self.device}{self._lookup.tally('measured', self.failures)}"

    def bind(self, graph: Graph) -> None:
        """Name the model at hand: its instances come first, and its opaque operators can be run."""
        self._lookup.bind(graph)
        self._first = frozenset(self._lookup.key(i) for i in instances_of(graph))
        self._left = self.budget

    # -- prices -----------------------------------------------------------------------------------
    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds, measuring what the budget allows."""
        keyed = [(self._lookup.key(i), i) for i in instances]
        missing = self._missing(keyed)
        if missing and self._left > 0:
            bounds = dict(zip(missing, self._lookup.estimate(list(missing.values())), strict=True))
            order = sorted(missing, key=lambda k: (k not in self._first, bounds[k], k))
            before = self.seconds
            self._measure([(k, missing[k]) for k in order], self._left)
            self._left -= self.seconds - before
        return self._lookup.price(keyed)

    def measure(self, instances: Sequence[OpInstance], *, seconds: float = math.inf) -> int:
        """Measure these instances for at most ``seconds``, whatever the budget; return how many were new."""
        missing = self._missing([(self._lookup.key(i), i) for i in instances])
        return self._measure(list(missing.items()), seconds)

    def known(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds, measured or estimated, measuring nothing."""
        return self._lookup.price([(self._lookup.key(i), i) for i in instances])

    def unknown(self, instances: Sequence[OpInstance]) -> list[OpInstance]:
        """Return those of the instances that are estimated and could be measured."""
        return list(self._missing([(self._lookup.key(i), i) for i in instances]).values())

    def table(self) -> dict[str, Measurement]:
        """Return all that is known of this device: what a recorded table holds."""
        return dict(self._lookup.known)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that is known of this device as a recorded table, for other machines."""
        import onnxruntime

        from workbench import __version__
        from workbench.costs.recorded import save_table

        save_table(
            path,
            self.device,
            self._lookup.known,
            roofline="cpu",
            protocol=str(PROTOCOL),
            onnxruntime=onnxruntime.__version__,
            workbench=__version__,
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
        )

    def _missing(self, keyed: Sequence[tuple[str, OpInstance]]) -> dict[str, OpInstance]:
        known = self._lookup.known
        return {
            key: instance
            for key, instance in keyed
            if key not in known and key not in self.failures and not work(instance).free
        }

    # -- measuring --------------------------------------------------------------------------------
    def _measure(self, wanted: Sequence[tuple[str, OpInstance]], budget: float) -> int:
        if not wanted:
            return 0
        found: dict[str, Measurement] = {}
        began = time.perf_counter()
        try:
            with self._store.measuring(min(_PATIENCE, budget)):
                # Whoever measured while this process waited may have measured the same.
                self._lookup.add(self._store.read())
                started = time.perf_counter()
                if self._call is None:
                    self._call = self._timed(self._runner(_empty_model(), {"x": _SCALAR}))
                for key, instance in wanted:
                    if key in self._lookup.known:
                        continue
                    if time.perf_counter() - started > budget:
                        break
                    try:
                        taken = self._timed(self._in_turn(instance))
                    except Exception as error:  # whatever the runtime or the exporter cannot do is estimated
                        self.failures[key] = str(error) or type(error).__name__
                        continue
                    cost = max(_LEAST, taken.median - self._call.median)
                    found[key] = Measurement(cost, taken.spread, taken.runs)
        except TimeoutError as error:
            warnings.warn(f"costs are estimated: another process is measuring ({error})", stacklevel=3)
        finally:
            # Ctrl-C keeps what was measured.
            if found:
                self._lookup.add(found)
                self._store.write(found)
            self.seconds += time.perf_counter() - began
        return len(found)

    def _timed(self, run: Callable[[], object]) -> Measurement:
        run()
        first = self._sample(run)
        if first.spread <= _SCATTER * first.median:
            return first
        return min(first, self._sample(run), key=lambda m: m.spread)

    def _sample(self, run: Callable[[], object]) -> Measurement:
        # With one thread all work is done in this one. Its processor time leaves out what other
        # processes took of the core meanwhile; undisturbed, the time by the clock inside it is shorter.
        own = self.threads == 1 and _OWN_TIME
        samples: list[float] = []
        began = time.perf_counter()

        def enough() -> bool:
            count, spent = len(samples), 1000 * (time.perf_counter() - began)
            if count < 3:
                return count == 2 and spent > _LONG
            if count >= 100 or spent >= self.milliseconds:
                return True
            if spent < _ENOUGH or count & (count - 1):  # looked at after 4, 8, 16 runs and so on
                return False
            low, median, high = np.percentile(samples, [25, 50, 75])
            return bool(high - low < _QUIET * median)

        while not enough():
            own_start = time.thread_time_ns() if own else 0
            start = time.perf_counter_ns()
            run()
            taken = time.perf_counter_ns() - start
            samples.append((min(taken, time.thread_time_ns() - own_start) if own else taken) / 1000)
        low, median, high = np.percentile(samples, [25, 50, 75])
        return Measurement(float(median), float(high - low), len(samples))

    def _model(self, instance: OpInstance) -> tuple[ModelProto, dict[str, TensorType]]:
        """Return the instance as a model of its own, and the types of its inputs by name."""
        from workbench.frontends import to_onnx

        moved = work(instance).bytes
        if moved > LARGEST:
            raise ValueError(f"it moves {moved:.3g} bytes; at most {LARGEST:.3g} are run")
        instance = same_kernel(instance)
        builder = GraphBuilder("instance")
        inputs: dict[str, TensorType] = {}
        operands: list[int] = []
        for k, (kind, constant) in enumerate(zip(instance.inputs, instance.constant, strict=True)):
            if not isinstance(kind, TensorType):
                raise ValueError(f"operand {k} is {kind}: only tensors can be given")
            if constant:
                operands.append(builder.weight(data=_data(kind)))
            else:
                inputs[f"x{k}"] = kind
                operands.append(builder.input(f"x{k}", kind.shape, kind.dtype))
        if instance.op == "opaque":
            key = str(instance.attrs[0])
            if key not in self._lookup.opaques:
                raise ValueError("an opaque operator of a model that was not bound")
            results = builder.opaque(self._lookup.opaques[key], operands)
        else:
            results = [builder.apply(instance.op, operands, instance.attrs)]
        graph = builder.graph([(f"y{k}", value) for k, value in enumerate(results)])
        return to_onnx(graph), inputs

    def _in_turn(self, instance: OpInstance) -> Callable[[], Any]:
        """Return a function that runs an instance once, every time with the next copy of its weights."""
        from workbench.frontends.runtime import may_not_end

        model, inputs = self._model(instance)
        if may_not_end(model):
            raise ValueError("it holds a loop, which may have no end")
        turns = cycle([self._runner(model, inputs) for _ in range(_copies(instance))])
        return lambda: next(turns)()

    def _runner(self, model: ModelProto, inputs: dict[str, TensorType]) -> Callable[[], Any]:
        """Return a function that runs the model once.

        Bound values spare the conversion from and to numpy, half a microsecond an operand: a
        concatenation of many small tensors would seem dear.
        """
        from workbench.frontends.runtime import session

        loaded = session(model, threads=self.threads)
        binding = loaded.io_binding()
        values = {i.name: _value(inputs[i.name]) for i in loaded.get_inputs()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for output in loaded.get_outputs():
            binding.bind_output(output.name, "cpu")

        def run(keep: object = values) -> None:  # the binding does not own what it points to
            loaded.run_with_iobinding(binding)

        return run


def _copies(instance: OpInstance) -> int:
    """Return of how many copies of an instance's weights runs take one in turn."""
    pairs = zip(instance.inputs, instance.constant, strict=True)
    weights = sum(k.nbytes for k, constant in pairs if constant and isinstance(k, TensorType))
    if weights < _LARGE or work(instance).flops > _REUSE * weights:
        return 1
    return max(1, min(_COPIES, int(_CACHES // weights)))


def _empty_model() -> ModelProto:
    """Return a model without operators: what running it takes is the call, not an operator."""
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, _SCALAR.shape)
    graph = helper.make_graph([], "empty", [value], [value])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _data(kind: TensorType) -> np.ndarray:
    """Return data of a type: a block of random elements, repeated, which makes large tensors quickly.

    Floats are positive and near 1, so that roots, logarithms and powers exist; the rest is 0, which is
    a valid index.
    """
    dtype = kind.numpy_dtype()
    if not kind.dtype.startswith(("float", "bfloat")):
        return np.zeros(kind.shape, dtype)
    block = np.random.default_rng(0).uniform(0.5, 1.5, min(kind.elements, 1 << 16))
    return np.resize(block.astype(dtype), kind.shape)


def _value(kind: TensorType) -> Any:
    """Return data of a type as the runtime holds it."""
    import onnxruntime as ort

    if kind.dtype == "string" or kind.elements > kind.nbytes:
        raise ValueError(f"the runtime takes no {kind} from Python")
    data = _data(kind)
    if data.dtype.kind in "biufc":
        return ort.OrtValue.ortvalue_from_numpy(data)
    bits = data.view(f"u{data.dtype.itemsize}")
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, DTYPE_CODES[kind.dtype])
