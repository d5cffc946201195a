"""A graph as a torch module, with its weights as parameters of the names that they have in the model."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import fx, nn

from workbench.devices.device import open_device
from workbench.graph import Graph, Node
from workbench.torch.executor import check_executable, to_tensor
from workbench.torch.writer import apply, constant


def to_module(graph: Graph) -> nn.Module:
    """Return a torch module that computes a graph.

    Its arguments are the graph's inputs in order, and it returns a tensor, or a tuple if there are several outputs.
    A weight is a parameter of its own name (``layer.0.weight``) if it is floating-point, and a buffer otherwise, so
    that ``state_dict()`` has the names of the model. Values that depend on weights alone are computed in each call,
    so that the module can be trained. The sizes are fixed.

    Raise :class:`NotExecutable` if an operator has no form in torch.

    >>> from workbench.graph import Builder
    >>> b = Builder()
    >>> w = b.weight((3, 2), name="head.weight")
    >>> module = to_module(b.graph({"y": b.op("matmul", b.input("x", (4, 3)), w)}))
    >>> [*module.state_dict()], module(torch.ones(4, 3)).shape
    (['head.weight'], torch.Size([4, 2]))
    """
    check_executable(graph)
    root, new = nn.Module(), fx.Graph()
    live, places = graph.reachable(), {}
    for i in graph.inputs:
        name = graph.nodes[i].attr("name")
        places[i] = new.placeholder(name if name.isidentifier() else f"input_{i}")
    for i, node in enumerate(graph.nodes):
        if live[i] and i not in places:
            places[i] = _added(graph, node, new, root, places)
    results = tuple(places[i] for i in graph.output_ids)
    new.output(results[0] if len(results) == 1 else results)
    new.lint()
    return fx.GraphModule(root, new, graph.name)


def _added(graph: Graph, node: Node, new: fx.Graph, root: nn.Module, places: dict[int, fx.Node]) -> fx.Node:
    """Add a weight, a constant or an operator to a torch graph."""
    if node.op == "weight":
        name = _registered(root, node.attr("name"), graph.weights[node.attr("name")].value())
        return new.get_attr(name)
    attrs = tuple(node.named_attrs().items())
    if not node.inputs:
        return new.call_function(constant, (), {"op": node.op, "attrs": attrs, "like": torch.device("cpu")})
    operands = tuple(places[j] for j in node.inputs)
    return new.call_function(apply, operands, {"op": node.op, "attrs": attrs})


def _registered(root: nn.Module, name: str, array: np.ndarray) -> str:
    """Register an array as a parameter or buffer of a module and return its name."""
    # A parameter may be trained, the graph's weight may not.
    tensor = to_tensor(open_device("cpu"), array).clone()
    *path, last = [part or "_" for part in name.split(".")]
    owner, taken = root, []
    for part in path:
        part = part if part in owner._modules or not hasattr(owner, part) else f"{part}_"
        if part not in owner._modules:
            owner.add_module(part, nn.Module())
        owner = getattr(owner, part)
        taken.append(part)
    others = (f"{last}_{k}" for k in itertools.count())
    free = next(n for n in itertools.chain([last], others) if not hasattr(owner, n))
    if tensor.is_floating_point():
        owner.register_parameter(free, nn.Parameter(tensor))
    else:
        owner.register_buffer(free, tensor)
    return ".".join([*taken, free])
