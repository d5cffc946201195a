"""Read and write e-graphs in the egraph-serialize JSON format, which the extraction gym uses."""

from __future__ import annotations

import gzip
import json
import math
import os
import sys
import zlib
from collections import Counter, defaultdict
from itertools import chain, count
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from workbench.egraph.egraph import EGraph, validate
from workbench.support.files import atomic_file
from workbench.support.machine import collector_paused

#: The JSON names of Python types.
_KINDS: Final = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}
_GZIP: Final = b"\x1f\x8b"  # the first bytes of every gzip file
#: Largest number of bytes to which a packed file is unpacked.
LARGEST: Final = 1 << 29
_CHUNK: Final = 10_000  # number of lines written at a time


class EGraphFormatError(ValueError):
    """Raised when a serialised e-graph cannot be read; the message names the place of the error."""


def load_json(path: str | os.PathLike[str]) -> tuple[EGraph, np.ndarray]:
    """Read an e-graph and its e-nodes' costs from a JSON file, gzipped or not.

    E-nodes and e-classes are numbered in the file's order; ``node_names`` and ``class_names`` keep
    their ids; integer ids are read as their digits. A child is the id of an e-node of the e-class that is
    read, or the id of the e-class: a number always, and strings if all children are e-classes. A missing
    cost is 1. An e-node is forbidden (infinite cost) by the cost ``Infinity``, by ``null``, as egglog
    writes it, and by ``"subsumed": true``.
    E-classes that are not reachable from a root are kept; ``class_data`` and fields that the format does
    not have are ignored.

    Raise :class:`EGraphFormatError` if the file is not such an e-graph: it is not JSON, an id is defined
    twice, a field is missing or has the wrong type, a child or root does not exist, no root is given, or
    a cost is NaN.
    """
    file = Path(path)
    with collector_paused():
        return _columns(file.name, _parse(file.name, _read(file)))


