"""Settings of the study of blocking: networks on hardware units, by several sets of rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from workbench.optimizer.settings import Settings
from workbench.run.settings import same
from workbench.studies.experiments.config_loader import StudyError, check_given, check_names, check_numbers

#: The sets of rules: tiles one by one by generic rules or on demand of products, whole products in the
#: orientation of Glenside, and whole products in any orientation.
METHODS: Final = ("generic", "demanded", "glenside-orientation", "any-orientation")
#: The network that is not among the published ones.
MOBILENET: Final = "mobilenetv1"


@dataclass(frozen=True, slots=True)
class BlockingStudy:
    """A study that puts the products of every network on every hardware unit by every set of rules.

    ``networks`` are published networks or ``mobilenetv1``; ``units`` are names of
    :func:`workbench.kernels.accelerators.units`, or files. ``e_nodes`` and ``seconds`` limit each saturation. With
    ``certify`` every result is compared with its original. A run is killed ``grace`` seconds after its
    limits; its process may use ``memory`` GiB.
    """

    networks: tuple[str, ...]
    units: tuple[str, ...]
    methods: tuple[str, ...] = METHODS
    e_nodes: int = same(Settings, "e_nodes")
    seconds: float = same(Settings, "seconds")
    certify: bool = True
    grace: float = 300.0
    memory: float = 12.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        from workbench.kernels.accelerators import unit
        from workbench.studies.benchmarks import benchmarks

        check_given(networks=self.networks, units=self.units, methods=self.methods)
        check_names("networks", "network", self.networks, [*benchmarks(), MOBILENET])
        check_names("methods", "method of blocking", self.methods, METHODS)
        for name in self.units:
            try:
                unit(name)
            except (LookupError, ValueError, OSError) as error:
                raise StudyError(f"units: {error}") from None
        sizes = {"seconds": self.seconds, "e_nodes": self.e_nodes}
        check_numbers(sizes, self.grace, self.memory, self.repeats, self.seed)
