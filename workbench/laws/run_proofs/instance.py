"""A law at a substitution: both of its sides as ground terms, if they have types and the conditions hold.

The checker of proofs and the maker of proofs share this: it reads a law's text, the operators' types, and nothing of
the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from workbench.egraph.at_sizes import Extent, SizedType, plain
from workbench.laws.run_proofs.sizes import is_open, packed, whole
from workbench.ops import AttrValue, TensorType, TypeMismatch
from workbench.rules import interpret
from workbench.rules.pattern import App, Compare, Rule, Term, parts
from workbench.symbolic.facts import Facts
from workbench.symbolic.symint import ARITHMETIC, RELATIONS

#: Adds a term: ``(operator, attributes in declared order, operands) -> number``.
Add = Callable[[str, tuple[AttrValue, ...], tuple[int, ...]], int]
#: Exceptions that mean that a law does not apply.
MISFITS: Final = (TypeMismatch, ZeroDivisionError, IndexError, KeyError, ValueError, TypeError)


class NoInstance(ValueError):
    """Raised when a law does not apply at a substitution."""


@dataclass(frozen=True, slots=True)
class Instance(interpret.Numbers):
    """The algebra of ground terms under a substitution; its conclusions about symbols follow from ``facts``.

    ``add`` adds a term and returns its number; it raises TypeMismatch for a term without a type. ``types`` are those of
    the terms by number, and grow as terms are added. ``bindings`` and ``members`` are the substitution; see
    :class:`~workbench.laws.run_proofs.proof.ProofStep`.
    """

    add: Add
    types: Sequence[Any]
    bindings: Mapping[str, Any]
    members: Sequence[Mapping[str, int]] = ()
    facts: Facts = field(default_factory=Facts)

    def attribute(self, name: str) -> AttrValue:
        return self.bindings[f"@{name}"]

    def of_row(self, row: str, name: str) -> AttrValue | None:
        return self.bindings.get(f"#{row}.{name}")

    def kind(self, name: str) -> TensorType:
        """Return the type of a tensor variable, whose extents may be integers over symbols."""
        found: Any = self.types[self.bindings[name]]
        if not isinstance(found, (TensorType, SizedType)):
            raise TypeMismatch(f"{name} must be a tensor, got {found}")
        return found  # type: ignore[return-value]

    def rank(self, var: str) -> int:
        return len(self.kind(var).shape)

    def arith(self, sign: str, left: float, right: float) -> float:
        """Return the result of an arithmetic operation, over symbols if a number of it is."""
        if not is_open((left, right)):
            return interpret.Numbers.arith(self, sign, left, right)
        a, b = whole(left), whole(right)
        if sign in ("//", "%") and not self.facts.at_least(b, 1):
            raise TypeMismatch(f"{left} {sign} {right}, which may be 0")
        operations = {**ARITHMETIC, "max": self.facts.greatest, "min": self.facts.smallest}
        return plain(operations[sign](a, b))  # type: ignore[return-value]

    def holds(self, condition: Compare) -> bool:
        """Return whether a condition holds at every size."""
        return all(self.related(condition.relation, a, b) for a, b in interpret.compared(condition, self))

    def related(self, relation: str, left: Extent | float | str, right: Extent | float | str) -> bool:
        """Return whether a relation holds at every size; raise TypeMismatch if one of two sizes is not whole."""
        if not is_open((left, right)):
            return interpret.related(relation, left, right)  # type: ignore[arg-type]
        a, b = whole(left), whole(right)
        if relation == "!=":
            return self.facts.differ(a, b)
        return bool(self.facts.decided(RELATIONS[relation](a, b)).head == "true")

    def variable(self, name: str) -> int:
        return self.bindings[name]

    def starred(self, name: str) -> list[int]:
        return [m[name] for m in self.members]

    def side(self, term: Term, *, left: bool) -> int:
        """Return a side of the law, or a part of it, as a term."""
        if not isinstance(term, App):
            return self.variable(term.name)
        if left and interpret.is_number(term):
            found = {
                "value": interpret.number_of(term, self.bindings),
                "dtype": self.bindings[interpret.number_key(term)],
            }
            return self.apply(App(interpret.NUMBER, ()), [], found)
        operands = interpret.arguments(term, self, lambda arg: self.side(arg, left=left))
        return self.apply(term, operands, interpret.read_attributes(term, self))

    def apply(self, term: App, operands: list[int], attrs: dict[str, Any]) -> int:
        return self.add(term.op, packed(term.op, attrs), tuple(operands))

    def equations(self, rule: Rule) -> tuple[tuple[int, int], ...]:
        """Return the equations that a law states at the substitution, as pairs of left and right terms.

        Restrictions of a law to useful cases are not part of the equation that it states. Raise NoInstance if a
        condition does not hold, a side has no type, or the sides have different types.
        """
        try:
            changed = ((a, b) for a, b in zip(rule.sources, rule.targets, strict=True) if a != b)
            pairs = (
                self._merged(rule)
                if rule.each
                else tuple((self.side(a, left=True), self.side(b, left=False)) for a, b in changed)
            )
            if not all(map(self.holds, rule.conditions)):
                raise NoInstance(f"{rule.name}: a condition does not hold")
        except MISFITS as error:
            raise NoInstance(f"{rule.name}: {error}") from None
        for a, b in pairs:
            if self.types[a] != self.types[b]:
                raise NoInstance(f"{rule.name}: the sides have the types {self.types[a]} and {self.types[b]}")
        return pairs

    def _merged(self, rule: Rule) -> tuple[tuple[int, int], ...]:
        """Return the equations of a merge: every member is its part of the whole."""
        if len(self.members) < 2:
            raise TypeMismatch("a merge must have two members")
        (source,), (target,) = rule.sources, rule.targets
        assert isinstance(target, App)
        axis = interpret.value(dict(target.attrs)["axis"], self)
        whole_term = self.side(target.args[0], left=False)
        of_each = (replace(self, bindings={**self.bindings, **m}, members=[m]) for m in self.members)
        owned = [one.side(source, left=True) for one in of_each]
        slices = (packed("slice", given) for given in parts([self.types[i] for i in owned], axis))
        return tuple((i, self.add("slice", s, (whole_term,))) for i, s in zip(owned, slices, strict=True))
