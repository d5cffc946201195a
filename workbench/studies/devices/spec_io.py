"""Files exchanged with a machine that only measures: plain JSON, read strictly.

A *spec* contains operator instances. *Results* contain the measurements, the failures with their reasons, and the
facts that they depend on. A device's measurements become a recorded cost table, which any machine can use.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from workbench.costs.analytic import DEVICES
from workbench.costs.keys import parse_type, type_key
from workbench.costs.lookup import save_table
from workbench.costs.model import OpInstance
from workbench.costs.store import Measurement
from workbench.ops import spec_of
from workbench.support.files import check_writable, write_atomic

SPEC: Final = "workbench device spec, version 1"
RESULTS: Final = "workbench device results, version 1"


class ExchangeError(ValueError):
    """Raised when a file is not a spec or not results."""


@dataclass(frozen=True, slots=True)
class Spec:
    """The instances to be measured; ``about`` describes their origin."""

    instances: tuple[OpInstance, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Results:
    """Measurements by instance key, and failures with reasons.

    ``device`` is the device's provenance, ``protocol`` the way of measuring; measurements made in another
    way, or on another device, do not belong to the same results. ``methods`` maps each measured key to the
    method used. ``left`` is the number of instances that were not reached. ``clocks`` are a GPU's clocks and
    temperature while instances were measured, with the seconds since the beginning as ``at``.
    """

    device: dict[str, Any]
    protocol: dict[str, Any]
    measured: dict[str, Measurement] = field(default_factory=dict)
    methods: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    left: int = 0
    clocks: list[dict[str, Any]] = field(default_factory=list)

    def continues(self, other: Results) -> bool:
        """Return whether both results fit into one table: one device, one way of measuring."""
        same = ("device", "tf32", "torch", "threads", "workbench")
        return self.protocol == other.protocol and all(
            self.device.get(k) == other.device.get(k) for k in same
        )


# -- instances ------------------------------------------------------------------------------------
def instance_record(instance: OpInstance) -> dict[str, Any]:
    """Return an instance as plain data."""
    return {
        "op": instance.op,
        "attrs": spec_of(instance.op).unpack(instance.attrs),
        "inputs": [type_key(k) for k in instance.inputs],
        "constant": list(instance.constant),
        "type": type_key(instance.type),
    }


def read_instance(record: Mapping[str, Any]) -> OpInstance:
    """Return the instance of a record; raise ValueError if its type does not follow from its operands."""
    spec = spec_of(record["op"])
    attrs = spec.pack(record["attrs"])
    inputs = tuple(parse_type(k) for k in record["inputs"])
    constant = tuple(bool(c) for c in record["constant"])
    kind = spec.result_type(inputs, attrs)  # type: ignore[arg-type]
    if len(constant) != len(inputs) or kind != parse_type(record["type"]):
        raise ValueError(f"type of {record['op']} of {inputs} must be {kind}, got {record['type']}")
    return OpInstance(spec.name, attrs, inputs, kind, constant)


# -- files ----------------------------------------------------------------------------------------
def write_spec(path: str | os.PathLike[str], spec: Spec) -> None:
    """Write a spec; the write is atomic."""
    record = {
        "format": SPEC,
        "about": dict(spec.about),
        "instances": [instance_record(i) for i in spec.instances],
    }
    write_atomic(path, _lines(record, ("instances",)))


def read_spec(path: str | os.PathLike[str]) -> Spec:
    """Read a spec; raise :class:`ExchangeError`, naming the faulty entry, if it is not valid."""
    record = _read(path, SPEC, "spec")
    where = "the spec"
    try:
        instances = []
        for k, given in enumerate(record["instances"]):
            where = f"instance {k}"
            instances.append(read_instance(given))
        return Spec(tuple(instances), dict(record.get("about", {})))
    except _WRONG as error:
        raise ExchangeError(f"{os.fspath(path)}: {where} is wrong: {_say(error)}") from None


def write_results(path: str | os.PathLike[str], results: Results) -> None:
    """Write results; the write is atomic."""
    measured = [
        {"instance": key, "median_us": m.median, "spread_us": m.spread, "runs": m.runs}
        | {"method": results.methods.get(key, "")}
        for key, m in results.measured.items()
    ]
    record = {
        "format": RESULTS,
        "device": results.device,
        "protocol": results.protocol,
        "left": results.left,
        "measured": measured,
        "failures": [{"instance": k, "reason": r} for k, r in results.failures.items()],
        "clocks": results.clocks,
    }
    write_atomic(path, _lines(record, ("measured", "failures", "clocks")))


def read_results(path: str | os.PathLike[str]) -> Results:
    """Read results; raise :class:`ExchangeError`, naming the faulty entry, if they are not valid."""
    record = _read(path, RESULTS, "results")
    where = "the file"
    try:
        results = Results(dict(record["device"]), dict(record["protocol"]), left=int(record["left"]))
        for k, m in enumerate(record["measured"]):
            where = f"measurement {k}"
            figures = Measurement(m["median_us"], m["spread_us"], m["runs"])
            results.measured[str(m["instance"])] = figures
            results.methods[str(m["instance"])] = str(m["method"])
        where = "a failure"
        results.failures = {str(f["instance"]): str(f["reason"]) for f in record["failures"]}
        where = "the clocks"
        results.clocks = [dict(row) for row in record.get("clocks", ())]  # older files have none
    except _WRONG as error:
        raise ExchangeError(f"{os.fspath(path)}: {where} is wrong: {_say(error)}") from None
    return results


#: The exceptions raised when a record has another form.
_WRONG: Final = (KeyError, TypeError, ValueError, LookupError, AttributeError)


def _say(error: BaseException) -> str:
    return f"{error.args[0]!r} is missing" if type(error) is KeyError else str(error)


def _read(path: str | os.PathLike[str], form: str, what: str) -> dict[str, Any]:
    text = Path(path).read_bytes()
    try:
        record = json.loads(text)
    except ValueError as error:
        raise ExchangeError(f"{os.fspath(path)} is not a {what} file: {error}") from None
    found = record.get("format") if isinstance(record, dict) else None
    if found != form:
        raise ExchangeError(
            f"{os.fspath(path)} is not a {what} file: its format must be {form!r}, got {found!r}"
        )
    return dict(record)


def _lines(record: Mapping[str, Any], long: Sequence[str]) -> str:
    """Return JSON with one line per element of the named lists: compact, and suited to a diff."""

    def text(key: str, value: Any) -> str:
        if key not in long:
            return json.dumps(value, ensure_ascii=False)
        rows = ",\n".join(json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in value)
        return f"[\n{rows}\n]" if rows else "[]"

    return "{" + ",\n".join(f"{json.dumps(key)}: {text(key, v)}" for key, v in record.items()) + "}\n"


# -- tables -----------------------------------------------------------------------------------------------
def merge(results: Sequence[Results]) -> Results:
    """Merge results, later figures replacing earlier ones; raise ExchangeError for several devices or protocols."""
    if not results:
        raise ExchangeError("no results to record")
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
    known = [d for d in DEVICES if d in words]  # a build of torch for CPUs may run beside a GPU
    return next((d for d in known if d != "cpu"), known[0] if known else "a100")


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
    about |= {f"protocol_{k}": str(v) for k, v in merged.protocol.items()}
    save_table(
        target,
        f"{device}, {merged.protocol.get('caches')} caches",
        # Nanoseconds are finer than any clock used here, and shorter figures make a smaller file.
        {k: Measurement(round(m.median, 3), round(m.spread, 3), m.runs) for k, m in merged.measured.items()},
        roofline=roofline_of(device),
        failures=str(len(merged.failures)),
        **about,
    )
    return target, merged
