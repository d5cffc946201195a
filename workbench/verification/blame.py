"""Find the rules behind a wrong result, by repeating the run with fewer of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def find_offending(
    rules: Sequence[str], right: Callable[[Sequence[str]], bool], calls: int = 40
) -> tuple[str, ...]:
    """Return a smallest set of rules with which a run still goes wrong.

    ``right(names)`` repeats the run with these rules alone and says whether its result is right. Delta
    debugging: halves first, then their complements, then finer parts, so that one bad rule among n is
    found in about 2 log n runs. The set is minimal unless ``calls`` ran out before; it is empty when
    the run cannot be made to fail again.
    """
    left = calls

    def wrong(names: Sequence[str]) -> bool:
        nonlocal left
        left -= 1
        return not right(names)

    suspects = list(rules)
    if not wrong(suspects):
        return ()
    parts = 2
    while len(suspects) > 1 and left > 0:
        size = -(-len(suspects) // parts)
        chunks = [suspects[i : i + size] for i in range(0, len(suspects), size)]
        complements = [[s for s in suspects if s not in set(c)] for c in chunks]
        for candidate in chunks + (complements if len(chunks) > 2 else []):
            if left <= 0:
                break
            if wrong(candidate):
                parts = 2 if candidate in chunks else max(2, parts - 1)
                suspects = candidate
                break
        else:
            if parts >= len(suspects):
                break
            parts = min(len(suspects), 2 * parts)
    return tuple(suspects)
