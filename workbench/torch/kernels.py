"""The kernel that runs an operator: its torch form, or one kernel that does the same in fewer launches.

The meaning of an operator is its torch form. If a library computes a product or a convolution together with
the operators after it in one kernel, that kernel is tried on random data when a program is compiled. It is
used if it agrees with the torch form and is not slower; otherwise the torch form is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from workbench.devices.device import Device
from workbench.ops import AttrValue, TensorType, spec_of

if TYPE_CHECKING:
    from torch import Tensor

Kernel = Callable[..., Any]

#: A kernel agrees if no element differs by more than this fraction of the largest element.
_TOLERANCE: Final = {"float64": 1e-10, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}

#: The number of samples of which the fastest counts when two kernels are compared, and the runs in each.
_TRIALS, _RUNS = 5, 4

#: The choice made for an instance on a device: the position among the candidates, or None for the torch form.
_chosen: dict[tuple[Any, ...], int | None] = {}


def kernel(
    device: Device,
    op: str,
    attrs: tuple[AttrValue, ...],
    inputs: Sequence[TensorType],
    out: TensorType,
    *,
    fuse: bool = True,
) -> Kernel:
    """Return the kernel that computes an operator from its operand tensors.

    Args:
        device: The device.
        op: The operator.
        attrs: Its attributes.
        inputs: The types of its operands.
        out: The type of its result.
        fuse: Whether fused kernels are tried; otherwise the torch form is returned.
    """
    spec, torch = spec_of(op), device.torch
    form, named = spec.torch, spec.unpack(attrs)
    if form is None:
        raise LookupError(f"{op} has no torch form")
    real = fuse and out.dtype.startswith(("float", "bfloat"))
    candidates = [*_fused(device, op, attrs, inputs, out)] if real else []

    def plain(*xs: Any) -> Any:
        return form(torch, xs, named)

    if not candidates:
        return plain
    key = (device, op, attrs, tuple(inputs), out)
    if key not in _chosen:
        _chosen[key] = _choice(device, plain, candidates, inputs, out)
    choice = _chosen[key]
    return plain if choice is None else candidates[choice]


def _fused(
    device: Device, op: str, attrs: tuple[AttrValue, ...], inputs: Sequence[TensorType], out: TensorType
) -> Iterator[Kernel]:
    torch, named = device.torch, spec_of(op).unpack(attrs)
    if op == "conv2d" and named["act"] in ("none", "relu"):
        top, left, bottom, right = named["pads"]
        if (top, left) != (bottom, right) or (named["act"] == "none" and len(inputs) == 2):
            return
        pads, strides, dilations, groups = (top, left), named["strides"], named["dilations"], named["groups"]
        zeros = torch.zeros(out.shape[1], dtype=out.torch_dtype(torch), device=device.name)
        if device.cuda and named["act"] == "relu":
            # cuDNN adds the bias and applies the relu while it writes the result.
            yield lambda x, w, b=zeros: torch.cudnn_convolution_relu(
                x, w, b.reshape(-1), strides, pads, dilations, groups
            )
        elif not device.cuda and out.dtype == "float32":
            act = named["act"]
            yield lambda x, w, b=zeros: torch.ops.mkldnn._convolution_pointwise(
                x, w, b.reshape(-1), pads, strides, dilations, groups, act, [], ""
            )
    elif op == "matmul" and named["act"] == "relu" and device.cuda and inputs[1].rank == 2:
        # cuBLASLt applies the relu while it writes the result; it requires a bias. Its gelu is the approximation
        # by tanh, which is another function than the activation of that name.
        bias = torch.zeros(out.shape[-1], dtype=out.torch_dtype(torch), device=device.name)
        yield lambda a, b: torch._addmm_activation(bias, a.flatten(0, -2), b).reshape(out.shape)


def _choice(
    device: Device, plain: Kernel, candidates: Sequence[Kernel], inputs: Sequence[TensorType], out: TensorType
) -> int | None:
    """Return the fastest candidate that agrees with the torch form, or None if the form is faster."""
    # Of both signs, so that results are, too: a relu that is left out shows.
    operands = [draw(device, kind, seed) - 1 for seed, kind in enumerate(inputs)]
    expected = plain(*operands)
    scale = float(expected.abs().max()) or 1.0
    least, best = _least_time(device, plain, operands), None
    for i, candidate in enumerate(candidates):
        try:
            found = candidate(*operands)
            right = float((found - expected).abs().max()) <= _TOLERANCE[out.dtype] * scale
        except (RuntimeError, NotImplementedError, TypeError, AttributeError):
            continue  # not available in this version, or not for these shapes
        if right and found.shape == expected.shape:
            taken = _least_time(device, candidate, operands)
            if taken <= least:
                least, best = taken, i
    return best


def _least_time(device: Device, run: Kernel, operands: Sequence[Any]) -> float:
    """Return the least time of some runs in a row; on a GPU they are recorded, as launches would decide otherwise."""

    def body() -> None:
        for _ in range(_RUNS):
            run(*operands)

    body()
    if device.cuda:
        try:
            return min(device.times_back_to_back([device.capture(body, warmup=1)] * _TRIALS))
        except RuntimeError:  # it cannot be recorded
            device.wait()
    return min(device.time(body) for _ in range(_TRIALS))


def draw(device: Device, kind: TensorType, seed: int, *, below: int = 1) -> Tensor:
    """Draw a tensor of random elements; equal seeds give equal elements on one device.

    Floats are in [0.5, 1.5), so that roots, logarithms and powers are defined; integers are at least 0 and
    less than ``below``.

    Args:
        device: The device of the tensor.
        kind: Its type.
        seed: The seed.
        below: The bound of integers.
    """
    torch = device.torch
    dtype = kind.torch_dtype(torch)
    generator = torch.Generator(device.name).manual_seed(seed)
    where = {"device": device.name, "generator": generator}
    if kind.dtype.startswith(("float", "bfloat")):
        exact = torch.float64 if kind.dtype == "float64" else torch.float32
        return (torch.rand(kind.shape, dtype=exact, **where) + 0.5).to(dtype)
    return torch.randint(0, max(1, below), kind.shape, **where).to(dtype)
