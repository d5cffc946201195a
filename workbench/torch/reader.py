"""Read torch's graph before dispatch as a graph of tensors, with everything unknown kept as it is.

Parameters, buffers and arguments are inputs. An operator that is not modelled is opaque, and what is random, writes
to a tensor or is not deterministic is an *effect* as well: it is neither dropped, doubled, merged nor moved before
another effect.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from workbench.egraph.at_sizes import unproved
from workbench.graph import Builder, Graph, GraphError, Opaque
from workbench.ops import TensorType, TypeMismatch
from workbench.ops.types import FLOAT_DTYPES, INTEGER_DTYPES
from workbench.symbolic import Undecodable
from workbench.torch.aten import TABLE, Call, NotModelled, Value
from workbench.torch.sizes import BEGINNINGS, NotSized, Sizes, is_number
from workbench.torch.views import ViewBuilder

#: Element types that a graph has.
_DTYPES: Final = FLOAT_DTYPES | (INTEGER_DTYPES - {"uint16"}) | {"bool", "int64"}

#: Calls that change how what follows them is computed.
_REGIONS: Final = frozenset({"_set_grad_enabled", "_enter_autocast", "_exit_autocast"})

#: Operators that update a buffer in training, though their declaration does not say so.
_UPDATES: Final = frozenset({"aten::batch_norm", "aten::instance_norm", "aten::_batch_norm_with_update"})


class NotRead(ValueError):
    """Raised when a torch graph cannot be rewritten as a whole, with the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class TorchGraph:
    """A torch graph that was read.

    Attributes:
        module: The torch graph.
        graph: Its meaning; ``place_N`` are its inputs, ``opaque_N`` the operators that are kept, ``number_N`` are
            numbers computed from symbolic sizes.
        sizes: The symbolic sizes.
        builder: What the graph was built in; it has the values of all torch nodes.
        values: The value of every torch node that has one, in the builder.
        results: The torch nodes that are the graph's outputs, by the outputs' names.
        kept: The torch node of every opaque operator, by key.
        effects: The torch nodes whose order is kept.
        unknown: How often each operator was kept because it is not modelled, with the reason.
    """

    module: fx.GraphModule
    graph: Graph
    sizes: Sizes
    builder: Builder
    values: dict[fx.Node, Value]
    results: dict[str, fx.Node]
    kept: dict[str, fx.Node]
    effects: tuple[fx.Node, ...]
    unknown: dict[str, str]


def kind_of(value: object, sizes: Sizes) -> TensorType:
    """Return the type of a tensor; raise :class:`NotRead` for another value."""
    if not isinstance(value, torch.Tensor):
        raise NotRead(f"a value of type {type(value).__name__}")
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in _DTYPES or value.layout is not torch.strided:
        raise NotRead(f"a tensor of {value.dtype}, {value.layout}")
    return TensorType(dtype, tuple(map(sizes.number, value.shape)))


def arguments_of(node: fx.Node) -> dict[str, Any]:
    """Return the arguments of a call of an operator by name, defaults included."""
    declared = node.target._schema.arguments
    given = dict(zip((a.name for a in declared), node.args, strict=False)) | node.kwargs
    return {a.name: given.get(a.name, a.default_value) for a in declared}


def is_random(node: fx.Node) -> bool:
    """Return whether a node draws random numbers: a dropout of nothing, or in evaluation, does not."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    given = arguments_of(node)
    return given.get("train") is not False and given.get("p", given.get("dropout_p")) != 0


def is_effect(node: fx.Node) -> bool:
    """Return whether a node is random or writes to a tensor, so that it must run once and in order."""
    target: Any = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return node.op == "call_function" and target.__module__ != "_operator"
    given = arguments_of(node)
    updates = given.get("training", given.get("use_input_stats", True)) and target._schema.name in _UPDATES
    return is_random(node) or target._schema.is_mutable or bool(updates)


def storage_of(node: fx.Node) -> int | None:
    """Return the identity of the memory of a node's tensor, or None; raise :class:`NotRead` inside of ``vmap``."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value):
        raise NotRead("a value inside of a transform such as vmap")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def functionalised(module: fx.GraphModule) -> None:
    """Replace every in-place operator on a value that nothing else shares by the operator that makes a new one.

    An update of an argument, such as a counter of batches, stays as it is if nothing else reads that tensor. Raise
    :class:`NotRead` if a tensor that is updated is shared.
    """
    order = {node: i for i, node in enumerate(module.graph.nodes)}
    sharing: dict[int, list[fx.Node]] = {}
    for node in order:
        if (storage := storage_of(node)) is not None:
            sharing.setdefault(storage, []).append(node)
    for node in list(order):
        target: Any = node.target
        if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
            continue
        writes = (a.name for a in target._schema.arguments if a.alias_info and a.alias_info.is_write)
        leaves = (leaf for name in writes for leaf in tree_leaves(arguments_of(node)[name]))
        written = [leaf for leaf in leaves if isinstance(leaf, fx.Node)]
        for given in written:
            others = [n for n in sharing.get(storage_of(given) or 0, ()) if n not in (given, node)]
            if given.op in ("placeholder", "get_attr") or any(n.op != "call_function" for n in others):
                if others or set(given.users) != {node} or node.users:
                    raise NotRead(f"{target} updates an argument that is read")
                continue
            earlier = [n for n in others if order[n] < order[node]]
            read = any(order.get(u, -1) > order[node] for n in earlier for u in n.users)
            if read or len(written) > 1 or given is not node.args[0]:
                raise NotRead(f"{target} updates a tensor that is shared")
            _make_new(node, given, order)


