"""The settings of :func:`workbench.optimize`, for the library, the command line and study files alike."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from workbench.run.settings import setting
from workbench.saturation.limits import Limits
from workbench.support.processes import SOLVER_MEMORY

if TYPE_CHECKING:
    from workbench.devices.targets import Load, Target
    from workbench.extraction.registry import Extractor


#: The settings that decide a result's figures; the others decide how it was checked.
_RECORDED: Final = ("extractor", "e_nodes", "seconds", "iterations", "k_multi", "settle", "measure")


@dataclass(frozen=True, slots=True)
class Settings(Limits):
    """The limit on the whole call, those of the saturation, and everything else that decides the result.

    ``seconds`` bounds the whole call: what is certified by then is the result. The saturation takes at most half of
    it and the extraction a quarter, unless they have limits of their own.

    >>> Settings(e_nodes=1000).e_nodes
    1000
    >>> Settings(seconds=-1)
    Traceback (most recent call last):
    ...
    ValueError: seconds must be positive, got -1
    """

    seconds: float = setting(
        120.0,
        "Limit on the whole call in seconds; at the end of it the best certified graph is the result.",
        metavar="S",
        above=0,
    )
    saturation_seconds: float | None = setting(
        None,
        "Limit on saturation in seconds; without it half of the limit on the call.",
        metavar="S",
        above=0,
    )
    extractor: str | Extractor = setting(
        "exact", "Extraction method: tree, dag or exact (to optimality).", metavar="tree|dag|exact"
    )
    extraction_seconds: float | None = setting(
        None,
        "Limit on extraction in seconds; without it a quarter of the limit on the call.",
        metavar="S",
        above=0,
    )
    extraction_memory: int = setting(
        SOLVER_MEMORY, "Memory of each solver's process in bytes.", metavar="BYTES", least=1
    )
    blocks: bool = setting(
        True, "Saturate equal blocks of a deep model once instead of every copy.", metavar="BOOL"
    )
    seed: int = setting(0, "Seed of the certificate's inputs.", least=0)
    certify: bool = setting(True, "Compare the result with the original.", metavar="BOOL")
    keep_refuted: bool = setting(
        False, "Apply refuted rules of a .rules file too, with a warning.", metavar="BOOL"
    )
    measure: int = setting(0, "Time the N best results and keep the fastest.", least=0)
    measure_on: str | Target | Load = setting(
        "onnxruntime",
        "Target of measure: onnxruntime, torch, torch+compile, onnxruntime:cuda, torch:cuda+graph.",
        metavar="TARGET",
    )
    measure_seconds: float = setting(10.0, "Seconds that measure takes.", metavar="S", above=0)
    time: bool | None = setting(
        None,
        "Time the result against the cleaned original. By default a model priced by this machine is timed.",
        metavar="BOOL",
    )
    time_seconds: float = setting(
        3.0,
        "Seconds that the timing takes; up to three times as many if a gain is small or hidden.",
        metavar="S",
        above=0,
    )
    profile: bool = setting(False, "Record the seconds of every rule.", metavar="BOOL")

    def __post_init__(self) -> None:
        if not isinstance(self.extractor, str):
            from workbench.extraction.registry import OWN

            object.__setattr__(self, "extractor", OWN.named(self.extractor))
        Limits.__post_init__(self)

    def limits(self) -> Limits:
        """Return the limits of the saturation alone."""
        own = {f.name: getattr(self, f.name) for f in fields(Limits)}
        return Limits(**(own | {"seconds": self.saturation_seconds or self.seconds / 2}))


def recorded(settings: Settings, *, timed: bool) -> dict[str, Any]:
    """Return the settings that a result records: those that decide its figures."""
    return {name: getattr(settings, name) for name in _RECORDED} | {"time": timed}
