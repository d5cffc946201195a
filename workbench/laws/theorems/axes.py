"""Keys: the names of axes in proofs about tensors of any rank.

A *key* is a number counted from the last axis, the name of an axis that a rule binds, or ``*``, which stands
for any axis that has no other name. A proof for ``*`` holds for every such axis, and so for tensors of every
rank. A permutation ``p`` that a rule binds maps keys ``k`` to ``p(k)``, and back by ``p-(k)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from workbench.symbolic.integers import Cond, Int, atoms, call, choose, equal, num, sym, truth

Key = Any
REST: Final = "*"


def on_rest(condition: Cond) -> bool:
    """Return whether a condition is about axes without a name; there may be several."""
    return any("*" in (a.args[0] if a.head == "sym" else a.head) for a in atoms(condition))


class NotCovered(ValueError):
    """Raised when a rule uses something that proofs for all types do not cover; the message names it."""

    why = "uncovered"


@dataclass(frozen=True, slots=True)
class Perm:
    """A permutation that a rule binds, or several, of which the last is applied first to a key.

    ``p-`` is the inverse of ``p``. ``fixed`` are the images that the rule's conditions give.
    """

    names: tuple[str, ...]
    fixed: Mapping[Key, Key] = field(default_factory=dict)

    def __len__(self) -> int:
        raise NotCovered("the length of a permutation that is a variable")

    def forth(self, key: Key) -> Key:
        """Return the operand's key that the result's axis shows."""
        for name in reversed(self.names):
            key = self._image(name, key)
        return key

    def back(self, key: Key) -> Key:
        """Return the result's key that shows an operand's axis."""
        for name in self.names:
            key = self._image(opposite(name), key)
        return key

    def _image(self, name: str, key: Key) -> Key:
        made = key[1] if isinstance(key, tuple) and key[0] == opposite(name) else (name, key)
        return self.fixed.get(made, made)

    def inverse(self) -> Perm:
        """Return the permutation that undoes this one."""
        return Perm(tuple(opposite(n) for n in reversed(self.names)), self.fixed)


def opposite(name: str) -> str:
    """Return the name of a permutation's inverse.

    >>> opposite("p"), opposite("p-")
    ('p-', 'p')
    """
    return name[:-1] if name.endswith("-") else name + "-"


def key_text(key: Key) -> str:
    """Return a key as text."""
    if isinstance(key, tuple):
        return f"{key[0]}({key_text(key[1])})"
    if isinstance(key, int | str):
        return str(key)
    raise NotCovered(f"the axis {key!r}")


def place_of(key: Key) -> Int:
    """Return the number of an axis, counted from the last."""
    if isinstance(key, tuple):
        return call(f"at {key[0]}", place_of(key[1]))
    if isinstance(key, int):
        return num(key)
    if isinstance(key, str):
        return sym(f"place {key}")
    raise NotCovered(f"the axis {key!r}")


def met(key: Key, other: Key) -> Cond:
    """Return the condition that two keys are one axis.

    Keys without a permutation are different axes if they are different. With one, the condition has one
    form: ``k = p(m)`` is also what ``p-(k) = m`` says.
    """
    (inner, key), (outer, other) = _taken_apart(key), _taken_apart(other)
    word: list[str] = []
    for name in (*map(opposite, reversed(inner)), *outer):
        if word and word[-1] == opposite(name):
            word.pop()
        else:
            word.append(name)
    if not word:
        return truth(key == other)
    back = [opposite(n) for n in reversed(word)]
    (key, word, other) = min((key, word, other), (other, back, key), key=lambda t: (str(t[0]), t[1]))
    image = place_of(other)
    for name in reversed(word):
        image = call(f"at {name}", image)
    return equal(place_of(key), image)


def _taken_apart(key: Key) -> tuple[list[str], Key]:
    """Return the permutations of a key, the last applied first, and the key to which they are applied."""
    names = []
    while isinstance(key, tuple):
        names.append(key[0])
        key = key[1]
    return names, key


def among(key: Key, table: Mapping[Key, Int], beside: Callable[[Key], Int]) -> Int:
    """Return the entry of a table for the axis of a key, or ``beside`` for every other axis.

    An image under a permutation may be any of the axes: the entry is then chosen by that condition.
    """
    if key in table:
        return table[key]
    found = beside(key)
    for k, entry in table.items():
        found = choose(met(key, k), entry, found)
    return found


def shown(perm: Sequence[int], key: Key) -> Key:
    """Return the operand's key that a result's axis shows, by a permutation of numbers."""
    n = len(perm)
    return perm[n + key] - n if isinstance(key, int) and -key <= n else key