def _make_new(node: fx.Node, given: fx.Node, order: dict[fx.Node, int]) -> None:
    """Replace an in-place operator by the one that makes a new tensor, and later reads of the old one.

    An operator without such a form, such as one that draws into an empty tensor, stays if it alone reads it.
    """
    target: Any = node.target
    name = target._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    if name.endswith("_") and packet is not None and target._overloadname in packet.overloads():
        node.target = getattr(packet, target._overloadname)
    elif any(order.get(user, len(order)) < order[node] for user in given.users):
        raise NotRead(f"{target} has no form that makes a new tensor")
    for user in list(given.users):
        if user is not node and order.get(user, len(order)) > order[node]:
            user.replace_input_with(given, node)


def read(module: fx.GraphModule, *, training: bool, frozen: Collection[int] = ()) -> TorchGraph:
    """Read a torch graph before dispatch, whose values are in ``meta["val"]``; in-place operators are replaced in it.

    In ``training`` gradients will be asked for; ``frozen`` arguments are constants, whatever their values are. Raise
    :class:`NotRead` if the graph has regions of another mode, updates of shared tensors, or sizes without a form.
    """
    functionalised(module)
    why: Exception | None = None
    for beginning in BEGINNINGS:
        try:
            return _Reader(module, Sizes.of(module, beginning), training).run(frozen)
        except NotSized as error:
            raise NotRead(f"symbolic sizes: {error}") from error
        except (Undecodable, TypeMismatch) as error:  # generic extents that collide or are too large
            why = why or error
    raise NotRead(f"symbolic sizes: {why}") from why


class _Reader:
    """The reading of a torch graph at generic extents."""

    def __init__(self, module: fx.GraphModule, sizes: Sizes, training: bool) -> None:
        self.module, self.sizes, self.training = module, sizes, training
        # Extents that stand for symbolic sizes have no strides.
        self.builder = Builder("torch") if sizes.hints else ViewBuilder("torch")
        self.values: dict[fx.Node, Value] = {}
        self.kept: dict[str, fx.Node] = {}
        self.unknown: dict[str, str] = {}
        self.effects: list[fx.Node] = []

    def run(self, frozen: Collection[int]) -> TorchGraph:
        """Read the graph."""
        builder, values, nodes = self.builder, self.values, self.module.graph.nodes
        results: dict[str, fx.Node] = {}
        placeholders = [n for n in nodes if n.op == "placeholder"]
        for node in nodes:
            if node.op == "output":
                for i, leaf in enumerate(tree_leaves(node.args)):
                    if isinstance(leaf, fx.Node) and isinstance(values.get(leaf), int):
                        results[f"result_{i}"] = leaf
            elif is_number(node.meta.get("val")):
                continue  # computed anew from the symbols if something reads it
            elif node.op == "placeholder":
                kind = kind_of(node.meta.get("val"), self.sizes)
                place = placeholders.index(node)
                if place in frozen:  # without data, so that no law is chosen for what they are now
                    values[node] = builder.weight(kind.shape, name=f"place_{place}", dtype=kind.dtype)
                else:
                    values[node] = builder.input(f"place_{place}", kind.shape, kind.dtype)
            elif node.op not in ("get_attr", "call_function"):
                raise NotRead(f"a node {node.op}")
            elif (called := getattr(node.target, "__name__", "")) in _REGIONS:
                raise NotRead(f"a region of {node.target}")
            elif called == "getitem":
                parts = values[node.args[0]]
                assert isinstance(parts, tuple)
                values[node] = parts[node.args[1]]
            else:
                values[node] = self.operator(node)
        if not results:
            raise NotRead("no result is a tensor")
        graph = builder.graph([(name, v) for name, n in results.items() if isinstance(v := values[n], int)])
        kept, effects, unknown = self.kept, tuple(self.effects), self.unknown
        return TorchGraph(self.module, graph, self.sizes, builder, values, results, kept, effects, unknown)

    def operator(self, node: fx.Node) -> Value:
        """Return the value of an operator: as what it means, or opaque."""
        builder, sizes = self.builder, self.sizes
        stored = node.op == "get_attr"
        found: Any = getattr(self.module, str(node.target), None) if stored else node.meta.get("val")
        kinds = tuple(kind_of(leaf, sizes) for leaf in tree_leaves(found))
        effect = is_effect(node)
        if effect:
            self.effects.append(node)
        elif node.target in TABLE:
            call = Call(builder, arguments_of(node), self.values, kinds, self.training, sizes)
            before = len(builder.nodes)
            try:
                value = TABLE[node.target](call)
                made = [builder.type(v) for v in ((value,) if isinstance(value, int) else value)]
                # Without symbols, a node that fits is proved.
                new = range(before, len(builder.nodes) if sizes.hints else 0)
                if why := unproved(builder, sizes.generic, new):
                    raise NotModelled(why)
                if made == list(kinds):
                    return value
                self.unknown[str(node.target)] = "its types are promoted"
            except (NotModelled, TypeMismatch, GraphError, KeyError) as error:
                self.unknown[str(node.target)] = str(error)
        elif not stored:
            self.unknown[str(node.target)] = "not modelled"
        places = [self.values[given] for given in tensors_of(node)]
        read = [place for place in places if isinstance(place, int)]
        if len(read) < len(places):
            raise NotRead(f"{node.target} reads several values at once")
        key = f"opaque_{len(self.kept)}"
        self.kept[key] = node
        record = Opaque(str(node.target), "torch", kinds, key.encode(), deterministic=not effect)
        results = builder.opaque(record, read, key)
        return results[0] if isinstance(found, torch.Tensor) else tuple(results)


def tensors_of(node: fx.Node) -> list[fx.Node]:
    """Return the operands of a torch node that are not numbers."""
    return [n for n in node.all_input_nodes if not is_number(n.meta.get("val"))]
