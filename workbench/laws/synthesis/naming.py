"""Names for laws, from their operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from workbench.rules.pattern import App, Rule, Term, Var, subterms


def proposed_name(source: App, target: Term) -> str:
    """Return a name that describes the effect of a law on its operators.

    >>> from workbench.rules.language import parse_term
    >>> proposed_name(parse_term("matmul(x, add(y, z))"), parse_term("add(matmul(x, y), matmul(x, z))"))
    'matmul-over-add'
    >>> proposed_name(parse_term("relu(relu(x))"), parse_term("relu(x)"))
    'relu-of-relu'
    """
    inner = [_word(t) for t in _inside(source)]
    outer = _word(source)
    if isinstance(target, Var):
        return _joined([outer, "of", *inner, "cancels"] if inner else [outer, "cancels"])
    left, right = _counts(source), _counts(target)
    if left == right and set(left) == {source.op}:
        return f"{outer}-{'commutes' if len(inner) == 0 else 'associates'}"
    if target.op in inner and source.op in [_word(t) for t in _inside(target)]:
        return _joined([outer, "over", _word(target)])
    first = [outer, "of", *dict.fromkeys(inner)] if inner else [outer]
    if set(right) <= set(left):
        return _joined(first if left != right else [*first, "reordered"])
    return _joined([*first, "as", *dict.fromkeys([_word(target), *map(_word, _inside(target))])])


def joint_name(law: Rule) -> str:
    """Return a name for a law that makes several terms parts of one.

    >>> from workbench.rules import parse_rule
    >>> (law,) = parse_rule("law: relu(x) ; relu(y) => relu(concat[axis=-1](x, y)) ; relu(y)")
    >>> joint_name(law)
    'relu-and-relu-as-relu-of-concat'
    """
    words = [_word(t) for t in reversed(list(subterms(law.targets[0]))) if isinstance(t, App)]
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


def _inside(term: App) -> list[App]:
    return [t for a in term.args for t in reversed(list(subterms(a))) if isinstance(t, App)]


def _counts(term: Term) -> Counter[str]:
    return Counter(t.op for t in subterms(term) if isinstance(t, App))


def _joined(words: list[str]) -> str:
    return "-".join(words)
