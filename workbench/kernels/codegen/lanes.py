"""What kernels of convolutions share in C: vectors, the caches of the machine, and groups of sums in registers."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TEXT: Final = Path(__file__).with_name("lanes.c")

#: The bytes of the second-level and of the last cache if the processor does not tell.
CACHE: Final = 1 << 20
LAST_CACHE: Final = 1 << 24
#: The most tiles that a kernel multiplies at once, in registers of 16 and of 8 numbers.
TILES: Final = (12, 6)


@dataclass(frozen=True, slots=True)
class Text:
    """The C text of a kernel, the number of pieces that may run apart, its scratch memory, and if it prepares weights.

    If it does, the pieces are those of one image, of which there may be any number.
    """

    text: str
    pieces: int
    scratch: int
    prepares: bool = True


def second_level() -> int:
    """Return the bytes of the second-level cache of this machine, or :data:`CACHE` if it does not tell."""
    return _bytes_of(2) or CACHE


def last_level() -> int:
    """Return the bytes of the last cache of this machine, or :data:`LAST_CACHE` if it does not tell."""
    return _bytes_of(3) or LAST_CACHE


def _bytes_of(level: int) -> int:
    try:
        told = Path(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size").read_text().strip()
    except OSError:
        return 0
    return int(told[:-1]) << 10 if told.endswith("K") and told[:-1].isdecimal() else 0


def defined(values: Mapping[str, object]) -> str:
    """Return the definitions of values by their names in C."""
    return "".join(f"#define {key} {value}\n" for key, value in values.items())


def vectors(name: str, cases: Mapping[str, tuple[Set[int], tuple[int, int]]]) -> str:
    """Return what depends on the width of vectors: how two interleave, and the numbers of places in registers.

    All names begin with ``name``. By their name, ``cases`` are numbers of places, and how many of them at most are
    computed at once in vectors of 16 and of 8 numbers.
    """
    made = []
    for at, width in enumerate((16, 8)):
        low = ", ".join(f"{k}, {k + width}" for k in range(width // 2))
        high = ", ".join(f"{k}, {k + width}" for k in range(width // 2, width))
        made.append(f"#define TILES {TILES[at]}\n")
        for key, (counts, most) in cases.items():
            sizes = sorted({n for count in counts for n in groups(count, most[at])})
            made[-1] += (
                f"#define {key} {' '.join(f'CASE({n})' for n in sizes)}\n#define {key}_MOST {most[at]}\n"
            )
        for part, order in (("low", low), ("high", high)):
            head = f"static inline Lanes {name}_{part}(Lanes a, Lanes b)"
            made[-1] += f"{head} {{ return INTERLEAVED(a, b, {order}); }}\n"
    head = f"{_VECTORS}#define NAME(part) {name}_##part\n"
    return f"{head}#if WIDE\n{made[0]}#else\n{made[1]}#endif\n{_TEXT.read_text()}"


def groups(count: int, most: int) -> set[int]:
    """Return the sizes of the fewest groups of nearly equal size.

    >>> groups(14, 12), groups(25, 12)
    ({7}, {8, 9})
    """
    number = -(-count // most)
    return {count // number, -(-count // number)}


#: Vectors of as many numbers as a register has.
_VECTORS: Final = """\
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

/* As many numbers as two registers of a kernel's columns have each. */
#ifdef __AVX512F__
#define WIDE 1
typedef float Lanes __attribute__((vector_size(64)));
#else
#define WIDE 0
typedef float Lanes __attribute__((vector_size(32)));
#endif
#define INTERLEAVED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
"""
