"""Write graphs in torch: a rewritten torch graph, of which unchanged parts are copied, and a module of any graph."""

from __future__ import annotations

import contextlib
import itertools
import operator
import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import fx, nn
from torch.utils._pytree import tree_map

from workbench.devices.device import open_device
from workbench.egraph.at_sizes import attrs_at
from workbench.graph import Graph, Node
from workbench.ops import spec_of
from workbench.symbolic.integers import Int
from workbench.torch.executor import check_executable, to_tensor
from workbench.torch.reader import NotRead, TorchGraph, storage_of, tensors_of
from workbench.torch.sizes import NotSized, integer, is_number, symbol_nodes, write_integer

#: Depth of calls that a graph of many layers needs.
_DEPTH: Final = 100_000


def apply(*operands: torch.Tensor, op: str, attrs: tuple[tuple[str, Any], ...]) -> torch.Tensor:
    """Run an operator of a graph in torch."""
    form = spec_of(op).torch
    assert form is not None, op
    return form(torch, operands, dict(attrs))


def constant(*, op: str, attrs: tuple[tuple[str, Any], ...], like: torch.device) -> torch.Tensor:
    """Return a constant of a graph as a tensor."""
    run = spec_of(op).evaluate
    assert run is not None, op
    return to_tensor(open_device("cpu"), run([], dict(attrs))).to(like)


