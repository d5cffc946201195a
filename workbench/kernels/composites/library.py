"""The library of composites: the files of the folder ``composites``."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from workbench.kernels.composites.composite import Composite, NotationError
from workbench.kernels.composites.files import load

if TYPE_CHECKING:
    from collections.abc import Mapping


def folder() -> Path:
    """Return the folder of the library, in the package or next to it; raise FileNotFoundError without one."""
    package = Path(__file__).resolve().parents[2]
    for place in (package / "_composites", package.parent / "composites"):
        if place.is_dir():
            return place
    raise FileNotFoundError("the library of composites is missing (try installing the package again)")


@lru_cache(maxsize=1)
def library() -> Mapping[str, Composite]:
    """Return the composites of the library by name; files are read in the order of their names.

    Raises:
        NotationError: If a file cannot be read or declares a name again.
    """
    found: dict[str, Composite] = {}
    for path in sorted(folder().glob("*.composite")):
        more = load(path, found)
        if again := sorted(set(more) & set(found)):
            raise NotationError(f"{path.name} declares {again[0]}, which another file declares")
        found |= more
    return MappingProxyType(found)
