"""How figures are written: times, changes, counts."""

from __future__ import annotations


def microseconds(value: float) -> str:
    """Write a time given in microseconds with the unit that suits it.

    >>> microseconds(0.4), microseconds(212.54), microseconds(48210.0)
    ('0.400 µs', '212.5 µs', '48.21 ms')
    """
    if value >= 10_000:
        return f"{value / 1000:.4g} ms"
    return f"{value:.1f} µs" if value >= 10 or value == 0 else f"{value:.3f} µs"


def change(before: float, after: float) -> str:
    """Write the relative change from ``before`` to ``after``.

    >>> change(50.0, 20.0), change(0.0, 0.0)
    ('−60.0 %', '±0.0 %')
    """
    relative = after / before - 1 if before > 0 else 0.0
    text = f"{relative * 100:+.1f} %"
    return "±0.0 %" if text in ("+0.0 %", "-0.0 %") else text.replace("-", "−")


def thousands(count: float) -> str:
    r"""Write a count with a narrow space between groups of three digits.

    >>> thousands(50000) == "50\u202f000"
    True
    """
    return f"{count:,.0f}".replace(",", "\u202f")
