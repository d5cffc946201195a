"""Run a graph by the operators' reference semantics, and fold what depends on weights alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from workbench.graph.builder import GraphBuilder
from workbench.graph.graph import Graph, GraphError, Node, Opaque
from workbench.graph.weights import Weight
from workbench.ops import TensorType, spec_of
from workbench.ops.types import FLOAT_DTYPES

#: Runs an opaque operator: ``(record, operand arrays) -> result arrays``.
OpaqueRunner = Callable[[Opaque, Sequence[np.ndarray]], Sequence[np.ndarray]]

#: Values of terms over weights, by term and by whether they are computed in their declared dtypes (None:
#: the value for further arithmetic in float64; "stored": as it is saved).
Memo = dict[tuple[Any, bool | str | None], np.ndarray]

#: Computed values of at least so many bytes are forgotten once they are folded.
_LARGE: Final = 1 << 20

#: Rows and columns of a matrix that are copied at a time.
_BLOCK: Final = 256

#: Folded graphs, as long as the graphs live that they were made of.
_FOLDED: WeakKeyDictionary[Graph, dict[bool, Graph]] = WeakKeyDictionary()


def _compute_dtype(array: np.ndarray, precise: bool) -> np.ndarray:
    if precise and str(array.dtype) in FLOAT_DTYPES:
        return array.astype(np.float64, copy=False)
    return array


def _attrs(node: Node, precise: bool) -> dict[str, Any]:
    """Return the attributes to compute with: a constant has no operand whose dtype it could follow."""
    attrs = node.named_attrs()
    if precise and not node.inputs and attrs.get("dtype") in FLOAT_DTYPES:
        attrs["dtype"] = "float64"
    return attrs


def _discrete(node: Node) -> bool:
    """Say whether a node turns numbers into integers or truth values: it sees how they are rounded."""
    return node.op == "cast" and node.attr("to") not in FLOAT_DTYPES


def evaluate(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    *,
    precise: bool = False,
    opaque: OpaqueRunner | None = None,
    memo: Memo | None = None,
) -> dict[str, np.ndarray]:
    """Compute the outputs of ``graph`` by name.

    With ``precise`` floating-point operators compute in float64 whatever the declared dtype (the
    reference of the certificate); a conversion to integers or truth values sees its operand rounded to
    the declared dtype, and any conversion one that is computed in it where it depends on weights alone.
    Opaque operators need a runner. Values are dropped as soon as their last reader has run; ``memo`` keeps
    those that depend on weights alone for the next call.
    """
    wanted = set(graph.output_ids)
    found = {i: v for i, v in values(graph, inputs, precise=precise, opaque=opaque, memo=memo) if i in wanted}
    return {name: found[i] for name, i in graph.outputs}


def values(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    *,
    precise: bool = False,
    opaque: OpaqueRunner | None = None,
    memo: Memo | None = None,
) -> Iterator[tuple[int, Any]]:
    """Compute a graph and yield each node that an output depends on with its value, operands first.

    Arguments are those of :func:`evaluate`. A value is dropped after its last reader has run.
    """
    for name, kind in graph.input_types.items():
        if name not in inputs:
            raise GraphError(f"input {name!r} ({kind}) is missing; given: {sorted(inputs)}")
        if tuple(inputs[name].shape) != kind.shape:
            raise GraphError(f"input {name!r} is {kind}, not shape {inputs[name].shape}")
    live = graph.reachable()
    last: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        if live[i]:
            last |= dict.fromkeys(node.inputs, i)
    known: dict[int, Any] = {}
    constants = Constants(graph, memo)
    constant = graph.constant() if precise else [False] * len(graph)
    read = {j for i, node in enumerate(graph.nodes) if live[i] and not constant[i] for j in node.inputs}
    read.update(graph.output_ids)
    for i, node in enumerate(graph.nodes):
        if not live[i] or (constant[i] and i not in read):
            continue
        with np.errstate(all="ignore"):
            if constant[i]:
                known[i] = constants.precise(i)
            elif precise and _discrete(node):
                declared = graph.nodes[node.inputs[0]].tensor.numpy_dtype()
                known[i] = known[node.inputs[0]].astype(declared).astype(node.tensor.numpy_dtype())
            else:
                known[i] = _value(graph, node, known, inputs, precise, opaque)
        yield i, known[i]
        for j in {*node.inputs, i}:
            if last.get(j, j) == i:
                known.pop(j, None)


def _value(
    graph: Graph,
    node: Node,
    known: Mapping[int, Any],
    inputs: Mapping[str, np.ndarray],
    precise: bool,
    opaque: OpaqueRunner | None,
) -> Any:
    """Compute one node from the values of its operands."""
    if node.op == "input":
        return _compute_dtype(np.asarray(inputs[node.attr("name")]), precise)
    if node.op == "weight":
        return _compute_dtype(graph.weights[node.attr("name")].value(), precise)
    operands = [known[j] for j in node.inputs]
    if node.op == "opaque":
        record = graph.opaques[node.attr("key")]
        if opaque is None:
            raise GraphError(f"{record.op_type} is opaque: a runner for it is needed")
        if precise:
            kinds = [graph.nodes[j].tensor.numpy_dtype() for j in node.inputs]
            operands = [v.astype(k) for v, k in zip(operands, kinds, strict=True)]
        results = [_compute_dtype(np.asarray(r), precise) for r in opaque(record, operands)]
        return results[0] if len(record.results) == 1 else results
    if node.op == "project":
        return operands[0][node.attr("index")]
    if node.op == "cast" and precise and node.attr("to") in FLOAT_DTYPES:
        return operands[0].astype(np.float64)
    run = spec_of(node.op).evaluate
    assert run is not None, node.op
    return run(operands, _attrs(node, precise))


#: Operators that move elements, or make 0 and 1: exact in any dtype, and without a copy where they view.
_EXACT = frozenset(
    {"cast", "concat", "enlarge", "expand", "gather", "identity", "merge_gconv", "pad", "reshape", "slice"}
    | {"transpose", "eye", "identity_kernel", "ones"}
)


def _rounded(exact: np.ndarray, kind: TensorType) -> np.ndarray:
    if exact.dtype != kind.numpy_dtype():
        with np.errstate(over="ignore"):
            rounded = exact.astype(kind.numpy_dtype())
        wide = rounded if rounded.dtype == np.float32 else rounded.astype(np.float64)
        if np.isfinite(exact.astype(np.float64, copy=False)).all() != np.isfinite(wide).all():
            raise OverflowError(f"a folded weight of type {kind} overflows its dtype")
        exact = rounded
    # One element repeated (strides of 0) is a generated weight and stays as small as it is.
    return exact if not any(exact.strides) else _contiguous(exact)


def _contiguous(array: np.ndarray) -> np.ndarray:
    """Return an array in order of its axes; a large transposed matrix is copied block by block.

    Numpy's copy reads such a matrix column by column and misses the cache at every element.
    """
    if array.ndim != 2 or array.flags.c_contiguous or array.nbytes < _LARGE:
        return np.ascontiguousarray(array)
    out = np.empty(array.shape, array.dtype)
    for i in range(0, array.shape[0], _BLOCK):
        for j in range(0, array.shape[1], _BLOCK):
            out[i : i + _BLOCK, j : j + _BLOCK] = array[i : i + _BLOCK, j : j + _BLOCK]
    return out


class Constants:
    """The values of what depends on weights alone, each computed when it is asked for.

    They are computed in float64, or in the declared dtypes. A conversion reads its operand in the declared
    dtypes either way: integers, truth values and a longer mantissa show how it was rounded. ``memo`` may
    be shared by graphs that hold the same weights: equal terms are then computed once.
    """

    def __init__(self, graph: Graph, memo: Memo | None = None) -> None:
        self._graph = graph
        self._memo: Memo = {} if memo is None else memo
        self._shared = memo is not None
        self._keys: dict[int, Any] = {}

    def value(self, root: int, *, declared: bool = False) -> np.ndarray:
        """Return the value of a node; raise IndexError for an index outside its axis."""
        stack = [(root, declared)]
        while stack:
            i, plain = stack[-1]
            node = self._graph.nodes[i]
            inner = plain or node.op == "cast"
            waiting = [(j, inner) for j in node.inputs if (self._key(j), inner) not in self._memo]
            at = self._key(i), plain
            if waiting and at not in self._memo:
                stack += waiting
                continue
            stack.pop()
            if at not in self._memo:
                self._memo[at] = self._computed(node, plain, inner)
        return self._memo[self._key(root), declared]

    def precise(self, root: int) -> np.ndarray:
        """Return the value of a node, in float64 if it is a floating-point one; a shared memo keeps it."""
        at = self._key(root), None
        if at in self._memo:
            return self._memo[at]
        found = _compute_dtype(self.value(root), True)
        if self._shared:
            self._memo[at] = found
        return found

    def laid_out(self, root: int) -> np.ndarray:
        """Return the value of a node as it is stored: in its own dtype and in order of its axes.

        A shared memo keeps one that weights were only moved for, as long as that is the same everywhere.
        """
        at = self._key(root), "stored"
        if at in self._memo:
            return self._memo[at]
        value = self.value(root)
        stored = _rounded(value, self._graph.nodes[root].tensor)
        if self._shared and self._graph.nodes[root].op == "transpose":
            self._memo[at] = stored
        return stored

    def forget_large(self) -> None:
        """Forget large values that were computed: in float64 they take twice the memory of the weights."""
        large = [
            k
            for k, v in self._memo.items()
            if not isinstance(k[0], int) and k[1] != "stored" and v.nbytes >= _LARGE
        ]
        for key in large:
            del self._memo[key]

    def _computed(self, node: Node, plain: bool, inner: bool) -> np.ndarray:
        """Compute a node whose operands are known, these in their declared dtypes if ``inner``."""
        if node.op == "weight":
            return self._graph.weights[node.attr("name")].value()
        run = spec_of(node.op).evaluate
        assert run is not None
        exact = plain or node.op in _EXACT
        if exact or inner:
            operands = [self._memo[self._key(j), inner] for j in node.inputs]
            operands = operands if exact else [_compute_dtype(v, True) for v in operands]
        else:
            operands = [self.precise(j) for j in node.inputs]
        with np.errstate(all="ignore"):
            result = run(operands, _attrs(node, not exact))
            if plain and result.dtype != node.tensor.numpy_dtype():
                result = result.astype(node.tensor.numpy_dtype())
        return result

    def _key(self, root: int) -> Any:
        """Return what a term is known by: equal for equal terms over the same weights."""
        stack = [root]
        while stack:
            i = stack[-1]
            node = self._graph.nodes[i]
            waiting = [j for j in node.inputs if j not in self._keys]
            if waiting and i not in self._keys:
                stack += waiting
                continue
            stack.pop()
            if node.op == "weight":
                self._keys[i] = id(self._graph.weights[node.attr("name")])
            elif i not in self._keys:
                term = repr((node.op, node.attrs, [self._keys[j] for j in node.inputs]))
                self._keys[i] = hashlib.blake2b(term.encode(), digest_size=16).digest()
        return self._keys[root]


def fold_constants(graph: Graph, *, keep_overflow: bool = False, memo: Memo | None = None) -> Graph:
    """Return the graph with every weight-only part replaced by its value; the same graph gives the same.

    Parts are computed in float64 and rounded once to their dtype; what is converted to another dtype is
    computed in the declared ones. Raise OverflowError where a finite float64 value has no
    finite counterpart in the part's dtype, and IndexError where an index lies outside its axis; with
    ``keep_overflow`` such a part stays as it is. ``memo`` holds values that are known already.
    """
    known = _FOLDED.setdefault(graph, {})
    if keep_overflow not in known:
        known[keep_overflow] = _folded(graph, graph.constant(), keep_overflow, memo)
    return known[keep_overflow]


def fold_moves(graph: Graph, *, memo: Memo | None = None) -> Graph:
    """Return the graph with weights laid out as they are read: what only moves elements is done once."""
    moved: list[bool] = []
    for node in graph.nodes:
        moves = node.op == "weight" or (node.op in _EXACT and node.op != "cast" and bool(node.inputs))
        moved.append(moves and all(moved[j] for j in node.inputs))
    return _folded(graph, moved, False, memo)


def _folded(graph: Graph, constant: Sequence[bool], keep_overflow: bool, memo: Memo | None) -> Graph:
    live = graph.reachable()
    needed = {
        j
        for i, node in enumerate(graph.nodes)
        if live[i] and not constant[i]
        for j in node.inputs
        if constant[j]
    } | {i for i in graph.output_ids if constant[i]}
    constants = Constants(graph, memo)
    folded: dict[int, np.ndarray] = {}
    for i in range(len(graph.nodes) - 1, -1, -1):  # what is kept needs its operands, which come before
        node = graph.nodes[i]
        if i not in needed or node.op == "weight":
            continue
        try:
            folded[i] = constants.laid_out(i)
            constants.forget_large()
        except (OverflowError, IndexError):
            if not keep_overflow:
                raise
            needed.update(node.inputs)

    builder = GraphBuilder(graph.name, share=False)
    builder.opaques, builder.info = dict(graph.opaques), graph.info
    taken = set(graph.weights)
    place: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            place[i] = builder.input(node.attr("name"), node.tensor.shape, node.tensor.dtype)
        elif not live[i] or (constant[i] and i not in needed):
            continue
        elif node.op == "weight":
            builder.weights[node.attr("name")] = graph.weights[node.attr("name")]
            place[i] = builder.apply("weight", (), node.attrs)
        elif i in folded:
            name = f"folded_{len(place)}"
            while name in taken:
                name += "_"
            taken.add(name)
            builder.weights[name] = Weight(node.tensor, folded[i])
            place[i] = builder.apply("weight", (), (name,))
        else:
            place[i] = builder.apply(node.op, [place[j] for j in node.inputs], node.attrs)
    builder.labels = {place[i]: label for i, label in graph.labels.items() if i in place}
    return builder.graph([(name, place[i]) for name, i in graph.outputs])