def _read(file: Path) -> str:
    raw = file.read_bytes()
    if raw.startswith(_GZIP):
        try:
            with gzip.open(file) as packed:
                raw = packed.read(LARGEST + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise EGraphFormatError(f"{file.name} must be a complete gzip file, got: {error}") from None
        if len(raw) > LARGEST:
            limit = f"at most {LARGEST >> 20} MiB of JSON, got more"
            raise EGraphFormatError(f"{file.name} must unpack to {limit} (try unpacking it first)")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EGraphFormatError(f"{file.name} must be JSON in UTF-8, got: {error}") from None


def _parse(name: str, text: str) -> dict[str, Any]:
    """Return the top-level object; raise EGraphFormatError if an object has two entries of the same name."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) < len(pairs):
            double = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise EGraphFormatError(f"{name}: {double!r} is defined twice in the same object")
        return record

    try:
        data = json.loads(text, object_pairs_hook=unique)
    except EGraphFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise EGraphFormatError(f"{name} must be readable JSON, got: {error}") from None
    if not isinstance(data, dict):
        expected = "an object with 'nodes' and 'root_eclasses'"
        raise EGraphFormatError(f"{name} must be {expected}, got {_said(data)}")
    return data


def _columns(name: str, data: dict[str, Any]) -> tuple[EGraph, np.ndarray]:
    nodes = data.get("nodes")
    if not isinstance(nodes, dict):
        found = _said(nodes) if "nodes" in data else "nothing"
        raise EGraphFormatError(f"{name}: 'nodes' must be an object of e-nodes by id, got {found}")
    if not {dict}.issuperset(map(type, nodes.values())):
        key, record = next((key, record) for key, record in nodes.items() if type(record) is not dict)
        raise EGraphFormatError(f"{name}: e-node {key!r} must be an object, got {_said(record)}")
    n = len(nodes)
    ops = _field(name, nodes, "op", {str})
    classes: defaultdict[str, int] = defaultdict(count().__next__)  # a new id takes the next number
    eclass = list(map(classes.__getitem__, map(str, _field(name, nodes, "eclass", {str, int}))))
    rows = _field(name, nodes, "children", {list}, [])
    start = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, rows), np.int64, n), out=start[1:])
    children = _children(name, nodes, rows, classes, eclass, int(start[-1]))
    belongs = np.array(eclass, dtype=np.int64)
    costs = _costs(name, nodes)
    same: dict[str, str] = {}
    ages = np.zeros(len(classes), dtype=np.int32)
    if all(c.isascii() and c.isdigit() and len(c) <= 18 for c in classes):
        # E-graph libraries number e-classes in the order of creation.
        ages = np.argsort(np.argsort(np.array(list(map(int, classes)), dtype=np.int64))).astype(np.int32)
    egraph = EGraph(
        ops=tuple(map(same.setdefault, ops, ops)),  # one string per distinct operator
        attrs=((),) * n,
        child_start=start,
        children=children,
        eclass=belongs,
        n_classes=len(classes),
        roots=_roots(name, data, classes),
        types=(None,) * len(classes),
        birth_rule=np.full(n, -1, dtype=np.int32),
        birth_step=ages[belongs],
        node_names=tuple(nodes),
        class_names=tuple(classes),
    )
    return egraph, costs


def _field(name: str, nodes: dict[str, Any], field: str, kinds: set[type], default: Any = None) -> list[Any]:
    """Return a field of every e-node; a field without a default is required."""
    column = [record.get(field, default) for record in nodes.values()]
    if not kinds.issuperset(map(type, column)):
        key, value = next((k, v) for k, v in zip(nodes, column, strict=True) if type(v) not in kinds)
        if field not in nodes[key]:
            raise EGraphFormatError(f"{name}: e-node {key!r} has no {field!r}")
        expected = " or ".join(dict.fromkeys(_KINDS[kind] for kind in _KINDS if kind in kinds))
        raise EGraphFormatError(f"{name}: {field!r} of e-node {key!r} must be {expected}, got {_said(value)}")
    return column


def _children(
    name: str,
    nodes: dict[str, Any],
    rows: list[list[Any]],
    classes: dict[str, int],
    eclass: list[int],
    size: int,
) -> np.ndarray:
    """Return the e-classes that all e-nodes read, one after another.

    The keys of JSON objects are strings, so a number as a child is the id of an e-class. A string is the
    id of an e-node, or of an e-class if all children of the file are such.
    """
    known = dict(classes)  # without new numbers for unknown ids
    try:
        of_node = dict(zip(nodes, eclass, strict=True))
        return np.fromiter(map(of_node.__getitem__, chain.from_iterable(rows)), np.int64, size)
    except (KeyError, TypeError):
        pass
    kinds = set(map(type, chain.from_iterable(rows)))
    if kinds in ({int}, {str}):
        try:
            return np.fromiter(map(known.__getitem__, map(str, chain.from_iterable(rows))), np.int64, size)
        except KeyError:
            pass
    raise _bad_child(name, nodes, known, numbers=kinds == {int})


def _said(value: Any) -> str:
    """Return a JSON value's kind, followed by the value if it is short."""
    text = json.dumps(value)
    return _KINDS[type(value)] + (f" ({text})" if value is not None and len(text) <= 40 else "")


def _bad_child(
    name: str, nodes: dict[str, Any], classes: dict[str, int], *, numbers: bool
) -> EGraphFormatError:
    """Return the error for the first child that is not an e-node (or not an e-class, if all are numbers)."""
    for key, record in nodes.items():
        for child in record.get("children", ()):
            if numbers:
                if str(child) not in classes:
                    why = f"got {child}, which is not an e-class"
                    return EGraphFormatError(f"{name}: e-node {key!r} must read e-classes by number, {why}")
                continue
            if not isinstance(child, str):
                what = f"the children of e-node {key!r} must be ids of e-nodes"
                return EGraphFormatError(f"{name}: {what}, got {_said(child)}")
            if child not in nodes:
                why = "which does not exist"
                if child in classes:
                    why = "which is an e-class (try the id of one of its e-nodes)"
                return EGraphFormatError(f"{name}: e-node {key!r} must read e-nodes, got {child!r}, {why}")
    raise AssertionError("every child exists")


def _costs(name: str, nodes: dict[str, Any]) -> np.ndarray:
    column = _field(name, nodes, "cost", {int, float, type(None)}, 1.0)
    try:
        # NumPy reads null as NaN, which would hide a real one.
        costs = np.array([math.inf if cost is None else cost for cost in column], dtype=float)
    except OverflowError:
        huge = (isinstance(cost, int) and abs(cost) > sys.float_info.max for cost in column)
        key = next(key for key, is_huge in zip(nodes, huge, strict=True) if is_huge)
        raise EGraphFormatError(f"{name}: the cost of e-node {key!r} must fit a 64-bit float") from None
    if np.isnan(costs).any():
        key = list(nodes)[int(np.flatnonzero(np.isnan(costs))[0])]
        raise EGraphFormatError(f"{name}: the cost of e-node {key!r} must be a number, got NaN")
    subsumed = _field(name, nodes, "subsumed", {bool}, False)
    costs[np.array(subsumed, dtype=bool)] = math.inf
    return costs


def _roots(name: str, data: dict[str, Any], classes: dict[str, int]) -> tuple[int, ...]:
    roots = data.get("root_eclasses", [])
    if not isinstance(roots, list):
        raise EGraphFormatError(f"{name}: 'root_eclasses' must be a list of e-class ids, got {_said(roots)}")
    if not roots:
        raise EGraphFormatError(f"{name}: 'root_eclasses' must list at least one e-class as root, got none")
    for root in roots:
        if type(root) not in (str, int):
            what = f"'root_eclasses' must list ids of e-classes, got {_said(root)}"
            raise EGraphFormatError(f"{name}: {what}")
        if str(root) not in classes:
            why = "which does not exist"
            if isinstance(root, str) and root in data["nodes"]:
                why = f"which is an e-node (try its e-class {data['nodes'][root]['eclass']!r})"
            raise EGraphFormatError(f"{name}: a root must be the id of an e-class, got {root!r}, {why}")
    return tuple(classes[str(root)] for root in roots)


def save_json(egraph: EGraph, costs: np.ndarray, path: str | os.PathLike[str]) -> None:
    """Write an e-graph and its costs, gzipped if the path ends in ``.gz``.

    Ids are the e-graph's own names if it has them, and numbers otherwise. A child is named by the first
    e-node of its e-class. Attributes are appended to the operator's name. An infinite cost is ``null``,
    as egglog writes it, because JSON has no infinity. The format cannot hold types, rules and births.

    Raise ValueError if the columns are inconsistent, if the costs do not fit the format, or if an e-node
    reads an e-class without e-nodes, because the format has no name for it.
    """
    validate(egraph)
    values = np.asarray(costs, dtype=float)
    if values.shape != (len(egraph),):
        raise ValueError(f"costs must be an array of {len(egraph)}, one per e-node, got shape {values.shape}")
    wrong = np.flatnonzero(np.isnan(values) | (values == -math.inf))
    if wrong.size:
        i = int(wrong[0])
        raise ValueError(f"the cost of e-node {egraph.node_name(i)} ({egraph.ops[i]}) cannot be {values[i]}")
    first = np.full(egraph.n_classes, -1, dtype=np.int64)
    first[egraph.eclass[::-1]] = np.arange(len(egraph))[::-1]
    nameless = np.flatnonzero(first[egraph.children] < 0)
    if nameless.size:
        c = egraph.class_name(int(egraph.children[nameless[0]]))
        raise ValueError(f"e-class {c} is read but has no e-node, so the format has no name for it")
    target = Path(path)
    with collector_paused(), atomic_file(target) as file:
        if target.suffix == ".gz":
            # The header has no name and no time, so that equal e-graphs make equal files.
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                _write(packed, egraph, values, first)
        else:
            _write(file, egraph, values, first)


def _write(file: IO[bytes] | gzip.GzipFile, egraph: EGraph, values: np.ndarray, first: np.ndarray) -> None:
    """Write the text of an e-graph, one e-node per line."""
    quote = json.JSONEncoder().encode
    ids = list(map(quote, egraph.node_names or map(str, range(len(egraph)))))
    classes = list(map(quote, egraph.class_names or map(str, range(egraph.n_classes))))
    representative = [ids[i] if i >= 0 else "" for i in first.tolist()]
    children = [representative[c] for c in egraph.children.tolist()]
    start, eclass = egraph.child_start.tolist(), egraph.eclass.tolist()
    costs = [repr(cost) if cost < math.inf else "null" for cost in values.tolist()]

    def line(i: int) -> str:
        op, attrs = egraph.ops[i], egraph.attrs[i]
        named = quote(" ".join(map(str, (op, *attrs))) if attrs else op)
        reads = ", ".join(children[start[i] : start[i + 1]])
        of = classes[eclass[i]]
        return f'{ids[i]}: {{"op": {named}, "children": [{reads}], "eclass": {of}, "cost": {costs[i]}}}'

    file.write(b'{"nodes": {')
    for begin in range(0, len(ids), _CHUNK):
        lines = map(line, range(begin, min(begin + _CHUNK, len(ids))))
        file.write((("," if begin else "") + "\n" + ",\n".join(lines)).encode("ascii"))
    roots = ", ".join(classes[c] for c in egraph.roots)
    file.write(f'\n}},\n"root_eclasses": [{roots}]}}\n'.encode("ascii"))
