"""ONNX Runtime on a GPU as a target: inputs and results stay on the device, and a run may be one CUDA graph."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.devices.device import DeviceMissing
from workbench.graph import Graph
from workbench.ops.types import DTYPE_CODES
from workbench.support.machine import microseconds

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession, RunOptions

    from workbench.frontends.onnx.file import Apart

#: The length of one sample in µs, as for torch, and the most runs in one.
SAMPLE, MOST = 2000.0, 100


@dataclass(frozen=True, slots=True)
class OnnxRuntimeOnCuda:
    """ONNX Runtime on GPU number ``index``; with ``graph`` a run is one CUDA graph.

    Its own graph optimisations are on, and cuDNN's algorithms are all tried. With ``tf32``, products and
    convolutions in float32 may round their operands to 10 bits. Operators that it lacks on a GPU run on the CPU.
    Raise :class:`~workbench.devices.device.DeviceMissing` if the runtime installed has no CUDA.
    """

    index: int = 0
    graph: bool = False
    tf32: bool = False

    #: The name of the memory, and of the provider, in the runtime.
    MEMORY: ClassVar[str] = "cuda"
    PROVIDER: ClassVar[str] = "CUDAExecutionProvider"

    def __post_init__(self) -> None:
        import onnxruntime as ort

        if self.PROVIDER not in ort.get_available_providers():
            raise DeviceMissing(
                f"onnxruntime {ort.__version__} has no {self.PROVIDER} (try pip uninstall onnxruntime, then "
                "pip install onnxruntime-gpu)"
            )

    @property
    def title(self) -> str:
        """Return one line on the program and the device that run the models."""
        import onnxruntime as ort

        how = ("" if self.tf32 else "no ") + "TF32, its optimiser on" + ", as a CUDA graph" * self.graph
        return f"ONNX Runtime {ort.__version__}, GPU {self.index}, {how}"

    def options(self) -> dict[str, Any]:
        """Return the options of the provider."""
        return {
            "device_id": self.index,
            "use_tf32": int(self.tf32),
            "cudnn_conv_algo_search": "EXHAUSTIVE",
            "enable_cuda_graph": int(self.graph),
        }

    def check(self, graph: Graph) -> None:
        """Accept every graph: ONNX Runtime reports unsupported graphs when it loads them."""

    @contextlib.contextmanager
    def timers(
        self, models: Sequence[Graph | ModelProto | Apart], seed: int
    ) -> Iterator[list[Callable[[], float]]]:
        """Load models and return their timers; raise RuntimeFailure if one is refused."""
        yield [self._timer(model, seed) for model in models]

    def _timer(self, model: Graph | ModelProto | Apart, seed: int) -> Callable[[], float]:
        import onnxruntime as ort

        from workbench.devices.timing import random_feeds
        from workbench.frontends.onnx.exporter import model_apart
        from workbench.frontends.runtime import RuntimeFailure, session

        getattr(ort, "preload_dlls", lambda: None)()  # CUDA's libraries may be among Python's packages
        loaded = session(model_apart(model), spin=False, providers=[(self.PROVIDER, self.options())])
        if self.PROVIDER not in loaded.get_providers():
            raise RuntimeFailure(
                f"ONNX Runtime could not load its {self.PROVIDER}: is its CUDA the driver's?"
            )
        try:
            run = self._bound(loaded, random_feeds(loaded, seed))
            for _ in range(2):  # the first run searches algorithms, or records the graph
                run(1)
            once = microseconds(partial(run, 3)) / 3
        except Exception as error:  # the runtime's own classes, out of memory among them
            raise RuntimeFailure(f"ONNX Runtime failed: {error}") from None
        times = max(1, min(MOST, math.ceil(SAMPLE / max(1.0, once))))
        return lambda: microseconds(partial(run, times)) / times

    def _bound(self, loaded: InferenceSession, feeds: dict[str, Any]) -> Callable[[int], None]:
        """Return a function that runs a model some times in a row, on inputs and results in the device's memory."""
        import onnxruntime as ort

        from workbench.frontends.runtime import RuntimeFailure

        where, binding, of = (self.MEMORY, self.index), loaded.io_binding(), ort.OrtValue
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, of.ortvalue_from_numpy(array, *where))
        for output in loaded.get_outputs():
            kind = output.type.removeprefix("tensor(").removesuffix(")")
            code = DTYPE_CODES.get({"float": "float32", "double": "float64"}.get(kind, kind))
            if code is None or not all(isinstance(d, int) for d in output.shape):
                if self.graph:
                    raise RuntimeFailure(f"a CUDA graph needs results of fixed shape, got {output.name!r}")
                binding.bind_output(output.name, *where)
            else:
                result = of.ortvalue_from_shape_and_type(output.shape, code, *where)
                binding.bind_ortvalue_output(output.name, result)
        queued: RunOptions = ort.RunOptions()
        queued.add_run_config_entry("disable_synchronize_execution_providers", "1")

        def run(times: int) -> None:
            for _ in range(times):
                loaded.run_with_iobinding(binding, queued)
            binding.synchronize_outputs()

        return run
