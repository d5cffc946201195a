"""Laws of several outputs: terms that are the parts of one larger term, as two products are of one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workbench.laws.synthesis import anti_unification
from workbench.laws.synthesis.enumeration import Enumeration, operators_in
from workbench.laws.synthesis.rewriting import Rewriting
from workbench.laws.verification.instances.linear import Inconsistent, NotLinear
from workbench.laws.verification.instances.spaces import open_space
from workbench.laws.verification.instances.typings import AXES, RandomChoices
from workbench.laws.verification.refuting.refute import FULL
from workbench.ops import TypeMismatch
from workbench.rules import pattern
from workbench.rules.interpret import read_term


@dataclass(frozen=True, slots=True)
class Parts:
    """Terms, and the part of one term that each of them is equal to."""

    sources: tuple[pattern.App, ...]
    targets: tuple[pattern.App, ...]


def parts_of(enumeration: Enumeration) -> list[Parts]:
    """Return sets of terms that are the parts of one term, up to renaming, the general ones first.

    A part is an application to a term that forgets some of its variables. No term of a set has all the
    variables of the whole, together they have; so a law that makes the whole must match all of them at once.
    A set that is an instance of an earlier one is left out.
    """
    by_whole: dict[int, list[tuple[int, int]]] = {}
    for (form, (whole,)), part in enumeration.parts:
        by_whole.setdefault(whole, []).append((form, part))
    found: dict[object, Parts] = {}
    for whole, known in by_whole.items():
        for chosen in _covering(enumeration, whole, known):
            terms = (enumeration.term(part) for _, part in chosen)
            sources = tuple(t for t in terms if isinstance(t, pattern.App))
            inner = {*pattern.applications(enumeration.term(whole))}
            if len(sources) == len(chosen) and not inner & {*sources}:
                targets = tuple(enumeration.made(form, [whole]) for form, _ in chosen)
                found.setdefault(pattern.canonical([*sources, *targets]), Parts(sources, targets))

    def generality(one: Parts) -> tuple[int, int, int, str]:
        terms = (*one.sources, one.targets[0])
        operators = {t.op for t in pattern.applications(*terms)}
        return operators_in(*terms), -len(pattern.tensor_variables(*terms)), len(operators), repr(one)

    general: list[Parts] = []
    rewriting = Rewriting(enumeration)
    for one in sorted(found.values(), key=generality):
        if not any(_instance(one, earlier, rewriting) for earlier in general):
            general.append(one)
    return general


def _covering(
    enumeration: Enumeration, whole: int, known: Sequence[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield the smallest sets of parts that together have all variables of the whole."""
    wanted = {*enumeration.variables_of(whole)}
    for count in range(2, len(wanted) + 1):
        sets = [
            chosen
            for chosen in itertools.combinations(known, count)
            if len({part for _, part in chosen}) == count
            and {v for _, part in chosen for v in enumeration.variables_of(part)} == wanted
        ]
        if sets:
            yield from sets
            return


def _instance(one: Parts, law: Parts, rewriting: Rewriting) -> bool:
    """Return whether a law makes parts of the same terms, in the same way, of some whole."""
    if [(t.op, t.attrs) for t in one.targets] != [(t.op, t.attrs) for t in law.targets]:
        return False
    enumeration = rewriting.enumeration
    classes = [c for c in map(enumeration.class_of, one.sources) if c is not None]
    return len(classes) == len(one.sources) and any(
        all(name in enumeration.with_types(enumeration.types_of(c)) for name, c in binding.items())
        for binding in rewriting.matches(law.sources, classes)
    )


# -- laws ------------------------------------------------------------------------------------------
def variants_of_parts(
    parts: Parts, shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> anti_unification.Variants:
    """Return the laws that may make several terms parts of one, the most general first.

    Positions along an axis become sums of extents of variables, one for each part. Under the assignment ``sizes`` of
    numbers to extents the equations have their attributes.
    """
    found: dict[pattern.Rule, None] = {}
    spans = list(_summed(parts, shapes, sizes))
    for choice in (c for c in anti_unification.choices([*parts.sources, *parts.targets]) if not c.spans):
        for expressions in [*spans, {}]:
            law = anti_unification.law_and_guards(parts.sources, parts.targets, choice, expressions)[0]
            if law is not None:
                found.setdefault(law)
        if len(found) >= anti_unification.MOST:
            break
    return anti_unification.Variants(tuple(found)[: anti_unification.MOST], dict(shapes))


def _summed(
    parts: Parts, shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> Iterator[anti_unification.Sizes]:
    """Yield expressions for the positions of parts: sums of the extents of the first terms."""
    targets = parts.targets
    given: list[dict[str, Any]] = [
        {n: e.value for n, e in t.attrs if isinstance(e, pattern.Literal)} for t in targets
    ]
    start, stop = anti_unification.SPAN[:2]
    if not all(isinstance(g.get(n), int) for g in given for n in (start, stop, "axis")):
        return
    order = sorted(range(len(targets)), key=lambda n: given[n][start])
    options = [_extents_of(parts.sources, n, int(given[n]["axis"]), shapes) for n in order]
    for chosen in itertools.islice(itertools.product(*options), anti_unification.PAIRINGS):
        numbers = [sizes.get(shapes[d.var][d.axis], 0) for d in chosen if isinstance(d.axis, int)]
        sums: Iterator[pattern.IntExpr] = itertools.accumulate(chosen, lambda a, b: pattern.Arith("+", a, b))
        ends = dict(zip(itertools.accumulate(numbers), sums, strict=True))
        places = [(targets[n], name, given[n][name]) for n in order for name in (start, stop)]
        if all(value in ends for _, _, value in places if value):
            yield {(target, name): ends[value] for target, name, value in places if value}


def _extents_of(
    terms: Sequence[pattern.App], place: int, axis: int, shapes: Mapping[str, Sequence[str]]
) -> list[pattern.DimOf]:
    """Return extents of variables that are that of a term, or if it broadcasts, those along the same axis."""
    known = [d for d in equal_to_extent(terms, place, axis) if -int(d.axis) <= len(shapes[d.var])]
    return known or [
        pattern.DimOf(n, axis) for n in pattern.tensor_variables(terms[place]) if -axis <= len(shapes[n])
    ]


#: Families of instances in which an extent must be the same expression.
DRAWN: Final = 24
#: Attempts to draw them.
TRIES: Final = 40 * DRAWN


def equal_to_extent(terms: Sequence[pattern.App], place: int, axis: int) -> list[pattern.DimOf]:
    """Return the extents of variables that equal one of a term's result whenever all terms are well-typed.

    ``place`` is the number of the term, ``axis`` is counted from the last.

    >>> from workbench.rules.language import parse_term
    >>> terms = [parse_term("matmul(x, y)"), parse_term("matmul(x, z)")]
    >>> [f"dim({d.var}, {d.axis})" for d in equal_to_extent(terms, 1, -1)]
    ['dim(z, -1)']
    """
    rng, both = random.Random(0), pattern.Rule("terms", tuple(terms), tuple(terms))
    left = [pattern.DimOf(n, a) for n in pattern.tensor_variables(*terms) for a in range(-AXES, 0)]
    drawn = 0
    for _ in range(TRIES):
        try:
            space = open_space(both, RandomChoices(rng), FULL)
            extent = read_term(terms[place], space).dims[axis]
        except (Inconsistent, NotLinear, TypeMismatch):
            continue
        drawn += 1
        left = [d for d in left if (space.dim(d.var, int(d.axis)) == extent) is True]
        if drawn == DRAWN or not left:
            break
    return left if drawn else []
