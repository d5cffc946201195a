"""The steps of a proof as data: integers, conditions, and the words in which they may speak.

A step speaks of the symbols and functions of its statement and of variables that sums bind, and of nothing else.
Integers are compared by their texts, so a name such as ``a+1*b`` would be taken for a sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, Final

from workbench.laws.theorems.terms import Value, atoms_of
from workbench.symbolic import integers

#: The names of steps and of operations on integers and conditions.
_STEPS: Final = ("absurd", "split", "parts", "collect", "sum")
_OPERATIONS: Final = ("ge", "eq", "and", "or", "not", "ite", "+", "*", "div", "bc", "max")
HEADS: Final = frozenset((*_STEPS, *_OPERATIONS))
#: The word of the step that counts the values of a variable.
COUNT: Final = "count"
#: The names of variables that a sum or a largest value binds.
_BOUND: Final = re.compile(r"#\d+|%\d+\.\d+")


#: An integer or a condition as data, ready for JSON.
Data = int | str | list[Any]


class Rejected(ValueError):
    """Raised when a step does not apply; the message says which."""


# -- integers and conditions as data --------------------------------------------------------------------
def read_int(data: object) -> integers.Int:
    """Return an integer from its data: a number, a symbol's name or an operation.

    >>> read_int(["+", "+n", -1])
    -1+1*+n
    """
    if isinstance(data, bool):
        raise Rejected("a truth value is not an integer")
    if isinstance(data, int):
        return integers.num(data)
    if isinstance(data, str):
        return integers.sym(data)
    if not isinstance(data, list) or not data or not isinstance(data[0], str):
        raise Rejected(f"no integer: {data!r}")
    head = data[0]
    if head == "ite":
        return integers.choose(read_condition(data[1]), read_int(data[2]), read_int(data[3]))
    args = [read_int(d) for d in data[1:]]
    if head == "*":
        return reduce(integers.mul, args, integers.num(1))
    known: dict[str, Callable[..., integers.Int]] = {
        "+": integers.add,
        "div": integers.div,
        "bc": integers.broadcast,
        "max": integers.largest,
    }
    return known[head](*args) if head in known else integers.call(head, *args)


def read_condition(data: object) -> integers.Cond:
    """Return a condition from its data."""
    if not isinstance(data, list) or not data:
        raise Rejected(f"no condition: {data!r}")
    head, *args = data
    if head == "ge":
        return integers.at_least(read_int(args[0]), integers.num(0))
    if head == "eq":
        return integers.equal(read_int(args[0]), integers.num(0))
    parts = [read_condition(a) for a in args]
    if head == "not":
        return integers.negated(parts[0])
    if head not in ("and", "or"):
        raise Rejected(f"no condition: {head!r}")
    return integers.both(*parts) if head == "and" else integers.either(*parts)


def write_int(x: integers.Int) -> Data:
    """Return an integer as data, which :func:`read_int` reads back."""
    items = [_joined("*", [*([] if m and c == 1 else [c]), *map(_atom, m)]) for m, c in x.terms]
    return _joined("+", items) if items else 0


def _joined(head: str, parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else [head, *parts]


def _atom(a: integers.Atom) -> Any:
    if a.head == "sym":
        return a.args[0]
    if a.head == "ite":
        return ["ite", write_condition(a.args[0]), write_int(a.args[1]), write_int(a.args[2])]
    return [a.head, *map(write_int, a.args)]


def write_condition(c: integers.Cond) -> Data:
    """Return a condition as data."""
    if c.head in ("ge", "eq"):
        return [c.head, write_int(c.args[0])]
    return [c.head, *map(write_condition, c.args)]


# -- words -----------------------------------------------------------------------------------------------
def check_words(nodes: object, facts: Iterable[integers.Cond], pairs: Iterable[tuple[Value, Value]]) -> None:
    """Raise Rejected if steps name a symbol or a function of which the facts and values of their statement do not."""
    spoken = [a for f in facts for a in integers.atoms(f)] + [
        a for p in pairs for v in p for a in atoms_of(v)
    ]
    names = {a.args[0] for a in spoken if a.head == "sym"}
    functions = {a.head for a in spoken if a.head != "sym"}
    for word, is_head in _words(nodes):
        known = word in HEADS | functions if is_head else word in names or word == COUNT
        if not known and (is_head or not _BOUND.fullmatch(word)):
            raise Rejected(f"words: the statement does not speak of {word!r}")


def _words(data: object) -> Iterator[tuple[str, bool]]:
    """Yield the words of steps, and whether each is the first of its list."""
    if isinstance(data, dict):
        data = [None, *data, *data.values()]
    for k, part in enumerate(data if isinstance(data, list) else ()):
        if isinstance(part, str):
            yield part, k == 0
        else:
            yield from _words(part)
