"""Models quantised to 8 bits, as ONNX Runtime's own tool does it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

#: Runs on random inputs from which the ranges of values are taken.
RUNS: Final = 2


def quantise(path: Path, target: Path, seed: int = 0) -> None:
    """Write a model file with 8-bit weights and values: a QuantizeLinear and DequantizeLinear around each.

    The ranges of values are those of a few runs on seeded random inputs. Weights have one scale per channel.

    Args:
        path: The model file.
        target: The file to write, which may be the same.
        seed: Seed of the random inputs.

    """
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    from workbench.devices.timing import random_feeds
    from workbench.frontends.runtime import session

    model = onnx.load(path)
    loaded = session(model, threads=1)

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """A source of random inputs."""

        def __init__(self) -> None:
            self.number = 0

        def get_next(self) -> dict[str, Any] | None:
            """Return the next inputs, or None after the last ones."""
            self.number += 1
            return dict(random_feeds(loaded, seed + self.number)) if self.number <= RUNS else None

    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)  # it recommends a preparation that the exporters' files do not need
    try:
        quantize_static(
            model,
            str(target),
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    finally:
        logger.setLevel(level)
