"""An accepted proof to look at: what each step says in words, and where in both graphs its terms are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from workbench.laws.run_proofs.proof import LAW, NUMBER, GroundTerm, ProofStep, RunProof, ground_terms
from workbench.laws.run_proofs.sizes import Sized
from workbench.ops import spec_of
from workbench.rules.interpret import nearest_decimal
from workbench.support.messages import unknown
from workbench.support.orders import postorder

if TYPE_CHECKING:
    from workbench.certification.regions import Region, Task
    from workbench.graph import Graph
    from workbench.laws.explain.report import Explanation

#: Limit on the operators that are written one inside another.
DEEPEST: Final = 3
#: The reasons of steps that are not laws.
SAID: Final = {"fold": "computed constants", NUMBER: "a tensor read as its number"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProvedRegion:
    """A rewritten region, as a certificate compares it, and the numbers of the steps that prove it."""

    region: Region
    steps: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.region} (step{'s' if len(self.steps) > 1 else ''} {_spans(self.steps)})"

    def __repr__(self) -> str:
        return f"ProvedRegion: {self}"


@dataclass(frozen=True, slots=True)
class Replayed:
    """The terms and steps of an accepted proof between two graphs.

    ``values`` has a number for every term, the nodes of both graphs first: equal terms have the same.
    """

    #: The headings of :meth:`rows`, and of :meth:`by_region`.
    COLUMNS: ClassVar[tuple[str, ...]] = ("step", "by", "left", "right")
    REGIONS: ClassVar[tuple[str, ...]] = ("step", "region", "by", "left", "right")

    proof: RunProof
    sides: tuple[Sized, Sized]
    values: tuple[int, ...]

    @property
    def graphs(self) -> tuple[Graph, Graph]:
        """Return the original and the result."""
        return self.sides[0].graph, self.sides[1].graph

    def groups(self, side: int) -> dict[int, str]:
        """Return the value of every node of the original, 0, or of the result, 1, as a name."""
        first = len(self.graphs[0].nodes)
        found = self.values[first:][: len(self.graphs[1].nodes)] if side else self.values[:first]
        return {i: f"value {c}" for i, c in enumerate(found)}

    def focus(self) -> list[list[str]]:
        """Return for every step the values that it speaks of: of its sides, and of what they read directly."""
        terms = self._terms()
        read = [
            [i for pair in s.pairs for t in pair for i in (t, *terms[t].inputs)] for s in self.proof.steps
        ]
        return [[f"value {c}" for c in dict.fromkeys(self.values[i] for i in found)] for found in read]

    def rows(self) -> list[tuple[int, str, str, str]]:
        """Return every step: its number, its reason, and the terms that it makes equal, a row for each pair."""
        text = self._texts()
        return [
            (k, _reason(step), text(a), text(b))
            for k, step in enumerate(self.proof.steps, 1)
            for a, b in step.pairs
        ]

    def regions(self) -> list[ProvedRegion]:
        """Return the regions in which both graphs differ, each with the steps behind its values, operands first.

        A step belongs to a region if one of its terms is computed between the region's inputs and outputs.
        """
        from workbench.certification.regions import Correspondence, Merged

        first, second = self.graphs
        known = Correspondence(self.values[: len(first)], self.values[len(first) :][: len(second)])
        merged = Merged(first, second, known)
        value = {m: self.values[i] for i, m in enumerate(merged.place) if m >= 0}
        below: dict[int, set[int]] = {}
        for v, term in zip(self.values, self._terms(), strict=True):
            below.setdefault(v, set()).update(self.values[i] for i in term.inputs)

        def proved(task: Task) -> ProvedRegion:
            ends = {value[i] for i in task.leaves}
            inside = set(postorder((value[o.original] for o in task.obligations), lambda v: below[v] - ends))
            numbered = enumerate(self.proof.steps, 1)
            steps = (k for k, step in numbered if any(self.values[a] in inside for a, _ in step.pairs))
            return ProvedRegion(merged.region(task), tuple(steps))

        return list(map(proved, merged.tasks()))

    def explain(self, output: str | None = None) -> Explanation:
        """Return the chain of steps from an output of the original to that of the result; see ``Accepted.explain``."""
        from workbench.laws.explain.report import Explanation, Move
        from workbench.laws.proof_graph import ProofGraph, Reason

        first, second = self.graphs
        outputs = dict(first.outputs)
        name = first.outputs[0][0] if output is None else output
        if name not in outputs:
            raise ValueError(unknown("output", name, outputs))
        terms, text, found = self._terms(), self._texts(), ProofGraph()
        place: list[int] = []
        for t in terms:
            place.append(found.add(t.op, t.attrs, tuple([place[i] for i in t.inputs]), None))
        for step in self.proof.steps:
            for a, b in step.pairs:
                found.union(place[a], place[b], Reason(_reason(step)))
        written = {p: i for i, p in reversed([*enumerate(place)])}

        ends = outputs[name], len(first) + dict(second.outputs)[name]
        chain = found.chain(*(place[i] for i in ends), most=2 * len(place))
        moves = [Move.of(step, lambda term: text(written[term])) for step in chain]
        left, right = (f"{name} of the {side}" for side in ("original", "result"))
        return Explanation(left, right, None, tuple(moves))

    def by_region(
        self, regions: Sequence[ProvedRegion] | None = None
    ) -> list[tuple[int, int, str, str, str]]:
        """Return the rows with the number of the region after that of the step; 0 if a step is in none.

        ``regions`` are :meth:`regions` if they are known.
        """
        known = self.regions() if regions is None else regions
        of = {k: n for n, found in enumerate(known, 1) for k in found.steps}
        return [(k, of.get(k, 0), by, left, right) for k, by, left, right in self.rows()]

    def _terms(self) -> list[GroundTerm]:
        first, second = map(ground_terms, self.sides)
        moved = [GroundTerm(t.op, t.attrs, tuple(i + len(first) for i in t.inputs)) for t in second]
        return [*first, *moved, *self.proof.terms]

    def _texts(self) -> Callable[[int], str]:
        """Return the function that writes terms."""
        nodes = [n for graph in self.graphs for n in graph.nodes]
        names = {i: str(n.attrs[0]) for i, n in enumerate(nodes) if n.op in ("input", "weight")}
        return partial(_text, self._terms(), names)


def _spans(numbers: Sequence[int]) -> str:
    """Return increasing numbers as text, consecutive ones as a span.

    >>> _spans([1, 2, 3, 7])
    '1-3, 7'
    """
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _reason(step: ProofStep) -> str:
    rounded = f", off by {step.rounding:.1e}" if step.rounding else ""
    return step.law if step.kind == LAW else f"{SAID[step.kind]}{rounded}"


def _plain(x: object) -> object:
    """Return an attribute as text has it; a number in float32 as the short decimal that it came from."""
    return f"{nearest_decimal(x):g}" if isinstance(x, float) else x


def _text(terms: Sequence[GroundTerm], names: dict[int, str], term: int, depth: int = DEEPEST) -> str:
    """Return a term as text; what lies deeper than ``depth`` operators is left out."""
    op, attrs, inputs = terms[term].op, terms[term].attrs, terms[term].inputs
    if term in names:
        return names[term]
    if op == "scalar":
        return str(_plain(attrs[0]))
    if op in ("weight", "opaque"):
        attrs = ()
    own = zip(spec_of(op).attrs, attrs, strict=bool(attrs))
    said = ", ".join(f"{a.name}={_plain(x)}" for a, x in own if x != a.default)
    head = f"{op}[{said}]" if said else op
    if not depth and inputs:
        return f"{head}(…)"
    return f"{head}({', '.join(_text(terms, names, i, depth - 1) for i in inputs)})" if inputs else head
