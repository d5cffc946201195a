"""Results kept on disk by content: a computation with the same inputs is read instead of repeated.

Entries are in the folder ``rules`` of the user's cache folder, or of the folder that ``WORKBENCH_CACHE``
names; ``WORKBENCH_RULE_CACHE=0`` disables them. The name of an entry is a digest of everything on which its
content depends: the inputs, the source of the modules that compute it, and the version of Python. A file that
is broken, or that cannot be read or written, is treated as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from workbench.support.files import cache_folder, write_atomic

T = TypeVar("T")

#: Largest number of entries on disk (the oldest are deleted first) and in memory.
MOST: Final = 200
IN_MEMORY: Final = 32
#: Modules whose classes may occur in an entry: a file contains data, never code that runs.
_CLASSES: Final = (
    "workbench.ops.spec",
    "workbench.rules.pattern",
    "workbench.rules.ruleset",
    "workbench.saturation.compile",
    "workbench.saturation.encoding",
    "workbench.saturation.program",
)
#: Folders of the package whose source determines the results.
_SOURCES: Final = (
    "graph",
    "ops",
    "rules",
    "saturation",
    "symbolic",
    "laws/verification",
    "kernels/accelerators",
)

_memory: OrderedDict[str, Any] = OrderedDict()


def remembered(kind: str, given: Iterable[str | bytes], make: Callable[[], T]) -> T:
    """Return the result of ``make``, from memory or disk if it was computed from the same inputs before.

    ``kind`` and ``given`` identify the inputs. The result must not be changed, because it is shared. An
    exception of ``make`` is passed on.
    """
    name = _name(kind, given)
    found = _read(name)
    if found is None:
        found = make()
        _write(name, found)
    _hold(name, found)
    return found


class Needed:
    """The numbers that earlier runs with the same content needed, so that the next one can expect them."""

    def __init__(self, given: Iterable[str | bytes]) -> None:
        self._name = _name("needed", given)
        found = _read(self._name)
        plain = isinstance(found, tuple) and all(isinstance(n, int) for n in found)
        self.known: frozenset[int] = frozenset(found) if plain and found else frozenset()
        self._kept = self.known

    def note(self, numbers: Iterable[int]) -> None:
        """Add numbers that this run needs."""
        self.known = self.known.union(numbers)

    def keep(self) -> None:
        """Store the known numbers for the next run if this run added any."""
        if self.known == self._kept:
            return
        self._kept = self.known
        found = tuple(sorted(self.known))
        _hold(self._name, found)
        _write(self._name, found)


def _name(kind: str, given: Iterable[str | bytes]) -> str:
    digest = hashlib.blake2b(_source(), digest_size=16)
    for part in (kind, *given):
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return f"{kind}-{digest.hexdigest()}"


def _hold(name: str, found: Any) -> None:
    _memory[name] = found
    _memory.move_to_end(name)
    while len(_memory) > IN_MEMORY:
        _memory.popitem(last=False)


def _file(name: str) -> Path | None:
    if os.environ.get("WORKBENCH_RULE_CACHE") == "0":
        return None
    return cache_folder() / "rules" / name


@lru_cache(maxsize=1)
def _source() -> bytes:
    """Return a digest of the source that computes the kept results."""
    digest = hashlib.blake2b(sys.version.encode(), digest_size=16)
    package = Path(__file__).resolve().parents[1]
    for folder in _SOURCES:
        for path in sorted((package / folder).rglob("*.py")):
            data = path.read_bytes()
            digest.update(f"{folder}/{path.name} {len(data)}\n".encode() + data)
    return digest.digest()


class DataReader(pickle.Unpickler):
    """A reader of pickled data that makes objects of the classes of some modules, and runs nothing else.

    ``stream`` holds the data, ``modules`` are the names of the modules.
    """

    def __init__(self, stream: BinaryIO, modules: Collection[str]) -> None:
        super().__init__(stream)
        self._modules = modules

    def find_class(self, module: str, name: str) -> type:
        """Return a class of the modules; raise UnpicklingError for anything else."""
        if module in self._modules:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"an entry must hold data and nothing else, got {module}.{name}")


def _read(name: str) -> Any:
    """Return an entry from memory or from its file, or None if it is missing or broken."""
    file = _file(name)
    if name in _memory or file is None:
        return _memory.get(name)
    try:
        data = file.read_bytes()
        if hashlib.blake2b(data[16:], digest_size=16).digest() != data[:16]:
            return None
        return DataReader(io.BytesIO(data[16:]), _CLASSES).load()
    except Exception:  # a broken file can raise anything
        return None


def _write(name: str, content: Any) -> None:
    file = _file(name)
    if file is None:
        return
    with contextlib.suppress(Exception):
        data = pickle.dumps(content, protocol=5)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, hashlib.blake2b(data, digest_size=16).digest() + data)
        known = sorted(file.parent.iterdir(), key=lambda f: f.stat().st_mtime, reverse=True)
        for old in known[MOST:]:
            old.unlink(missing_ok=True)
