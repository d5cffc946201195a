"""Names that are imported when they are first used, and modules that are found by former names, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from types import CodeType, ModuleType
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


class MovedModules(MetaPathFinder, Loader):
    """A finder of modules by their former names; ``homes`` maps each former name to the present one.

    A module below a renamed package is found there too, and is the same object under both names.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = dict(homes)

    def home(self, name: str) -> str | None:
        """Return the present name of a module, or None if it was not renamed.

        >>> MovedModules({"old": "new.place"}).home("old.leaf")
        'new.place.leaf'
        """
        if name in self._homes:
            return self._homes[name]
        parent, _, leaf = name.rpartition(".")
        above = self.home(parent) if parent else None
        return None if above is None else f"{above}.{leaf}"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to import a module of a former name."""
        home = self.home(fullname)
        if home is None:
            return None
        found = find_spec(home)  # its file is the program's name if the module is run
        return spec_from_loader(fullname, self, origin=None if found is None else found.origin)

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of a module that is run by a former name, as by ``python -m``."""
        home = self.home(fullname) or fullname
        found = find_spec(home)
        loader = None if found is None else found.loader
        return loader.get_code(home) if isinstance(loader, InspectLoader) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return None: the module exists, or is made, under its present name."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Import the module by its present name and warn."""
        name = module.__name__
        home = self.home(name)
        assert home is not None
        present = import_module(home)
        warnings.warn(f"{name} is now {home}", DeprecationWarning, stacklevel=2)
        sys.modules[name] = present
