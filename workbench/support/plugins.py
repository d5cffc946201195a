"""Things by name: fixed tables, things that a notebook registers, things that packages offer as entry points."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from workbench.support.messages import UnknownName

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
G = TypeVar("G")

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


class BrokenPlugin(ImportError):
    """Raised when an entry point of an installed package cannot be loaded; the message names both."""


@contextlib.contextmanager
def naming(plugin: str) -> Iterator[None]:
    """Add the name of a plug-in to every exception of its code.

    >>> with naming("the extractor 'own'"):
    ...     1 / 0
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    in the extractor 'own'
    """
    try:
        yield
    except Exception as error:
        error.add_note(f"in {plugin}")
        raise


class Table(dict[str, T]):
    """A fixed table of things by name; looking up a name that it lacks raises UnknownName.

    >>> Table("colour", {"red": 1})["rod"]
    Traceback (most recent call last):
    workbench.support.messages.UnknownName: no colour is called 'rod'; did you mean red? There are: red
    """

    def __init__(self, noun: str, things: Mapping[str, T], *, listed: bool = True) -> None:
        super().__init__(things)
        self.noun, self.listed = noun, listed

    def __missing__(self, name: str) -> T:
        raise UnknownName(self.noun, name, self, listed=self.listed)


class Named(Generic[T]):
    """A table of things by name: those that are built in, and a user's own.

    Args:
        noun: The kind of thing, for messages.
        group: The group of entry points in which packages offer such things.
        home: The module and the name that this table has, so that another process finds it.
        built_in: Return the names that are built in, which nothing else may have.
    """

    def __init__(self, noun: str, group: str, home: str, built_in: Callable[[], Iterable[str]]) -> None:
        self.noun, self.group, self.home = noun, group, home
        self._built_in = built_in
        self._own: dict[str, T] = {}

    def register(self, name: str, thing: T | None = None) -> Callable[[G], G]:
        """Add a thing, or return a decorator that adds one; one that had this name before is replaced.

        Raise ValueError if the name is not a name, or is built in.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"the name of a {self.noun} must be letters, digits, ., _ and -, got {name!r}")
        if name in self._built_in():
            raise ValueError(f"the name of a {self.noun} must not be a built-in one, got {name!r}")

        def add(given: G) -> G:
            self._own[name] = cast("T", given)
            return given

        if thing is not None:
            add(thing)
        return add

    def named(self, thing: str | T) -> str:
        """Return the name of a thing that is given by name or as it is; the latter is registered by its own name.

        >>> table = Named("colour", "colours", "", lambda: ["red"])
        >>> def red(): ...
        >>> table.named(red), table.named("red")
        ('red-2', 'red')
        """
        if isinstance(thing, str):
            return thing
        own = re.sub("[^A-Za-z0-9_]+", "-", getattr(thing, "__name__", "")).strip("-_") or "own"
        names = (own if n == 1 else f"{own}-{n}" for n in itertools.count(1))
        name = next(n for n in names if n not in self._built_in() and self._own.get(n, thing) is thing)
        self.register(name, thing)
        return name

    def forget(self, name: str) -> None:
        """Remove a thing that was registered; raise KeyError if none has the name."""
        del self._own[name]

    def find(self, name: str) -> T | None:
        """Return the entry that was registered or is offered by this name, or None.

        Raise :class:`BrokenPlugin` if a package offers it and cannot be loaded.
        """
        if name not in self._own:
            for entry in self._entries():
                if entry.name == name:
                    return _loaded(entry, self.noun)
        return self._own.get(name)

    def unknown(self, name: str, also: str = "") -> UnknownName:
        """Return the error for a name that nothing has; ``also`` ends its message."""
        return UnknownName(self.noun, name, self.names(), also=also)

    def load_all(self) -> None:
        """Load all entries that packages offer; warn of those that cannot be loaded."""
        for entry in self._entries():
            try:
                _loaded(entry, self.noun)
            except BrokenPlugin as error:
                warnings.warn(str(error), stacklevel=2)

    def names(self) -> list[str]:
        """Return all names: the built-in ones, then the others in alphabetical order."""
        return [*self._built_in(), *sorted({*self._own, *(entry.name for entry in self._entries())})]

    def _entries(self) -> list[EntryPoint]:
        from importlib.metadata import entry_points  # imported here because it is slow to import

        return [entry for entry in entry_points(group=self.group) if entry.name not in self._built_in()]

    def packed(self) -> list[tuple[str, str, bytes]]:
        """Return the registered entries for another process; entries that cannot be pickled are left out."""
        import cloudpickle

        found = []
        for name, thing in self._own.items():
            try:
                found.append((self.home, name, bytes(cloudpickle.dumps(thing))))
            except Exception:  # pickling runs the code of any object
                continue
        return found


def unpack(things: Iterable[tuple[str, str, bytes]]) -> None:
    """Register things that another process packed."""
    for home, name, content in things:
        module, _, table = home.partition(":")
        getattr(import_module(module), table).register(name, pickle.loads(content))


def _loaded(entry: EntryPoint, noun: str) -> Any:
    try:
        return entry.load()
    except Exception as error:  # it runs the code of a package
        package = "" if entry.dist is None else f" of the package {entry.dist.name}"
        raise BrokenPlugin(
            f"the {noun} {entry.name!r}{package} ({entry.value}) must be loadable, got "
            f"{type(error).__name__}: {error}"
        ) from error
