"""TASO's padding modes as explicit pads."""

from __future__ import annotations


def explicit_pads(
    padding: str, size: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Return the pads (top, left, bottom, right) of a window under TASO's padding.

    TASO pads ``(total + 1) // 2`` on both sides, unlike ONNX's SAME_UPPER. If that would give more rows or
    columns than ``ceil(n / s)``, TASO fails an assertion; here the end gets the rest of the total instead.

    Args:
        padding: ``"SAME"`` or ``"VALID"``.
        size: Height and width of the input.
        kernel: Height and width of the window.
        strides: Vertical and horizontal stride.

    Raises:
        ValueError: The padding is another text.
    """
    if padding == "VALID":
        return (0, 0, 0, 0)
    if padding != "SAME":
        raise ValueError(f'padding must be "SAME" or "VALID", got {padding!r}')
    before, after = [], []
    for n, k, s in zip(size, kernel, strides, strict=True):
        total = max(k - s if n % s == 0 else k - n % s, 0)
        half = (total + 1) // 2
        fits = (n + 2 * half - k) // s + 1 == -(-n // s)
        before.append(half)
        after.append(half if fits else total - half)
    return (before[0], before[1], after[0], after[1])
