"""A disk cache of measured costs that tolerates other processes and broken files."""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from workbench.support.files import cache_folder as cache_folder

#: Incremented whenever the way of measuring changes, so that older figures are not mixed with new ones.
PROTOCOL: Final = 6

#: SQLite's error codes for a file that is not a cost cache (ERROR: other columns; CORRUPT; NOTADB). All other
#: failures (locked, read-only, disk full) are not the file's fault, so the file is left in place.
_BROKEN: Final = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measured cost in microseconds: the median, the interquartile range and the number of runs."""

    median: float
    spread: float
    runs: int

    def __post_init__(self) -> None:
        for value in (self.median, self.spread, self.runs):
            if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                raise ValueError(f"a measurement must be finite and non-negative, got {value!r}")


class Store:
    """Measurements by (device, instance) in an SQLite file; those of a busy machine are kept for an hour.

    A broken file is set aside with a warning. If the store cannot be used (folder write-protected, disk
    full), a warning reports it, and the store stays empty: measuring still works.
    """

    def __init__(self, folder: Path, device: str) -> None:
        self.folder, self.device = folder, device
        self.path = folder / "measured.sqlite"
        self._usable = True
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._usable = False
        warnings.warn(f"measured costs are not kept: {self.path} cannot be used ({error})", stacklevel=4)

    def _do(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of ``action`` on the open database, or None if no database can be used."""
        for attempt in (0, 1):
            if not self._usable:
                break
            opened = _identity(self.path)
            try:
                with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as connection, connection:
                    connection.execute(
                        "create table if not exists cost (device text, instance text, median real, "
                        "spread real, runs integer, taken real, primary key (device, instance))"
                    )
                    return action(connection)
            except sqlite3.DatabaseError as error:
                # Extended error codes contain the plain code in their low byte.
                if attempt == 0 and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _BROKEN:
                    self._set_aside(opened)
                else:
                    self._give_up(error)
        return None

    def _set_aside(self, opened: int | None) -> None:
        aside = self.path.with_name(f"measured-broken-{time.time_ns()}.sqlite")
        try:
            with self._locked("store.lock"):
                # Another process may have set it aside already; the file at this path is then a good one.
                if opened is None or _identity(self.path) != opened:
                    return
                for suffix in ("", "-journal"):
                    part = self.path.with_name(self.path.name + suffix)
                    if part.exists():
                        part.replace(aside.with_name(aside.name + suffix))
        except OSError as error:
            self._give_up(error)
            return
        warnings.warn(f"the cost cache was unreadable and is now {aside}", stacklevel=4)

    def read(self, keys: Sequence[str] | None = None) -> dict[str, Measurement]:
        """Return the measurements of some instances on this device, by default of all."""
        # The time of a measurement is negative if other work took the cores; after an hour it is not taken any more.
        query = "select instance, median, spread, runs from cost where device = ?"
        query += " and (taken > 0 or taken < ?)"
        given: list[object] = [self.device, 3600 - time.time()]
        if keys is not None:
            query += f" and instance in ({', '.join('?' * len(keys))})"
            given += keys
        rows = self._do(lambda c: c.execute(query, given).fetchall()) or []
        found = {}
        for key, *figures in rows:
            with contextlib.suppress(ValueError):
                found[str(key)] = Measurement(*figures)
        return found

    def write(self, found: dict[str, Measurement]) -> None:
        """Add measurements that were just made."""
        taken = -time.time() if os.getloadavg()[0] > (os.cpu_count() or 1) + 0.5 else time.time()
        rows = [(self.device, key, m.median, m.spread, m.runs, taken) for key, m in found.items()]
        self._do(lambda c: c.executemany("insert or replace into cost values (?, ?, ?, ?, ?, ?)", rows))

    @contextlib.contextmanager
    def measuring(self, patience: float = 120.0) -> Iterator[None]:
        """Let one process measure at a time in a folder; raise TimeoutError if another has not ended in time."""
        with contextlib.ExitStack() as held:
            if self._usable:
                try:
                    held.enter_context(self._locked("measuring.lock", patience))
                except OSError as error:
                    if isinstance(error, TimeoutError):
                        raise
                    self._give_up(error)
            yield

    @contextlib.contextmanager
    def _locked(self, name: str, patience: float = 60.0) -> Iterator[None]:
        from filelock import FileLock, Timeout

        lock = FileLock(self.folder / name)
        try:
            held = lock.acquire(timeout=patience, poll_interval=0.02)
        except Timeout:
            raise TimeoutError(f"{self.folder / name} has been held for {patience:g} s") from None
        with held:
            yield


def _identity(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
