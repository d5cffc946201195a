"""Generate rewrite rules as a machine would: terms that agree on random tensors, in Tensat's text form.

All pairs of small terms are compared on a few draws of one shape each: square matrices, and images under
convolutions of one group. What differs for other shapes or for groups goes unseen, as it does in
any generator that tries one shape. ``python docs/generated_rules.py`` writes the file
``notebooks/generated-rules.txt``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

#: A term is the name of a variable, or an operator's text and its operands.
type_of = {"x": "image", "w": "weight", "v": "weight", "a": "matrix", "b": "matrix", "c": "matrix"}
Term = Any

DRAWS, EXTENT, CHANNELS = 2, 3, 2
TARGET = Path(__file__).parent.parent / "notebooks" / "generated-rules.txt"


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the convolution of one image, of one group, with a border of zeros."""
    if w.shape[1] != x.shape[1]:
        raise ValueError("the weight must have as many channels as the image")
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


def joined(axis: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return the concatenation along an axis."""
    return lambda x, y: np.concatenate([x, y], axis)


#: Operators by the kind of their operands: text, function, kind of the result.
OPERATORS: Mapping[tuple[str, ...], tuple[tuple[str, Callable[..., np.ndarray], str], ...]] = {
    ("matrix",): (("relu", lambda x: np.maximum(x, 0), "matrix"),),
    ("matrix", "matrix"): (
        ("matmul 0", np.matmul, "matrix"),
        ("ewadd", np.add, "matrix"),
        ("concat 0 2", joined(0), "matrix"),
        ("concat 1 2", joined(1), "matrix"),
    ),
    ("image",): (("relu", lambda x: np.maximum(x, 0), "image"),),
    ("image", "image"): (("ewadd", np.add, "image"), ("concat 1 4", joined(1), "image")),
    ("image", "weight"): (("conv2d 1 1 0 0", convolved, "image"),),
    ("weight", "weight"): (("ewadd", np.add, "weight"), ("concat 0 4", joined(0), "weight")),
}


def draws() -> list[dict[str, np.ndarray]]:
    """Return integers for every variable, a few times."""
    rng = np.random.default_rng(0)
    shapes = {
        "matrix": (EXTENT, EXTENT),
        "image": (1, CHANNELS, EXTENT, EXTENT),
        "weight": (CHANNELS, CHANNELS, 3, 3),
    }
    return [{n: rng.integers(-9, 10, shapes[kind]) for n, kind in type_of.items()} for _ in range(DRAWS)]


def candidates(depth: int) -> Iterator[tuple[Term, Term]]:
    """Yield terms with the smaller term that has their values; only terms that are least are built upon."""
    given = draws()
    known = [(name, kind, 0, [draw[name] for draw in given]) for name, kind in type_of.items()]
    first: dict[bytes, Term] = {}
    for size in range(1, depth + 1):
        made = []
        for kinds, operators in OPERATORS.items():
            for operands in product(*([k for k in known if k[1] == kind] for kind in kinds)):
                if sum(o[2] for o in operands) != size - 1:
                    continue
                for text, function, kind in operators:
                    try:
                        values = [function(*arrays) for arrays in zip(*(o[3] for o in operands), strict=True)]
                    except ValueError:
                        continue
                    made.append(((text, *(o[0] for o in operands)), kind, size, values))
        # The more variables, the more general.
        for term, kind, _, values in sorted(made, key=lambda m: -len(variables(m[0]))):
            key = b"".join(repr(v.shape).encode() + v.tobytes() for v in values)
            least = first.setdefault(key, term)
            if least is term:
                known.append((term, kind, size, values))
            else:
                yield term, least


def written(term: Term, names: dict[str, str]) -> str:
    """Return a term as Tensat writes it; variables are numbered as they occur."""
    if isinstance(term, str):
        return names.setdefault(term, f"?input_{len(names) + 1}")
    return f"({term[0]} {' '.join(written(t, names) for t in term[1:])})"


def variables(term: Term) -> set[str]:
    """Return the variables of a term."""
    return {term} if isinstance(term, str) else set().union(*map(variables, term[1:]))


def matches(pattern: Term, term: Term, bound: dict[str, Term]) -> bool:
    """Return whether a term is an instance of a pattern, and bind the pattern's variables."""
    if isinstance(pattern, str):
        return bound.setdefault(pattern, term) == term
    if isinstance(term, str) or pattern[0] != term[0]:
        return False
    return all(matches(p, t, bound) for p, t in zip(pattern[1:], term[1:], strict=True))


def follows(law: tuple[Term, Term], known: list[tuple[Term, Term]]) -> bool:
    """Return whether a law is an instance of one that is known, in one direction or the other."""
    ways = [way for a, b in known for way in ((a, b), (b, a))]
    return any(matches(a, law[0], bound := {}) and matches(b, law[1], bound) for a, b in ways)


def rules(depth: int = 3) -> list[str]:
    """Return the laws that no law before them contains, one a line."""
    known: list[tuple[Term, Term]] = []
    for law in candidates(depth):
        if variables(law[0]) == variables(law[1]) and not follows(law, known):
            known.append(law)
    lines = []
    for left, right in known:
        names: dict[str, str] = {}
        lines.append(f"{written(left, names)}=>{written(right, names)}")
    return lines


def main() -> None:
    """Write the rules."""
    TARGET.write_text("\n".join(rules()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
