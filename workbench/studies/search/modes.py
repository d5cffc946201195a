"""Ways to run the search: soundly, as in TASO's release, and as in Tensat's comparison with TASO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Final

from workbench.laws.foreign.translation import law
from workbench.laws.foreign.vocabulary import handwritten
from workbench.rules.language import parse_rules
from workbench.rules.pattern import AttrVar, Compare, Literal, Rule
from workbench.support.plugins import Table

#: The epsilon that TASO uses for every folded batch normalisation, instead of the model's: cuDNN's smallest.
_EPSILON: Final = "0.00001"
_ACTIVATIONS: Final = ("none", "relu")


def guarded_merges() -> tuple[Rule, ...]:
    """Return TASO's hand-written merges of two convolutions, with the missing condition of one group each."""
    guard = tuple(Compare("=", AttrVar(name), Literal(1)) for name in ("g0", "g1"))
    return tuple(
        replace(rule, name=rule.name.removeprefix("taso-"), conditions=rule.conditions + guard)
        for rule in _merges()
        if rule.multi
    )


@cache
def _fusions() -> tuple[Rule, ...]:
    """Return TASO's twelve fusions: a convolution absorbs a relu, a batch normalisation or a factor.

    The last kind is wrong, and was released so: the factor is dropped. The operator that TASO adds after a
    folded batch normalisation (BroadcastAdd, at no cost) is the convolution's bias here.
    """
    lines = []
    for stride, padding in product((1, 2), ("same", "valid")):
        pads = "p, q, p, q" if padding == "same" else "0, 0, 0, 0"
        conv = f"conv2d[strides=({stride}, {stride}), pads=({pads}), dilations=(1, 1), groups=g, act="
        odd = " where dim(w, -2) = 2 * p + 1, dim(w, -1) = 2 * q + 1" if padding == "same" else ""
        where = f"{odd}  @ taso-handwritten"
        name = f"{stride}-{padding}"
        scaled = f"mul(w, transpose[perm=(1, 0, 2, 3)](bn_scale[eps={_EPSILON}](s, v)))"
        lines += [
            f"taso-conv-relu-{name}: relu({conv}none](x, w)) => {conv}relu](x, w){where}",
            f"taso-conv-batchnorm-{name}: batchnorm[eps=e]({conv}none](x, w), s, b, m, v) => "
            f"{conv}none](x, {scaled}, bn_shift[eps={_EPSILON}](s, b, m, v)){where}",
            f"taso-conv-mul-{name}: mul({conv}none](x, w), y) => {conv}none](x, w){where}",
        ]
    order = {"relu": 0, "batchnorm": 1, "mul": 2}
    return tuple(sorted(parse_rules("\n".join(lines), "TASO"), key=lambda r: order[r.name.split("-")[2]]))


@cache
def _merges() -> tuple[Rule, ...]:
    """Return TASO's other six rules: merges of two convolutions of one input, and of neighbouring groups."""
    enlarged, grouped = handwritten()
    names = [f"enlarge-merge-{act}" for act in _ACTIVATIONS]
    names += [f"merge-groups-{stride}-{act}" for stride in (1, 2) for act in _ACTIVATIONS]
    laws = zip(names, [*enlarged, *grouped], strict=True)
    return tuple(law(f"taso-{name}", *sides, ("taso-handwritten",)) for name, sides in laws)


#: The rules of each mode that are written in C++ in TASO and precede the given rules. In a mode that has any, rules
#: match as in TASO: ``exclusive`` and ``ordered`` (:class:`~workbench.studies.search.candidates.Candidates`).
MODES: Final = Table[Callable[[], tuple[Rule, ...]]](
    "search mode",
    {"sound": tuple, "taso-release": lambda: _fusions() + _merges(), "tensat-fork": _merges},
)
