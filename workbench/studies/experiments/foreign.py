"""Readers of the run statistics that Tensat and TASO write, as frames comparable with workbench runs.

Costs are in microseconds (the files have milliseconds), times in seconds. The columns are those of
:meth:`workbench.Optimized.summary` and of records of runs: ``network``, ``method``, ``repeat``
(from 0, in the file's order), ``original`` and ``optimized`` (costs), ``seconds`` of the optimiser. The
network, which the files do not contain, comes from the file's name or from an argument.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd

#: The keys of a line of Tensat's statistics, and those of them that are counts.
TENSAT_KEYS: Final = (
    "original", "optimized", "saturation", "extraction", "nodes", "classes", "programs", "iter",
)  # fmt: skip
_COUNTS: Final = ("nodes", "classes", "iter")

#: The largest figure that is accepted: every count fits into 64 bits.
_MOST: Final = 1e18

_DECIMAL: Final = r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?)"
_COUNT: Final = "([0-9]{1,18})"
_TIMER: Final = re.compile(rf"best: {_DECIMAL}, total: {_DECIMAL}, candidates: {_COUNT}", re.IGNORECASE)
_STEP: Final = re.compile(
    rf"\[{_COUNT}\] cost = {_DECIMAL} bestCost = {_DECIMAL} candidates\.size\(\) = {_COUNT}", re.IGNORECASE
)
_METRICS: Final = re.compile(
    rf"Cost metrics: exe_time\({_DECIMAL}\) flops\({_DECIMAL}\) "
    rf"memory_access\({_DECIMAL}\) kernel_launches\({_COUNT}\)",
    re.IGNORECASE,
)
_SUFFIXES: Final = re.compile(r"(?:_(?P<k>[0-9]{1,9}))?_(?:stats|time)(?:_\w+)?$")


def read_tensat_stats(
    path: str | os.PathLike[str], *, network: str | None = None, k_multi: int | None = None
) -> pd.DataFrame:
    """Return the runs of a Tensat statistics file (``-o``), which has one JSON object per line.

    ``original`` and ``optimized`` are measured run times of the graphs in µs. ``saturation`` and
    ``extraction`` are seconds (for an integer program, the solver's seconds), and ``seconds`` is their sum.
    ``nodes``, ``classes`` and ``iter`` are counts; ``programs`` is the sum of log2 of the e-classes' sizes.
    If the network and ``k_multi`` are not given, they come from a file name such as ``bert_1_stats.txt``.
    Raise OSError if the file cannot be read, and ValueError with the number of a broken line.
    """
    file = Path(path)
    about = _about(file, network) | {"method": "Tensat"}
    if k_multi is not None:
        about["k_multi"] = k_multi
    rows = []
    for number, line in _lines(file):
        row = _tensat_row(line, f"{file}, line {number}")
        row["seconds"] = row["saturation"] + row["extraction"]
        rows.append(row)
    columns = ("network", "method", "k_multi", "repeat", *TENSAT_KEYS, "seconds")
    return _frame(file, rows, columns, about, ("nodes", "classes", "iter", "k_multi"))


def _tensat_row(line: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", None) or str(error)
        raise ValueError(f"{where}: a line must be JSON, got {_shown(line)}: {reason}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{where}: a line must be a JSON object, got {type(data).__name__}")
    missing = [key for key in TENSAT_KEYS if key not in data]
    if missing:
        raise ValueError(f"{where}: {', '.join(missing)} missing; a line must have {', '.join(TENSAT_KEYS)}")
    row: dict[str, Any] = {}
    for key in TENSAT_KEYS:
        value = data[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        # This also refuses NaN, because every comparison with NaN is false.
        if not number or not 0 <= value <= _MOST or (key in _COUNTS and value != int(value)):
            what = "a whole number" if key in _COUNTS else "a number"
            raise ValueError(f"{where}: {key} must be {what} from 0 to {_MOST:g}, got {value!r}")
        row[key] = int(value) if key in _COUNTS else float(value)
    for key in ("original", "optimized"):
        row[key] *= 1000
    return row


def read_taso_timer(path: str | os.PathLike[str], *, network: str | None = None) -> pd.DataFrame:
    """Return the searches of a ``timer.txt``, which Tensat's fork of TASO writes, one line per search.

    ``seconds`` is the time of the whole search, ``seconds_best`` the time until the best graph was found,
    and ``candidates`` the largest number of graphs that waited at once. Raise as :func:`read_tensat_stats`
    does.
    """
    file = Path(path)
    rows = []
    for number, line in _lines(file):
        match = _TIMER.fullmatch(line)
        if match is None:
            raise ValueError(
                f"{file}, line {number}: a line must be 'best: SECONDS, total: SECONDS, candidates: N', "
                f"got {_shown(line)}"
            )
        best, total = float(match[1]), float(match[2])
        if not 0 <= best <= total < math.inf:
            raise ValueError(f"{file}, line {number}: best must be at most total ({total} s), got {best} s")
        rows.append({"seconds": total, "seconds_best": best, "candidates": int(match[3])})
    columns = ("network", "method", "repeat", "seconds", "seconds_best", "candidates")
    return _frame(file, rows, columns, _about(file, network) | {"method": "TASO"}, ("candidates",))


def read_taso_times(path: str | os.PathLike[str], *, network: str | None = None) -> pd.DataFrame:
    """Return the measured run times in a TASO ``*_time.txt``: the times before and after, one run per line.

    ``original`` and ``optimized`` are in µs; in the file, whitespace separates the two times in ms. Raise as
    :func:`read_tensat_stats` does.
    """
    file = Path(path)
    rows = []
    for number, line in _lines(file):
        match = re.fullmatch(rf"{_DECIMAL}\s+{_DECIMAL}", line, re.IGNORECASE)
        if match is None:
            raise ValueError(
                f"{file}, line {number}: a line must be the milliseconds before and after, got {_shown(line)}"
            )
        before, after = (_finite(text, file, number) * 1000 for text in match.groups())
        rows.append({"original": before, "optimized": after})
    columns = ("network", "method", "repeat", "original", "optimized")
    return _frame(file, rows, columns, _about(file, network) | {"method": "TASO"})


def read_taso_log(path: str | os.PathLike[str], *, network: str | None = None) -> pd.DataFrame:
    """Return the steps of TASO's backtracking searches from its log, one row per expanded graph.

    ``step`` counts from 0 in every search, ``cost`` and ``best_cost`` are sums over operators in µs, and
    ``candidates`` is the number of waiting graphs. Other lines of a log are ignored. Raise as
    :func:`read_tensat_stats` does, and ValueError if the log has no such line.
    """
    file = Path(path)
    rows: list[dict[str, Any]] = []
    repeat = -1
    for number, line in _lines(file):
        if "bestCost" not in line:
            continue
        match = _STEP.fullmatch(line)
        if match is None:
            raise ValueError(
                f"{file}, line {number}: a step must be '[N] cost = MS bestCost = MS candidates.size() = N', "
                f"got {_shown(line)}"
            )
        step = int(match[1])
        repeat += step == 0 or not rows
        costs = [_finite(match[k], file, number) * 1000 for k in (2, 3)]
        rows.append(
            {
                "repeat": repeat,
                "step": step,
                "cost": costs[0],
                "best_cost": costs[1],
                "candidates": int(match[4]),
            }
        )
    if not rows:
        raise ValueError(
            f"{file}: the log must have lines of a search, got none "
            "(such as '[0] cost = 1.2 bestCost = 1.2 …')"
        )
    columns = ("network", "method", "repeat", "step", "cost", "best_cost", "candidates")
    return _frame(file, rows, columns, _about(file, network) | {"method": "TASO"}, ("step", "candidates"))


def read_taso_metrics(path: str | os.PathLike[str], *, network: str | None = None) -> pd.DataFrame:
    """Return the cost metrics of graphs that TASO prints, one row per graph.

    ``cost`` is the sum over operators in µs. ``gflops`` (in 2**30 operations) and ``memory_mib`` (in MiB)
    are TASO's own counts, which are four times too high for convolutions; ``kernels`` counts launches. Other
    lines of a log are ignored. Raise as :func:`read_taso_log` does.
    """
    file = Path(path)
    rows = []
    for number, line in _lines(file):
        if "Cost metrics" not in line:
            continue
        match = _METRICS.fullmatch(line)
        if match is None:
            raise ValueError(
                f"{file}, line {number}: metrics must be 'Cost metrics: exe_time(MS) flops(N) "
                f"memory_access(N) kernel_launches(N)', got {_shown(line)}"
            )
        cost, flops, memory = (_finite(match[k], file, number) for k in (1, 2, 3))
        rows.append({"cost": cost * 1000, "gflops": flops, "memory_mib": memory, "kernels": int(match[4])})
    if not rows:
        raise ValueError(
            f"{file}: the log must have lines of cost metrics, got none "
            "(such as 'Cost metrics: exe_time(1.2) …')"
        )
    columns = ("network", "method", "repeat", "cost", "gflops", "memory_mib", "kernels")
    return _frame(file, rows, columns, _about(file, network) | {"method": "TASO"}, ("kernels",))


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty, numbered from 1."""
    if not file.exists():
        raise FileNotFoundError(f"there is no file {file}")
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder; name the file in it")
    for number, raw in enumerate(file.read_bytes().split(b"\n"), 1):
        try:
            line = raw.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise ValueError(f"{file}, line {number}: a line must be UTF-8 text, got other bytes") from None
        if line:
            yield number, line


def _about(file: Path, network: str | None) -> dict[str, Any]:
    """Return the network, and k_multi if the file's name contains it."""
    match = _SUFFIXES.search(file.stem)
    if match is None:
        # The name timer.txt does not contain the network.
        return {"network": network if network is not None else ""}
    name = file.stem[: match.start()]
    about: dict[str, Any] = {"network": name if network is None else network}
    return about if match["k"] is None else about | {"k_multi": int(match["k"])}


def _frame(
    file: Path,
    rows: list[dict[str, Any]],
    columns: tuple[str, ...],
    about: Mapping[str, Any],
    counts: tuple[str, ...] = (),
) -> pd.DataFrame:
    import pandas as pd

    if not rows:
        raise ValueError(f"{file}: the file must not be empty")
    whole = [{"repeat": k, **about, **row} for k, row in enumerate(rows)]
    frame = pd.DataFrame(whole, columns=list(columns))
    return frame.astype(dict.fromkeys(("repeat", *counts), "Int64"))


def _finite(text: str, file: Path, number: int) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(f"{file}, line {number}: a number must be finite and at least 0, got {_shown(text)}")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
