"""Laws with operands that may be absent: one line for the law with and without them.

``conv2d[c](x, w, a?)`` on a left-hand side stands for a convolution with and without a bias ``a``. What
an absent operand leaves on the right-hand side follows from what it is, zero: a sum is its other side,
an operator that may do without the operand does without, and what is linear in it is absent too. Of any
other operator it does not follow: the sigmoid of zero is not zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from workbench.ops import spec_of
from workbench.rules.pattern import App, Literal, Term, Var, subterms

#: What the law with some of its optional operands is called; these are biases in every operator so far.
SUFFIXES: Final = {
    (False,): "",
    (True,): "-bias",
    (False, False): "",
    (True, False): "-bias",
    (False, True): "-other-bias",
    (True, True): "-biases",
}
MOST: Final = max(map(len, SUFFIXES))

#: Operators that give zero where one of the operands they need is zero.
LINEAR: Final = frozenset(
    {"mul", "matmul", "conv2d", "neg", "concat", "enlarge", "expand", "merge_gconv", "reduce_mean"}
    | {"reduce_sum", "reshape", "slice", "transpose"}
)


def choices(optional: Sequence[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield, for every choice of optional operands, a suffix of the law's name and the absent ones.

    >>> [(suffix, sorted(absent)) for suffix, absent in choices(["a"])]
    [('', ['a']), ('-bias', [])]
    """
    for present in itertools.product((False, True), repeat=len(optional)):
        # The first operand changes fastest.
        here = present[::-1]
        suffix = SUFFIXES[here] if optional else ""
        yield suffix, frozenset(name for name, there in zip(optional, here, strict=True) if not there)


def without(term: Term, absent: frozenset[str]) -> Term | None:
    """Return what a term is without some operands; None where nothing of it is left.

    Raise ValueError where that does not follow from the operands being zero.
    """
    if isinstance(term, Var):
        return None if term.name in absent else term
    args = [without(arg, absent) for arg in term.args]
    left = tuple(arg for arg in args if arg is not None)
    if len(left) == len(args):
        return replace(term, args=left)
    if term.op == "add":
        return left[0] if left else None
    if term.op != "concat" and None not in args[: spec_of(term.op).min_inputs]:
        return replace(term, args=left)
    others = left if term.op == "concat" else args[spec_of(term.op).min_inputs :]
    if term.op not in LINEAR or not _unactivated(term) or any(arg is not None for arg in others):
        names = ", ".join(sorted(absent))
        raise ValueError(f"what {term.op} is without {names} does not follow: write both laws")
    return None


def _unactivated(term: App) -> bool:
    if "act" not in spec_of(term.op).attr_names:
        return True
    act = dict(term.attrs).get("act")
    return act == Literal("none") or (act is None and term.row is None)


def objection(optional: Sequence[str], named: Sequence[str], sources: Sequence[Term]) -> str:
    """Return what is wrong with optional operands, ``""`` for nothing.

    ``optional`` were said to be so on the left-hand side, ``named`` anywhere.
    """
    if late := [name for name in named if name not in optional]:
        return f"{late[0]}? stands on the right-hand side; say on the left that it may be absent"
    if len(optional) > MOST:
        return f"at most {MOST} operands of a law may be absent, not {', '.join(optional)}"
    for term in (term for source in sources for term in subterms(source) if isinstance(term, App)):
        needed = spec_of(term.op).min_inputs
        if any(isinstance(arg, Var) and arg.name in optional for arg in term.args[:needed]):
            return (
                f"{term.op} cannot do without its first {f'{needed} operands' if needed > 1 else 'operand'}"
            )
    return ""
