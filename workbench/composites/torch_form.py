"""Composites in torch."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from workbench.composites.binding import Binding, bind
from workbench.composites.composite import Composite, Equation
from workbench.composites.index import ARITHMETIC, IndexExpr
from workbench.composites.primitives import FUNCTIONS
from workbench.composites.vectorised import Value, run
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs

if TYPE_CHECKING:
    from torch import Tensor

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def in_torch(composite: Composite, torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    """Return a composite of tensors, on their device.

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

    def tensor(self, name: str) -> Any:
        return self.tensors[name]

    def number(self, value: float) -> Any:
        return self.torch.tensor(value, dtype=self.dtype, device=self.device)

    def parameter(self, name: str) -> Any:
        return self.number(self.binding.values[name])

    def whole(self, e: IndexExpr) -> Any:
        return self.torch.tensor(self.binding.whole(e), device=self.device)

    def count(self, extent: IndexExpr) -> Any:
        return self.torch.arange(self.binding.whole(extent), device=self.device)

    def integer(self, op: str, a: Any, b: Any) -> Any:
        return ARITHMETIC[op](a, b)

    def as_number(self, x: Any) -> Any:
        return x.to(self.dtype)

    def apply(self, function: str, operands: Sequence[Any]) -> Any:
        return getattr(self.torch, FUNCTIONS[function].torch)(*operands)

    def fold(self, function: str, x: Any, axes: Sequence[int]) -> Any:
        if function == "sum":
            return x.sum(dim=tuple(axes))
        if function != "prod":
            return getattr(self.torch, "amax" if function == "max" else "amin")(x, dim=tuple(axes))
        for axis in sorted(axes):  # from the first one, which leaves the places from the end as they are
            x = x.prod(dim=axis)
        return x

    def unsqueeze(self, x: Any, axes: Sequence[int]) -> Any:
        for axis in sorted(axes, reverse=True):
            x = x.unsqueeze(axis)
        return x

    def permute(self, x: Any, order: Sequence[int], leading: bool) -> Any:
        first = x.dim() - len(order)
        return x.permute(*range(first), *(first + k for k in order))

    def prefix(self, x: Any, axis: int, extent: IndexExpr) -> Any:
        return x.narrow(axis, 0, self.binding.whole(extent))

    def clipped(self, x: Any, extent: IndexExpr) -> Any:
        return x.clamp(0, self.binding.whole(extent) - 1)

    def inside(self, x: Any, extent: IndexExpr, what: str) -> Any:
        return x

    def take(self, x: Any, last: int, places: Any) -> Any:
        return x.reshape((*x.shape[: x.dim() - last], -1))[..., places]

    def contract(self, a: Value[Any], b: Value[Any], out: Sequence[str]) -> Any:
        letters = dict(zip(dict.fromkeys((*a.axes, *b.axes)), _LETTERS, strict=False))
        terms = ["..." + "".join(letters[n] for n in axes) for axes in (a.axes, b.axes, out)]
        return self.torch.einsum(f"{terms[0]},{terms[1]}->{terms[2]}", a.handle, b.handle)

    def spread(self, x: Any, e: Equation, full: bool) -> Any:
        return x.to(self.dtype).expand(self.binding.types[e.target].shape).contiguous()
