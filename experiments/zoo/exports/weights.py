"""Seeded random weights for modules, under which their values stay in range."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from zoo.exports import Architecture


def build(wanted: Architecture, seed: int = 0) -> torch.nn.Module:
    """Return an architecture's module, in evaluation mode, with weights from a seed.

    Batch norms get the statistics of random inputs, perturbed at random, and scales and shifts other than
    1 and 0. Raise ImportError if torch is not installed.
    """
    torch = _torch()
    family = import_module(f"zoo.exports.{wanted.family}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float16 if wanted.half else torch.float32)
        try:
            module = getattr(family, wanted.name)()
        finally:
            torch.set_default_dtype(default)
        _settle(torch, module, wanted, seed)
    return module.eval()


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ImportError("torch is not installed: pip install 'tamago-workbench[torch]'") from None
    return torch


def _settle(torch: Any, module: Any, wanted: Architecture, seed: int) -> None:
    norms = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    if not norms:
        return
    for norm in norms:
        norm.momentum = 1.0
        torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
        torch.nn.init.normal_(norm.bias, 0.0, 0.1)
    module.train()
    with torch.no_grad():
        module(*example(wanted, {**wanted.sizes, "batch": 2}, seed))
        for norm in norms:
            norm.momentum = 0.1
            norm.running_var.mul_(torch.empty_like(norm.running_var).uniform_(0.75, 1.25)).clamp_(1e-2)
            norm.running_mean.add_(0.1 * torch.randn_like(norm.running_mean) * norm.running_var.sqrt())


def example(wanted: Architecture, sizes: Mapping[str, int], seed: int = 0) -> tuple[Any, ...]:
    """Return random inputs of an architecture as tensors, determined by the sizes and the seed."""
    torch = _torch()
    generator = torch.Generator().manual_seed(seed)
    found = []
    for given in wanted.inputs:
        shape = given.sized(sizes)
        if given.dtype == "float32":
            found.append(torch.randn(shape, generator=generator, dtype=torch.float32))
        elif given.below:
            found.append(torch.randint(0, given.below, shape, generator=generator))
        else:
            found.append(torch.ones(shape, dtype=torch.int64))
    return tuple(found)
