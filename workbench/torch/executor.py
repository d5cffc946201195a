"""Execution of graphs in torch: operators run by their torch form, work on weights alone is done ahead.

Torch is a target, too: graphs run and are timed call by call, as CUDA graphs, or compiled by torch.compile.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.devices.device import Device, open_device
from workbench.graph import Graph, GraphError, Node, fold_constants
from workbench.ops import TensorType, Trait, spec_of
from workbench.torch.kernels import kernel

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import Tensor


_NUMBERS: Final = itertools.count()


class NotExecutable(GraphError):
    """Raised when operators of a graph have no torch form."""


class Skipped(RuntimeError):
    """Raised when a graph cannot be run in one of the ways."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its function, the positions of its operands and result, and the operands read last here."""

    run: Callable[..., Any]
    operands: tuple[int, ...]
    result: int
    last: tuple[int, ...]


class Program:
    """A graph compiled to calls of torch functions on a device.

    Values that depend only on weights are folded as at export (in float64, rounded once) and stay on the
    device. A call takes the inputs as tensors, in the graph's order, and returns the outputs as a tuple; a
    value is released as soon as its last reader has run. With ``fuse``, each operator runs by the fastest
    kernel that computes it (:mod:`workbench.torch.kernels`), otherwise always by its torch form. Raise
    :class:`NotExecutable` if an operator has no torch form.
    """

    def __init__(self, graph: Graph, device: Device, *, fuse: bool = True) -> None:
        check_executable(graph)
        self.device = device
        self.graph = folded = fold_constants(graph)
        live = folded.reachable()
        last = {j: i for i, node in enumerate(folded.nodes) if live[i] for j in node.inputs}
        kept = {*folded.output_ids, *(i for i, n in enumerate(folded.nodes) if n.op == "weight")}
        self._values: list[Any] = [None] * len(folded)
        self.calls: list[Call] = []
        with device.settings():
            for i, node in enumerate(folded.nodes):
                if node.op == "weight" and live[i]:
                    weight = folded.weights[node.attr("name")]
                    self._values[i] = to_tensor(device, weight.value())
                elif node.op != "input" and live[i]:
                    types = [folded.nodes[j].tensor for j in node.inputs]
                    run = kernel(device, node.op, node.attrs, types, node.tensor, fuse=fuse)
                    done = tuple(j for j in dict.fromkeys(node.inputs) if last[j] == i and j not in kept)
                    number, operands = _number(folded, node), node.inputs
                    if number is not None:
                        run, operands = partial(_by_number, run, number), operands[:1]
                    self.calls.append(Call(run, operands, i, done))

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Return the outputs, in the graph's order."""
        values = list(self._values)
        for i, value in zip(self.graph.inputs, inputs, strict=True):
            values[i] = value
        for call in self.calls:
            values[call.result] = call.run(*[values[j] for j in call.operands])
            for j in call.last:
                values[j] = None
        return tuple([values[i] for i in self.graph.output_ids])

    def inputs(self, feeds: Mapping[str, np.ndarray]) -> list[Any]:
        """Return arrays, given by name, as tensors on the device, in the order of a call."""
        for name, kind in self.graph.input_types.items():
            if name not in feeds or tuple(feeds[name].shape) != kind.shape:
                came = f"shape {feeds[name].shape}" if name in feeds else f"inputs {sorted(feeds)}"
                raise GraphError(f"input {name!r} must be {kind}, got {came}")
        return [to_tensor(self.device, feeds[name]) for name in self.graph.input_types]

    def bound(self, inputs: Sequence[Any], *, graph: bool = False) -> Callable[[], Any]:
        """Return a function that runs the program on these inputs; with ``graph``, as one CUDA graph."""
        if not graph:
            return lambda: self(*inputs)
        if not self.device.cuda:
            raise ValueError(f"CUDA graphs need a CUDA device, got {self.device.name}")
        with self.device.settings():
            return self.device.capture(lambda: self(*inputs))


def _number(graph: Graph, node: Node) -> float | None:
    """Return the second operand as the number that torch takes in its place, or None.

    Programs are written with numbers there, and compilers look for them in their patterns.
    """
    if Trait.NUMBER_RIGHT not in spec_of(node.op).traits:
        return None
    second = graph.nodes[node.inputs[1]]
    if second.op != "weight" or second.tensor.shape or second.tensor.dtype != node.tensor.dtype:
        return None
    if graph.nodes[node.inputs[0]].tensor.rank == 0 or not node.tensor.dtype.startswith("float"):
        return None
    return float(graph.weights[second.attr("name")].value())


def _by_number(run: Callable[..., Any], number: float, x: Any) -> Any:
    return run(x, number)


def check_executable(graph: Graph) -> None:
    """Raise :class:`NotExecutable` if an operator that runs has no torch form."""
    constant, live = graph.constant(), graph.reachable()
    missing = sorted(
        {
            graph.opaques[node.attr("key")].op_type if node.op == "opaque" else node.op
            for i, node in enumerate(graph.nodes)
            if live[i] and not constant[i] and node.op != "input" and not executable(node.op)
        }
        - {"project"}
    )
    if missing:
        raise NotExecutable(
            f"{graph.name!r} contains operators without a torch form: {', '.join(missing)} "
            "(try the target onnxruntime)"
        )


def executable(op: str) -> bool:
    """Return whether an operator has a torch form."""
    return spec_of(op).torch is not None


