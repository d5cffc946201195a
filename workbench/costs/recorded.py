"""Recorded cost tables: a device's measurements in a file, usable on any machine."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from workbench.costs.analytic import AnalyticCost, work
from workbench.costs.estimate import Calibrated
from workbench.costs.measured import same_kernel
from workbench.costs.model import OpInstance
from workbench.costs.store import Measurement, instance_key


class CostTableError(ValueError):
    """Say why a file is no cost table."""


def save_table(path: str | os.PathLike[str], device: str, table: dict[str, Measurement], **meta: str) -> None:
    """Write a table as parquet; ``meta`` says versions and dates. It appears whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = sorted(table.items())
    columns = {
        "instance": [k for k, _ in rows],
        "median_us": [m.median for _, m in rows],
        "spread_us": [m.spread for _, m in rows],
        "runs": [m.runs for _, m in rows],
    }
    record = json.dumps({"device": device, **meta}).encode()
    data = pa.table(columns).replace_schema_metadata({b"workbench.costs": record})
    target = Path(path)
    temporary = target.with_name(target.name + ".part")
    pq.write_table(data, temporary)
    temporary.replace(target)


class RecordedCost:
    """Price operators from a recorded table; what it lacks is estimated by a roofline scaled to it."""

    def __init__(self, device: str, table: dict[str, Measurement]) -> None:
        self.device, self._table = device, table
        self._calibrated = Calibrated(AnalyticCost("cpu" if "CPU" in device else "h200"))
        self._used: dict[str, bool] = {}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RecordedCost:
        """Read a table; raise :class:`CostTableError` where the file is none."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            data = pq.read_table(path)
            meta = json.loads((data.schema.metadata or {})[b"workbench.costs"])
            columns = [data[c].to_pylist() for c in ("instance", "median_us", "spread_us", "runs")]
            device = str(meta["device"])
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise CostTableError(f"{os.fspath(path)} is no recorded cost table: {error}") from None
        table = {k: Measurement(m, s, r) for k, m, s, r in zip(*columns, strict=True)}
        return cls(device, table)

    @property
    def source(self) -> str:
        """Say what the figures are."""
        measured = sum(self._used.values())
        estimated = len(self._used) - measured
        tail = f"; {measured} instances recorded, {estimated} estimated" if self._used else ""
        return f"recorded table: {self.device}{tail}"

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        keyed = [(instance_key(same_kernel(i)), i) for i in instances]
        self._calibrated.fit((i, self._table[k].median) for k, i in keyed if k in self._table)
        prices = []
        for key, instance in keyed:
            if work(instance).free:
                prices.append(0.0)
                continue
            self._used[key] = key in self._table
            known = self._table.get(key)
            prices.append(known.median if known else self._calibrated.estimate(instance))
        return np.array(prices, dtype=float)