class _Writer:
    """The state of one writing: the new torch graph and what is in it already."""

    def __init__(self, source: TorchGraph, graph: Graph) -> None:
        self.source, self.graph = source, graph
        self.new = fx.Graph()
        self.copies: dict[fx.Node, fx.Node] = {}
        self.made: dict[int, fx.Node] = {}
        self.pending = list(source.effects)
        self.producers: dict[int, fx.Node] = {}
        self.symbols, self.numbers = symbol_nodes(source.module), dict[str, Any]()
        for node in source.module.graph.nodes:
            value = source.values.get(node)
            if isinstance(value, int):
                self.producers.setdefault(value, node)
        self.keys = {node: key for key, node in source.kept.items()}
        #: The number of each node of the rewritten graph in the builder: equal terms have equal numbers.
        self.places = self._placed()
        #: The operands of kept operators, as they are rewritten.
        self.operands: dict[str, tuple[int, ...]] = {
            node.attr("key"): tuple(self.places[j] for j in node.inputs)
            for node in graph.nodes
            if node.op == "opaque"
        }
        self.device = next(
            (v.device for n in source.module.graph.nodes if isinstance(v := n.meta.get("val"), torch.Tensor)),
            torch.device("cpu"),
        )

    def _symbol(self, name: str) -> fx.Node:
        node, axis = self.symbols[name]
        if axis is None:
            return self.copies[node]
        return self.new.call_function(torch.ops.aten.sym_size.int, (self.copies[node], axis))

    def number(self, extent: int) -> Any:
        """Return what an extent stands for: itself, or the node of a computation from the symbols."""
        if not self.source.sizes.depends(extent):
            return extent
        return self._integer(self.source.sizes.generic.expression(extent))

    def _integer(self, x: Int) -> Any:
        if x.text not in self.numbers:
            self.numbers[x.text] = write_integer(self.new, x, self._symbol)
        return self.numbers[x.text]

    def _placed(self) -> list[int]:
        builder, places = self.source.builder, list[int]()
        opaque = {n.attrs[0]: i for i, n in enumerate(builder.nodes) if n.op == "opaque"}
        builder.weights.update(self.graph.weights)
        for node in self.graph.nodes:
            operands = [places[j] for j in node.inputs]
            known = node.op == "opaque"
            places.append(opaque[node.attrs[0]] if known else builder.apply(node.op, operands, node.attrs))
        return places

    def value(self, place: int) -> fx.Node:
        """Return the node of a value of the builder, with everything that it needs."""
        if place in self.producers:
            return self.copy(self.producers[place])
        if place not in self.made:
            self.made[place] = self._built(place)
        return self.made[place]

    def _built(self, place: int) -> fx.Node:
        node = self.source.builder.nodes[place]
        if node.op == "input":  # a number that is computed from sizes
            name, nodes = node.attr("name").partition(":")[0], self.source.module.graph.nodes
            size = next(n for n in nodes if name == f"number_{n.name}")
            like = {"dtype": getattr(torch, node.tensor.dtype), "device": self.device}
            return self.new.call_function(torch.ops.aten.scalar_tensor.default, (self.copy(size),), like)
        spec = spec_of(node.op)
        attrs = tuple(zip(spec.attr_names, attrs_at(node.op, node.attrs, self.number), strict=True))
        if node.op == "project":
            return self.new.call_function(operator.getitem, (self.value(node.inputs[0]), node.attrs[0]))
        if node.op in ("opaque", "weight"):
            raise NotRead(f"the result has a new value {node.op}")
        if not node.inputs:
            return self.new.call_function(constant, (), {"op": node.op, "attrs": attrs, "like": self.device})
        operands = tuple(self.value(j) for j in node.inputs)
        if spec.torch is None:
            raise NotRead(f"{node.op} has no form in torch")
        return self.new.call_function(apply, operands, {"op": node.op, "attrs": attrs})

    def copy(self, node: fx.Node) -> fx.Node:
        """Return the copy of a node, with everything that it needs; effects are copied in their order."""
        if node in self.copies:
            return self.copies[node]
        if node in self.pending and node is not self.pending[0]:
            raise NotRead("effects would change their order")
        if isinstance(value := node.meta.get("val"), torch.SymInt) and node.op != "placeholder":
            with contextlib.suppress(NotSized):
                self.copies[node] = self._integer(integer(value))
                return self.copies[node]
        operands = self.operands.get(self.keys.get(node, ""))
        if operands is None:
            known: Mapping[fx.Node, fx.Node] = {n: self.copy(n) for n in node.all_input_nodes}
        else:
            known = {n: self._operand(n, p) for n, p in zip(tensors_of(node), operands, strict=True)}
            known |= {n: self.copy(n) for n in node.all_input_nodes if n not in known}
        copied = self.new.node_copy(node, known.__getitem__)
        if node in self.pending:
            self.pending.pop(0)
        self.copies[node] = copied
        return copied

    def _operand(self, node: fx.Node, place: int) -> fx.Node:
        return self.copy(node) if self.source.values[node] == place else self.value(place)

    def written(self) -> fx.GraphModule:
        """Return the torch graph."""
        module = self.source.module
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self.copies[node] = self.new.node_copy(node)
        for node in self.source.effects:
            self.copy(node)
        results = {name: self.places[i] for name, i in self.graph.outputs}
        given = {storage_of(n) for n in module.graph.nodes if n.op == "placeholder"}
        final = {  # a result that is a view of an argument stays one
            node: self.copy(node) if storage_of(node) in given else self._operand(node, results[name])
            for name, node in self.source.results.items()
        }

        def result(leaf: Any) -> Any:
            if not isinstance(leaf, fx.Node):
                return leaf
            return self.copy(leaf) if is_number(leaf.meta.get("val")) else final[leaf]

        output = next(n for n in module.graph.nodes if n.op == "output")
        self.new.output(tree_map(result, output.args[0]))
        self.new.lint()
        return fx.GraphModule(module, self.new)


def write(source: TorchGraph, graph: Graph) -> fx.GraphModule:
    """Return a torch graph that computes a graph which was found for one that was read.

    What is computed as before is copied, so that it stays the same bit for bit. Raise :class:`NotRead` if the result
    cannot be written: effects would change their order, or an operator has no form.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        return _Writer(source, graph).written()
    except NotSized as error:
        raise NotRead(str(error)) from error
    finally:
        sys.setrecursionlimit(before)


# -- a graph as a torch module, with its weights as parameters of the names that they have in the model -------
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
