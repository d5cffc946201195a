"""Recorded cost tables: a device's measurements in a file, usable on any machine."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence

import numpy as np

from workbench.costs.analytic import DEVICES, AnalyticCost
from workbench.costs.keys import parse_key
from workbench.costs.lookup import Lookup
from workbench.costs.model import CostModel, OpInstance
from workbench.costs.store import Measurement
from workbench.graph import Graph
from workbench.support.files import write_atomic
from workbench.support.messages import require

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
        self._lookup = Lookup(dict(table), AnalyticCost(roofline if roofline in DEVICES else "cpu"))

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
        return f"recorded table: {self.device}{self._lookup.tally('recorded')}"

    def bind(self, graph: Graph) -> None:
        """Set the current model, whose opaque operators may be in the table."""
        self._lookup.bind(graph)

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        return self._lookup.price([(self._lookup.key(i), i) for i in instances])
