"""Decisions of a search that is written as a plain function: enumerated one after another, or random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from workbench.laws.verification.instances.linear import Inconsistent

T = TypeVar("T")


class Choices(Protocol):
    """A way to pick one of several options."""

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options; raise :class:`Inconsistent` if there are none."""
        ...

    def some(self, options: Sequence[T]) -> T:
        """Return one of some options that do not exhaust the possibilities."""
        ...


@dataclass(slots=True)
class RandomChoices:
    """Random decisions; an option that is listed twice is twice as likely."""

    rng: random.Random

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options; raise :class:`Inconsistent` if there are none."""
        if not options:
            raise Inconsistent("nothing to choose from")
        return options[0] if len(options) == 1 else self.rng.choice(options)

    def some(self, options: Sequence[T]) -> T:
        """Return one of some options that do not exhaust the possibilities."""
        return self.pick(options)


@dataclass(slots=True)
class Enumeration:
    """All sequences of decisions, one after another, depth first.

    The function that decides is run again for every sequence; :meth:`advance` moves to the next sequence
    and skips those that share a failed prefix. ``limited`` means that the current sequence has a decision
    between some of the possibilities only.

    >>> walk, seen = Enumeration(), []
    >>> while True:
    ...     seen.append((walk.pick("ab"), walk.pick("xy")))
    ...     if not walk.advance():
    ...         break
    >>> ["".join(s) for s in seen]
    ['ax', 'ay', 'bx', 'by']
    """

    path: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    at: int = 0
    limited: bool = False

    def pick(self, options: Sequence[T]) -> T:
        """Return the option of the current sequence; raise :class:`Inconsistent` if there are none."""
        if not options:
            raise Inconsistent("nothing to choose from")
        if self.at == len(self.path):
            self.path.append(0)
            self.sizes.append(len(options))
        choice = options[self.path[self.at]]
        self.at += 1
        return choice

    def some(self, options: Sequence[T]) -> T:
        """Return the option of the current sequence, of some that do not exhaust the possibilities."""
        self.limited = True
        return self.pick(options)

    def advance(self) -> bool:
        """Go to the next sequence, if any; decisions after the last one made are dropped."""
        del self.path[self.at :], self.sizes[self.at :]
        self.at = 0
        self.limited = False
        while self.path and self.path[-1] + 1 >= self.sizes[-1]:
            self.path.pop()
            self.sizes.pop()
        if not self.path:
            return False
        self.path[-1] += 1
        return True
