"""Search for the first value that differs: cut both models at equal values and search between the cuts.

The nodes between the last equal values and the first value that differs form a region of each model. A
value of A and an unequal value of B are taken to correspond if B, given A's value in place of its own,
computes values equal to A's that it did not compute before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from onnx import NodeProto

from workbench.certification.inputs import inferred
from workbench.certification.model import Model
from workbench.certification.runner import Runner
from workbench.certification.tolerance import Mismatch, mismatch, moved_model
from workbench.frontends.onnx.prepare import read_by
from workbench.frontends.runtime import RuntimeFailure
from workbench.ops.types import TensorType

#: The values of one model that are compared at once take at most this many bytes.
BUDGET: Final = 256 << 20
#: B is run at most this many times with a value of A in place of its own.
TRIALS: Final = 24
#: If the outputs agree, an inner value counts as different from this many tolerances on.
FAR: Final = 3.0
#: The number of entries that are compared before whole values are.
_SAMPLE: Final = 64


@dataclass(frozen=True, slots=True)
class Side:
    """A model, its inputs on each draw, and the value under search; ``also`` names further outputs."""

    model: Model
    feeds: tuple[Mapping[str, Any], ...]
    target: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Region:
    """The nodes of one model between values that both models contain and the first value that differs."""

    side: Side
    inputs: tuple[str, ...]
    nodes: tuple[NodeProto, ...]
    output: str


@dataclass(frozen=True, slots=True)
class Located:
    """The place at which two models diverge: the regions of A and B and the entry that shows it.

    ``equal`` maps the inputs of B's region to the values of A that they are equal to. ``confirmed`` means
    that B, given A's value in place of its own, computes the same values as A after it.
    """

    a: Region
    b: Region
    draw: int
    at: Mismatch
    confirmed: bool
    equal: Mapping[str, str]
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Values:
    """Values of one model on every draw, and the values of its copies with changed operands."""

    names: list[str]
    draws: list[dict[str, Any]]
    moved: list[list[dict[str, Any]]]


def locate(
    a: Side,
    b: Side,
    runner: Runner,
    *,
    types: Mapping[str, str],
    seed: int = 0,
    progress: Callable[[str], None],
    hidden: bool = False,
) -> Located | None:
    """Return the first place at which the targets of two models diverge, or None if there is none.

    Args:
        a: The original.
        b: The model compared with it.
        runner: Runs the models.
        types: Known element types of A's values, by name.
        seed: The seed for changing A's operands.
        progress: Called with a line of text before each step.
        hidden: Whether to search for a place inside although the targets agree.
    """
    if hidden:
        return _Search(a, b, runner, types, seed).inside(progress)
    for _ in range(12):
        search = _Search(a, b, runner, types, seed)
        found = search.run(progress)
        if found is None or search.complete:
            return found
        before = len(a.model.nodes), len(b.model.nodes)
        a, b = search.narrowed(found)
        if (len(a.model.nodes), len(b.model.nodes)) == before:
            return found
    return found


class _Search:
    """One comparison of values of both models, as :func:`locate` describes; ``complete`` if it saw all values."""

    def __init__(self, a: Side, b: Side, runner: Runner, types: Mapping[str, str], seed: int) -> None:
        self.a, self.b, self.runner, self.types, self.seed = a, b, runner, types, seed
        self.complete = True
        self.trials = 0
        self.folded: dict[str, np.ndarray] = {}

    def run(self, progress: Callable[[str], None]) -> Located | None:
        """Compare once; return None if the targets are equal."""
        a, b = self.a, self.b
        self._look(progress)
        draw, at = self._difference(a.target, b.target)
        if at is None:
            return None
        region_a = self._region(a, a.target, self.b_of)
        region_b = self._region(b, b.target, self.a_of)
        inside = {o for node in region_a.nodes for o in node.output}
        progress(f"{len(inside)} values of A are not in B: looking for the first that should be")
        found = self._confirmed((name for name in self.va.names if name in inside), region_b)
        return found or self._located(a.target, b.target, draw, at, confirmed=False)

    def inside(self, progress: Callable[[str], None]) -> Located | None:
        """Search for a value that differs although the targets are equal.

        A value of A and the corresponding value of B must differ by at least ``FAR`` tolerances, and B, given
        A's value, must compute the same values as A after it.
        """
        self._look(progress)
        whole = Region(self.b, (), tuple(self.b.model.nodes), self.b.target)
        return self._confirmed(self.va.names, whole, FAR)

    def _confirmed(self, names: Iterable[str], region: Region, least: float = 0.0) -> Located | None:
        """Return the first of A's values to which a differing value of B's region surely corresponds."""
        for name in names:
            for other in () if name in self.b_of else self._candidates(name, region):
                draw, at = self._difference(name, other)
                if at is not None and at.excess >= least and self._stands_for(name, other):
                    return self._located(name, other, draw, at, confirmed=True)
        return None

    def _look(self, progress: Callable[[str], None]) -> None:
        """Compute values of both models and match the equal ones."""
        names_b = self._chosen(self.b, ())
        names_a = self._chosen(self.a, set(names_b))
        progress(f"looking into {len(names_a)} values of A and {len(names_b)} of B")
        self.va = self._values(self.a, names_a, moved=True)
        self.vb = self._values(self.b, names_b, moved=False)
        for values, side in ((self.va, self.a), (self.vb, self.b)):
            for draw, feeds in zip(values.draws, side.feeds, strict=True):
                draw |= {n: v for n, v in feeds.items() if n not in draw}
        self._fold(names_a)
        #: Which values are equal on all draws: the names in B by A's names, and the reverse.
        self.b_of, self.a_of = self._equal(self.vb.draws)

    # -- values -----------------------------------------------------------------------------------
    def _chosen(self, side: Side, wanted: Iterable[str]) -> list[str]:
        """Return the values of a side to compare, in order; all of them if they fit ``BUDGET``."""
        model, preferred = side.model, set(wanted)
        targets = {side.target, *side.also}
        numbers = model.needed(targets)
        names = [o for i in numbers for o in model.nodes[i].output if o]
        shapes = {n: np.shape(v) for n, v in side.feeds[0].items() if not isinstance(v, list)}
        known = inferred(model, shapes)
        size = {n: 4.0 * math.prod(d or 1 for d in known[n][1]) if n in known else 1 << 20 for n in names}
        total = sum(size.values()) * (3 if side is self.a else 1) * len(side.feeds)
        if total <= BUDGET:
            return names
        self.complete = False
        keep, spent = [], 0.0
        share = BUDGET / total
        for name in names:
            spent += size[name] * share
            last = name in targets
            if last or spent >= size[name] or (name in preferred and spent >= size[name] / 2):
                keep.append(name)
                spent -= size[name]
        return keep

    def _values(self, side: Side, names: list[str], *, moved: bool) -> _Values:
        model = side.model
        given = dict(side.feeds[0])
        draws = [self._exposed(model.cut(names, given), model, feeds, names) for feeds in side.feeds]
        found = _Values(names, draws, [])
        if moved:
            own = {n: TensorType.of(v).dtype for n, v in (draws[0] | given).items() if _plain(v)}
            known = {**self.types, **own}
            for turn in range(2):
                with_noise = moved_model(_fed(model, given), known, names, self.seed + 100 * turn)
                if with_noise is None:
                    break
                try:
                    runs = [self._exposed(with_noise, model, feeds, names) for feeds in side.feeds]
                except RuntimeFailure:
                    break
                found.moved.append(runs)
        return found

    def _exposed(
        self, piece: Any, model: Model, feeds: Mapping[str, Any], names: Sequence[str]
    ) -> dict[str, Any]:
        read = {i.name for i in piece.graph.input}
        return self.runner.once(piece, model.folder, {n: v for n, v in feeds.items() if n in read}, names)

    def _fold(self, names: Iterable[str]) -> None:
        """Add weights of B that have the name of a computed value of A: B may have folded that value."""
        for name in names:
            weight = None if name in self.vb.draws[0] else self.b.model.weight(name)
            if weight is not None:
                self.folded[name] = weight
                for draw in self.vb.draws:
                    draw[name] = weight

    # -- equal values -----------------------------------------------------------------------------
    def _moved(self, name: str, draw: int) -> list[Any]:
        return [run[draw][name] for run in self.va.moved if name in run[draw]]

    def _difference(self, name: str, other: str) -> tuple[int, Mismatch | None]:
        """Return the first draw on which a value of A and one of B differ, and the entry that shows it."""
        for draw, (ours, theirs) in enumerate(zip(self.va.draws, self.vb.draws, strict=True)):
            if name in ours and other in theirs:
                at = mismatch(ours[name], theirs[other], self._moved(name, draw))
                if at is not None:
                    return draw, at
        return 0, None

    def _equal(self, found: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
        buckets: dict[tuple[Any, ...], list[str]] = {}
        for name in found[0]:
            buckets.setdefault(_kind(found[0][name]), []).append(name)
        samples = {k: np.stack([_sample(found[0][n]) for n in names]) for k, names in buckets.items() if k[0]}
        b_of: dict[str, str] = {}
        a_of: dict[str, str] = {}
        for name, value in self.va.draws[0].items():
            kind = _kind(value)
            if kind not in samples:
                continue
            with np.errstate(all="ignore"):
                gap = np.abs(samples[kind] - _sample(value))
                # A cheap filter that lets too many through; ``mismatch`` below decides.
                moved = [np.abs(_sample(m) - _sample(value)) for m in self._moved(name, 0)]
                limit = 1e-3 * np.nanmax(np.abs(_sample(value)), initial=0.0) + 16 * max(
                    [float(np.nanmax(m, initial=0.0)) for m in moved], default=0.0
                )
                near = ~(gap > limit).any(axis=1)
            names = [buckets[kind][i] for i in np.flatnonzero(near)]
            names.sort(key=lambda n: n != name)
            for other in names:
                if all(
                    other in theirs
                    and name in ours
                    and mismatch(ours[name], theirs[other], self._moved(name, d)) is None
                    for d, (ours, theirs) in enumerate(zip(self.va.draws, found, strict=True))
                ):
                    b_of.setdefault(name, other)
                    if other not in a_of or other == name:
                        a_of[other] = name
        return b_of, a_of

    # -- regions ----------------------------------------------------------------------------------
    def _region(self, side: Side, output: str, equal: Mapping[str, str]) -> Region:
        """Return the nodes between a value and the equal values that it depends on."""
        model = side.model
        cuts, nodes, pending = set(), set(), [output]
        while pending:
            name = pending.pop()
            i = model.maker.get(name)
            if name != output and (name in equal or name in side.feeds[0]):
                cuts.add(name)
            elif i is not None and i not in nodes and name not in side.feeds[0]:
                nodes.add(i)
                pending += read_by(model.nodes[i])
        return Region(side, tuple(sorted(cuts)), tuple(model.nodes[i] for i in sorted(nodes)), output)

    def _candidates(self, name: str, region: Region) -> list[str]:
        """Return values of B that may correspond to an unmatched value of A, the most likely first."""
        unmatched = [
            o for n in region.nodes for o in n.output if o in self.vb.draws[0] and o not in self.a_of
        ]
        found: list[str] = []
        if name == self.a.target:
            found.append(self.b.target)
        if name in unmatched or (name in self.folded and name not in self.a_of):
            found.append(name)
        node = self.a.model.nodes[self.a.model.maker[name]]
        reads = {self.b_of.get(n, n) for n in node.input if n}
        for other in region.nodes:
            if other.op_type == node.op_type and reads.intersection(other.input):
                place = list(node.output).index(name)
                if place < len(other.output) and other.output[place] in unmatched:
                    found.append(other.output[place])
        value = self.va.draws[0].get(name)
        if value is not None and _plain(value) and value.size > 1:
            near, x = [], _sample(value)
            with np.errstate(all="ignore"):
                for other in unmatched:
                    if _kind(there := self.vb.draws[0][other]) == _kind(value):
                        gap = np.abs(x - _sample(there)).sum()
                        if np.isfinite(gap) and gap < 0.5 * np.abs(x).sum():
                            near.append((float(gap), other))
            found += [other for _, other in sorted(near)[:2]]
        return list(dict.fromkeys(found))

    def _stands_for(self, name: str, other: str) -> bool:
        """Return whether B, given A's value in place of its own, computes further values equal to A's."""
        if name == self.a.target:
            return other == self.b.target
        model = self.b.model
        if self.trials >= TRIALS:
            return False
        self.trials += 1
        behind = self._behind(model, other)
        names = [n for n in self.vb.names if n in behind and n not in self.a_of]
        if not names:
            return False
        after = self._behind(self.a.model, name)
        draws = []
        for ours, feeds in zip(self.va.draws, self.b.feeds, strict=True):
            given = {**feeds, other: ours[name]}
            try:
                draws.append(self._exposed(model.cut(names, given), model, given, names))
            except RuntimeFailure:
                return False
        b_of, _ = self._equal(draws)
        healed = [n for n in b_of if n in after and n not in self.b_of]
        return any(_tells([draw[n] for draw in self.va.draws]) for n in healed)

    def _behind(self, model: Model, name: str) -> set[str]:
        found = {name}
        for node in model.nodes:
            if found.intersection(read_by(node)):
                found.update(o for o in node.output if o)
        return found - {name}

    def _located(self, name: str, other: str, draw: int, at: Mismatch, *, confirmed: bool) -> Located:
        a, b = self._region(self.a, name, self.b_of), self._region(self.b, other, self.a_of)
        equal = {n: n if self.b_of.get(n) == n or n not in self.a_of else self.a_of[n] for n in b.inputs}
        # Inputs of A's region also serve B's region if they are equal.
        for ours in a.inputs:
            for theirs in b.inputs:
                if self.b_of.get(ours) == theirs:
                    equal[theirs] = ours
        values = {n: self.va.draws[draw][n] for n in a.inputs}
        for theirs, ours in equal.items():
            values.setdefault(ours, self.va.draws[draw].get(ours, self.vb.draws[draw].get(theirs)))
        return Located(a, b, draw, at, confirmed, equal, values)

    def narrowed(self, found: Located) -> tuple[Side, Side]:
        """Return the regions found as sides of their own, for a closer search."""
        sides = []
        for region, values in ((found.a, self.va), (found.b, self.vb)):
            feeds = tuple({n: d[n] for n in region.inputs} for d in values.draws)
            source = region.side.model
            piece = source.cut([region.output], feeds[0], nodes=region.nodes)
            sides.append(Side(Model.of(piece, source.folder, source.name), feeds, region.output))
        return sides[0], sides[1]


def _fed(model: Model, given: Mapping[str, Any]) -> Model:
    """Return a model whose inputs include the given values, reduced to the nodes that are then needed."""
    if set(given) <= set(model.inputs):
        return model
    return Model.of(model.cut(list(model.outputs), given), model.folder, model.name)


def _plain(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic)


def _kind(value: Any) -> tuple[Any, ...]:
    if not _plain(value) or value.dtype.kind in "OUS" or not value.size:
        return ("",)
    return TensorType.of(np.asarray(value)).dtype, np.shape(value)


def _sample(value: Any) -> np.ndarray:
    flat = np.asarray(value).reshape(-1)
    step = max(1, flat.size // _SAMPLE)
    found = flat[::step][:_SAMPLE]
    with np.errstate(all="ignore"):
        data = np.abs(found) if found.dtype.kind == "c" else found.astype(np.float64)
        return np.asarray(np.nan_to_num(data))


def _tells(values: Sequence[Any]) -> bool:
    """Return whether a value varies (or is a single non-zero number), so that a match is not accidental."""
    flat = np.concatenate([np.asarray(v).reshape(-1) for v in values if _plain(v)] or [np.zeros(0)])
    return flat.size > 0 and bool((flat != flat[0]).any() or (flat.size == 1 and flat[0] != 0))


# -- rules ------------------------------------------------------------------------------------------
def find_offending(
    rules: Sequence[str], right: Callable[[Sequence[str]], bool], calls: int = 40
) -> tuple[str, ...]:
    """Return a minimal set of rules with which the run still gives a wrong result.

    ``right(names)`` repeats the run with these rules only and returns whether its result is right. The
    search is delta debugging: it tries halves, then their complements, then finer parts, so one bad rule
    among n is found in about 2 log n runs. The set is minimal unless the search used up its limit of
    ``calls`` runs; it is empty if the first repetition, with all rules, gives a right result.
    """
    left = calls

    def wrong(names: Sequence[str]) -> bool:
        nonlocal left
        left -= 1
        return not right(names)

    suspects = list(rules)
    if not wrong(suspects):
        return ()
    parts = 2
    while len(suspects) > 1 and left > 0:
        size = -(-len(suspects) // parts)
        chunks = [suspects[i : i + size] for i in range(0, len(suspects), size)]
        complements = [[s for s in suspects if s not in set(c)] for c in chunks]
        for candidate in chunks + (complements if len(chunks) > 2 else []):
            if left <= 0:
                break
            if wrong(candidate):
                parts = 2 if candidate in chunks else max(2, parts - 1)
                suspects = candidate
                break
        else:
            if parts >= len(suspects):
                break
            parts = min(len(suspects), 2 * parts)
    return tuple(suspects)
