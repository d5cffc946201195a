"""The published networks, built from code; weights are seeded generators, so building is instant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from workbench.graph import Graph
from workbench.studies.benchmarks.convolutional import (
    inceptionv3,
    mobilenetv1,
    mobilenetv2,
    nasneta,
    resnet50,
    resnext50,
    squeezenet,
    vgg19,
)
from workbench.studies.benchmarks.published import PUBLISHED, Published
from workbench.studies.benchmarks.sequences import bert, nasrnn, transformer
from workbench.support.plugins import Table

__all__ = ["PUBLISHED", "Published", "benchmark", "benchmarks", "mobilenetv1"]

_NETWORKS: Final = Table[Callable[..., Graph]](
    "benchmark",
    {
        make.__name__: make
        for make in (
            bert, nasrnn, resnext50, nasneta, inceptionv3, squeezenet, vgg19, resnet50, mobilenetv2,
            transformer,
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
