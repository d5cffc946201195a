"""Certificates with torch modules: the module itself runs as the reference, not what an exporter made of it."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from workbench.certification.certificate import Certificate, Difference
from workbench.certification.files import certify_files
from workbench.certification.tolerance import Mismatch, difference, mismatch
from workbench.devices.device import open_device
from workbench.frontends.model import ModelError
from workbench.frontends.onnx.file import as_given, joined, read_model
from workbench.frontends.runtime import RuntimeFailure, run_session, session
from workbench.graph import Graph
from workbench.torch.executor import to_array, to_tensor
from workbench.torch.exported import arguments_of, evaluating, exported

#: How many times its own distance from float64 a module's results may differ.
OWN: Final = 10.0

#: A model that runs: the results of given inputs, in order.
_Runs = Callable[[Sequence[np.ndarray]], list[np.ndarray]]


def certify_torch(
    original: object, optimised: object, args: object, *, draws: int = 3, seed: int = 0, **options: Any
) -> Certificate:
    """Compare two models of which one or both are torch modules, on an example of the inputs and random ones.

    Inputs and outputs are paired in order. If the outputs differ, the first tensor that differs is looked for in what
    torch exports.

    Args:
        original: A module, or a file or graph.
        optimised: The same.
        args: An example of the inputs, as for :func:`workbench.load_torch`.
        draws: The number of inputs, at least 1: the example, and others with elements like its own.
        seed: The seed of these others.
        options: Those of :func:`~workbench.certification.certify_files`, for the search of the difference.

    Raises:
        ModelError: If the inputs do not fit, or the original does not run.
        ValueError: If ``draws`` is below 1.
    """
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    positional, named = arguments_of(args)
    leaves, spec = tree_flatten((positional, named))
    given = [to_array(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    runs = [_runner(side, leaves, spec) for side in (original, optimised)]
    names = tuple(_name(side) for side in (original, optimised))
    module = next(side for side in (original, optimised) if isinstance(side, torch.nn.Module))
    found = Certificate(True, draws, seed, "as saved", files=names, whole=f"torch {torch.__version__}, eager")
    rng = np.random.default_rng(seed)
    for number in range(draws):
        inputs = given if number == 0 else [_like(x, rng) for x in given]
        drawn = "the example" if number == 0 else f"draw {number}"
        try:
            expected = runs[0](inputs)
        except (RuntimeFailure, RuntimeError) as error:
            raise ModelError(f"A ({names[0]}) does not run on {drawn}: {error}") from error
        try:
            ours = runs[1](inputs)
        except (RuntimeFailure, RuntimeError) as error:
            reason = f"B ({names[1]}) fails on {drawn}, A does not: {error}"
            return replace(found, passed=False, reason=reason)
        if len(expected) != len(ours):
            return replace(found, passed=False, reason=f"{len(ours)} outputs in B, {len(expected)} in A")
        exact: list[np.ndarray] = []
        with contextlib.suppress(Exception):  # a type is written into the module
            double = copy.deepcopy(module).double()
            exact = [to_array(leaf) for leaf in _outputs(double, leaves, spec, inputs, torch.float64)]
        plain = expected if module is original else ours
        for i, (a, b, c) in enumerate(zip(expected, ours, plain, strict=True)):
            real, own = a.dtype.kind == "f", exact[i] if i < len(exact) else c
            # Whole numbers may differ where rounding changes the module's own.
            moved = [] if real or own.shape != a.shape else [np.where(own != c, own, a)]
            at = mismatch(a, b, moved)
            gap, most = (difference(a, b)[0], OWN * difference(own, c)[0]) if real else (0.0, 0.0)
            if at is not None and not (real and gap <= most < math.inf):
                return _located(found, (original, optimised), args, (i, at, drawn), options)
            found = replace(found, error=max(found.error, gap), deployed_error=max(found.error, gap))
        found = replace(found, drawn=(*found.drawn, drawn))
    return found


def _name(side: Any) -> str:
    if isinstance(side, torch.nn.Module):
        return type(side).__name__
    return side if isinstance(side, str) else side.name if isinstance(side, Graph) else read_model(side).name


def _like(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return other elements like the given ones: shuffled, and floats moved by their spread."""
    flat = rng.permutation(x.reshape(-1)).reshape(x.shape)
    moved = x.dtype.kind == "f"
    return (flat + rng.standard_normal(x.shape) * (x.std() + 1e-3)).astype(x.dtype) if moved else flat


def _runner(side: object, leaves: Sequence[Any], spec: Any) -> _Runs:
    """Return the function that runs a module, a graph or a file on arrays."""
    if isinstance(side, torch.nn.Module):
        return lambda arrays: [to_array(r) for r in _outputs(side, leaves, spec, arrays)]
    from workbench.frontends import to_onnx

    running = session(to_onnx(side) if isinstance(side, Graph) else side, optimise=False)
    names = [i.name for i in running.get_inputs()]
    count = sum(isinstance(leaf, torch.Tensor) for leaf in leaves)
    if len(names) != count:
        raise ModelError(f"{_name(side)} has {len(names)} inputs, the example {count} tensors")
    return lambda arrays: [*run_session(running, dict(zip(names, arrays, strict=True))).values()]


def _outputs(
    module: torch.nn.Module, leaves: Sequence[Any], spec: Any, arrays: Sequence[np.ndarray], dtype: Any = None
) -> list[torch.Tensor]:
    """Run a module in evaluation mode on arrays in place of the example's tensors."""
    new = iter([to_tensor(open_device("cpu"), x) for x in arrays])
    filled = [next(new) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    if dtype is not None:
        filled = [f.to(dtype) if isinstance(f, torch.Tensor) and f.is_floating_point() else f for f in filled]
    positional, named = tree_unflatten(filled, spec)
    with evaluating(module), torch.no_grad():
        ended = module(*positional, **named)
    found = ended.to_tuple() if hasattr(ended, "to_tuple") else ended
    return [leaf for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor)]


def _located(
    found: Certificate, pair: Sequence[object], args: object, at: tuple[int, Mismatch, str], options: Any
) -> Certificate:
    """Return the failed certificate, with the first tensor that differs in what torch exports if it is found."""
    from workbench.frontends import to_onnx

    output, entry, drawn = at
    name = f"output {output}"
    numbers = entry.index, entry.expected, entry.found, entry.tolerance
    difference = Difference(name, name, *numbers, drawn, (name,), entry.what)
    first, second = difference.lines()[:2]
    reason = f"{first.removeprefix('first tensor that differs: ')}: {second.strip()}"
    failed = replace(found, passed=False, reason=reason, difference=difference)
    sides: list[Any] = []
    try:
        for side in pair:
            if isinstance(side, torch.nn.Module):
                sides.append(joined(exported(side, args)))
            else:
                sides.append(to_onnx(side) if isinstance(side, Graph) else as_given(side))
        inside = certify_files(*sides, **options)
    except (ModelError, ValueError, ImportError) as error:
        return replace(failed, notes=(f"the first tensor was not looked for: {error}",))
    if inside.passed or inside.difference is None:
        note = "what torch exports does not differ: the module differs from its export"
        return replace(failed, notes=(note,))
    return replace(
        failed, reason=inside.reason, difference=inside.difference, notes=inside.notes, repro=inside.repro
    )
