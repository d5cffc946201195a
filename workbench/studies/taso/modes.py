"""TASO's numbers and names of operators, paddings, activations and data types, and its error."""

from __future__ import annotations

from typing import Final


class TasoError(ValueError):
    """Raised when TASO would end the process; the message has the operator, the norm and the value."""


#: TASO's operator numbers and their names in Python; TASO has no names for the other numbers.
op_table: Final[dict[int, str]] = {
    0: "Input", 1: "Weight", 3: "Conv", 4: "Dropout", 6: "MaxPool", 7: "AveragePool", 8: "Relu",
    9: "Sigmoid", 10: "Tanh", 11: "BatchNormalization", 12: "Concat", 13: "Split", 14: "Reshape",
    15: "Transpose", 16: "Add", 17: "Mul", 18: "MatMul", 26: "Squeeze", 27: "Unsqueeze", 28: "Sub",
    29: "Div", 30: "Equal", 31: "Greater", 32: "Less", 33: "Max", 34: "Min", 35: "ArgMax", 36: "ArgMin",
    37: "ReduceMax", 38: "ReduceMean", 39: "ReduceMin", 40: "ReduceProd", 41: "ReduceSum", 42: "Pad",
    43: "Shape", 44: "Size", 45: "TopK", 46: "Where", 47: "Ceil", 48: "Cast", 49: "Exp", 50: "Round",
    51: "Log", 52: "Not", 53: "Sqrt", 55: "Slice", 56: "Resize", 57: "PRelu", 61: "Add",
}  # fmt: skip

ACTIVATIONS: Final = {"NONE": "none", "SIGMOID": "sigmoid", "RELU": "relu", "TANH": "tanh"}
_DTYPES: Final = {
    "FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "INT8": "int8",
    "UINT8": "uint8", "INT32": "int32", "INT64": "int64", "BOOL": "bool",
}  # fmt: skip


def get_padding_mode(padding: str) -> int:
    """Return TASO's number of a padding: SAME 0, VALID 1."""
    if padding not in ("SAME", "VALID"):
        raise TasoError(f'padding must be "SAME" or "VALID", got {padding!r}')
    return int(padding == "VALID")


def get_activation_mode(activation: str) -> int:
    """Return TASO's number of an activation: NONE 0, SIGMOID 1, RELU 2, TANH 3."""
    if activation not in ACTIVATIONS:
        raise TasoError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    return list(ACTIVATIONS).index(activation)


def get_data_type(datatype: str) -> str:
    """Return the dtype for TASO's name of a data type."""
    if datatype not in _DTYPES:
        raise TasoError(f"datatype must be one of {', '.join(_DTYPES)}, got {datatype!r}")
    return _DTYPES[datatype]


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
        TasoError: The padding is another text.
    """
    if get_padding_mode(padding):
        return (0, 0, 0, 0)
    before, after = [], []
    for n, k, s in zip(size, kernel, strides, strict=True):
        total = max(k - s if n % s == 0 else k - n % s, 0)
        half = (total + 1) // 2
        fits = (n + 2 * half - k) // s + 1 == -(-n // s)
        before.append(half)
        after.append(half if fits else total - half)
    return (before[0], before[1], after[0], after[1])
