"""The state of a run: its e-graph in egglog, and the facts about it that egglog does not keep.

:func:`columns_of` reads the e-graph out of egglog into columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from itertools import accumulate, chain, count
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.graph import Graph
from workbench.ops import TensorType, TupleType, ValueType
from workbench.saturation.compile import CompiledRule
from workbench.saturation.egglog_session import Base
from workbench.saturation.encoding import BIRTH_BASE, UNSTAMPED, Constructor, Encoding

if TYPE_CHECKING:
    from egglog.bindings import FrozenFunction, Value

    from workbench.saturation.rule_prefilter import Pair


@dataclass(slots=True)
class Record:
    """The facts about an e-graph that are undone together with it.

    ``constructors`` are those declared. ``applied`` counts the matches of rules of several roots by rule set,
    ``merged`` holds the groups that ``each`` rules have merged, ``made_by_merge`` the handles of the tensors
    that they joined. ``combined`` names the rule sets that run together, by the numbers of their rules.
    ``pairs`` are pairs of operators that were found (:mod:`workbench.saturation.rule_prefilter`). E-nodes of
    the constructors ``held`` may wait (:func:`~workbench.saturation.node_budget.hold_joins`).
    """

    constructors: list[Constructor]
    applied: dict[str, int] = field(default_factory=dict)
    merged: set[tuple[Any, ...]] = field(default_factory=set)
    made_by_merge: set[int] = field(default_factory=set)
    combined: dict[tuple[int, ...], str] = field(default_factory=dict)
    pairs: set[Pair] = field(default_factory=set)
    held: set[Constructor] = field(default_factory=set)

    def copy(self) -> Record:
        """Return a record that later changes of this one do not reach."""
        return Record(*(copy(getattr(self, f.name)) for f in fields(self)))


@dataclass(slots=True)
class State:
    """The e-graph of one run of a graph, and its record.

    ``bookkeeping`` gives the rules that come with a constructor's declaration. ``handles`` is the number of
    the next e-class that is named ``(h_ n)``; a number is not used again, even if its e-class is undone.
    """

    base: Base
    graph: Graph
    encoding: Encoding
    bookkeeping: Callable[[Constructor], list[str]]
    record: Record
    handles: int

    def run(self, text: str) -> list[Any]:
        """Run commands; raise :class:`~workbench.saturation.egglog_session.EngineError` with the engine's message."""
        return self.base.run(text)

    @property
    def functions(self) -> dict[str, FrozenFunction]:
        """Return the tables of the e-graph, as they are now."""
        return self.base.egraph.freeze().functions

    def new_handle(self) -> int:
        """Return the number of a new handle."""
        self.handles += 1
        return self.handles - 1

    def name(self, expression: str) -> int:
        """Name an expression's e-class; return its handle."""
        number = self.new_handle()
        self.run(f"(set (h_ {number}) {expression})")
        return number

    def declare(self, constructor: Constructor) -> None:
        """Declare a constructor that a merge of many members needs."""
        declared = self.record.constructors
        if constructor not in declared:
            stamp = constructor.stamp(len(declared))
            self.run("\n".join([constructor.declaration(), stamp, *self.bookkeeping(constructor)]))
            declared.append(constructor)


class Decoder:
    """A decoder of the engine's values that decodes each distinct value once."""

    def __init__(self, state: State) -> None:
        egraph = state.base.egraph
        self._ints: dict[Any, int] = {}
        self._vectors: dict[Any, tuple[int, ...]] = {}
        self._egraph = egraph
        self.by_sort = {
            "i64": self.integer,
            "VI": self.vector,
            "f64": egraph.value_to_f64,
            "String": egraph.value_to_string,
        }

    def integer(self, value: Value) -> int:
        """Return an i64."""
        if value not in self._ints:
            self._ints[value] = self._egraph.value_to_i64(value)
        return self._ints[value]

    def vector(self, value: Value) -> tuple[int, ...]:
        """Return a vector of i64."""
        if value not in self._vectors:
            self._vectors[value] = tuple(map(self.integer, self._egraph.value_to_vec(value)))
        return self._vectors[value]


def columns_of(state: State, rules: Sequence[CompiledRule]) -> dict[str, Any]:
    """Return the columns of an e-graph by name: e-nodes of the start graph first, others by their step of birth."""
    functions = state.functions
    decode = Decoder(state)
    encoding, graph = state.encoding, state.graph
    classes: defaultdict[Any, int] = defaultdict(count().__next__)  # a new e-class takes the next number
    type_cache: dict[tuple[int, ...], TensorType] = {}
    types: dict[int, ValueType] = {}
    for row in functions["ty_"].rows:
        vec = decode.vector(row.output)
        if vec not in type_cache:
            type_cache[vec] = encoding.type_of(vec)
        types[classes[row.inputs[0]]] = type_cache[vec]
    records: list[tuple[int, str, tuple[Any, ...], list[int], int]] = []
    attr_cache: dict[tuple[str, tuple[Any, ...]], tuple[Any, ...]] = {}
    for constructor in state.record.constructors:
        columns = [decode.by_sort[s] for s in constructor.columns()]
        width = len(columns)
        born = {tuple(r.inputs): r.output for r in functions[constructor.born].rows}
        op = constructor.op
        for row in functions[constructor.name].rows:
            inputs = row.inputs
            raw = tuple(inputs[:width])
            attrs = attr_cache.get((op, raw))
            if attrs is None:
                decoded = [f(v) for f, v in zip(columns, raw, strict=True)]
                attrs = attr_cache[op, raw] = encoding.decode_attrs(op, decoded)
            number = classes[row.output]
            if constructor.many:
                types[number] = TupleType(graph.opaques[str(attrs[0])].results)
            birth = decode.integer(born[tuple(inputs)]) % UNSTAMPED
            records.append((birth, op, attrs, [classes[v] for v in inputs[width:]], number))
    records.sort(key=lambda r: r[0] // BIRTH_BASE)
    children = [operand for record in records for operand in record[3]]
    start = [0, *accumulate(len(record[3]) for record in records)]
    births = np.array([r[0] for r in records], dtype=np.int64)
    position = {r.number: i for i, r in enumerate(rules)}
    rule_of = [position.get(int(b) % BIRTH_BASE, -1) for b in births]
    rows = chain.from_iterable(functions[name].rows for name in ("h_", "ht_"))
    handle = {decode.integer(row.inputs[0]): classes[row.output] for row in rows}
    where = {(op, attrs, tuple(operands)): i for i, (_, op, attrs, operands, _) in enumerate(records)}
    original = np.array(
        [where.get((node.op, node.attrs, tuple(handle[j] for j in node.inputs)), -1) for node in graph.nodes],
        dtype=np.int32,
    )
    return {
        "ops": tuple(r[1] for r in records),
        "attrs": tuple(r[2] for r in records),
        "child_start": np.array(start, dtype=np.int64),
        "children": np.array(children, dtype=np.int64),
        "eclass": np.array([r[4] for r in records], dtype=np.int64),
        "n_classes": len(classes),
        "roots": tuple(handle[i] for i in graph.output_ids),
        "types": tuple(map(types.get, range(len(classes)))),
        "rules": tuple(r.rule.name for r in rules),
        "birth_rule": np.array(rule_of, dtype=np.int32),
        "birth_step": (births // BIRTH_BASE).astype(np.int32),
        "original": original,
    }
