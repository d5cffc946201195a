"""Costs measured on this machine's CPU with ONNX Runtime, one operator instance at a time."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import cycle, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from onnx import ModelProto, TensorProto, helper

from workbench._version import __version__
from workbench.costs.analytic import AnalyticCost, work
from workbench.costs.keys import same_kernel
from workbench.costs.lookup import Lookup, save_table
from workbench.costs.model import CostModel, OpInstance
from workbench.costs.pricing import instances_of
from workbench.costs.store import PROTOCOL, Measurement, Store, cache_folder
from workbench.frontends.onnx.exporter import to_onnx_apart
from workbench.frontends.onnx.file import Apart, joined
from workbench.frontends.runtime import may_not_end, ort_value, session
from workbench.graph import Builder, Graph
from workbench.ops import TensorType, spec_of
from workbench.ops.onnx_form import without_kernel
from workbench.support.machine import machine

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

#: Instances whose operands and result exceed this many bytes are estimated and never run: the runtime stores
#: weights several times over while it loads them.
LARGEST: Final = 1 << 29

#: The longest wait for another process that measures, in seconds.
_PATIENCE: Final = 120.0

#: The least cost of a measured operator, in µs; smaller differences are noise of the clock.
_LEAST: Final = 0.05

#: A measurement scatters if its interquartile range exceeds this fraction of its median; it is then repeated,
#: and the repetition with the smaller range counts.
_SCATTER: Final = 0.2

#: Runs end early, after ``_ENOUGH`` milliseconds, if their interquartile range is below ``_QUIET`` times
#: their median. If two runs took longer than ``_LONG`` milliseconds, a third is left out.
_ENOUGH, _QUIET, _LONG = 2.0, 0.05, 100.0

#: Whether the resolution of a thread's processor time is fine enough to time operators.
_OWN_TIME: Final = time.get_clock_info("thread_time").resolution <= 1e-7

#: Weights of at least ``_LARGE`` bytes are rotated through copies that total ``_CACHES`` bytes, which exceeds
#: the caches (at most ``_COPIES``), so that they are cold as inside a network. Operators that do more than
#: ``_REUSE`` FLOP per byte of their weights use one copy, because they do not wait for weights.
_LARGE, _CACHES, _COPIES, _REUSE = 1 << 18, 1 << 26, 8, 16.0

_SCALAR: Final = TensorType("float32", (1,))


class MeasuredCost(CostModel):
    """A cost model that runs each operator alone in ONNX Runtime on this machine.

    Each instance is a one-operator model. Its constant operands are stored weights; its other operands and
    its result are bound to the runtime's own memory. Runs use copies of large weights in turn, so that these
    are as cold as in a network. There is one warm-up run, then runs for ``milliseconds`` (2 to 100 of them),
    or fewer if they agree. The cost is their median minus that of a model without operators (see also
    :func:`~workbench.costs.keys.same_kernel`). A user's operator for which the runtime has no kernel runs in
    numpy instead, which ``source`` reports. Figures are stored on disk, in ``cache`` or the user's own, by machine,
    runtime version and ``threads``, and only one process measures at a time.

    ``budget`` limits the seconds that :meth:`price` spends on measuring, counted from the creation of the
    model or the last :meth:`bind`. Instances of the bound model are measured first, cheap instances before
    expensive ones. The others are estimated by a roofline scaled to the measured ones; ``source`` reports
    their number, and :meth:`measure` measures chosen ones. ``seconds`` is the time spent on measuring so far,
    ``failures`` maps the keys of instances that could not be run to the reasons.
    """

    device = ""

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
                "threads must be at least 1, milliseconds positive and budget a number of seconds, "
                f"got {threads}, {milliseconds}, {budget}"
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
        """Return a description of the source of the figures."""
        return f"measured: {self.device}{self._lookup.tally('measured', self.failures)}"

    def bind(self, graph: Graph) -> None:
        """Set the current model: its instances come first, and its opaque operators can be run."""
        self._lookup.bind(graph)
        self._first = frozenset(self._lookup.key(i) for i in instances_of(graph))
        self._left = self.budget

    # -- prices -----------------------------------------------------------------------------------
    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds, measuring as many as the budget allows."""
        missing = self._missing(instances)
        if missing and self._left > 0:
            bounds = dict(zip(missing, self._lookup.estimate(list(missing.values())), strict=True))
            order = sorted(missing, key=lambda k: (k not in self._first, bounds[k], k))
            before = self.seconds
            self._measure([(k, missing[k]) for k in order], self._left)
            self._left -= self.seconds - before
        return self.known(instances)

    def measure(self, instances: Sequence[OpInstance], *, seconds: float = math.inf) -> int:
        """Measure instances for at most ``seconds``, despite any budget; return the number of new ones."""
        return self._measure(list(self._missing(instances).items()), seconds)

    def known(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds, measured or estimated, without measuring."""
        return self._lookup.price([(self._lookup.key(i), i) for i in instances])

    def unknown(self, instances: Sequence[OpInstance]) -> list[OpInstance]:
        """Return those instances that are estimated and could be measured."""
        return list(self._missing(instances).values())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all measurements of this device as a recorded table, for other machines."""
        import onnxruntime

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

    def _missing(self, instances: Sequence[OpInstance]) -> dict[str, OpInstance]:
        keyed = ((self._lookup.key(i), i) for i in instances if not work(i).free)
        return {key: i for key, i in keyed if key not in self._lookup.known and key not in self.failures}

    # -- measuring --------------------------------------------------------------------------------
    def _measure(self, wanted: Sequence[tuple[str, OpInstance]], budget: float) -> int:
        if not wanted:
            return 0
        found: dict[str, Measurement] = {}
        began = time.perf_counter()
        try:
            with self._store.measuring(min(_PATIENCE, budget)):
                # A process that measured while this one waited may have measured the same instances.
                self._lookup.add(self._store.read())
                try:
                    self._measure_each(wanted, budget, found)
                finally:
                    # Measurements made before an interrupt are kept. The next process to measure reads them.
                    if found:
                        self._lookup.add(found)
                        self._store.write(found)
        except TimeoutError as error:
            warnings.warn(f"costs are estimated: another process is measuring ({error})", stacklevel=3)
        finally:
            self.seconds += time.perf_counter() - began
        return len(found)

    def _measure_each(
        self, wanted: Sequence[tuple[str, OpInstance]], budget: float, found: dict[str, Measurement]
    ) -> None:
        """Measure instances that are not known, until the budget is spent, and add them to ``found``."""
        started = time.perf_counter()
        if self._call is None:
            empty = session(_empty_model(), threads=self.threads)
            self._call = self._timed(_runner(empty, {"x": _SCALAR}))
        for key, instance in wanted:
            if key in self._lookup.known:
                continue
            if time.perf_counter() - started > budget:
                break
            try:
                taken = self._timed(self._in_turn(instance))
            except Exception as error:  # instances that cannot be exported or run are estimated
                self.failures[key] = str(error) or type(error).__name__
                continue
            call = 0.0 if without_kernel(instance.op) else self._call.median
            found[key] = Measurement(max(_LEAST, taken.median - call), taken.spread, taken.runs)

    def _timed(self, run: Callable[[], object]) -> Measurement:
        run()
        first = self._sample(run)
        if first.spread <= _SCATTER * first.median:
            return first
        return min(first, self._sample(run), key=lambda m: m.spread)

    def _sample(self, run: Callable[[], object]) -> Measurement:
        # With one thread all work is done in this thread. Its processor time excludes the time that other
        # processes used the core; without disturbance, the clock time measured inside it is shorter.
        own = self.threads == 1 and _OWN_TIME
        samples: list[float] = []
        began = time.perf_counter()

        def enough() -> bool:
            count, spent = len(samples), 1000 * (time.perf_counter() - began)
            if count < 3:
                return count == 2 and spent > _LONG
            if count >= 100 or spent >= self.milliseconds:
                return True
            if spent < _ENOUGH or count & (count - 1):  # checked after 4, 8, 16 runs and so on
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

    def _model(self, instance: OpInstance) -> tuple[Apart, dict[str, TensorType]]:
        """Return the instance as a model, and the types of the model's inputs by name."""
        # A table is held as a whole, even if a few of its rows are read.
        held = (k.nbytes for k in instance.inputs if isinstance(k, TensorType))
        bytes_ = max(work(instance).bytes, *held, 0)
        if bytes_ > LARGEST:
            raise ValueError(f"it must hold and move at most {LARGEST:.3g} bytes, got {bytes_:.3g}")
        instance, builder = same_kernel(instance), Builder("instance")
        inputs: dict[str, TensorType] = {}
        operands: list[int] = []
        for k, (kind, constant) in enumerate(zip(instance.inputs, instance.constant, strict=True)):
            if not isinstance(kind, TensorType):
                raise ValueError(f"operand {k} must be a tensor, got {kind}")
            if constant:
                operands.append(builder.weight(data=_data(kind)))
            else:
                inputs[f"x{k}"] = kind
                operands.append(builder.input(f"x{k}", kind.shape, kind.dtype))
        if instance.op == "opaque":
            key = str(instance.attrs[0])
            if key not in self._lookup.opaques:
                raise ValueError("an opaque operator must belong to the bound model")
            results = builder.opaque(self._lookup.opaques[key], operands)
        else:
            results = [builder.apply(instance.op, operands, instance.attrs)]
        graph = builder.graph([(f"y{k}", value) for k, value in enumerate(results)])
        return to_onnx_apart(graph), inputs

    def _in_turn(self, instance: OpInstance) -> Callable[[], Any]:
        """Return a function that runs an instance once, each time with the next copy of its weights."""
        if without_kernel(instance.op):
            return _in_numpy(instance)
        apart, inputs = self._model(instance)
        if may_not_end(apart.model):
            raise ValueError("it contains a loop, which might never end")
        if sum(array.nbytes for array in apart.arrays.values()) > _CACHES:  # too large for a second copy
            return _runner(session(apart, threads=self.threads), inputs)
        model = joined(apart)
        copies = (session(model, threads=self.threads) for _ in range(_copies(instance)))
        turns = cycle([_runner(loaded, inputs) for loaded in copies])
        return lambda: next(turns)()


def _in_numpy(instance: OpInstance) -> Callable[[], Any]:
    """Return a function that runs an instance once by its reference semantics."""
    spec = spec_of(instance.op)
    run, attrs = spec.evaluate, spec.unpack(instance.attrs)
    operands = [_data(kind) for kind in instance.inputs if isinstance(kind, TensorType)]
    assert run is not None
    return lambda: run(operands, attrs)


def _runner(loaded: InferenceSession, inputs: dict[str, TensorType]) -> Callable[[], Any]:
    """Return a function that runs a loaded model once.

    Bound values avoid the conversion from and to numpy, which costs half a microsecond per operand and would
    make a concatenation of many small tensors seem expensive.
    """
    binding = loaded.io_binding()
    values = {i.name: _value(inputs[i.name]) for i in loaded.get_inputs()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for output in loaded.get_outputs():
        binding.bind_output(output.name, "cpu")

    def run(keep: object = values) -> None:  # keeps the values alive, which the binding does not own
        loaded.run_with_iobinding(binding)

    return run


def _copies(instance: OpInstance) -> int:
    """Return the number of copies of an instance's weights that runs use in turn."""
    pairs = zip(instance.inputs, instance.constant, strict=True)
    weights = sum(k.nbytes for k, constant in pairs if constant and isinstance(k, TensorType))
    if weights < _LARGE or work(instance).flops > _REUSE * weights:
        return 1
    return max(1, min(_COPIES, int(_CACHES // weights)))


def _empty_model() -> ModelProto:
    """Return a model without operators; the time of a run is that of the call alone."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, _SCALAR.shape)
    graph = helper.make_graph([], "empty", [value], [value])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _data(kind: TensorType) -> np.ndarray:
    """Return data of a type: a repeated block of random elements, which makes large tensors quickly.

    Floats are in [0.5, 1.5), so that roots, logarithms and powers are defined; other elements are 0, which is
    a valid index.
    """
    dtype = kind.numpy_dtype()
    if not kind.dtype.startswith(("float", "bfloat")):
        return np.zeros(kind.shape, dtype)
    block = np.random.default_rng(0).uniform(0.5, 1.5, min(kind.elements, 1 << 16))
    return np.resize(block.astype(dtype), kind.shape)


def _value(kind: TensorType) -> Any:
    """Return data of a type as a value of the runtime."""
    if kind.dtype == "string" or kind.elements > kind.nbytes:
        raise ValueError(f"the runtime does not accept {kind} from Python")
    return ort_value(_data(kind))


# -- only what can change a decision ----------------------------------------------------------------------
#: The default limit on the seconds spent measuring for one model.
SECONDS: Final = 4.0

#: For each operator of the model, the ``_PROBES`` instances with the largest estimates are measured first;
#: the roofline that estimates the others is fitted to them. This uses at most ``_PART`` of the seconds.
_PROBES, _PART = 2, 0.25


class Economical(CostModel):
    """A measured cost model whose prices are estimates until :meth:`measure` is called for them.

    The estimates are a roofline scaled to the figures known for this machine: the cached ones, and a few
    probes of the model passed to :meth:`bind`. ``seconds`` limits all measuring for one model.
    """

    def __init__(self, model: MeasuredCost, seconds: float | None = None) -> None:
        self.model = model
        self.seconds = model.budget if seconds is None else seconds
        self._spent_before = model.seconds
        self._probes: list[OpInstance] = []

    @property
    def source(self) -> str:
        """Return a description of the source of the figures."""
        return self.model.source

    @property
    def device(self) -> str:
        """Return the device that the figures are of."""
        return self.model.device

    @property
    def left(self) -> float:
        """Return the seconds that may still be spent on measuring for the current model."""
        return max(0.0, self.seconds - (self.model.seconds - self._spent_before))

    def bind(self, graph: Graph) -> None:
        """Set the current model, which gets ``seconds`` of its own, and choose its probes."""
        self.model.bind(graph)
        self._spent_before = self.model.seconds
        instances = instances_of(graph)
        missing = {id(instance) for instance in self.model.unknown(instances)}
        prices = self.model.known(instances).tolist() if missing else []
        order = sorted(zip(instances, prices, strict=False), key=lambda pair: (pair[0].op, -pair[1]))
        self._probes = [  # a known price is a probe too, so a second call measures none
            instance
            for _, same in groupby(order, key=lambda pair: pair[0].op)
            for instance in [one for one, _ in same][:_PROBES]
            if id(instance) in missing
        ]
        self.model.bind(graph)  # reset the source, which counts the instances priced since the last bind

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds, measured or estimated."""
        if self._probes:
            probes, self._probes = self._probes, []
            self.model.measure(probes, seconds=_PART * self.left)
        return self.model.known(instances)

    def measure(self, instances: Sequence[OpInstance]) -> int:
        """Measure these instances while seconds are left; return the number of new measurements."""
        return self.model.measure(instances, seconds=self.left) if self.left > 0 else 0


def economical(model: CostModel, *, named: object = None) -> CostModel:
    """Return a cost model that measures only on request; return other models than measured ones unchanged.

    The limit for one model is :data:`SECONDS`, or the model's own budget if the caller passed the model as an
    object, in which case ``named`` is that same object.
    """
    if not isinstance(model, MeasuredCost):
        return model
    return Economical(model, None if named is model else SECONDS)
