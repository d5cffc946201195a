"""Run a graph by the operators' reference semantics, and fold the parts that depend on weights alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from workbench.graph.dataflow import kept_transposed
from workbench.graph.graph import Builder, Graph, GraphError, Node, Opaque
from workbench.graph.weights import Weight
from workbench.ops import TensorType, Trait, spec_of, with_trait
from workbench.ops.registry import replacements
from workbench.ops.types import FLOAT_DTYPES
from workbench.support.orders import postorder

#: Runs an opaque operator: ``(record, operand arrays) -> result arrays``.
OpaqueRunner = Callable[[Opaque, Sequence[np.ndarray]], Sequence[np.ndarray]]

#: Values of terms over weights. The key is the term and a mode: whether the value is computed in its declared
#: dtypes, None for the value converted to float64 for further arithmetic, or "stored" for the value as saved.
Memo = dict[tuple[Any, bool | str | None], np.ndarray]

#: Computed values of at least this many bytes are dropped once they are folded.
_LARGE: Final = 1 << 20

#: Rows and columns of a matrix that are copied in one block.
_BLOCK: Final = 256

#: Folded graphs, kept as long as the graphs from which they were made.
_FOLDED: WeakKeyDictionary[Graph, dict[tuple[bool, bool, int], Graph]] = WeakKeyDictionary()

#: Large values in use as they are stored, by term and weights: graphs of one model at several sizes share them.
_STORED: WeakValueDictionary[tuple[object, ...], np.ndarray] = WeakValueDictionary()


def _compute_dtype(array: np.ndarray, precise: bool) -> np.ndarray:
    floats = precise and str(array.dtype) in FLOAT_DTYPES
    return array.astype(np.float64, copy=False) if floats else array


def _attrs(node: Node, precise: bool) -> dict[str, Any]:
    """Return the attributes for the computation; a constant computes in float64 if ``precise``."""
    attrs = node.named_attrs()
    if precise and not node.inputs and attrs.get("dtype") in FLOAT_DTYPES:
        attrs["dtype"] = "float64"
    return attrs


def evaluate(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    *,
    precise: bool = False,
    opaque: OpaqueRunner | None = None,
    memo: Memo | None = None,
) -> dict[str, np.ndarray]:
    """Return the outputs of ``graph`` by name.

    Values are dropped as soon as their last reader has run.

    Args:
        graph: The graph.
        inputs: The arrays of all inputs by name.
        precise: Whether floating-point operators compute in float64 instead of their declared dtype (the
            reference of the certificate). A conversion to integers or truth values then still reads its
            operand rounded to the declared dtype. A conversion that depends on weights alone reads an
            operand that was computed in the declared dtypes.
        opaque: The runner of opaque operators; required if the graph has any.
        memo: Values that depend on weights alone, kept for the next call.

    Raises:
        GraphError: If an input is missing or has the wrong shape, or an opaque operator has no runner.
    """
    wanted = set(graph.output_ids)
    found = {
        i: v for i, v in node_values(graph, inputs, precise=precise, opaque=opaque, memo=memo) if i in wanted
    }
    return {name: found[i] for name, i in graph.outputs}


def node_values(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    *,
    precise: bool = False,
    opaque: OpaqueRunner | None = None,
    memo: Memo | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yield each node that an output depends on together with its value, operands first.

    A value is dropped after its last reader has run. The arguments are those of :func:`evaluate`.
    """
    for name, kind in graph.input_types.items():
        if name not in inputs:
            raise GraphError(f"input {name!r} ({kind}) must be given, got only {sorted(inputs)}")
        if tuple(inputs[name].shape) != kind.shape:
            raise GraphError(f"input {name!r} must be {kind}, got shape {inputs[name].shape}")
    live = graph.reachable()
    last = {j: i for i, node in enumerate(graph.nodes) if live[i] for j in node.inputs}
    known: dict[int, Any] = {}
    constants = Constants(graph, memo)
    constant = graph.constant() if precise else [False] * len(graph)

    def value(node: Node) -> Any:
        if node.op == "input":
            return _compute_dtype(np.asarray(inputs[node.attr("name")]), precise)
        if node.op == "weight":
            return _compute_dtype(graph.weights[node.attr("name")].value(), precise)
        operands = [known[j] for j in node.inputs]
        if node.op == "opaque":
            kept = graph.opaques[node.attr("key")]
            if opaque is None:
                raise GraphError(f"{kept.op_type} is opaque: it must have a runner, got none (try opaque=…)")
            if precise:
                kinds = [graph.nodes[j].tensor.numpy_dtype() for j in node.inputs]
                operands = [v.astype(k) for v, k in zip(operands, kinds, strict=True)]
            results = [_compute_dtype(np.asarray(r), precise) for r in opaque(kept, operands)]
            return results[0] if len(kept.results) == 1 else results
        if node.op == "project":
            return operands[0][node.attr("index")]
        if node.op == "cast" and precise:
            if node.attr("to") in FLOAT_DTYPES:
                return operands[0].astype(np.float64)
            # A conversion to integers or truth values depends on rounding.
            declared = graph.nodes[node.inputs[0]].tensor.numpy_dtype()
            return operands[0].astype(declared).astype(node.tensor.numpy_dtype())
        return _run(node, operands, _attrs(node, precise))

    read = {j for i, node in enumerate(graph.nodes) if live[i] and not constant[i] for j in node.inputs}
    read.update(graph.output_ids)
    for i, node in enumerate(graph.nodes):
        if not live[i] or (constant[i] and i not in read):
            continue
        with np.errstate(all="ignore"):
            known[i] = constants.precise(i) if constant[i] else value(node)
        yield i, known[i]
        for j in {*node.inputs, i}:
            if last.get(j, j) == i:
                known.pop(j, None)


