"""Prices from a set of measurements, with a count of those estimated, and recorded tables of a device in a file."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from workbench.costs.analytic import DEVICES, AnalyticCost, work
from workbench.costs.keys import instance_key, parse_key, same_kernel
from workbench.costs.model import CostModel, OpInstance
from workbench.costs.store import Measurement
from workbench.graph import Graph, Opaque
from workbench.ops.onnx_form import without_kernel
from workbench.support.files import write_atomic
from workbench.support.messages import require


class Lookup:
    """Prices of instances from measurements, by key; other prices come from a roofline scaled to all of them.

    It is scaled, for each operator, by the median ratio of measured to analytic cost; an operator that was never
    measured gets the median of the other operators' ratios. The scale depends only on ``known``, so the price of an
    instance changes only when a measurement is added. ``used`` maps every key priced since the last :meth:`bind` to
    whether it was measured.
    """

    def __init__(self, known: dict[str, Measurement], base: AnalyticCost) -> None:
        self.known = dict(known)
        self.opaques: dict[str, Opaque] = {}
        self.used: dict[str, bool] = {}
        self._base = base
        self._ratios: dict[str, float] | None = None  # by operator; "" is that of an operator never measured
        self._by_numpy: set[str] = set()
        self._read: dict[str, OpInstance | None] = {}

    def bind(self, graph: Graph) -> None:
        """Set the current model, so that its opaque operators are identified by content instead of name."""
        self.opaques = dict(graph.opaques)
        self.used.clear()

    def add(self, found: dict[str, Measurement]) -> None:
        """Add measurements."""
        if any(self.known.get(key) != measurement for key, measurement in found.items()):
            self.known |= found
            self._ratios = None

    def key(self, instance: OpInstance) -> str:
        """Return the key of an instance among the measurements."""
        instance = same_kernel(instance)
        if instance.op != "opaque":
            return instance_key(instance)
        record = self.opaques.get(str(instance.attrs[0]))
        content = record.payload if record is not None else str(instance.attrs[0]).encode()
        # The same operator is the same instance even if another model gives it another name.
        digest = hashlib.blake2b(content, digest_size=12).hexdigest()
        plain = OpInstance("opaque", (), instance.inputs, instance.type, instance.constant)
        return instance_key(plain, digest)

    def price(self, keyed: Sequence[tuple[str, OpInstance]]) -> np.ndarray:
        """Return the cost of each instance in microseconds; views and leaves are free."""
        prices = np.zeros(len(keyed))
        unknown: list[int] = []
        for k, (key, instance) in enumerate(keyed):
            if work(instance).free:
                continue
            known = self.known.get(key)
            self.used[key] = known is not None
            if known is not None and without_kernel(instance.op):
                self._by_numpy.add(key)
            if known is None:
                unknown.append(k)
            else:
                prices[k] = known.median
        if unknown:
            prices[unknown] = self.estimate([keyed[k][1] for k in unknown])
        return prices

    def estimate(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the estimates of the scaled roofline in microseconds."""
        if self._ratios is None:
            self._ratios = self._fitted()
        measured = [same_kernel(i) for i in instances]
        return self._base.price(measured) * [self._ratios.get(i.op, self._ratios[""]) for i in measured]

    def _fitted(self) -> dict[str, float]:
        for key in self.known.keys() - self._read.keys():
            self._read[key] = None
            # A table from another version may contain operators or attributes that this version lacks.
            with contextlib.suppress(ValueError, LookupError, TypeError):
                instance = parse_key(key)
                work(instance)
                self._read[key] = instance
        pairs = [(i, m.median) for key, m in self.known.items() if (i := self._read[key]) is not None]
        ratios = defaultdict[str, list[float]](list)
        for (instance, cost), estimate in zip(
            pairs, self._base.price([i for i, _ in pairs]).tolist(), strict=True
        ):
            if estimate > 0:
                ratios[instance.op].append(cost / estimate)
        found = {op: float(np.median(values)) for op, values in ratios.items()}
        return {"": float(np.median(list(found.values()))) if found else 1.0, **found}

    def tally(self, verb: str, failed: Iterable[str] = ()) -> str:
        """Return the numbers of distinct instances that were looked up and that were estimated, as text."""
        if not self.used:
            return ""
        estimated = [key for key, found in self.used.items() if not found]
        text = f"; {len(self.used) - len(estimated)} instances {verb}"
        by_numpy = sum(key in self._by_numpy and found for key, found in self.used.items())
        if by_numpy:
            text += f" ({by_numpy} of them in numpy, for want of a kernel)"
        if estimated:
            text += f", {len(estimated)} estimated"
            refused = len(set(failed).intersection(estimated))
            text += f" ({refused} of them could not be run)" if refused else ""
        return text


# -- tables in files ----------------------------------------------------------------------------------
_COLUMNS = ("instance", "median_us", "spread_us", "runs")


class CostTableError(ValueError):
    """Raised when a file is not a recorded cost table."""


def save_table(
    path: str | os.PathLike[str], device: str, table: Mapping[str, Measurement], **meta: str
) -> None:
    """Write a table as a parquet file; the write is atomic.

    ``device`` describes the device and the way of measuring. ``meta`` adds further facts such as versions and
    the date; its entry ``roofline`` names the analytic device whose figures, scaled, estimate instances that
    the table lacks.
    """
    pa, pq = (require(name, "parquet") for name in ("pyarrow", "pyarrow.parquet"))
    rows = sorted(table.items())
    columns = ([k for k, _ in rows], *([getattr(m, f) for _, m in rows] for f in Measurement.__slots__))
    kinds = (pa.string(), pa.float64(), pa.float64(), pa.int64())
    record = json.dumps({"device": device, **meta}).encode()
    schema = pa.schema(list(zip(_COLUMNS, kinds, strict=True)), {b"workbench.costs": record})
    data = pa.table(list(map(pa.array, columns, kinds)), schema=schema)
    buffer = io.BytesIO()
    pq.write_table(data, buffer)
    write_atomic(path, buffer.getvalue())


class RecordedCost(CostModel):
    """A cost model from a recorded table; a roofline scaled to the table estimates other instances."""

    device = ""

    def __init__(self, device: str, table: Mapping[str, Measurement], meta: Mapping[str, str] = {}) -> None:
        self.device, self.meta = device, dict(meta)
        roofline = self.meta.get("roofline", "cpu")
        self.lookup = Lookup(dict(table), AnalyticCost(roofline if roofline in DEVICES else "cpu"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RecordedCost:
        """Read a table; raise :class:`CostTableError` if the file is not one."""
        pa, pq = (require(name, "parquet") for name in ("pyarrow", "pyarrow.parquet"))
        try:
            data = pq.read_table(path)
            meta = {k: str(v) for k, v in json.loads(data.schema.metadata[b"workbench.costs"]).items()}
            table = {}
            for key, *figures in zip(*(data[c].to_pylist() for c in _COLUMNS), strict=True):
                parse_key(key)
                table[key] = Measurement(*figures)
            device = meta.pop("device")
        except (pa.ArrowException, OSError, LookupError, ValueError, TypeError, AttributeError) as error:
            raise CostTableError(f"{os.fspath(path)} is not a recorded cost table: {error}") from None
        return cls(device, table, meta)

    @property
    def source(self) -> str:
        """Return a description of the source of the figures."""
        return f"recorded table: {self.device}{self.lookup.tally('recorded')}"

    def bind(self, graph: Graph) -> None:
        """Set the current model, whose opaque operators may be in the table."""
        self.lookup.bind(graph)

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        return self.lookup.price([(self.lookup.key(i), i) for i in instances])
