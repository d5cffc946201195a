"""Formatting of figures: times, changes, counts."""

from __future__ import annotations

import math


def microseconds(value: float) -> str:
    """Return a time given in microseconds as text with a suitable unit.

    >>> microseconds(0.4), microseconds(212.54), microseconds(48210.0)
    ('0.400 µs', '212.5 µs', '48.21 ms')
    """
    if value >= 10_000:
        return f"{value / 1000:.4g} ms"
    return f"{value:.1f} µs" if value >= 10 or value == 0 else f"{value:.3f} µs"


def change(before: float, after: float) -> str:
    """Return the relative change from ``before`` to ``after`` as text, in percent.

    >>> change(50.0, 20.0), change(0.0, 0.0)
    ('−60.0 %', '±0.0 %')
    """
    relative = after / before - 1 if before > 0 else 0.0
    text = f"{relative * 100:+.1f} %"
    return "±0.0 %" if text in ("+0.0 %", "-0.0 %") else text.replace("-", "−")


def times(ratio: float) -> str:
    """Return a ratio of two times as text.

    >>> times(2.326), times(float("inf"))
    ('2.33×', '∞×')
    """
    return f"{ratio:.2f}×" if math.isfinite(ratio) else "∞×"


def gain(before: float, after: float) -> str:
    """Return the improvement of a time in microseconds as text, in the common form of all gains.

    >>> gain(120.0, 51.6), gain(12_000.0, 9_600.0), gain(5.0, 0.0)
    ('2.33× (120.0 → 51.6 µs)', '1.25× (12.00 → 9.60 ms)', '∞× (5.00 → 0 µs)')
    """
    return f"{times(speedup(before, after))} ({span(before, after)})"


def speedup(before: float, after: float) -> float:
    """Return before / after: 1 if both are 0, infinity if only ``after`` is 0."""
    if after > 0:
        return before / after
    return math.inf if before > 0 else 1.0


def span(before: float, after: float) -> str:
    """Return two times given in microseconds as text, in the unit that suits the longer one.

    >>> span(120.0, 51.6), span(48_210.0, 9_000.0), span(12.0, 0.25)
    ('120.0 → 51.6 µs', '48.21 → 9.00 ms', '12.0 → 0.25 µs')
    """
    longer = max(before, after)
    scale, unit = (1e6, "s") if longer >= 1e6 else (1e3, "ms") if longer >= 10_000 else (1.0, "µs")

    places = 1 if longer >= 10 and scale == 1 else 2 if longer < 100 * scale else 1

    def written(value: float) -> str:
        value /= scale
        return f"{value:.{places}f}" if value >= 1 else f"{value:.3g}"

    return f"{written(before)} → {written(after)} {unit}"


def thousands(count: float) -> str:
    r"""Return a count as text with a narrow space between groups of three digits.

    >>> thousands(50000) == "50\u202f000"
    True
    """
    return f"{count:,.0f}".replace(",", "\u202f")
