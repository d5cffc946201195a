"""Conversion of a device's measurements to a recorded cost table, usable on any machine."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from workbench.costs.analytic import DEVICES
from workbench.costs.recorded import save_table
from workbench.costs.store import Measurement
from workbench.studies.devices.spec_io import ExchangeError, Results, read_results
from workbench.support.files import check_writable


def merge(results: Sequence[Results]) -> Results:
    """Merge results of one device and protocol; later figures of an instance replace earlier ones.

    Raise :class:`~workbench.studies.devices.spec_io.ExchangeError` if they do not belong together.
    """
    if not results:
        raise ExchangeError("there are no results to record")
    first = results[0]
    merged = Results(dict(first.device), dict(first.protocol))
    for part in results:
        if not part.continues(first):
            raise ExchangeError(
                "results of two devices or protocols cannot be in one table: "
                f"{first.device.get('device')}, {first.protocol} and "
                f"{part.device.get('device')}, {part.protocol}"
            )
        merged.measured |= part.measured
        merged.methods |= part.methods
        merged.failures |= part.failures
    merged.failures = {k: r for k, r in merged.failures.items() if k not in merged.measured}
    return merged


def roofline_of(name: str) -> str:
    """Return the analytic device that estimates instances missing from a table, from the device's name.

    >>> roofline_of("NVIDIA H200, torch 2.8, no TF32"), roofline_of("torch 2.13 CPU")
    ('h200', 'cpu')
    """
    words = re.split(r"[^a-z0-9]+", name.lower())
    return next((d for d in DEVICES if d in words), "cpu" if "cpu" in words else "a100")


def table_name(results: Results) -> str:
    """Return the file name of a device's table, made from the facts that its figures depend on.

    >>> table_name(Results({"gpu": "NVIDIA H200", "tf32": False}, {}))
    'nvidia-h200.parquet'
    >>> table_name(Results({"cpu": "AMD EPYC, 2 cores", "threads": 1}, {}))
    'torch-cpu-amd-epyc-2-cores-1-thread.parquet'
    """
    device = str(results.device.get("gpu") or results.device.get("device", "device"))
    if "cpu" in results.device:
        threads = results.device.get("threads", 1)
        device = f"torch cpu {results.device['cpu']} {threads} thread{'' if threads == 1 else 's'}"
    plain = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return f"{plain}{'-tf32' if results.device.get('tf32') else ''}.parquet"


def record_table(
    inputs: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str] | None = None
) -> tuple[Path, Results]:
    """Write the recorded cost table of results files; return its path and the merged results.

    ``output`` is a file, or a folder in which the table is named after its device (default:
    ``results/costs``). The table contains the whole provenance and protocol, and the number of failures.
    """
    merged = merge([read_results(path) for path in inputs])
    if not merged.measured:
        raise ExchangeError(f"nothing was measured in {', '.join(str(path) for path in inputs)}")
    target = Path("results/costs" if output is None else output)
    if target.is_dir() or output is None:
        target.mkdir(parents=True, exist_ok=True)
        target /= table_name(merged)
    check_writable(target)
    device = str(merged.device["device"])
    about = {k: str(v) for k, v in merged.device.items() if k not in ("device", "name") and v is not None}
    rules = {f"protocol_{k}": str(v) for k, v in merged.protocol.items()}
    save_table(
        target,
        f"{device}, {merged.protocol.get('caches')} caches",
        {key: _rounded(m) for key, m in merged.measured.items()},
        roofline=roofline_of(device),
        failures=str(len(merged.failures)),
        **about,
        **rules,
    )
    return target, merged


def _rounded(measured: Measurement) -> Measurement:
    # Nanoseconds are finer than any clock used here, and shorter figures make a smaller file.
    return Measurement(round(measured.median, 3), round(measured.spread, 3), measured.runs)
