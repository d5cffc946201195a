"""Decisions of a search that is written as a plain function: every one in turn, or at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from workbench.verification.linear import Inconsistent

T = TypeVar("T")


class Choices(Protocol):
    """Pick one of several options."""

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options; raise :class:`Inconsistent` where there is none."""
        ...


@dataclass(slots=True)
class RandomChoices:
    """Pick at random; an option that stands twice is twice as likely."""

    rng: random.Random

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options; raise :class:`Inconsistent` where there is none."""
        if not options:
            raise Inconsistent("nothing to choose from")
        return options[0] if len(options) == 1 else self.rng.choice(options)


@dataclass(slots=True)
class Enumeration:
    """Walk through all sequences of decisions, depth first.

    The function that decides is run again for every sequence; :meth:`advance` goes on to the next one
    and skips what shares a prefix that has failed.

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

    def pick(self, options: Sequence[T]) -> T:
        """Return the option of the current sequence; raise :class:`Inconsistent` where there is none."""
        if not options:
            raise Inconsistent("nothing to choose from")
        if self.at == len(self.path):
            self.path.append(0)
            self.sizes.append(len(options))
        choice = options[self.path[self.at]]
        self.at += 1
        return choice

    def advance(self) -> bool:
        """Go to the next sequence; decisions after the last one made are forgotten."""
        del self.path[self.at :], self.sizes[self.at :]
        self.at = 0
        while self.path and self.path[-1] + 1 >= self.sizes[-1]:
            self.path.pop()
            self.sizes.pop()
        if not self.path:
            return False
        self.path[-1] += 1
        return True
