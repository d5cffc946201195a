"""Compare a rewritten and compiled torch graph with the original: results, updates and every gradient.

Both run on copies of the same arguments, with the same seed; the gradients are those of a random linear function of
the results. The arithmetic of the original in float64 tells how far apart two right answers may be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch

#: How much further from float64 than the original the rewritten graph may be, and the least distance that counts: in
#: a step of SegFormer at 512², gradients are 3e-5 away because sums are in another order.
REWRITTEN: Final = (3.0, 1e-4)
#: The same for what a compiler made of it: it fuses and reorders sums, and where a gradient nearly cancels, that
#: alone is 8e-4.
COMPILED: Final = (10.0, 2e-3)
#: The distance that is allowed if the original does not run in float64.
ALONE: Final = 2e-3
#: Tensors of less than this part of the largest norm are compared with that norm.
SMALL: Final = 1e-4
#: Ratio of norms that two random streams may give.
RANDOM: Final = 4.0

Callee = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run: results, arguments afterwards and gradients; None for a value that is not a float tensor."""

    results: tuple[torch.Tensor | None, ...]
    updated: tuple[torch.Tensor | None, ...]
    gradients: tuple[torch.Tensor | None, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether two runs agree: the largest distance, of what, and the reason if they do not."""

    passed: bool
    distance: float = 0.0
    reason: str = ""


def outcome(function: Callee, arguments: Sequence[Any], seed: int, *, precise: bool = False) -> Outcome:
    """Run a function on copies of its arguments, with gradients of those that ask for one.

    Args:
        function: A torch graph or what was compiled from it.
        arguments: The arguments, which are left as they are.
        seed: The seed of random operators and of the linear function of the results.
        precise: Whether to run in float64.
    """
    given = [_copied(a, precise) for a in arguments]
    with torch.random.fork_rng(_devices(given)):
        torch.manual_seed(seed)
        results, found = _step(function, given, seed)
    return Outcome(tuple(map(_float, results)), tuple(map(_float, given)), tuple(map(_float, found)))


def _step(
    function: Callee, given: Sequence[Any], seed: int
) -> tuple[Sequence[Any], Sequence[torch.Tensor | None]]:
    """Return the results of a function, and the gradients of a random linear function of them."""
    ended = function(*given)
    results = ended if isinstance(ended, tuple | list) else (ended,)
    asked = [a for a in given if isinstance(a, torch.Tensor) and a.requires_grad]
    ends = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    if not (asked and ends):
        return results, ()
    torch.manual_seed(seed)
    drawn = [torch.randn(r.shape, dtype=torch.float32).to(r) for r in ends]
    return results, torch.autograd.grad(ends, asked, drawn, allow_unused=True)


def timers(functions: Sequence[Callee], arguments: Sequence[Any]) -> list[Callable[[], float]]:
    """Return for each function what runs it once, with gradients if one is asked for, and returns its seconds.

    All runs have the same copies of the arguments.
    """
    given = [_copied(a, precise=False) for a in arguments]
    devices = _devices(given)

    def run(function: Callee) -> float:
        with torch.random.fork_rng(devices):
            began = time.perf_counter()
            _step(function, given, 0)
            if devices:
                torch.cuda.synchronize()
            return time.perf_counter() - began

    return [partial(run, function) for function in functions]


def _devices(given: Sequence[Any]) -> list[int]:
    """Return the CUDA devices of arguments."""
    return sorted({a.device.index for a in given if isinstance(a, torch.Tensor) and a.is_cuda})


def _copied(value: Any, precise: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    if precise and copy.is_floating_point():
        copy = copy.double()
    return copy.requires_grad_(value.requires_grad)


def _float(value: Any) -> torch.Tensor | None:
    """Return a float tensor for comparison, and None for anything else."""
    return value.detach() if isinstance(value, torch.Tensor) and value.is_floating_point() else None


def compared(
    found: Outcome,
    original: Outcome,
    exact: Outcome | None,
    *,
    limits: tuple[float, float] = REWRITTEN,
    is_random: bool = False,
) -> Verdict:
    """Compare a run with that of the original.

    Args:
        found: The run of the rewritten graph.
        original: The run of the original.
        exact: The run of the original in float64, or None.
        limits: :data:`REWRITTEN` or :data:`COMPILED`.
        is_random: Whether the two had different random numbers: then only norms are compared.
    """

    def gaps(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, top: float) -> tuple[float, float, float]:
        """Return the distance of two tensors, that of the first from the exact one, and what is allowed.

        Of random ones, it is how far their norms are apart: 0 for nothing or small tensors, infinity for zeros.
        """
        if is_random:
            ours, theirs = float(a.norm()), float(b.norm())
            if theirs <= SMALL * top:
                return 0.0, 0.0, RANDOM
            return 0.0, max(ours / theirs, theirs / ours if ours else float("inf")), RANDOM
        scale = max(float(c.norm()), SMALL * top, 1e-30)
        near, far, own = (float((x - y).norm()) / scale for x, y in ((a, b), (a, c), (b, c)))
        return (near, near, ALONE) if exact is None else (near, far, max(limits[0] * own, limits[1]))

    worst = 0.0
    for what in ("results", "updated", "gradients"):
        ours, theirs = getattr(found, what), getattr(original, what)
        if len(ours) != len(theirs):
            return Verdict(False, reason=f"{len(ours)} {what} instead of {len(theirs)}")
        precise = getattr(exact, what) if exact is not None else theirs
        top = max((float(t.norm()) for t in theirs if t is not None), default=0.0)
        for i, (a, b, c) in enumerate(zip(ours, theirs, precise, strict=True)):
            if (a is None) != (b is None):
                return Verdict(False, reason=f"of {what}, number {i} is missing on one side")
            if a is None or b is None or c is None:
                continue
            if a.shape != b.shape:
                return Verdict(False, reason=f"of {what}, number {i} has shape {tuple(a.shape)}")
            near, far, allowed = gaps(a.double(), b.double(), c.double(), top)
            worst = max(worst, near)
            if not far <= allowed:
                reason = f"of {what}, number {i} is {far:.1e} away, at most {allowed:.1e} allowed"
                return Verdict(False, worst, reason)
    return Verdict(True, worst)
