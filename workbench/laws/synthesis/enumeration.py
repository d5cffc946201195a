"""Enumeration of terms by classes: of equal terms only the first one is extended.

The equations of the others are candidates for laws: up to renaming, without instances of smaller ones, general ones
first.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from workbench.laws.synthesis import shards
from workbench.laws.synthesis.grammar import Grammar
from workbench.ops import TensorType, Trait, TypeMismatch, spec_of, with_trait
from workbench.ops.exact import Arithmetic
from workbench.ops.serialization import packed
from workbench.rules.pattern import App, Term, Var, applications, canonical, format_term, tensor_variables

#: Elements computed at once; a larger number needs more memory and is hardly faster.
_ELEMENTS: Final = 2_000_000
#: Draws of values under each assignment of sizes. Values that are compared need several: the elements of one
#: draw may all be positive by chance.
_DRAWS: Final = {Arithmetic.POLYNOMIAL: 1, Arithmetic.ORDERED: 4, Arithmetic.FLOATS: 2}
#: Types of a term under every assignment of sizes.
Types = tuple[TensorType, ...]
#: A term as a form and the classes of its operands; a variable has form -1 and its number as operand.
Node = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Equation:
    """Two terms over a grammar's variables with one fingerprint, and the number of operators in both."""

    left: Term
    right: Term
    size: int


@dataclass(slots=True)
class _Block:
    """The classes of one size and of the same types, with their values under every assignment of sizes."""

    kind: int
    ids: np.ndarray
    values: list[np.ndarray]


@dataclass(frozen=True, slots=True)
class Level:
    """The numbers of one size of terms: all, the first of classes, equal pairs; not ``complete`` if cut by a limit."""

    size: int
    terms: int
    classes: int
    pairs: int
    complete: bool


@dataclass(frozen=True, slots=True)
class _Found:
    """Terms of one size, form and types, as arrays: classes of the operands, hash, values under every assignment."""

    form: int
    kind: int
    args: np.ndarray
    hashes: np.ndarray
    values: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.hashes)


def _usable(form: int, args: np.ndarray, kind: int, result: shards.Evaluated) -> _Found:
    """Return those terms of a shard that have values."""
    at = result.usable
    return _Found(form, kind, args[at], result.hashes[at], [v[at] for v in result.values])


