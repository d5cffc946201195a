"""Frozen parameters: values that a rewritten torch graph computes from them alone are kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import fx

from workbench.torch.reader import is_effect
from workbench.torch.writer import constant

#: How many elements of each parameter are compared at a call, to notice a write that raises no version.
SAMPLE: Final = 32

#: How many elements of one parameter are compared beside them, all of them in turn.
CHUNK: Final = 4096


def stored_places(module: fx.GraphModule, arguments: Sequence[Any]) -> frozenset[int]:
    """Return the places of a graph's arguments that are parameters or buffers of the model."""
    nodes = [n for n in module.graph.nodes if n.op == "placeholder"]
    return frozenset(
        i
        for i, (node, given) in enumerate(zip(nodes, arguments, strict=True))
        if isinstance(given, torch.nn.Parameter)
        or (node.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type")
    )


class Folded:
    """A torch graph in two parts: what parameters alone give, kept in buffers, and the rest, ``module``.

    Of the ``arguments``, those at ``places`` are parameters. With ``channels_last``, kernels of convolutions are kept
    with their channels last: Inductor reads them so, and would copy those of other layouts in each call.

    The buffers follow: if a parameter is another tensor, its version has risen, or elements of it differ from those
    that they were made of, they are computed anew in their place. At each call :data:`SAMPLE` elements of each
    parameter are compared, all at once because a call of torch for each takes longer than small models, and
    :data:`CHUNK` others of one parameter. So a write that raises no version (``.data``, numpy, a fused optimiser) is
    noticed at once if it changes most elements, and in the end if it changes one.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        places: frozenset[int],
        arguments: Sequence[Any],
        *,
        channels_last: bool = False,
    ) -> None:
        """Split a graph, and compute what parameters alone give."""
        nodes = list(module.graph.nodes)
        given = [n for n in nodes if n.op == "placeholder"]
        # The tensors that laws bring, such as the kernel of an identity, are there for both parts.
        brought = {n for n in nodes if n.target is constant}
        known = {n for i, n in enumerate(given) if i in places} | brought
        for node in nodes:
            inputs = node.all_input_nodes
            runs = isinstance(node.target, torch._ops.OpOverload) and is_effect(node)  # in each call
            if node.op == "call_function" and inputs and known.issuperset(inputs) and not runs:
                known.add(node)
        turned = self._kernels(nodes, known, arguments) if channels_last else set[fx.Node]()
        made = {n for n in known - brought if n.op != "placeholder"}
        found = [n for n in nodes if n in turned or n in made]
        kept = [n for n in found if any(user not in known for user in n.users)]
        first, rest = fx.Graph(), fx.Graph()
        ours = {n: first.node_copy(n) for n in given}
        theirs = {n: rest.node_copy(n) for n in given}
        own = [ours[n] for n in given]
        for node in nodes:
            if node in known and node.op != "placeholder":
                ours[node] = first.node_copy(node, ours.__getitem__)
            if node in turned:
                last = {"memory_format": torch.channels_last}
                ours[node] = first.call_function(torch.ops.aten.clone.default, (ours[node],), last)
            if node in kept:
                theirs[node] = rest.get_attr(f"folded_{kept.index(node)}")
            elif node.op != "placeholder" and (node not in known or node in brought):
                theirs[node] = rest.node_copy(node, theirs.__getitem__)
        first.output(tuple(ours[n] for n in kept))
        for graph in (first, rest):
            graph.eliminate_dead_code(lambda n: n.target is not constant)
        self._compute = fx.GraphModule(module, first)
        self._places = sorted(i for i, n in enumerate(own) if i in places and n.users)
        values = self._values(arguments)
        for i, value in enumerate(values):
            module.register_buffer(f"folded_{i}", value, persistent=False)
        self.module = fx.GraphModule(module, rest)
        self.module.meta.update(module.meta)
        if hasattr(module, "_param_name_to_source"):
            self.module._param_name_to_source = module._param_name_to_source
        self._run: Callable[..., Any] = self.module.forward

    @staticmethod
    def _kernels(nodes: Sequence[fx.Node], known: set[fx.Node], arguments: Sequence[Any]) -> set[Any]:
        """Return the known nodes that are kernels of convolutions, of parameters those of more than one place."""
        conv2d = torch.ops.aten.conv2d.default
        images = (n for n in nodes if n.target is conv2d or n.kwargs.get("op") == "conv2d")
        placed = [n for n in nodes if n.op == "placeholder"]
        shapes = [getattr(a, "shape", ()) for a in arguments]
        points = {n for n, shape in zip(placed, shapes, strict=True) if shape[2:] == (1, 1)}
        return {n.args[1] for n in images if n.args[1] in known} - points

    def following(self, run: Callable[..., Any]) -> Folded:
        """Return this with what runs the rest."""
        self._run = run
        return self

    def __call__(self, *arguments: Any) -> Any:
        """Compute the kept values anew if a parameter has changed, then run the rest."""
        if self._state(arguments) != self._seen or self._is_written(arguments):
            for i, value in enumerate(self._values(arguments)):
                getattr(self.module, f"folded_{i}").copy_(value)
        return self._run(*arguments)

    def _is_written(self, arguments: Sequence[Any]) -> bool:
        self._calls += 1
        samples = ((torch.cat(views), copy) for views, copy in self._samples)
        apart = ((_flat(arguments[i]), copy) for i, copy in self._apart)
        chunk = [self._chunks[self._calls % len(self._chunks)]] if self._chunks else []
        return any(not torch.equal(now, then) for now, then in itertools.chain(samples, apart, chunk))

    def _state(self, arguments: Sequence[Any]) -> list[tuple[int, int]]:
        return [(arguments[i].data_ptr(), arguments[i]._version) for i in self._places]

    def _values(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        self._seen, self._calls = self._state(arguments), 0
        self._apart: list[tuple[int, torch.Tensor]] = []
        self._chunks: list[tuple[torch.Tensor, torch.Tensor]] = []
        views: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
        for i in self._places:
            flat = _flat(arguments[i])
            copy = flat.clone()
            if flat.data_ptr() != arguments[i].data_ptr():  # not a view of the parameter: it has gaps
                self._apart.append((i, copy))
                continue
            step = max(1, flat.numel() // SAMPLE)
            views.setdefault((flat.dtype, flat.device), []).append(flat[::step][:SAMPLE])
            self._chunks += zip(flat.split(CHUNK), copy.split(CHUNK), strict=True)
        self._samples = [(group, torch.cat(group)) for group in views.values()]
        with torch.no_grad():
            return [v.detach().clone() for v in self._compute(*arguments)]


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of a tensor in a row, in the order of memory, as a view if there are no gaps."""
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.detach().permute(order).reshape(-1)
