"""How to run a model: options of ONNX Runtime, and other runtimes, each measured in alternation with its defaults."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.devices.device import DeviceMissing
from workbench.devices.timing import paired_speedup, random_feeds, rounds
from workbench.studies.devices.other_runtimes import Run, loaded, runtime_target
from workbench.support.machine import microseconds
from workbench.support.messages import one_line

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime as ort
    from onnx import ModelProto

#: The choices beside the defaults, by name: the lines that make them, on ``options``.
CHOICES: Final = {
    "level basic": (
        "options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC",
    ),
    "level extended": (
        "options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED",
    ),
    "no memory pattern": ("options.enable_mem_pattern = False",),
    "denormals are zero": ('options.add_session_config_entry("session.set_denormal_as_zero", "1")',),
}
#: How other runtimes load a model, line by line.
PROGRAMS: Final = {
    "openvino": (
        "import openvino",
        "",
        "settings = {{'PERFORMANCE_HINT': 'LATENCY', 'INFERENCE_PRECISION_HINT': 'f32'}}",
        "model = openvino.Core().compile_model({model!r}, 'CPU', settings)",
    ),
    "ncnn": (
        "import ncnn  # after: pnnx {model} fp16=0 inputshape=...",
        "",
        "net = ncnn.Net()",
        "net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False",
        "net.load_param('{stem}.ncnn.param')",
        "net.load_model('{stem}.ncnn.bin')",
    ),
    "torch.compile": (
        "import torch",
        "import workbench",
        "from workbench.torch import to_module",
        "",
        "graph = workbench.load_onnx({model!r}, dims={sizes})",
        "module = to_module(graph).requires_grad_(False)",
        "model = torch.compile(module)  # call it under torch.no_grad()",
    ),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to run a model and its speed-up over ONNX Runtime's defaults; ``lines`` set options, or are a program."""

    name: str
    lines: tuple[str, ...]
    speedup: float = 1.0
    interval: tuple[float, float] = (1.0, 1.0)
    runtime: str = "onnxruntime"

    @property
    def faster(self) -> bool:
        """Return whether the whole interval is faster than the defaults."""
        return self.interval[0] > 1

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.name}: {self.speedup:.2f}× ({low:.2f}–{high:.2f})"


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """The way in which a model runs fastest, never slower than with the defaults, and all that were tried.

    ``best`` has no lines if nothing is faster than the defaults beyond the noise. ``refused`` has the reasons of
    installed runtimes that do not run the model.
    """

    model: str
    best: Choice
    tried: tuple[Choice, ...]
    defaults: float
    """Microseconds of a run with the defaults, the median."""
    refused: Mapping[str, str] = field(default_factory=dict)

    def code(self) -> str:
        """Return the lines of Python that load the model in the best way."""
        if self.best.runtime != "onnxruntime":
            return "\n".join(self.best.lines)
        made = ["import onnxruntime", "", "options = onnxruntime.SessionOptions()", *self.best.lines]
        loaded = f'{self.model!r}, options, providers=["CPUExecutionProvider"]'
        return "\n".join([*made, f"session = onnxruntime.InferenceSession({loaded})"])

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        tried = [{"name": c.name, "speedup": c.speedup, "interval": list(c.interval)} for c in self.tried]
        found = {"best": self.best.name, "code": self.code(), "tried": tried, "defaults": self.defaults}
        return found | {"refused": dict(self.refused)}

    def __str__(self) -> str:
        told = "; ".join([*map(str, self.tried), *(f"{name}: {why}" for name, why in self.refused.items())])
        if not self.best.lines:
            return f"the runtime's defaults are the fastest ({told})"
        return f"{self.best} against the runtime's defaults ({told})"


