"""Names for laws, from their operators, and short names for their variables."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from workbench.laws.synthesis.grammar import KINDS
from workbench.rules.pattern import App, Rule, Term, Var, applications, renamed, tensor_variables


def proposed_name(source: App, target: Term) -> str:
    """Return a name that describes the effect of a law on its operators.

    >>> from workbench.rules.language import parse_term
    >>> proposed_name(parse_term("matmul(x, add(y, z))"), parse_term("add(matmul(x, y), matmul(x, z))"))
    'matmul-over-add'
    >>> proposed_name(parse_term("relu(relu(x))"), parse_term("relu(x)"))
    'relu-of-relu'
    """
    outer, *inner = _words(source)
    if isinstance(target, Var):
        return "-".join([outer, "of", *inner, "cancels"] if inner else [outer, "cancels"])
    left, right = (Counter(t.op for t in applications(side)) for side in (source, target))
    if left == right and set(left) == {source.op}:
        return f"{outer}-{'associates' if inner else 'commutes'}"
    head, *below = _words(target)
    if target.op in inner and source.op in below:
        return f"{outer}-over-{head}"
    first = [outer, "of", *dict.fromkeys(inner)] if inner else [outer]
    if set(right) <= set(left):
        return "-".join(first if left != right else [*first, "reordered"])
    return "-".join([*first, "as", *dict.fromkeys([head, *below])])


def joint_name(law: Rule) -> str:
    """Return a name for a law that makes several terms parts of one.

    >>> from workbench.rules import parse_rule
    >>> (law,) = parse_rule("law: relu(x) ; relu(y) => relu(concat[axis=-1](x, y)) ; relu(y)")
    >>> joint_name(law)
    'relu-and-relu-as-relu-of-concat'
    """
    words = [_word(t) for t in reversed(list(applications(law.targets[0])))]
    return "-and-".join(map(_word, law.sources)) + "-as-" + "-of-".join(words[:2])


def unique_name(name: str, taken: Container[str]) -> str:
    """Return a name, followed by a number if it is taken already."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    return found


def _word(term: App) -> str:
    return term.op.replace("_", "-")


def _words(term: App) -> list[str]:
    """Return the words of the operator of a term and of those inside it, operand by operand."""
    return [_word(term), *(_word(t) for a in term.args for t in reversed(list(applications(a))))]


#: Letters for tensors, and for kernels of convolutions.
_TENSORS: Final = "xyzuvwrq"
_KERNELS: Final = "wvkl"


def tidied(rule: Rule, shapes: Mapping[str, Sequence[str]]) -> Rule:
    """Return a law with short names for its variables, in order of appearance: w, v, … for kernels.

    >>> from workbench.rules import parse_rule
    >>> (rule,) = parse_rule("sum: add(x_0, add(x_1, x_2)) => add(add(x_0, x_1), x_2)")
    >>> print(tidied(rule, {}))
    sum: add(x, add(y, z)) => add(add(x, y), z)
    """
    kernel = tuple(KINDS["kernel"][0].split())
    names: dict[str, str] = {}
    for old in tensor_variables(*rule.sources, *rule.targets):
        letters = _KERNELS if tuple(shapes.get(old, ())) == kernel else _TENSORS
        names[old] = next(n for n in fresh_names(letters) if n not in names.values())

    def name(kind: str, old: str) -> str:
        return names[old] if kind == "tensor" else old

    terms, conditions = renamed([*rule.sources, *rule.targets], rule.conditions, name)
    sources = tuple(t for t in terms[: len(rule.sources)] if isinstance(t, App))
    return replace(rule, sources=sources, targets=terms[len(sources) :], conditions=conditions)


def fresh_names(letters: str) -> Iterator[str]:
    """Yield names without end: the letters, then the letters with a number."""
    yield from letters
    for number in itertools.count(2):
        yield from (f"{letter}{number}" for letter in letters)
