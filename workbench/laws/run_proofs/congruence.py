"""Ground terms, equations between them, and what follows by congruence: equal operators of equal operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.egraph.at_sizes import EverySize, SizedType
from workbench.graph.graph import result_type
from workbench.laws.run_proofs.sizes import Kind, check_elements, is_open, tensor
from workbench.ops import AttrValue, TensorType, TupleType, TypeMismatch, spec_of
from workbench.ops.inputs_and_opaque import REFERENCES, RUNTIME
from workbench.symbolic.facts import Facts

_Key = tuple[str, tuple[AttrValue, ...], tuple[int, ...]]


class Congruence:
    """Well-typed terms, each of which has one number, and the least congruence that has given equations.

    :meth:`add` gives terms numbers, :meth:`equate` states an equation, :meth:`equal` says what follows. Types hold at
    every size at which the facts hold, and no tensor is empty there.
    """

    def __init__(self, facts: Facts | None = None) -> None:
        self.facts = facts or Facts()
        self.terms: list[_Key] = []
        self.types: list[Kind] = []
        self._known: dict[_Key, int] = {}
        self._parent: list[int] = []
        self._readers: list[list[int]] = []
        self._canonical: dict[_Key, int] = {}
        self._given: dict[tuple[str, tuple[AttrValue, ...], tuple[Kind, ...]], Kind] = {}

    def find(self, term: int) -> int:
        """Return the number that stands for all terms equal to a term."""
        while self._parent[term] != term:
            self._parent[term] = self._parent[self._parent[term]]
            term = self._parent[term]
        return term

    def add(
        self, op: str, attrs: tuple[AttrValue, ...], inputs: tuple[int, ...], known: Kind | None = None
    ) -> int:
        """Return the number of a term; raise TypeMismatch if it has no type.

        Args:
            op: The operator.
            attrs: Its attributes in declared order.
            inputs: The numbers of its operands.
            known: The type of a leaf or of an opaque operator; that of any other term follows from its operands.
        """
        key = (op, attrs, inputs)
        # Python's 1, 1.0 and True are equal: attributes of other types must not pass for the same.
        if (found := self._known.get(key)) is not None and repr(self.terms[found][1]) == repr(attrs):
            return found
        if found is not None:
            raise TypeMismatch(f"{op}: attributes that differ in their types alone: {attrs}")
        kind = self._type(op, attrs, [self.types[i] for i in inputs], known)
        check_elements(kind, self.facts)
        number = self._known[key] = len(self.terms)
        self.terms.append(key)
        self.types.append(kind)
        self._parent.append(number)
        self._readers.append([])
        for i in dict.fromkeys(map(self.find, inputs)):
            self._readers[i].append(number)
        same = self._canonical.setdefault(self._signature(number), number)
        if same != number:
            self.equate(same, number)
        return number

    def _type(
        self, op: str, attrs: tuple[AttrValue, ...], operands: Sequence[Kind], known: Kind | None
    ) -> Kind:
        """Return the type of a new term; an operator without a model has it from the files, for these operand types."""
        if op == "project":
            (whole,) = operands
            index = int(attrs[0])  # type: ignore[arg-type]
            if not isinstance(whole, TupleType) or not 0 <= index < len(whole.elements):
                raise TypeMismatch(f"project must read a part of several results, got {whole}")
            return whole.elements[index]
        if op not in REFERENCES and op not in RUNTIME:
            return self._inferred(op, operands, attrs)
        found = self._given.get((op, attrs, tuple(operands))) if known is None else known
        if found is None:
            raise TypeMismatch(f"{op} must be one of the files'")
        return self._given.setdefault((op, attrs, tuple(operands)), found)

    def _inferred(self, op: str, operands: Sequence[Any], attrs: Sequence[Any]) -> Kind:
        """Return the type of an operator's result at every size; raise TypeMismatch if none is proved."""
        if not any(isinstance(k, SizedType) for k in operands) and not is_open(attrs):
            return result_type(op, operands, attrs)
        spec: Any = spec_of(op)
        if spec.infer is None or not spec.min_inputs <= len(operands) <= spec.max_inputs:
            raise TypeMismatch(f"{op} takes {spec.arity}, got {len(operands)}")
        if not all(isinstance(k, (TensorType, SizedType)) for k in operands):
            raise TypeMismatch(f"{op}: the operands must be tensors")
        try:
            found = spec.infer(EverySize(self.facts), operands, spec.unpack(attrs))
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise TypeMismatch(f"{op}: {error}") from None
        return tensor(found.dtype, found.shape)

    def _signature(self, term: int) -> _Key:
        op, attrs, inputs = self.terms[term]
        return op, attrs, tuple(map(self.find, inputs))

    def equate(self, a: int, b: int) -> None:
        """Make two terms equal, and all that follows."""
        waiting = [(a, b)]
        while waiting:
            left, right = map(self.find, waiting.pop())
            if left == right:
                continue
            if len(self._readers[left]) > len(self._readers[right]):
                left, right = right, left
            self._parent[left] = right
            moved, self._readers[left] = self._readers[left], []
            for reader in moved:
                same = self._canonical.setdefault(self._signature(reader), reader)
                if self.find(same) != self.find(reader):
                    waiting.append((same, reader))
            self._readers[right] += moved

    def equal(self, a: int, b: int) -> bool:
        """Return whether the equality of two terms follows."""
        return self.find(a) == self.find(b)

    def enter(self, terms: Sequence[_Key], kinds: Sequence[Kind]) -> list[int]:
        """Add the nodes of a graph, whose operands are positions among them; return their numbers."""
        found: list[int] = []
        for (op, attrs, inputs), kind in zip(terms, kinds, strict=True):
            number = self.add(op, attrs, tuple([found[i] for i in inputs]), kind)
            if self.types[number] != kind:
                raise TypeMismatch(f"{op}: one name has the types {self.types[number]} and {kind}")
            found.append(number)
        return found
