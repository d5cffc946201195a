"""Proofs by chains: both sides of a rule are rewritten by theorems until they are one term.

A *link* applies one theorem at one place of a term, forwards or backwards. Nothing is evaluated: extents,
attributes and permutations are those of the rule that is proved, as symbols. A link holds if

* the term there is an instance of the theorem's one side,
* the theorem's conditions, the type of its other side, and that it is the same type, follow from the facts of
  the rule, and
* its other side has no operator without a value for some numbers, such as a division, that neither side of
  the rule has: the theorem claims nothing where such an operator has no value.

A link is ``[theorem, backwards, place]``. The place is the numbers of operands from the root on. A chain is a
pair of lists of links, one for each side, and a proof has one chain for every root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from workbench.laws.theorems.axes import Key, NotCovered, Perm, key_text
from workbench.laws.theorems.cases import literal_axes
from workbench.laws.theorems.definitions import DEFINITIONS, Call, Tensor
from workbench.laws.theorems.entailment import Facts
from workbench.laws.theorems.goals import Reader, Statement
from workbench.laws.theorems.symbolic_typing import Axis, Kind, N, RankOpen, signature, whole
from workbench.laws.theorems.terms import Value, factor, one, with_risks
from workbench.ops import Attr, Trait, TypeMismatch, spec_of
from workbench.rules.interpret import RELATIONS, RowAttr, attributes, compared, read_term, value
from workbench.rules.pattern import App, AttrVar, Compare, Literal, Rule, Term, Var, Vector
from workbench.symbolic.integers import Int, NotPositive, replaced_in, sym


class NoLink(ValueError):
    """Raised when a theorem does not apply at a place; the message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A term that has been read: an operator with the values of its attributes, or a variable by its name."""

    op: str
    name: str
    attrs: Mapping[str, Any]
    args: tuple[Tree, ...]
    kind: Kind

    @property
    def text(self) -> str:
        """Return the term as text, so that equal terms are found quickly."""
        if not self.op:
            return self.name
        inside = ", ".join(f"{k}={_text(v)}" for k, v in self.attrs.items())
        return f"{self.op}[{inside}]({', '.join(a.text for a in self.args)})"

    def parts(self) -> Iterator[tuple[tuple[int, ...], Tree]]:
        """Yield the places of a term's operators, each with its subterm."""
        if self.op:
            yield (), self
        for k, arg in enumerate(self.args):
            for place, part in arg.parts():
                yield (k, *place), part

    def at(self, place: Sequence[int]) -> Tree:
        """Return the subterm at a place."""
        found = self
        for k in place:
            if not 0 <= k < len(found.args):
                raise NoLink(f"no such place {list(place)}")
            found = found.args[k]
        return found

    def dim(self, key: Key) -> Int:
        """Return an extent."""
        return self.kind.dim(key)

    def put(self, place: Sequence[int], part: Tree) -> Tree:
        """Return the term with something else of the same type at a place."""
        if not place:
            return part
        k, *rest = place
        return replace(self, args=(*self.args[:k], self.args[k].put(rest, part), *self.args[k + 1 :]))


def _text(given: Any) -> str:
    if isinstance(given, tuple):
        return f"({', '.join(map(_text, given))})"
    if isinstance(given, N):
        return given.x.text
    if isinstance(given, Perm):
        return ".".join(given.names)
    return key_text(given.key) if isinstance(given, Axis) else str(given)


@dataclass(slots=True)
class _Trees(Reader):
    """The algebra that reads a term as a tree; variables may stand for trees.

    In a ``closed`` reading all variables do.
    """

    bound: dict[str, Tree] = field(default_factory=dict)
    closed: bool = False

    def variable(self, name: str) -> Any:
        """Return the tree that a variable stands for."""
        if name not in self.bound:
            if self.closed:
                raise NoLink(f"nothing is known of {name}")
            self.bound[name] = Tree("", name, {}, (), Reader.variable(self, name).kind)
        return self.bound[name]

    def apply(self, term: App, operands: Any, attrs: dict[str, Any]) -> Any:
        """Return the tree of an operator."""
        kind = self.typed(term, [x.kind for x in operands], attrs)
        return Tree(term.op, "", attrs, tuple(operands), kind)


