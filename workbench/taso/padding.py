"""TASO's padding words as explicit pads."""

from __future__ import annotations


def explicit_pads(
    padding: str, size: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right) for ``"SAME"`` or ``"VALID"``.

    TASO pads ``(total + 1) // 2`` on both sides, not ONNX's SAME_UPPER. Where that would give a row
    more than ``ceil(n / s)``, TASO asserts; here the end keeps what is left of the total.
    """
    if padding == "VALID":
        return (0, 0, 0, 0)
    if padding != "SAME":
        raise ValueError(f'the padding is "SAME" or "VALID", not {padding!r}')
    before, after = [], []
    for n, k, s in zip(size, kernel, strides, strict=True):
        total = max(k - s if n % s == 0 else k - n % s, 0)
        half = (total + 1) // 2
        fits = (n + 2 * half - k) // s + 1 == -(-n // s)
        before.append(half)
        after.append(half if fits else total - half)
    return (before[0], before[1], after[0], after[1])
