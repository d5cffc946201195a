"""The published networks, built from code with seeded generators as weights, and the papers' figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from workbench.graph import Graph
from workbench.studies.benchmarks import convolutional as cnn
from workbench.studies.benchmarks.convolutional import mobilenetv1
from workbench.studies.benchmarks.sequences import bert, nasrnn, transformer
from workbench.support.plugins import Table

__all__ = ["PUBLISHED", "SOURCE", "Published", "benchmark", "benchmarks", "mobilenetv1"]


@dataclass(frozen=True, slots=True)
class Published:
    """The headline figures of a network: optimisation seconds and speed-up in percent."""

    taso_seconds: float
    tensat_seconds: float
    taso_speedup: float
    tensat_speedup: float


SOURCE: Final = "Tensat (MLSys 2021), headline table, NVIDIA T4"

PUBLISHED: Final[dict[str, Published]] = {
    "bert": Published(13.6, 1.4, 8.5, 9.2),
    "resnext50": Published(25.3, 0.7, 5.5, 8.8),
    "nasneta": Published(1226, 10.6, 1.9, 7.3),
    "nasrnn": Published(177.3, 0.5, 45.4, 68.9),
    "inceptionv3": Published(68.6, 5.1, 6.3, 10.0),
    "squeezenet": Published(16.4, 0.3, 6.7, 24.5),
    "vgg19": Published(8.9, 0.4, 8.9, 8.9),
}

_NETWORKS: Final = Table[Callable[..., Graph]](
    "benchmark",
    {
        make.__name__: make
        for make in (
            bert, nasrnn, cnn.resnext50, cnn.nasneta, cnn.inceptionv3, cnn.squeezenet, cnn.vgg19, cnn.resnet50,
            cnn.mobilenetv2, transformer,
        )
    },
)  # fmt: skip


def benchmarks() -> list[str]:
    """Return the networks' names: Tensat's seven first."""
    return list(_NETWORKS)


def benchmark(name: str, **parameters: Any) -> Graph:
    """Return a published network; ``parameters`` change its size from the published one.

    Raise :class:`~workbench.support.messages.UnknownName`, with the nearest name, if there is none of the name.

    >>> benchmark("bert", layers=1).operators()["matmul"]
    6
    """
    return _NETWORKS[name](**parameters)
