"""Laws with operands that may be absent: one line states the law with and without them.

``conv2d[c](x, w, a?)`` on a left-hand side matches a convolution with and without a bias ``a``. An absent
operand is treated as zero and the right-hand side is simplified: ``add(y, a)`` becomes ``y``, an operator
for which ``a`` is optional drops it, and a term linear in ``a`` disappears. Any other use is rejected,
because, for example, sigmoid(0) is not 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from workbench.ops import Trait, spec_of
from workbench.rules.pattern import App, Literal, Term, Var, subterms

#: Suffixes of the law's name by which optional operands are present; so far all of them are biases.
SUFFIXES: Final = {
    (False,): "",
    (True,): "-bias",
    (False, False): "",
    (True, False): "-bias",
    (False, True): "-other-bias",
    (True, True): "-biases",
}
MOST: Final = max(map(len, SUFFIXES))


def choices(optional: Sequence[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield, for every choice of optional operands, a suffix of the law's name and the absent operands.

    >>> [(suffix, sorted(absent)) for suffix, absent in choices(["a"])]
    [('', ['a']), ('-bias', [])]
    """
    for present in itertools.product((False, True), repeat=len(optional)):
        # The first operand changes fastest.
        here = present[::-1]
        suffix = SUFFIXES[here] if optional else ""
        yield suffix, frozenset(name for name, there in zip(optional, here, strict=True) if not there)


def without(term: Term, absent: frozenset[str]) -> Term | None:
    """Return a term without some operands, or None if nothing of it is left.

    Raise ValueError if that does not follow from the operands being zero.
    """
    if isinstance(term, Var):
        return None if term.name in absent else term
    args = [without(arg, absent) for arg in term.args]
    left = tuple(arg for arg in args if arg is not None)
    if len(left) == len(args):
        return replace(term, args=left)
    if term.op == "add":
        return left[0] if left else None
    spec = spec_of(term.op)
    if not spec.variadic and None not in args[: spec.min_inputs]:
        return replace(term, args=left)
    others = left if spec.variadic else args[spec.min_inputs :]
    if Trait.LINEAR not in spec.traits or not _unactivated(term) or any(arg is not None for arg in others):
        names = ", ".join(sorted(absent))
        raise ValueError(f"{term.op} without {names} cannot be derived (try writing both laws)")
    return None


def _unactivated(term: App) -> bool:
    if "act" not in spec_of(term.op).attr_names:
        return True
    act = dict(term.attrs).get("act")
    return act == Literal("none") or (act is None and term.row is None)


def objection(optional: Sequence[str], named: Sequence[str], sources: Sequence[Term]) -> str:
    """Return an objection to the use of optional operands, or ``""``.

    ``optional`` are the operands marked on the left-hand side, ``named`` those marked anywhere, ``sources``
    the terms of the left-hand side.
    """
    if late := [name for name in named if name not in optional]:
        return f"{late[0]}? is marked on the right-hand side only (try marking it on the left-hand side)"
    if len(optional) > MOST:
        return f"at most {MOST} operands of a law may be absent, got {', '.join(optional)}"
    for term in (term for source in sources for term in subterms(source) if isinstance(term, App)):
        needed = spec_of(term.op).min_inputs
        if any(isinstance(arg, Var) and arg.name in optional for arg in term.args[:needed]):
            return (
                f"{term.op} must have its first {f'{needed} operands' if needed > 1 else 'operand'}: "
                "these cannot be optional"
            )
    return ""
