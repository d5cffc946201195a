"""A device that torch computes on: its settings, its clock and its provenance."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import ModuleType
from typing import Any, Final

import numpy as np

from workbench._version import __version__
from workbench.support.machine import machine, microseconds

#: The fields queried from nvidia-smi, with their names in a record.
_QUERIED: Final = {
    "driver_version": "driver",
    "power.limit": "power_limit_w",
    "clocks.current.sm": "clock_sm_mhz",
    "clocks.current.memory": "clock_memory_mhz",
    "clocks.max.sm": "clock_sm_max_mhz",
    "temperature.gpu": "temperature_c",
}

#: Those that change, by query: a field that the driver does not know loses the whole query.
_CHANGING: Final[tuple[Mapping[str, str], ...]] = (
    {"clocks.current.sm": "clock_sm_mhz", "clocks.current.memory": "clock_memory_mhz"},
    {"temperature.gpu": "temperature_c", "power.draw": "power_draw_w"},
    {"clocks_event_reasons.active": "clock_reasons"},
    {"clocks_throttle_reasons.active": "clock_reasons"},  # its name in older drivers
)

#: The number of bytes that are overwritten to empty a device's caches: twice the largest known cache.
FLUSH_BYTES: Final = 1 << 28


class DeviceMissing(LookupError):
    """Raised when torch, or the requested device, is not available on this machine."""


@dataclass(frozen=True)
class Device:
    """A device of torch and its settings.

    ``name`` is torch's: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. With ``tf32``, products and convolutions in
    float32 may round their operands to 10 bits (CUDA); otherwise they are computed in float32. ``threads``
    limits the threads of an operator on the CPU. Use :func:`open_device` to create one.
    """

    name: str
    tf32: bool = False
    threads: int | None = None

    @cached_property
    def torch(self) -> ModuleType:
        """Return the torch module."""
        return import_torch()

    @property
    def cuda(self) -> bool:
        """Return whether this is a GPU."""
        return self.name.startswith("cuda")

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        """Set no gradients, TF32 on or off, cuDNN's fastest kernels and threads for the whole process, for a while."""
        torch = self.torch
        cudnn, threads = torch.backends.cudnn, torch.get_num_threads()
        with contextlib.ExitStack() as held:
            held.callback(_set_threads, torch, threads)
            _set_threads(torch, self.threads or threads)
            # Without a limit cuDNN tries all of its algorithms; by default ten.
            for name, value in (("benchmark", True), ("benchmark_limit", 0)):
                held.callback(setattr, cudnn, name, getattr(cudnn, name))
                setattr(cudnn, name, value)
            held.enter_context(_float32(torch, self.tf32))
            held.enter_context(torch.inference_mode())
            if self.cuda:
                held.enter_context(torch.cuda.device(self.name))
            yield

    def wait(self) -> None:
        """Wait until the device has finished all submitted work."""
        if self.cuda:
            self.torch.cuda.synchronize(self.name)

    def time(self, run: Callable[[], object], times: int = 1) -> float:
        """Return microseconds per run for ``times`` runs in a row: by device events on a GPU, by clocks on the CPU."""
        if not self.cuda:
            return microseconds(run, self.torch.get_num_threads(), times)
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(times):
            run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e3 / times

    def timer(self, run: Callable[[], object]) -> Callable[[], float]:
        """Return a function that times a run, after a warm-up; on a GPU as many in a row as take 2 ms, at most 100."""
        run()
        times = max(1, min(100, math.ceil(2000 / max(1.0, self.time(run, 3))))) if self.cuda else 1
        return partial(self.time, run, times)

    def times_back_to_back(self, replays: Sequence[Callable[[], object]]) -> list[float]:
        """Return the microseconds of each of several runs on a GPU, submitted without a pause.

        The device is busy with an uncounted run when the first one is submitted, so no time between an event
        and the start of a run is counted.
        """
        event = self.torch.cuda.Event
        events = [event(enable_timing=True) for _ in range(len(replays) + 1)]
        replays[-1]()
        events[0].record()
        for replay, mark in zip(replays, events[1:], strict=True):
            replay()
            mark.record()
        events[-1].synchronize()
        return [float(a.elapsed_time(b)) * 1e3 for a, b in itertools.pairwise(events)]

    def capture(self, body: Callable[[], object], warmup: int = 3) -> Callable[[], None]:
        """Record what ``body`` submits to a GPU as a CUDA graph; return its replay, or raise RuntimeError."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warmup):
                body()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Calls of other threads that a recording does not permit leave this one alone.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            kept = body()

        def replay(keep: object = (body, kept)) -> None:  # keeps alive what the graph may read and write
            graph.replay()

        return replay

    def cache_bytes(self) -> int:
        """Return the size of the largest cache in bytes; 64 MiB if it is unknown."""
        known = None
        if self.cuda:
            known = getattr(self.torch.cuda.get_device_properties(self.name), "L2_cache_size", None)
        return int(known or 1 << 26)

    def flush(self) -> Callable[[], object]:
        """Return a function that empties the device's caches by overwriting more bytes than they contain."""
        block = self.torch.empty(FLUSH_BYTES, dtype=self.torch.uint8, device=self.name)
        return block.zero_

    def free_bytes(self) -> float:
        """Return the available memory in bytes; infinity if the system does not report it."""
        if not self.cuda:
            try:
                return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
            except (AttributeError, ValueError, OSError):
                return math.inf
        cuda = self.torch.cuda
        free, _ = cuda.mem_get_info(self.name)
        return float(free + cuda.memory_reserved(self.name) - cuda.memory_allocated(self.name))

    def release(self) -> None:
        """Return cached memory to the device."""
        if self.cuda:
            self.torch.cuda.empty_cache()

    def soak(self, seconds: float) -> None:
        """Multiply matrices on a GPU for so long that its clocks have risen; do nothing on a CPU."""
        if not self.cuda:
            return
        x, until = self.torch.rand(4096, 4096, device=self.name), time.perf_counter() + seconds
        while time.perf_counter() < until:
            self.torch.mm(x, x)
            self.wait()

    def clocks(self) -> dict[str, str]:
        """Return the driver's facts on a GPU that change: clocks and what limits them, temperature, power."""
        if not self.cuda:
            return {}
        uuid = str(getattr(self.torch.cuda.get_device_properties(self.name), "uuid", ""))
        found: dict[str, str] = {}
        for fields in _CHANGING:
            if not found.keys() >= set(fields.values()):
                found |= _nvidia_smi(uuid, fields)
        return found

    @property
    def title(self) -> str:
        """Return one line on the hardware, the version of torch and the computation of float32."""
        torch = self.torch
        if self.cuda:
            mode = "TF32" if self.tf32 else "no TF32"
            return f"{torch.cuda.get_device_name(self.name)}, torch {torch.__version__}, {mode}"
        threads = self.threads or torch.get_num_threads()
        return f"torch {torch.__version__} CPU, {machine()}, {threads} thread{'s' if threads > 1 else ''}"

    def provenance(self) -> dict[str, Any]:
        """Return all facts that figures depend on: hardware, driver, versions, clocks, settings."""
        torch = self.torch
        found: dict[str, Any] = {
            "device": self.title,
            "name": self.name,
            "tf32": self.tf32,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "workbench": __version__,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        }
        if not self.cuda:
            return found | {"cpu": machine(), "threads": self.threads or torch.get_num_threads()}
        properties = torch.cuda.get_device_properties(self.name)
        return found | {
            "gpu": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "memory_bytes": properties.total_memory,
            "l2_bytes": getattr(properties, "L2_cache_size", None),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "cudnn_benchmark": True,
            **_nvidia_smi(str(getattr(properties, "uuid", ""))),
        }


