"""Selection of an extractor by name, and the registration of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from workbench.extraction.extract import extract
from workbench.extraction.own import METHODS, OWN, Extractor, methods
from workbench.extraction.solution import Solution
from workbench.support.messages import unknown

E = TypeVar("E", bound=Extractor)


class UnknownExtractor(LookupError, ValueError):
    """Raised when no extractor has the given name; the message lists the names and the nearest one."""


class _Extractors:
    """The lookup of extractors, and the registration of the user's own."""

    def __call__(self, name: str) -> Callable[..., Solution]:
        """Return an extraction ``(egraph, costs, seconds=…)`` by a method of this name.

        Raise :class:`UnknownExtractor`, with the nearest name, for any other name.
        """
        if name not in METHODS and OWN.find(name) is None:
            raise UnknownExtractor(unknown("extractor", name, self.names()))
        return partial(extract, method=name)

    def register(self, name: str) -> Callable[[E], E]:
        """Return a decorator that gives an extractor a name for ``extractor=`` and ``--extractor``.

        The extractor is a function ``(egraph, costs, *, seconds)`` that returns an e-node for every e-class
        that the roots need: a mapping, or an array with -1 for the other e-classes. The result is
        checked (:class:`~workbench.extraction.own.BadExtraction`). Raise ValueError if the name is built in.
        """

        def add(function: E) -> E:
            OWN.register(name, function)
            return function

        return add

    def names(self) -> list[str]:
        """Return the names of all extractors."""
        return methods()


#: Return an extractor by name: ``extractor("exact")``.
extractor = _Extractors()
