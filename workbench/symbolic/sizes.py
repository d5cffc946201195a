"""Sizes for symbolic dimensions: the size used for pricing and the sizes used to check results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

#: Patterns of names, the kind of dimension they denote, the pricing size and the sizes of the checks.
_KINDS: Final[tuple[tuple[str, str, int, tuple[int, ...]], ...]] = (
    (r"batch|bs|bsz|n|b", "batch", 1, (1, 3, 2)),
    (r"past|cache", "past", 128, (5, 12, 9)),
    (r"seq|sequence|length|len|tokens?|time|t|s|l", "sequence", 128, (7, 16, 33)),
    (r"height|width|h|w|x|y|size|image", "space", 224, (64, 97, 81)),
)

_SIZES: Final = {kind: size for _, kind, size, _ in _KINDS} | {"other": 16}
_CHECKS: Final = {kind: sizes for _, kind, _, sizes in _KINDS} | {"other": (4, 7, 10)}


def kind_of(name: str, axis: int = 0, rank: int = 0) -> str:
    """Return the kind of a dimension, from its name if possible, otherwise from its axis and the rank.

    >>> kind_of("batch_size"), kind_of("past_sequence_length"), kind_of("H"), kind_of("x[2]", 2, 4)
    ('batch', 'past', 'space', 'space')
    """
    if "[" not in name:
        spaced = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
        # A letter with a number, such as s0, is a name that an exporter made up.
        words = [w.rstrip("0123456789") if len(w) > 3 else w for w in re.split(r"[^a-z0-9]+", spaced) if w]
        joined = "".join(words)
        for pattern, kind, _, _ in _KINDS:
            if any(re.fullmatch(pattern, word) for word in words):
                return kind
        for pattern, kind, _, _ in _KINDS:
            long = [p for p in pattern.split("|") if len(p) > 2]
            if any(p in joined for p in long):
                return kind
    if rank and axis == 0:
        return "batch"
    if rank >= 4 and axis >= 2:
        return "space"
    return "sequence" if rank in (2, 3) and axis == 1 else "other"


def pricing_size(kind: str) -> int:
    """Return the default size at which prices are computed."""
    return _SIZES[kind]


def checked_sizes(kinds: Mapping[str, str]) -> tuple[dict[str, int], ...]:
    """Return three bindings of sizes at which a result is checked; symbols of the same kind get different sizes."""
    met = Counter[str]()
    places: dict[str, tuple[str, int]] = {}
    for name, kind in kinds.items():
        places[name] = kind, met[kind]
        met[kind] += 1
    return tuple({name: _CHECKS[kind][(k + n) % 3] for name, (kind, n) in places.items()} for k in range(3))


def named(sizes: Mapping[str, int]) -> str:
    """Return sizes as text.

    >>> named({"batch": 1, "sequence": 128})
    'batch=1, sequence=128'
    """
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
