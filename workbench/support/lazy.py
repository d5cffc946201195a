"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str,
    homes: Mapping[str, str],
    modules: tuple[str, ...] = (),
    moved: Mapping[str, str] | None = None,
    gone: Mapping[str, str] | None = None,
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports each of its names on first use.

    Args:
        package: The name of the package.
        homes: The module of each name, relative to the package if it begins with a dot.
        modules: Submodules that are available as names of the package.
        moved: The package from which a name is imported now; the former name works, with a warning.
        gone: What to use instead of a name that was removed.

    >>> lazy_names("workbench", {"Graph": "workbench.graph"})("Graph").__name__
    'Graph'
    """

    def attribute(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if moved and name in moved:
            warnings.warn(f"{package}.{name} is now {moved[name]}.{name}", DeprecationWarning, stacklevel=2)
            return getattr(import_module(moved[name]), name)
        if gone and name in gone:
            raise AttributeError(f"{package}.{name} was removed ({gone[name]})")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)  # the next access does not call this function
        return value

    return attribute
