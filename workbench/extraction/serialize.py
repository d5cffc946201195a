"""Read and write e-graphs in the egraph-serialize JSON format, which the extraction gym uses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from workbench.extraction.egraph import EGraph


class EGraphFormatError(ValueError):
    """Say what is wrong with a serialised e-graph, and where."""


def load_json(path: str | os.PathLike[str]) -> tuple[EGraph, np.ndarray]:
    """Read an e-graph and its e-nodes' costs.

    Raise :class:`EGraphFormatError` for a file that is no such e-graph: not JSON, no root, a child or
    root that does not exist, a missing field, a cost that is no number.
    """
    file = Path(path)
    double: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) < len(pairs):
            keys = [k for k, _ in pairs]
            double.extend(k for k in record if keys.count(k) > 1)
        return record

    try:
        data = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=unique)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise EGraphFormatError(f"{file.name} is not JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("nodes"), dict):
        raise EGraphFormatError(f"{file.name}: expected an object with 'nodes' and 'root_eclasses'")
    if double:
        raise EGraphFormatError(f"{file.name}: {double[0]!r} is defined twice")
    return _columns(file.name, data)


def _columns(name: str, data: dict[str, Any]) -> tuple[EGraph, np.ndarray]:
    classes: dict[str, int] = {}
    keys = list(data["nodes"])
    try:
        records = [data["nodes"][k] for k in keys]
        of_node = {
            k: classes.setdefault(str(r["eclass"]), len(classes)) for k, r in zip(keys, records, strict=True)
        }
    except (KeyError, TypeError) as error:
        raise EGraphFormatError(f"{name}: an e-node lacks {error}") from None
    children: list[int] = []
    start = [0]
    costs = []
    for key, record in zip(keys, records, strict=True):
        for child in record.get("children", ()):
            if child not in of_node:
                raise EGraphFormatError(f"{name}: e-node {key} reads {child!r}, which does not exist")
            children.append(of_node[child])
        start.append(len(children))
        try:
            costs.append(float(record.get("cost", 1.0)))
        except (TypeError, ValueError):
            raise EGraphFormatError(f"{name}: the cost of {key} is {record['cost']!r}") from None
    roots = data.get("root_eclasses") or []
    missing = [r for r in roots if str(r) not in classes]
    if not roots or missing:
        what = f"root {missing[0]!r} does not exist" if missing else "there is no root"
        raise EGraphFormatError(f"{name}: {what}")
    n = len(keys)
    egraph = EGraph(
        ops=tuple(str(r.get("op", "")) for r in records),
        attrs=((),) * n,
        child_start=np.array(start, dtype=np.int64),
        children=np.array(children, dtype=np.int64),
        eclass=np.array([of_node[k] for k in keys], dtype=np.int64),
        n_classes=len(classes),
        roots=tuple(classes[str(r)] for r in roots),
        types=(None,) * len(classes),
        birth_rule=np.full(n, -1, dtype=np.int32),
        birth_step=_ages(list(classes))[[of_node[k] for k in keys]],
    )
    return egraph, np.array(costs)


def _ages(names: list[str]) -> np.ndarray:
    """Return an age for every e-class: e-graph libraries number them in order of their making."""
    if all(name.isdigit() for name in names):
        return np.argsort(np.argsort([int(name) for name in names])).astype(np.int32)
    return np.zeros(len(names), dtype=np.int32)


def save_json(egraph: EGraph, costs: np.ndarray, path: str | os.PathLike[str]) -> None:
    """Write an e-graph; a child is named by the first e-node of its e-class."""
    first: dict[int, int] = {}
    for i, c in enumerate(egraph.eclass.tolist()):
        first.setdefault(c, i)
    nodes = {
        str(i): {
            "op": egraph.ops[i] + "".join(f" {a}" for a in egraph.attrs[i]),
            "children": [str(first[c]) for c in egraph.operands(i).tolist()],
            "eclass": str(int(egraph.eclass[i])),
            "cost": float(costs[i]),
        }
        for i in range(len(egraph))
    }
    target = Path(path)
    temporary = target.with_name(target.name + ".part")
    temporary.write_text(
        json.dumps({"nodes": nodes, "root_eclasses": [str(r) for r in egraph.roots]}),
        encoding="utf-8",
    )
    temporary.replace(target)
