"""The table of operators. Operator families register themselves; all other modules look operators up here."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from workbench.ops.spec import OpSpec
from workbench.ops.traits import Trait
from workbench.support.plugins import Named, Table
from workbench.support.wings import FAMILIES, OPERATORS, register_operator


class _Operators(Table[OpSpec]):
    """Operators by name; one of a wing or a package is registered when it is first looked up."""

    def __missing__(self, name: str) -> OpSpec:
        found = known(name)
        if found is None and PLUGINS.find(name) is not None:  # loading it registers it
            found = self.get(name)
        return found or super().__missing__(name)


_TABLE: Final = _Operators("operator", {}, listed=False)
#: Operators of families: known by name, and in no list.
_FAMILY: dict[str, OpSpec] = {}
_WITH: dict[Trait, set[str]] = {trait: set() for trait in Trait}
#: The operators that are not built in, by the domain and type of the ONNX operator that stands for each.
_FORMS: dict[tuple[str, str], OpSpec] = {}
_replaced = 0
_searched = False
#: The domains of operators for which ONNX Runtime has kernels.
RUNTIME_DOMAINS: Final = frozenset({"", "ai.onnx.ml", "com.microsoft"})
#: The operators that packages offer: functions that loading registers.
PLUGINS: Final = Named[object](
    "operator", "workbench.operators", "workbench.ops.registry:PLUGINS", lambda: _TABLE
)


def register(*specs: OpSpec) -> None:
    """Add operators to the table; raise ValueError if a name is registered already."""
    for spec in specs:
        if spec.name in _TABLE or spec.name in _FAMILY:
            raise ValueError(f"operator names must be unique, got {spec.name}, which is registered already")
        if spec.name.startswith(tuple(FAMILIES)):
            _FAMILY[spec.name] = spec
            continue
        _TABLE[spec.name] = spec
        for trait in spec.traits:
            _WITH[trait].add(spec.name)


def replace(spec: OpSpec) -> None:
    """Add an operator that is not built in, in place of an earlier one of its name.

    Raise ValueError if the earlier one is built in, or if its ONNX operator stands for another operator.
    """
    global _replaced
    earlier = known(spec.name)
    taken = _FORMS.get(spec.onnx_form) if spec.onnx_form else None
    if taken is not None and taken.name != spec.name:
        form = "::".join(part for part in taken.onnx_form or () if part)
        raise ValueError(f"{form} must stand for one operator, got {taken.name} and {spec.name}")
    if earlier is not None:
        if Trait.OWN not in earlier.traits:
            raise ValueError(f"the name must not be that of a built-in operator, got {spec.name}")
        for trait in earlier.traits:
            _WITH[trait].discard(spec.name)
        del (_FAMILY if spec.name in _FAMILY else _TABLE)[spec.name]
        if earlier.onnx_form is not None:
            del _FORMS[earlier.onnx_form]
        _replaced += 1
    register(spec)
    if spec.onnx_form is not None:
        _FORMS[spec.onnx_form] = spec


def own_form(domain: str, op_type: str) -> OpSpec | None:
    """Return the operator, not a built-in one, that an ONNX operator stands for, or None."""
    global _searched
    found = _FORMS.get((domain, op_type))
    if found is None and domain not in RUNTIME_DOMAINS and not _searched:
        _searched = True
        PLUGINS.load_all()
        found = _FORMS.get((domain, op_type))
    return found


def replacements() -> int:
    """Return how often an operator was replaced: results computed before a replacement may be stale."""
    return _replaced


def spec_of(name: str) -> OpSpec:
    """Return the operator called ``name``; the UnknownName for any other name suggests the nearest one."""
    return _TABLE[name]


def known(name: str) -> OpSpec | None:
    """Return a registered operator, or one of a wing, or None."""
    if name not in _TABLE and name not in _FAMILY:
        register_operator(name)
    return _TABLE.get(name) or _FAMILY.get(name)


def operators() -> Iterator[OpSpec]:
    """Yield all operators, those of the wings included, in the order of their registration."""
    for name in OPERATORS:
        known(name)
    yield from _TABLE.values()


def with_trait(trait: Trait) -> Set[str]:
    """Return the names of the operators that have a trait; operators registered later appear in it too.

    >>> sorted(with_trait(Trait.NAMED))
    ['input', 'weight']
    """
    return _WITH[trait]
