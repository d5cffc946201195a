"""A disk cache of measured costs, safe against other processes and broken files."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sqlite3
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.costs.model import OpInstance
from workbench.ops import TensorType, TupleType, ValueType

#: Counted up whenever the way of measuring changes, so that older figures are not mixed in.
PROTOCOL = 2


@dataclass(frozen=True, slots=True)
class Measurement:
    """Hold a measured cost in microseconds: median, interquartile range, and how many runs."""

    median: float
    spread: float
    runs: int


def type_key(kind: ValueType) -> Any:
    """Return a type as plain data."""
    if isinstance(kind, TupleType):
        return [type_key(k) for k in kind.elements]
    return f"{kind.dtype}[{','.join(map(str, kind.shape))}]"


def instance_key(instance: OpInstance, extra: str = "") -> str:
    """Return the text that names an instance in tables; ``extra`` tells opaque operators apart."""
    record = [
        instance.op,
        list(instance.attrs),
        [type_key(k) for k in instance.inputs],
        type_key(instance.type),
        "".join("cv"[not c] for c in instance.constant),
    ]
    if extra:
        record.append(extra)
    return json.dumps(record, separators=(",", ":"))


def parse_type(text: str) -> TensorType:
    """Return the type that :func:`type_key` wrote."""
    dtype, _, rest = text.partition("[")
    dims = rest.rstrip("]")
    return TensorType(dtype, tuple(map(int, dims.split(","))) if dims else ())


def machine() -> str:
    """Return what the machine is: processor and cores."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {os.cpu_count()} cores"


def cache_folder() -> Path:
    """Return where measured costs are kept: WORKBENCH_CACHE, or the user's cache folder."""
    given = os.environ.get("WORKBENCH_CACHE")
    if given:
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("tamago-workbench")


class Store:
    """Keep measurements by (device, instance) in an SQLite file."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder, self.device = folder, device
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "measured.sqlite"

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        for attempt in (0, 1):
            connection = sqlite3.connect(self.path, timeout=60)
            try:
                connection.execute(
                    "create table if not exists cost (device text, instance text, median real, "
                    "spread real, runs integer, taken real, primary key (device, instance))"
                )
                break
            except sqlite3.DatabaseError:
                connection.close()
                if attempt:
                    raise
                aside = self.path.with_name(f"measured-broken-{int(time.time())}.sqlite")
                self.path.replace(aside)
                warnings.warn(f"the cost cache was unreadable and is now {aside}", stacklevel=4)
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def read(self) -> dict[str, Measurement]:
        """Return all measurements of this device."""
        with self._open() as connection:
            rows = connection.execute(
                "select instance, median, spread, runs from cost where device = ?", (self.device,)
            ).fetchall()
        return {key: Measurement(median, spread, runs) for key, median, spread, runs in rows}

    def write(self, found: dict[str, Measurement]) -> None:
        """Add measurements."""
        rows = [(self.device, key, m.median, m.spread, m.runs, time.time()) for key, m in found.items()]
        with self._open() as connection:
            connection.executemany("insert or replace into cost values (?, ?, ?, ?, ?, ?)", rows)

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Let one process at a time measure, so that timings do not disturb each other."""
        with (self.folder / "measuring.lock").open("w") as lock:
            with contextlib.suppress(ImportError):
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