@dataclass(slots=True)
class Chain:
    """A case of a rule, in which its sides are rewritten: the facts of the case, and the sides as trees."""

    statement: Statement
    facts: Facts
    reader: _Trees
    pairs: list[tuple[Tree, Tree]]
    allowed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, rule: Rule, statement: Statement, facts: Facts) -> Chain:
        """Return the case of a rule that a statement is."""
        known = statement.reader
        assert known is not None
        given = (known.types, known.places, known.solved, known.fixed, known.unmoved)
        reader = _Trees(*given, attrs=known.attrs, rows=known.rows, tensors=known.tensors)
        lefts = [read_term(s, reader) for s in rule.sources]
        reader.assuming = False
        pairs = list(zip(lefts, [read_term(t, reader) for t in rule.targets], strict=True))
        known.types.strict = True
        found = cls(statement, facts, reader, pairs)
        found.allowed = {part.text for pair in pairs for side in pair for _, part in side.parts()}
        return found

    # -- links
    def linked(self, tree: Tree, theorem: Rule, backwards: bool, place: Sequence[int]) -> Tree:
        """Return a term after one link; raise NoLink if it does not hold.

        Args:
            tree: The term.
            theorem: The law of the link.
            backwards: Whether the law is read from right to left.
            place: The operands' positions on the way to the part that the law rewrites.
        """
        types, old = self.reader.types, tree.at(place)
        noted = len(types.facts)
        if theorem.each or len(theorem.sources) != 1:
            raise NoLink(f"{theorem.name} has several roots")
        if literal_axes(theorem) > types.literal:
            raise NoLink(f"{theorem.name} names axes of which the facts say nothing")
        sides = (theorem.sources[0], theorem.targets[0])
        before, after = reversed(sides) if backwards else sides
        law = _Trees(types, {}, {}, {}, frozenset(), assuming=False, closed=True)
        try:
            later: list[tuple[Any, Attr, Any]] = []
            if not self._matches(before, old, law, later):
                raise NoLink(f"{theorem.name} does not match")
            for expr, attr, given in later:
                if not self._same(law.given(value(expr, law, attr), attr), given):
                    raise NoLink(f"{theorem.name}: {attr.name} may differ")
            new = read_term(after, law)
            self._hold(theorem.conditions, law)
            types.require_same(old.kind, new.kind, "the sides have different types")
            for fact in types.facts[noted:]:
                if not self.facts.entail(replaced_in(fact, self.reader.solved)):
                    raise NoLink(f"{theorem.name}: {fact.text} may not hold")
            self._total(new, old)
        except (TypeMismatch, NotCovered, RankOpen, NotPositive, KeyError) as error:
            raise NoLink(f"{theorem.name}: {error}") from None
        finally:
            del types.facts[noted:]
        return tree.put(place, new)

    def _hold(self, conditions: Iterable[Compare], law: _Trees) -> None:
        for c in conditions:
            for a, b in compared(c, law):
                if isinstance(a, str) and isinstance(b, str):
                    # Of element types a theorem assumes only that one has all numbers of another.
                    narrow, wide = (a, b) if c.relation == "<=" else (b, a)
                    if c.relation in ("<=", ">=") and not self.reader.types.contains(wide, narrow):
                        raise NoLink("one element type may not have all numbers of another")
                    continue
                if isinstance(a, Perm) or isinstance(b, Perm):
                    if c.relation != "=" or not self._same(a, b):
                        raise NoLink("a condition on permutations may not hold")
                    continue
                law.types.require(RELATIONS[c.relation](N(whole(a)), N(whole(b))), "a condition")

    def _matches(self, pattern: Term, tree: Tree, law: _Trees, later: list[tuple[Any, Attr, Any]]) -> bool:
        if isinstance(pattern, Var):
            known = law.bound.setdefault(pattern.name, tree)
            return known is tree or self.alike(known, tree)
        if pattern.op != tree.op or len(pattern.args) != len(tree.args):
            return False
        given = dict(pattern.attrs)
        for attr, expr in attributes(pattern):
            if attr.name == "dtype" and Trait.NUMBER in spec_of(tree.op).traits and "dtype" not in given:
                continue
            if not self._binds(expr, attr, tree.attrs[attr.name], law, later):
                return False
        return all(self._matches(p, t, law, later) for p, t in zip(pattern.args, tree.args, strict=True))

    def _binds(
        self, expr: Any, attr: Attr, given: Any, law: _Trees, later: list[tuple[Any, Attr, Any]]
    ) -> bool:
        if isinstance(expr, AttrVar):
            return self._same(law.attrs.setdefault(expr.name, given), given)
        if isinstance(expr, RowAttr):
            return self._same(law.rows.setdefault(expr.row, {}).setdefault(expr.name, given), given)
        if expr is None or isinstance(expr, Literal):
            written = None if expr is None else law.literal(expr.value, attr)
            return self._same(law.given(written, attr), given)
        if isinstance(expr, Vector) and isinstance(given, tuple) and len(expr.items) == len(given):
            return all(self._binds(e, attr, g, law, later) for e, g in zip(expr.items, given, strict=True))
        later.append((expr, attr, given))
        return True

    # -- equality
    def alike(self, a: Tree, b: Tree) -> bool:
        """Return whether two terms are equal, operator by operator, as far as the facts say."""
        if a.op != b.op or a.name != b.name or len(a.args) != len(b.args) or set(a.attrs) != set(b.attrs):
            return False
        return all(self._same(a.attrs[n], b.attrs[n]) for n in a.attrs) and all(
            self.alike(x, y) for x, y in zip(a.args, b.args, strict=True)
        )

    def _same(self, a: Any, b: Any) -> bool:
        if isinstance(a, N | int) and isinstance(b, N | int):
            return self.facts.same(whole(a), whole(b))
        if isinstance(a, Axis) or isinstance(b, Axis):
            return _text(a) == _text(b)
        if type(a) is not type(b):
            return False
        if isinstance(a, tuple):
            return len(a) == len(b) and all(map(self._same, a, b))
        if isinstance(a, Kind):
            return signature(self.reader.types, a) == signature(self.reader.types, b)
        return bool(a.names == b.names if isinstance(a, Perm) else a == b)

    # -- values
    def _total(self, new: Tree, old: Tree) -> None:
        there = {part.text for _, part in old.parts()} | self.allowed
        for _, part in new.parts():
            leaves = [Tensor(a.kind, _leaf(k)) for k, a in enumerate(part.args)]
            call = Call(leaves, part.attrs, part.kind, self.reader.types)
            if part.text not in there and with_risks(partial(DEFINITIONS[part.op], call, _index))[1]:
                raise NoLink(f"{part.op} may have no value")


def _leaf(k: int) -> Callable[[Any], Value]:
    return lambda i: one(factor("read", f"operand {k}"))


def _index(key: Any) -> Int:
    return sym(f"index {key_text(key)}")