#: Operators that move elements, or make 0 and 1: exact in any dtype, and without a copy if they view.
_MOVES: Final = with_trait(Trait.MOVES)
_EXACT: Final = _MOVES | {"cast"}


def _rounded(exact: np.ndarray, kind: TensorType) -> np.ndarray:
    if exact.dtype != kind.numpy_dtype():
        with np.errstate(over="ignore"):
            rounded = exact.astype(kind.numpy_dtype())
        wide = rounded if rounded.dtype == np.float32 else rounded.astype(np.float64)
        if not np.isfinite(wide).all() and np.isfinite(exact.astype(np.float64, copy=False)).all():
            raise OverflowError(f"a folded weight of type {kind} overflows its dtype")
        exact = rounded
    # A single repeated element (strides of 0) is a generated weight; it is kept without a copy.
    return exact if not any(exact.strides) else _contiguous(exact)


def _contiguous(array: np.ndarray) -> np.ndarray:
    """Return a contiguous array; a large transposed matrix is copied block by block.

    NumPy's copy reads such a matrix column by column and misses the cache at every element.
    """
    if array.ndim != 2 or array.flags.c_contiguous or array.nbytes < _LARGE:
        return np.ascontiguousarray(array)
    out = np.empty(array.shape, array.dtype)
    for i in range(0, array.shape[0], _BLOCK):
        for j in range(0, array.shape[1], _BLOCK):
            out[i : i + _BLOCK, j : j + _BLOCK] = array[i : i + _BLOCK, j : j + _BLOCK]
    return out


