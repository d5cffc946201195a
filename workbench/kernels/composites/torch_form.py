"""Composites in torch."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from workbench.kernels.composites.binding import Binding, bind
from workbench.kernels.composites.composite import Composite, Equation
from workbench.kernels.composites.index import ARITHMETIC, IndexExpr
from workbench.kernels.composites.scalar import FUNCTIONS
from workbench.kernels.composites.vectorised import Value, run
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs

if TYPE_CHECKING:
    from torch import Tensor

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def in_torch(composite: Composite, torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    """Return a composite of tensors, on their device.

    Args:
        composite: The composite.
        torch: The module ``torch``.
        xs: The operands.
        attrs: The attributes by name.

    Raises:
        TypeMismatch: If the operands do not fit the declaration.
    """
    types = [TensorType(str(x.dtype).removeprefix("torch."), tuple(x.shape)) for x in xs]
    arrays = TorchArrays(bind(composite, types, attrs), torch, xs)
    run(composite, arrays, arrays.tensors.__setitem__)
    return arrays.tensors[composite.output.name]


class TorchArrays:
    """Tensors of torch."""

    def __init__(self, binding: Binding, torch: ModuleType, xs: Sequence[Tensor]) -> None:
        self.binding, self.torch = binding, torch
        names = [t.name for t in binding.composite.inputs]
        self.tensors: dict[str, Any] = dict(zip(names, xs, strict=True))
        self.device = xs[0].device if xs else None
        self.dtype: Any = None

    def begin(self, e: Equation) -> None:
        self.dtype = self.binding.types[e.target].torch_dtype(self.torch)

    def tensor(self, name: str) -> Tensor:
        return self.tensors[name]

    def number(self, value: float) -> Tensor:
        return self.torch.tensor(value, dtype=self.dtype, device=self.device)

    def parameter(self, name: str) -> Tensor:
        return self.number(self.binding.values[name])

    def whole(self, e: IndexExpr) -> Tensor:
        return self.torch.tensor(self.binding.whole(e), device=self.device)

    def count(self, extent: IndexExpr) -> Tensor:
        return self.torch.arange(self.binding.whole(extent), device=self.device)

    def integer(self, op: str, a: Tensor, b: Tensor) -> Tensor:
        return ARITHMETIC[op](a, b)

    def as_number(self, x: Tensor) -> Tensor:
        return x.to(self.dtype)

    def apply(self, function: str, operands: Sequence[Any]) -> Tensor:
        return getattr(self.torch, FUNCTIONS[function].torch)(*operands)

    def fold(self, function: str, x: Tensor, axes: Sequence[int]) -> Tensor:
        if function == "sum":
            return x.sum(dim=tuple(axes))
        if function != "prod":
            return getattr(self.torch, "amax" if function == "max" else "amin")(x, dim=tuple(axes))
        for axis in sorted(axes):  # from the first one, which leaves the places from the end as they are
            x = x.prod(dim=axis)
        return x

    def unsqueeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        for axis in sorted(axes, reverse=True):
            x = x.unsqueeze(axis)
        return x

    def permute(self, x: Tensor, order: Sequence[int], leading: bool) -> Tensor:
        first = x.dim() - len(order)
        return x.permute(*range(first), *(first + k for k in order))

    def prefix(self, x: Tensor, axis: int, extent: IndexExpr) -> Tensor:
        return x.narrow(axis, 0, self.binding.whole(extent))

    def clipped(self, x: Tensor, extent: IndexExpr) -> Tensor:
        return x.clamp(0, self.binding.whole(extent) - 1)

    def inside(self, x: Tensor, extent: IndexExpr, what: str) -> Tensor:
        return x

    def take(self, x: Tensor, last: int, places: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.dim() - last], -1))[..., places]

    def contract(self, a: Value[Any], b: Value[Any], out: Sequence[str]) -> Tensor:
        letters = dict(zip(dict.fromkeys((*a.axes, *b.axes)), _LETTERS, strict=False))
        terms = ["..." + "".join(letters[n] for n in axes) for axes in (a.axes, b.axes, out)]
        return self.torch.einsum(f"{terms[0]},{terms[1]}->{terms[2]}", a.handle, b.handle)

    def spread(self, x: Tensor, e: Equation, full: bool) -> Tensor:
        return x.to(self.dtype).expand(self.binding.types[e.target].shape).contiguous()