def runtime_options(
    model: str | Path, *, shapes: Mapping[str, Sequence[int]] | None = None, seconds: float = 10.0
) -> RuntimeOptions:
    """Measure the options of ONNX Runtime and the other runtimes installed, and return the fastest way to run a model.

    Every choice runs in alternation with the defaults. Options that are faster beyond the noise are joined, and
    the joined ones are measured anew beside the best one alone, and beside a runtime that is faster. ``shapes`` are
    those of inputs with open dimensions, by name; by default these dimensions are 1. ``seconds`` limits the
    measurement; sessions are loaded besides. Raise ValueError if it is not positive.
    """
    if not seconds > 0:
        raise ValueError(f"the time limit must be positive, got {seconds} (try seconds=10)")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    counts = sorted({1, max(1, cores // 2), cores})
    choices = CHOICES | {
        f"{n} thread{'s' * (n > 1)}": (f"options.intra_op_num_threads = {n}",) for n in counts
    }
    each, shapes = seconds / (len(choices) + 2), shapes or {}
    tried, medians = [], []
    for name, lines in choices.items():
        choice, median = _measured(model, Choice(name, lines), shapes, each, len(choices))
        tried.append(choice)
        medians.append(median)
    faster = sorted((c for c in tried if c.faster), key=lambda c: -c.speedup)
    refused: dict[str, str] = {}
    for name in (n for n in PROGRAMS if find_spec(n.partition(".")[0])):
        words: dict[str, object] = {"model": str(model), "stem": Path(model).stem}
        words["sizes"] = _sizes(model, shapes) if name == "torch.compile" else {}
        program = tuple(line.format(**words) for line in PROGRAMS[name])
        try:
            choice, _ = _measured(model, Choice(name, program, runtime=name), shapes, each, len(choices))
        except (DeviceMissing, RuntimeError, ValueError) as error:
            refused[name] = one_line(error, 200)
        else:
            tried.append(choice)
    others = [c for c in tried if c.runtime != "onnxruntime" and c.faster]
    candidates = [c for c in dict.fromkeys((_joined(faster), *faster[:1], *others)) if c.lines]
    again = [_measured(model, c, shapes, each, len(candidates))[0] for c in candidates]
    best = max((c for c in again if c.faster), key=lambda c: c.speedup, default=Choice("defaults", ()))
    return RuntimeOptions(str(model), best, tuple(tried), sorted(medians)[len(medians) // 2], refused)


def _sizes(model: str | Path, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the sizes of a model's open dimensions: those of the shapes of its inputs by name, otherwise 1."""
    import onnx

    found: dict[str, int] = {}
    for given in onnx.load(model, load_external_data=False).graph.input:
        dims = given.type.tensor_type.shape.dim
        for axis, (dim, size) in enumerate(zip(dims, shapes.get(given.name, [1] * len(dims)), strict=True)):
            if not dim.HasField("dim_value"):
                found[dim.dim_param or f"{given.name}[{axis}]"] = int(size)
    return found


def _in_torch(
    lines: Sequence[str], _model: ModelProto, inputs: Mapping[str, np.ndarray], _threads: int | None
) -> Run:
    """Return a program that runs what lines of :data:`PROGRAMS` compile by torch."""
    import torch

    made: dict[str, Any] = {}
    exec("\n".join(lines), made)  # the lines that are printed
    graph, compiled = made["graph"], made["model"]
    feeds = [torch.from_numpy(inputs[graph.nodes[i].attr("name")]) for i in graph.inputs]

    def run() -> list[np.ndarray]:
        with torch.no_grad():
            found = compiled(*feeds)
        return [y.numpy() for y in (found if isinstance(found, tuple) else (found,))]

    return run


def _joined(choices: Sequence[Choice]) -> Choice:
    """Return choices together; of those that set the same option the first."""
    first: dict[str, Choice] = {}
    for choice in choices:
        first.setdefault(choice.lines[0].split(" = ")[0], choice)
    return Choice(", ".join(c.name for c in first.values()), tuple(c.lines[0] for c in first.values()))


def _measured(
    model: str | Path, choice: Choice, shapes: Mapping[str, Sequence[int]], seconds: float, comparisons: int
) -> tuple[Choice, float]:
    """Return a choice with its speed-up, and the median microseconds of the defaults."""
    plain = _session(model, ())
    feeds = random_feeds(plain, shapes=shapes)
    own: Callable[[], object]
    if choice.runtime == "onnxruntime":
        own = partial(_session(model, choice.lines).run, None, feeds)
    else:
        import onnx

        if choice.runtime == "torch.compile":
            own = loaded(partial(_in_torch, choice.lines), None, onnx.load(model), feeds)
        else:
            own = runtime_target(choice.runtime).load(onnx.load(model), feeds)
        own()
    timers = [partial(microseconds, run) for run in (partial(plain.run, None, feeds), own)]
    before, after = rounds(timers, seconds=seconds, most=1000)
    speedup, interval = paired_speedup(before, after, comparisons=comparisons)
    return replace(choice, speedup=speedup, interval=interval), sorted(before)[len(before) // 2]


def _session(model: str | Path, lines: Sequence[str]) -> ort.InferenceSession:
    """Load a model with options that lines of :data:`CHOICES` make."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    exec("\n".join(lines), {"options": options, "onnxruntime": onnxruntime})  # the lines that are printed
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