def _run(node: Node, operands: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> np.ndarray:
    run = spec_of(node.op).evaluate
    assert run is not None, node.op
    return np.asarray(run(list(operands), dict(attrs)))


def _square(graph: Graph, i: int) -> bool:
    """Return whether a node is a product of two square matrices, in whose chains any order takes as long."""
    node = graph.nodes[i]
    if node.op != "matmul" or node.attr("act") != "none":
        return False
    shapes = {graph.nodes[j].tensor.shape for j in node.inputs}
    return len(shapes) == 1 and shapes == {node.tensor.shape} and len(node.tensor.shape) == 2


class Constants:
    """Values of nodes that depend on weights alone, each computed when it is first used.

    Values are computed in float64 or in the declared dtypes. A conversion always reads its operand in the
    declared dtypes, because integers, truth values and a longer mantissa reveal how it was rounded. ``memo``
    may be shared by graphs with the same weights: equal terms are then computed once.
    """

    def __init__(self, graph: Graph, memo: Memo | None = None) -> None:
        self._graph = graph
        self._memo: Memo = {} if memo is None else memo
        self._shared = memo is not None
        self._has_large = True
        self._keys: dict[int, Any] = {}

    def value(self, root: int, *, declared: bool = False) -> np.ndarray:
        """Return the value of a node; raise IndexError if an index lies outside its axis."""
        stack = [(root, declared)]
        while stack:
            i, plain = stack[-1]
            node, at = self._graph.nodes[i], (self._key(i), plain)
            inner = plain or node.op == "cast"
            reads = node.inputs if plain else self._factors(i)
            waiting = [(j, inner) for j in reads if (self._key(j), inner) not in self._memo]
            if waiting and at not in self._memo:
                stack += waiting
                continue
            stack.pop()
            if at not in self._memo:
                chain = len(reads) > 1 and not plain and _square(self._graph, i)
                self._memo[at] = self._product(i, reads) if chain else self._computed(node, plain, inner)
        return self._memo[self._key(root), declared]

    def precise(self, root: int) -> np.ndarray:
        """Return the value of a node, in float64 if it is floating-point; a shared memo keeps it."""
        at = self._key(root), None
        if at in self._memo:
            return self._memo[at]
        found = _compute_dtype(self.value(root), True)
        if self._shared:
            self._memo[at] = found
            self._has_large |= found.nbytes >= _LARGE
        return found

    def laid_out(self, root: int, *, keep: bool = True) -> np.ndarray:
        """Return the value of a node as it is stored: in its declared dtype and in order of its axes.

        A shared memo keeps transposed weights if ``keep``, because they are the same in every graph. A large value that
        is in use, as in the model at other sizes, is returned itself.
        """
        at = self._key(root), "stored"
        if at in self._memo:
            return self._memo[at]
        nodes = self._graph.nodes
        node = nodes[root]
        large = node.op != "weight" and node.tensor.nbytes >= _LARGE
        below = postorder((root,), lambda i: nodes[i].inputs) if large else []
        read = [self._graph.weights[nodes[i].attr("name")] for i in below if nodes[i].op == "weight"]
        term = (*at, replacements(), *read)
        if large and (known := _STORED.get(term)) is not None:
            return known
        if node.op == "concat":  # parts are rounded before they are copied: half of the bytes
            parts = [self.laid_out(j, keep=False) for j in node.inputs]
            stored = _contiguous(_run(node, parts, _attrs(node, False)))
        else:
            stored = _rounded(self.value(root), node.tensor)
        if keep and self._shared and node.op == "transpose":
            self._memo[at] = stored
        if large:
            _STORED[term] = stored
        return stored

    def forget_large(self) -> None:
        """Drop large computed values: in float64 they take twice the memory of the weights."""
        large = self._memo.items() if self._has_large else ()
        for k in [
            k for k, v in large if not isinstance(k[0], int) and k[1] != "stored" and v.nbytes >= _LARGE
        ]:
            del self._memo[k]
        self._has_large = False

    def _computed(self, node: Node, plain: bool, inner: bool) -> np.ndarray:
        """Compute a node from its operands, which are in their declared dtypes if ``inner``."""
        if node.op == "weight":
            return self._graph.weights[node.attr("name")].value()
        exact = plain or node.op in _EXACT
        if exact or inner:
            operands = [self._memo[self._key(j), inner] for j in node.inputs]
            operands = operands if exact else [_compute_dtype(v, True) for v in operands]
        else:
            operands = [self.precise(j) for j in node.inputs]
        with np.errstate(all="ignore"):
            result = _run(node, operands, _attrs(node, not exact))
            if plain and result.dtype != node.tensor.numpy_dtype():
                result = result.astype(node.tensor.numpy_dtype())
        self._has_large |= result.nbytes >= _LARGE
        return result

    def _factors(self, i: int) -> list[int]:
        """Return the factors of a chain of square matrices, or the operands of any other node."""
        found: list[int] = []
        stack = list(reversed(self._graph.nodes[i].inputs))
        chain = _square(self._graph, i)
        while stack:
            j = stack.pop()
            if chain and _square(self._graph, j):
                stack += reversed(self._graph.nodes[j].inputs)
            else:
                found.append(j)
        return found

    def _product(self, i: int, factors: Sequence[int]) -> np.ndarray:
        """Multiply matrices from the left, so that chains with the same beginning share its products."""
        key, product = [self._key(factors[0])], self.precise(factors[0])
        for j in factors[1:]:
            key.append(self._key(j))
            at = ("product", *key), None
            if at not in self._memo:
                with np.errstate(all="ignore"):
                    self._memo[at] = _run(self._graph.nodes[i], [product, self.precise(j)], {"act": "none"})
                self._has_large |= self._memo[at].nbytes >= _LARGE
            product = self._memo[at]
        return product

    def _key(self, root: int) -> Any:
        """Return the key of a term: equal for equal terms over the same weights."""
        nodes = self._graph.nodes
        for i in postorder((root,), lambda i: () if i in self._keys else nodes[i].inputs):
            if i in self._keys:
                continue
            if nodes[i].op == "weight":
                self._keys[i] = id(self._graph.weights[nodes[i].attr("name")])
            else:
                term = repr((nodes[i].op, nodes[i].attrs, [self._keys[j] for j in nodes[i].inputs]))
                self._keys[i] = hashlib.blake2b(term.encode(), digest_size=16).digest()
        return self._keys[root]


def fold_constants(
    graph: Graph, *, keep_overflow: bool = False, keep_transposed: bool = False, memo: Memo | None = None
) -> Graph:
    """Return the graph with every weight-only part replaced by its value.

    Values are computed in float64 and rounded once to their dtype; a value that is converted to another
    dtype is computed in the declared ones. Folding the same graph again returns the same result.

    Args:
        graph: The graph.
        keep_overflow: Whether a part that raises an error is left unfolded.
        keep_transposed: Whether stored matrices that products read transposed stay as they are.
        memo: Values that are already known.

    Raises:
        OverflowError: If a finite float64 value has no finite counterpart in its dtype.
        IndexError: If an index lies outside its axis.
    """
    known = _FOLDED.setdefault(graph, {})
    at = keep_overflow, keep_transposed, replacements()
    if at not in known:
        kept = kept_transposed(graph) if keep_transposed else frozenset()
        known[at] = _folded(graph, graph.constant(), keep_overflow, memo, kept)
    return known[at]


def fold_moves(graph: Graph, *, memo: Memo | None = None) -> Graph:
    """Return the graph with its weights laid out as they are read: operators that only move them run once.

    Stored matrices that products read transposed stay as they are.
    """
    moved: list[bool] = []
    for node in graph.nodes:
        moves = node.op == "weight" or (node.op in _MOVES and bool(node.inputs))
        moved.append(moves and all(moved[j] for j in node.inputs))
    return _folded(graph, moved, False, memo, kept_transposed(graph))


def _folded(
    graph: Graph, constant: Sequence[bool], keep_overflow: bool, memo: Memo | None, kept: frozenset[int]
) -> Graph:
    live = graph.reachable()
    read = {j for i, node in enumerate(graph.nodes) if live[i] and not constant[i] for j in node.inputs}
    needed = {j for j in read.union(graph.output_ids) if constant[j]}
    constants = Constants(graph, memo)
    folded: dict[int, np.ndarray] = {}
    for i in range(len(graph.nodes) - 1, -1, -1):  # an unfolded node needs its operands, which come before it
        node = graph.nodes[i]
        if i not in needed or node.op == "weight":
            continue
        if i in kept:
            needed.update(node.inputs)
            continue
        try:
            folded[i] = constants.laid_out(i)
            constants.forget_large()
        except (OverflowError, IndexError):
            if not keep_overflow:
                raise
            needed.update(node.inputs)

    def stored(builder: Builder, i: int, node: Node, inputs: list[int]) -> int | None:
        if i not in folded:
            return None
        name = builder.unused(f"folded_{len(builder.nodes)}")
        builder.weights[name] = Weight(node.tensor, folded[i])
        return builder.apply("weight", (), (name,))

    remaining = {i for i in range(len(graph)) if live[i] and (not constant[i] or i in needed)}
    return graph.copied(stored, keep=remaining, share=False)