def to_tensor(device: Device, array: np.ndarray) -> Tensor:
    """Return an array as a tensor on the device, in dense layout, which torch computes fastest."""
    torch = device.torch
    kind = TensorType.of(np.asarray(array))
    dtype = kind.torch_dtype(torch)
    data = np.ascontiguousarray(array).reshape(kind.shape)
    if not data.flags.writeable:
        data = data.copy()
    try:
        tensor = torch.from_numpy(data)
    except TypeError:  # element types that numpy does not define itself: reinterpret the same bytes
        tensor = torch.from_numpy(data.view(f"u{data.dtype.itemsize}")).view(dtype)
    return tensor.to(device.name)


def to_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor as an array; element types that numpy lacks become float32."""
    tensor = tensor.detach().cpu()
    try:
        return np.asarray(tensor.numpy())
    except TypeError:
        return np.asarray(tensor.float().numpy())


def draw_inputs(graph: Graph, device: Device, seed: int = 0) -> list[Any]:
    """Return random inputs of a graph as tensors: normal floats, integers 0 and 1; equal for equal seeds."""
    torch = device.torch
    where = {"device": device.name, "generator": torch.Generator(device.name).manual_seed(seed)}

    def drawn(kind: TensorType) -> Any:
        floats = kind.dtype.startswith(("float", "bfloat"))
        data = torch.randn(kind.shape, **where) if floats else torch.randint(0, 2, kind.shape, **where)
        return data.to(kind.torch_dtype(torch))

    return [drawn(kind) for kind in graph.input_types.values()]


def compiled(
    graph: Graph, inputs: Sequence[Any], device: Device, *, patterns: bool = True
) -> Callable[[], object]:
    """Return a function that runs a graph compiled by torch.compile.

    Args:
        graph: The graph.
        inputs: The tensors on which the function runs it.
        device: The device.
        patterns: Whether the compiler looks for groups of operators that it knows, such as attention.

    Raises:
        Skipped: There is no compiler, or it cannot compile the graph.
    """
    # Only torch forms: the compiler fuses by itself and does not optimise across finished kernels.
    program = Program(graph, device, fuse=False)

    def body(*xs: Any) -> Any:
        return program(*xs)

    # The compiler limits recompilations per code object, so every graph gets its own.
    body.__code__ = body.__code__.replace(co_name=f"graph_{next(_NUMBERS)}")
    try:
        options = None if patterns else {"pattern_matcher": False}
        run = device.torch.compile(body, dynamic=False, fullgraph=True, options=options)
        run(*inputs)
    except Exception as error:  # the compiler is missing, or cannot compile the graph
        raise Skipped(f"torch.compile: {first_line(error)}") from None
    return partial(run, *inputs)


def first_line(error: BaseException) -> str:
    """Return the class of an error and the first line of its text that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # A first line that ends in a colon only announces the reason.
    said = " ".join(lines[:2]) if lines and lines[0].endswith(":") else "".join(lines[:1])
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


class Torch:
    """Torch on a device: graphs run call by call, as recorded CUDA graphs, or compiled by torch.compile.

    Raise :class:`~workbench.devices.device.DeviceMissing` if torch or the device is not available.

    Args:
        device: The name of the device, such as ``"cpu"`` or ``"cuda"``.
        graph: Whether a graph runs as one recorded CUDA graph.
        compile: Whether graphs are compiled by ``torch.compile``.
        threads: The number of threads on the CPU; by default torch's own choice.
        tf32: Whether products and convolutions in float32 may round their operands to 10 bits, on a GPU.
    """

    def __init__(
        self,
        device: str = "cpu",
        *,
        graph: bool = False,
        compile: bool = False,
        threads: int | None = None,
        tf32: bool = False,
    ) -> None:
        self.device = open_device(device, tf32=tf32, threads=threads)
        self.graph, self.compile, self.patterns = graph, compile, True
        if graph and not self.device.cuda:
            raise ValueError(f"CUDA graphs need a CUDA device, got {device}")

    @property
    def title(self) -> str:
        """Return one line on the program and the device that run the models."""
        how = (", torch.compile" if self.compile else "") + (", as a CUDA graph" if self.graph else "")
        return f"{self.device.title}{how}" + ("" if self.patterns else " without its patterns")

    def check(self, graph: Graph) -> None:
        """Raise :class:`~workbench.torch.executor.NotExecutable` if an operator has no torch form."""
        check_executable(graph)

    @contextlib.contextmanager
    def timers(self, models: Sequence[Graph | ModelProto], seed: int) -> Iterator[list[Callable[[], float]]]:
        """Load graphs; see :class:`Target`.

        If torch's compiler fails on one, all are compiled without its patterns, which the title says then.
        Raise :class:`~workbench.torch.executor.Skipped` if that fails too.
        """
        from workbench.frontends import load_onnx

        graphs = [m if isinstance(m, Graph) else load_onnx(m) for m in models]
        with self.device.settings():
            inputs = draw_inputs(graphs[0], self.device, seed)
            runs = self._all_loaded(graphs, inputs)
            yield [self.device.timer(run) for run in runs]

    def _all_loaded(self, graphs: Sequence[Graph], inputs: Sequence[Any]) -> list[Callable[[], object]]:
        for self.patterns in (True, False):  # one of the patterns may have matched what it cannot replace
            try:
                return [self._loaded(g, inputs) for g in graphs]
            except Skipped as error:
                skipped = error
        self.patterns = True
        raise skipped

    def _loaded(self, graph: Graph, inputs: Sequence[Any]) -> Callable[[], object]:
        if not self.compile:
            return Program(graph, self.device).bound(inputs, graph=self.graph)
        run = compiled(graph, inputs, self.device, patterns=self.patterns)
        return self.device.capture(run) if self.graph else run
