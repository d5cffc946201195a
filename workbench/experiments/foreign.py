"""Read what Tensat and TASO write of their runs as frames that stand beside ours, one row a run.

Costs are in microseconds (the files have milliseconds), times in seconds. The columns are those of
:meth:`workbench.pipeline.Optimized.summary` and of records of runs: ``network``, ``method``, ``repeat``
(from 0, in the file's order), ``original`` and ``optimized`` (costs), ``seconds`` of the optimiser. What a
file does not say, such as the network, is taken from its name or given.
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

#: The keys of a line of Tensat's statistics, and which of them count.
TENSAT_KEYS: Final = (
    "original", "optimized", "saturation", "extraction", "nodes", "classes", "programs", "iter",
)  # fmt: skip
_COUNTS: Final = ("nodes", "classes", "iter")

#: No figure of a run is larger: a count fits into 64 bits.
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
    """Return the runs of a statistics file of Tensat's (``-o``), a JSON object a line.

    ``original`` and ``optimized`` are measured run times of the graphs (here in µs), ``saturation`` and
    ``extraction`` seconds, of an integer program those of the solver, ``seconds`` their sum; ``nodes``,
    ``classes``, ``iter`` count; ``programs`` is the sum of log2 of the e-classes' sizes. Network and
    ``k_multi`` come from a name such as ``bert_1_stats.txt`` where they are not given. Raise OSError
    where the file cannot be read and ValueError with the line that is broken.
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
        raise ValueError(f"{where}: this is no JSON ({reason})") from None
    if not isinstance(data, dict):
        raise ValueError(f"{where}: a JSON object is expected, not {type(data).__name__}")
    missing = [key for key in TENSAT_KEYS if key not in data]
    if missing:
        raise ValueError(f"{where}: {', '.join(missing)} missing; a line has {', '.join(TENSAT_KEYS)}")
    row: dict[str, Any] = {}
    for key in TENSAT_KEYS:
        value = data[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        # Also refuses what is no number: nothing compares with NaN.
        if not number or not 0 <= value <= _MOST or (key in _COUNTS and value != int(value)):
            what = "a whole number" if key in _COUNTS else "a number"
            raise ValueError(f"{where}: {key} is {what}, 0 or more, not {value!r}")
        row[key] = int(value) if key in _COUNTS else float(value)
    for key in ("original", "optimized"):
        row[key] *= 1000
    return row


def read_taso_timer(path: str | os.PathLike[str], *, network: str | None = None) -> pd.DataFrame:
    """Return the searches of a ``timer.txt`` of TASO's, as Tensat's fork of it writes them, a search a line.

    ``seconds`` is the whole search, ``seconds_best`` when the best graph was found, ``candidates`` the
    largest number of graphs that waited at once. Raise as :func:`read_tensat_stats` does.
    """
    file = Path(path)
    rows = []
    for number, line in _lines(file):
        match = _TIMER.fullmatch(line)
        if match is None:
            raise ValueError(
                f"{file}, line {number}: 'best: SECONDS, total: SECONDS, candidates: N' is expected, "
                f"not {_shown(line)}"
            )
        best, total = float(match[1]), float(match[2])
        if not 0 <= best <= total < math.inf:
            raise ValueError(f"{file}, line {number}: the best graph after {best} s of {total} s")
        rows.append({"seconds": total, "seconds_best": best, "candidates": int(match[3])})
    columns = ("network", "method", "repeat", "seconds", "seconds_best", "candidates")
    return _frame(file, rows, columns, _about(file, network) | {"method": "TASO"}, ("candidates",))


def read_taso_times(path: str | os.PathLike[str], *, network: str | None = None) -> pd.DataFrame:
    """Return the measured run times in a ``*_time.txt`` of TASO's: before, a tab, and after, a run a line.

    ``original`` and ``optimized`` are in µs. Raise as :func:`read_tensat_stats` does.
    """
    file = Path(path)
    rows = []
    for number, line in _lines(file):
        match = re.fullmatch(rf"{_DECIMAL}\s+{_DECIMAL}", line, re.IGNORECASE)
        if match is None:
            raise ValueError(
                f"{file}, line {number}: the milliseconds before and after are expected, not {_shown(line)}"
            )
        before, after = (_finite(text, file, number) * 1000 for text in match.groups())
        rows.append({"original": before, "optimized": after})
    columns = ("network", "method", "repeat", "original", "optimized")
    return _frame(file, rows, columns, _about(file, network) | {"method": "TASO"})


def read_taso_log(path: str | os.PathLike[str], *, network: str | None = None) -> pd.DataFrame:
    """Return the steps of TASO's backtracking searches from what it prints, one row a graph expanded.

    ``step`` counts from 0 in every search, ``cost`` and ``best_cost`` are sums over operators in µs,
    ``candidates`` is how many graphs wait. Other lines of a log are passed over. Raise as
    :func:`read_tensat_stats` does, also where there is no such line.
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
                f"{file}, line {number}: '[N] cost = MS bestCost = MS candidates.size() = N' is expected, "
                f"not {_shown(line)}"
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
        raise ValueError(f"{file}: no line of a search, such as '[0] cost = 1.2 bestCost = 1.2 …'")
    columns = ("network", "method", "repeat", "step", "cost", "best_cost", "candidates")
    return _frame(file, rows, columns, _about(file, network) | {"method": "TASO"}, ("step", "candidates"))


def read_taso_metrics(path: str | os.PathLike[str], *, network: str | None = None) -> pd.DataFrame:
    """Return the cost metrics that TASO prints of graphs, one row a graph.

    ``cost`` is the sum over operators in µs, ``gflops`` 2**30 operations and ``memory_mib`` MiB as TASO
    counts them (of convolutions four times too many), ``kernels`` the launches. Other lines of a log are
    passed over. Raise as :func:`read_taso_log` does.
    """
    file = Path(path)
    rows = []
    for number, line in _lines(file):
        if "Cost metrics" not in line:
            continue
        match = _METRICS.fullmatch(line)
        if match is None:
            raise ValueError(
                f"{file}, line {number}: 'Cost metrics: exe_time(MS) flops(N) memory_access(N) "
                f"kernel_launches(N)' is expected, not {_shown(line)}"
            )
        cost, flops, memory = (_finite(match[k], file, number) for k in (1, 2, 3))
        rows.append({"cost": cost * 1000, "gflops": flops, "memory_mib": memory, "kernels": int(match[4])})
    if not rows:
        raise ValueError(f"{file}: no line of cost metrics, such as 'Cost metrics: exe_time(1.2) …'")
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
            raise ValueError(f"{file}, line {number}: this is no text in UTF-8") from None
        if line:
            yield number, line


def _about(file: Path, network: str | None) -> dict[str, Any]:
    """Return the network and, where the name of the file says it, k_multi."""
    match = _SUFFIXES.search(file.stem)
    if match is None:
        # timer.txt says nothing of what was timed.
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
        raise ValueError(f"{file}: the file is empty")
    whole = [{"repeat": k, **about, **row} for k, row in enumerate(rows)]
    frame = pd.DataFrame(whole, columns=list(columns))
    return frame.astype(dict.fromkeys(("repeat", *counts), "Int64"))


def _finite(text: str, file: Path, number: int) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(f"{file}, line {number}: a number, 0 or more, is expected, not {_shown(text)}")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