class Enumeration:
    """The terms of a grammar by size, each the application of an operator to the first terms of classes.

    The values of the variables depend on ``seed``. By default this process evaluates all shards of terms.
    """

    def __init__(self, grammar: Grammar, *, seed: int = 0, mapper: shards.Mapper | None = None) -> None:
        self.grammar = grammar
        self.mapper: shards.Mapper = mapper or shards.Here()
        #: The largest number of terms of one size.
        self.most_terms = 4_000_000
        self.arithmetic = shards.arithmetic_of(grammar.forms, dict(grammar.sizes[0]))
        self._worlds = [dict(s) for s in grammar.sizes for _ in range(_DRAWS[self.arithmetic])]
        self.arity = max(f.arity for f in grammar.forms)
        self.levels: list[Level] = []
        #: Numbers of forms of two operands whose exchange is known to change nothing.
        self.commutative: set[int] = set()
        self._kinds: dict[Types, int] = {}
        self._blocks: list[list[_Block]] = []
        #: By class: form and operands of its first term, number of operators, and number of the types.
        self._first_forms = np.empty(0, dtype=np.int16)
        self._first_args = np.empty((0, self.arity), dtype=np.int32)
        self._sizes = np.empty(0, dtype=np.int16)
        self._kind_of = np.empty(0, dtype=np.int32)
        self._types: list[Types] = []
        self._results: dict[tuple[int, tuple[int, ...]], int | None] = {}
        #: By class: the variables in order of appearance, as the number of a tuple in ``_orders``.
        self._order_of = np.empty(0, dtype=np.int32)
        self._orders: dict[tuple[int, ...], int] = {}
        self._order_list: list[tuple[int, ...]] = []
        self._terms: dict[int, Term] = {}
        self._form_of = {
            (t.op, t.attrs): n for n, f in enumerate(grammar.forms) for t in [f.term((), grammar.sizes[0])]
        }
        self._operand_types = [tuple(o.type(s) for s in self._worlds) for o in grammar.operands]
        self._variable = {o.name: n for n, o in enumerate(grammar.operands)}
        sorts: dict[tuple[str, ...], list[int]] = {}
        for number, operand in enumerate(grammar.operands):
            sorts.setdefault(operand.shape, []).append(number)
        self._sorts = list(sorts.values())
        self._hashes = np.empty(0, dtype=np.uint64)
        self._classes = np.empty(0, dtype=np.int64)
        self.nodes: dict[Node, int] = {}
        #: Applications of a form to one class that have other variables than it, with their classes.
        self.parts: list[tuple[Node, int]] = []
        rng = np.random.default_rng(seed)
        found = []
        for number, types in enumerate(self._operand_types):
            values = [shards.drawn(t, self.arithmetic, rng)[None] for t in types]
            kind = self._kind(types)
            result = shards.fingerprints(values, self.arithmetic, kind)
            found.append(_usable(-1, np.full((1, self.arity), number, dtype=np.int32), kind, result))
        self._settle(0, found, True, keep=True)

    # -- one size ------------------------------------------------------------------------------------
    def extend(self, deadline: float = float("inf"), *, last: bool = False) -> tuple[Level, list[Equation]]:
        """Enumerate the terms of the next size; return its numbers and the equations found.

        After ``deadline``, in the seconds of ``time.perf_counter``, no further operands are combined. If this size is
        the ``last``, values are not kept.
        """
        size = len(self.levels)
        found: list[_Found] = []
        complete = True
        queue: list[tuple[int, np.ndarray, shards.Shard]] = []
        at_once = shards.AHEAD * self.mapper.workers if self.mapper.workers > 1 else 1
        for part in self._shards(size - 1, keep=not last):
            room = self.most_terms - sum(map(len, found)) - sum(len(args) for _, args, _ in queue)
            if queue and (room <= len(part[1]) or len(queue) >= at_once):
                self._evaluate(queue, found)
                room = self.most_terms - sum(map(len, found))
            if time.perf_counter() > deadline or room <= 0:
                complete = False
                break
            queue.append(shards.cut(part, room))
            complete &= len(part[1]) <= room
        self._evaluate(queue, found)
        equations = self._settle(size, found, complete, keep=not last)
        return self.levels[-1], equations

    def _combinations(self, arity: int, total: int) -> Iterator[tuple[_Block, ...]]:
        for sizes in itertools.product(range(total + 1), repeat=arity):
            if sum(sizes) == total:
                yield from itertools.product(*(self._blocks[s] for s in sizes))

    def _shards(self, total: int, *, keep: bool) -> Iterator[tuple[int, np.ndarray, shards.Shard]]:
        """Yield all applications of forms to operands of a total size: form, classes, and their shard."""
        own = {form.op for form in self.grammar.forms} & with_trait(Trait.OWN)
        operators = packed(own) if self.mapper.workers > 1 else b""
        for number, form in enumerate(self.grammar.forms):
            attrs = tuple(map(form.values, self._worlds))
            for blocks in self._combinations(form.arity, total):
                kind = self._result(number, tuple(b.kind for b in blocks))
                if kind is None:
                    continue
                grid = np.meshgrid(*(np.arange(len(b.ids)) for b in blocks), indexing="ij")
                places = np.stack([g.reshape(-1) for g in grid], axis=1)
                ids = np.stack([b.ids[places[:, k]] for k, b in enumerate(blocks)], axis=1)
                if number in self.commutative:
                    ordered = ids[:, 0] <= ids[:, 1]
                    places, ids = places[ordered], ids[ordered]
                largest = max(t.elements + 1 for t in self._types[kind])
                inputs = tuple(zip(*(self._types[b.kind] for b in blocks), strict=True))
                rows = max(
                    1, min(_ELEMENTS // largest, shards.rows_of_a_shard(len(ids), self.mapper.workers))
                )
                for start in range(0, len(ids), rows):
                    part = slice(start, start + rows)
                    padded = np.zeros((len(ids[part]), self.arity), dtype=np.int32)
                    padded[:, : form.arity] = ids[part]
                    values = (
                        tuple(b.values[world][places[part, k]] for k, b in enumerate(blocks))
                        for world in range(len(self._worlds))
                    )
                    shard = shards.Shard(
                        form, attrs, inputs, tuple(values), self.arithmetic, kind, keep, operators
                    )
                    yield number, padded, shard

    def _evaluate(self, queue: list[tuple[int, np.ndarray, shards.Shard]], found: list[_Found]) -> None:
        """Evaluate the shards in a queue, add their terms in its order, and empty it."""
        done = self.mapper(shards.evaluated, [shard for _, _, shard in queue]) if queue else []
        for (number, args, shard), result in zip(queue, done, strict=True):
            found.append(_usable(number, args, shard.kind, result))
        queue.clear()

    def _result(self, number: int, kinds: tuple[int, ...]) -> int | None:
        """Return the number of the types of a form's results, or None if it is ill-typed."""
        if (number, kinds) not in self._results:
            form = self.grammar.forms[number]
            found: int | None = None
            with contextlib.suppress(TypeMismatch):
                inputs = zip(*(self._types[k] for k in kinds), strict=True)
                worlds = zip(inputs, self._worlds, strict=True)
                found = self._kind(tuple(spec_of(form.op).result_type(x, form.values(w)) for x, w in worlds))
            self._results[number, kinds] = found
        return self._results[number, kinds]

    # -- classes -------------------------------------------------------------------------------------
    def _settle(self, size: int, found: list[_Found], complete: bool, *, keep: bool) -> list[Equation]:
        """Make a class of every new fingerprint and an equation of every other term."""
        if not found:
            self._blocks.append([])
            self.levels.append(Level(size, 0, 0, 0, complete))
            return []
        hashes, args = (
            np.concatenate(parts) for parts in zip(*((f.hashes, f.args) for f in found), strict=True)
        )
        alike = np.array([(f.form, f.kind) for f in found], dtype=np.int32)
        forms, kinds = np.repeat(alike, list(map(len, found)), axis=0).T
        classes = self._known(hashes)
        unknown = np.flatnonzero(classes < 0)
        unique, first = np.unique(hashes[unknown], return_index=True)
        order = np.argsort(first)  # classes are numbered in the order of enumeration
        new = unknown[first[order]]
        numbers = np.empty(len(unique), dtype=np.int64)
        numbers[order] = np.arange(len(unique)) + len(self)
        classes[unknown] = numbers[np.searchsorted(unique, hashes[unknown])]
        self._register(forms[new], args[new], kinds[new])
        self._hashes = np.concatenate([self._hashes, hashes[new]])
        self._classes = np.concatenate([self._classes, classes[new]])
        sort = np.argsort(self._hashes)
        self._hashes, self._classes = self._hashes[sort], self._classes[sort]
        self._blocks.append(self._new_blocks(found, new, classes) if keep else [])
        for form, row, c in zip(forms.tolist(), args.tolist(), classes.tolist(), strict=True) if keep else ():
            self.nodes[form, tuple(row[: self._arity(form)])] = c
        self._collect_parts(forms, args, classes)
        others = np.setdiff1d(np.arange(len(hashes)), new)
        self.levels.append(Level(size, len(hashes), len(new), len(others), complete))
        return self._equations(size, forms[others], args[others], classes[others])

    def _collect_parts(self, forms: np.ndarray, args: np.ndarray, classes: np.ndarray) -> None:
        single = [n for n, form in enumerate(self.grammar.forms) if form.arity == 1]
        orders = self._order_of
        mine = np.flatnonzero(np.isin(forms, single))
        mine = mine[orders[classes[mine]] != orders[args[mine, 0]]]
        for form, operand, c in zip(
            forms[mine].tolist(), args[mine, 0].tolist(), classes[mine].tolist(), strict=True
        ):
            if {*self.variables_of(c)} < {*self.variables_of(operand)}:
                self.parts.append(((form, (operand,)), c))

    def variables_of(self, number: int) -> tuple[int, ...]:
        """Return the numbers of the variables in the first term of a class, in order of appearance."""
        return self._order_list[self._order_of[number]]

    def _known(self, hashes: np.ndarray) -> np.ndarray:
        if not len(self._hashes):
            return np.full(len(hashes), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        return np.where(self._hashes[at] == hashes, self._classes[at], -1)

    def _arity(self, form: int) -> int:
        return 1 if form < 0 else self.grammar.forms[form].arity

    def _kind(self, types: Types) -> int:
        """Return the number of types of a term."""
        if types not in self._kinds:
            self._kinds[types] = len(self._types)
            self._types.append(types)
        return self._kinds[types]

    def _register(self, forms: np.ndarray, args: np.ndarray, kinds: np.ndarray) -> None:
        """Add classes with these first terms."""
        orders = np.empty(len(forms), dtype=np.int32)
        sizes = np.zeros(len(forms), dtype=np.int16)
        for form in np.unique(forms).tolist():
            mine = np.flatnonzero(forms == form)
            operands = args[mine, : self._arity(form)]
            if form < 0:
                orders[mine] = [self._order_number((v,)) for v in operands[:, 0].tolist()]
                continue
            sizes[mine] = 1 + self._sizes[operands].sum(axis=1)
            distinct, inverse = np.unique(self._order_of[operands], axis=0, return_inverse=True)
            numbers = np.array([self._order_number(self._joined(row)) for row in distinct.tolist()])
            orders[mine] = numbers[inverse.reshape(-1)]
        self._order_of = np.concatenate([self._order_of, orders])
        self._sizes = np.concatenate([self._sizes, sizes])
        self._kind_of = np.concatenate([self._kind_of, kinds])
        self._first_forms = np.concatenate([self._first_forms, forms.astype(np.int16)])
        self._first_args = np.concatenate([self._first_args, args.astype(np.int32)])

    def _order_number(self, order: tuple[int, ...]) -> int:
        if order not in self._orders:
            self._orders[order] = len(self._orders)
            self._order_list.append(order)
        return self._orders[order]

    def __len__(self) -> int:
        return len(self._first_forms)

    def first(self, number: int) -> Node:
        """Return the first term of a class."""
        form = int(self._first_forms[number])
        return form, tuple(self._first_args[number, : self._arity(form)].tolist())

    def _joined(self, orders: Sequence[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(v for o in orders for v in self._order_list[o]))

    def _new_blocks(self, found: list[_Found], new: np.ndarray, classes: np.ndarray) -> list[_Block]:
        """Return the new classes by type, with their values."""
        made: dict[int, tuple[list[np.ndarray], list[list[np.ndarray]]]] = {}
        start = 0
        for one in found:
            stop = start + len(one)
            here = new[(new >= start) & (new < stop)]
            if len(here):
                ids, parts = made.setdefault(one.kind, ([], []))
                ids.append(classes[here])
                parts.append([v[here - start] for v in one.values])
            start = stop
        return [
            _Block(kind, np.concatenate(ids), [np.concatenate(world) for world in zip(*parts, strict=True)])
            for kind, (ids, parts) in made.items()
        ]

    # -- equations -----------------------------------------------------------------------------------
    def _equations(
        self, size: int, forms: np.ndarray, args: np.ndarray, classes: np.ndarray
    ) -> list[Equation]:
        """Return the equations of which a side names the variables of a sort in order: the others rename one."""
        orders = self._order_of
        good = np.array([self._in_order(order) for order in self._order_list], dtype=bool)
        kept = good[orders[classes]]
        for number, form in enumerate(self.grammar.forms):
            mine = np.flatnonzero(forms == number)
            if len(mine):
                rows = orders[args[mine, : form.arity]]
                distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
                here = np.array([self._in_order(self._joined(row)) for row in distinct.tolist()])
                kept[mine] |= here[inverse.reshape(-1)]
        found = []
        for i in np.flatnonzero(kept).tolist():
            place = int(forms[i])
            operands = [int(a) for a in args[i, : self.grammar.forms[place].arity]]
            left, right = self.made(place, operands), self.term(int(classes[i]))
            found.append(Equation(left, right, size + self.size_of(int(classes[i]))))
        return found

    def _in_order(self, order: Sequence[int]) -> bool:
        owns = ([v for v in order if v in sort] for sort in self._sorts)
        return all(own == sort[: len(own)] for own, sort in zip(owns, self._sorts, strict=True))

    def size_of(self, number: int) -> int:
        """Return the number of operators in the first term of a class."""
        return int(self._sizes[number])

    def term(self, number: int) -> Term:
        """Return the first term of a class, with attributes under the first assignment of sizes."""
        if number not in self._terms:
            form, operands = self.first(number)
            self._terms[number] = (
                Var(self.grammar.operands[operands[0]].name) if form < 0 else self.made(form, operands)
            )
        return self._terms[number]

    def made(self, form: int, operands: Sequence[int]) -> App:
        """Return the application of a form to the first terms of classes."""
        return self.grammar.forms[form].term([self.term(a) for a in operands], self.grammar.sizes[0])

    def class_of(self, term: Term) -> int | None:
        """Return the class of a term over the grammar's variables, or None if it was not enumerated."""
        node = self.node_of(term)
        return None if node is None else self.nodes.get(node)

    def node_of(self, term: Term) -> Node | None:
        """Return a term as an application to classes, or None if an operand was not enumerated."""
        if isinstance(term, Var):
            return -1, (self._variable[term.name],)
        form = self._form_of.get((term.op, term.attrs))
        operands = [self.class_of(a) for a in term.args]
        if form is None or None in operands:
            return None
        return self.ordered(form, [c for c in operands if c is not None])

    def ordered(self, form: int, operands: Sequence[int]) -> Node:
        """Return an application; operands that may be exchanged are in the order of their classes."""
        return form, tuple(sorted(operands) if form in self.commutative else operands)

    def commute(self, term: Term) -> None:
        """Skip exchanged operands of a term's form from now on; both orders are one class."""
        if isinstance(term, Var):
            return
        form = self._form_of[term.op, term.attrs]
        if form not in self.commutative:
            self.commutative.add(form)
            same = {(f, (a[0], a[1])): c for (f, a), c in self.nodes.items() if f == form and a[0] <= a[1]}
            self.nodes = {k: c for k, c in self.nodes.items() if k[0] != form} | same

    def with_types(self, types: Types) -> list[str]:
        """Return the variables of given types."""
        return [o.name for o, c in zip(self.grammar.operands, self._operand_types, strict=True) if c == types]

    def types_of(self, number: int) -> Types:
        """Return the types of a class under every assignment of sizes."""
        return self._types[self._kind_of[number]]

    def kind_of(self, node: Node) -> int | None:
        """Return the number of a term's types, or None if it is ill-typed."""
        form, operands = node
        if form < 0:
            return int(self._kind_of[operands[0]])
        return self._result(form, tuple(self._kind_of[list(operands)].tolist()))


# -- candidates for laws ------------------------------------------------------------------------------
def operators_in(*terms: Term) -> int:
    """Return the number of operators in terms, each place counted."""
    return sum(1 for _ in applications(*terms))


def key_of(equation: Equation) -> str:
    """Return a text that equations share exactly if they are renamings, with sides exchanged or not."""
    sides = ((equation.left, equation.right), (equation.right, equation.left))
    return min(" = ".join(map(format_term, canonical(pair)[0])) for pair in sides)


def generality(equation: Equation) -> tuple[int, int, int, str]:
    """Return the order of candidates: few operators first, then many variables, then few kinds of them."""
    both = equation.left, equation.right
    operators = {(t.op, t.attrs) for t in applications(*both)}
    text = format_term(equation.left) + format_term(equation.right)
    return operators_in(*both), -len(tensor_variables(*both)), len(operators), text


def candidates(enumeration: Enumeration, equations: Iterable[Equation]) -> list[Equation]:
    """Return the equations that are neither renamings of earlier ones nor instances of smaller true ones."""
    found: dict[str, Equation] = {}
    for equation in equations:
        if not is_instance(enumeration, equation):
            found.setdefault(key_of(equation), equation)
    return sorted(found.values(), key=generality)


def is_instance(enumeration: Enumeration, equation: Equation) -> bool:
    """Return whether a smaller true equation has this one as an instance.

    The largest terms that appear on both sides are replaced by variables that the equation does not have. If
    the two sides are then still in one class, the law is the smaller one.
    """
    right = {*applications(equation.right)}
    shared = [
        list(dict.fromkeys(_largest(equation.left, among)))
        for among in (right, right - {equation.left, equation.right})
    ]
    return any(_still_equal(enumeration, equation, terms) for terms in shared if terms)


def _still_equal(enumeration: Enumeration, equation: Equation, shared: Sequence[Term]) -> bool:
    """Return whether an equation stays true if terms that both sides have become variables."""
    used = {*tensor_variables(equation.left, equation.right)}
    renamed: dict[Term, Var] = {}
    for term in shared:
        number = enumeration.class_of(term)
        if number is None:
            return False
        free = enumeration.with_types(enumeration.types_of(number))
        name = next((n for n in free if n not in used), None)
        if name is None:
            continue
        used.add(name)
        renamed[term] = Var(name)
    if not renamed:
        return False
    left = enumeration.class_of(_replaced(equation.left, renamed))
    right = enumeration.class_of(_replaced(equation.right, renamed))
    return left is not None and left == right


def _largest(term: Term, among: set[App]) -> Iterator[Term]:
    if term in among:
        yield term
    elif isinstance(term, App):
        for arg in term.args:
            yield from _largest(arg, among)


def _replaced(term: Term, by: Mapping[Term, Var]) -> Term:
    if term in by:
        return by[term]
    if isinstance(term, Var):
        return term
    return App(term.op, tuple(_replaced(a, by) for a in term.args), term.attrs, term.row)
