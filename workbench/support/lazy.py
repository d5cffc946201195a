"""Names that are imported when they are first used."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from workbench.support.messages import nearest


def door(
    package: str,
    homes: Mapping[str, str],
    *,
    own: tuple[str, ...] = (),
    modules: tuple[str, ...] = (),
    moved: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], list[str]]:
    """Return the ``__getattr__`` of a package that imports each of its names on first use, and its ``__all__``.

    Args:
        package: The name of the package.
        homes: The names that each of its modules has, separated by spaces.
        own: Names that the package defines itself.
        modules: Submodules that are available as names of the package.
        moved: The names that each other package has now; the former place works, with a warning.

    >>> attribute, names = door("workbench", {"graph": "Graph GraphBuilder"})
    >>> attribute("Graph").__name__, names
    ('Graph', ['Graph', 'GraphBuilder'])
    """
    places = {name: f"{package}.{home}" for home, names in homes.items() for name in names.split()}
    former = {name: home for home, names in (moved or {}).items() for name in names.split()}

    def attribute(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name in former:
            home = former[name]
            warnings.warn(f"{package}.{name} is now {home}.{name}", DeprecationWarning, stacklevel=2)
            return getattr(import_module(home), name)
        if name not in places:
            hint = nearest(name, places)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        value = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, value)  # the next access does not call this function
        return value

    return attribute, sorted([*places, *own])
