"""Search for the rules that cause a wrong result, by repeating the run with fewer rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def find_offending(
    rules: Sequence[str], right: Callable[[Sequence[str]], bool], calls: int = 40
) -> tuple[str, ...]:
    """Return a minimal set of rules with which the run still gives a wrong result.

    ``right(names)`` repeats the run with these rules only and returns whether its result is right. The
    search is delta debugging: it tries halves, then their complements, then finer parts, so one bad rule
    among n is found in about 2 log n runs. The set is minimal unless the search used up its limit of
    ``calls`` runs; it is empty if the first repetition, with all rules, gives a right result.
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