def open_device(name: str = "cpu", *, tf32: bool = False, threads: int | None = None) -> Device:
    """Return a device by torch's name; raise :class:`DeviceMissing` if it is not available."""
    torch = import_torch()
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()) or (kind == "cpu" and index):
        raise ValueError(f"device must be cpu, cuda or cuda:N, got {name!r}")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(index or 0) >= count:
            found = f"{count} GPU{'s' if count != 1 else ''}" if count else "no GPU"
            raise DeviceMissing(f"{name} is missing: torch {torch.__version__} finds {found} (try cpu)")
    return Device(name, tf32, threads)


def import_torch() -> ModuleType:
    """Return the torch module; raise :class:`DeviceMissing` if it is not installed."""
    try:
        import torch
    except ImportError:
        raise DeviceMissing("torch is not installed (try pip install 'tamago-workbench[torch]')") from None
    return torch


def _set_threads(torch: Any, threads: int) -> None:
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


#: The switches below ``torch.backends`` by which newer versions of torch set how an operation computes float32.
_SWITCHES: Final = (("cuda", "matmul"), ("cudnn", "conv"), ("cudnn", "rnn"), ("mkldnn", "matmul"))


@contextlib.contextmanager
def _float32(torch: Any, tf32: bool) -> Iterator[None]:
    """Let products and convolutions in float32 round to TF32, or not, for a while.

    Newer versions of torch refuse to read an older switch that contradicts the newer ones, and torch.compile
    reads the older ones: all are set alike, and restored to what they were, contradictions included.
    """
    cudnn = torch.backends.cudnn
    named: list[Any] = [getattr(getattr(torch.backends, a), b, None) for a, b in _SWITCHES]
    switches = [s for s in named if hasattr(s, "fp32_precision")]
    before = [s.fp32_precision for s in switches]

    def old(read: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return read()
        except (RuntimeError, AttributeError):
            return otherwise

    def put(products: Any, convolutions: bool, values: Sequence[str]) -> None:
        if hasattr(torch, "set_float32_matmul_precision"):
            torch.set_float32_matmul_precision({True: "high", False: "highest"}.get(products, products))
        cudnn.allow_tf32 = convolutions
        for switch, value in zip(switches, values, strict=True):
            switch.fp32_precision = "none"  # what is set for all operations, if that is the same
            if switch.fp32_precision != value:
                switch.fp32_precision = value

    opposite = [value != "tf32" for value in before] or [False, False]
    products = old(lambda: torch.backends.cuda.matmul.allow_tf32, opposite[0])
    products = old(lambda: torch.get_float32_matmul_precision(), products)  # it may be "medium"
    convolutions = old(lambda: cudnn.allow_tf32, opposite[1])
    try:
        put(tf32, tf32, ["tf32" if tf32 else "ieee"] * len(switches))
        yield
    finally:
        put(products, convolutions, before)


def _nvidia_smi(uuid: str, fields: Mapping[str, str] = _QUERIED) -> dict[str, str]:
    """Return the driver's facts on a GPU; empty if nvidia-smi is missing, or does not know the GPU or a field."""
    asked = ["nvidia-smi", f"--query-gpu=uuid,{','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    # torch numbers only the GPUs visible to it; the driver numbers all of them.
    own = [r for r in rows if uuid and uuid.removeprefix("GPU-") in r[0]] or (rows if len(rows) == 1 else [])
    known = own[0][1:] if own and len(own[0]) == len(fields) + 1 else []
    return {name: value for name, value in zip(fields.values(), known, strict=False) if value[:1] != "["}
