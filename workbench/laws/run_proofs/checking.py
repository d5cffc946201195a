"""The checker of proofs of runs: whether two graphs are equal for the reasons that a proof states.

It reads both graphs, the laws' texts and their stored proofs. Each step is one law at one substitution, or one
computed constant; the checker makes both sides of the law from its text and accepts the step only if they are the
terms that the step names. That the outputs are equal must follow from these equations by congruence. Nothing is
searched, and nothing is imported from the engine, from matching, extraction or certification.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from workbench.graph import Graph, GraphError
from workbench.graph.weights import Weight
from workbench.laws.run_proofs.congruence import Congruence
from workbench.laws.run_proofs.constants import Constants
from workbench.laws.run_proofs.instance import Instance, NoInstance
from workbench.laws.run_proofs.proof import (
    FOLD,
    LAW,
    ProofStep,
    RunProof,
    contents,
    ground_terms,
    law_digest,
    weight_digest,
)
from workbench.laws.run_proofs.shown import ProvedRegion, Replayed
from workbench.laws.run_proofs.sizes import Sized, packed
from workbench.laws.theorems.entailment import UNAVAILABLE
from workbench.laws.theorems.store import check_library, rules_of
from workbench.ops import TypeMismatch, spec_of
from workbench.rules.pattern import Rule
from workbench.rules.verdicts import THEOREM, has_proof, law_of, library, proof_record, verdict_of
from workbench.run.display import Face

if TYPE_CHECKING:
    import pandas as pd

    from workbench.laws.explain.report import Explanation

#: Exceptions that mean that a step or a term is not what it says.
FAULTS: Final = (TypeMismatch, GraphError, IndexError, KeyError, ValueError, TypeError, OverflowError)
#: Limit on the steps and terms of a proof.
LARGEST: Final = 1_000_000
#: The standing of a law that is tested, and of one whose proof only z3 can check, which is not installed.
TESTED, NEEDS_Z3 = "tested", "its proof needs z3, which is not installed"


class NotAccepted(ValueError):
    """Raised when a step of a proof is not what it says, or the outputs do not follow from the steps."""


@dataclass(frozen=True, slots=True)
class Accepted(Face):
    """What an accepted proof shows.

    ``laws`` counts the steps by law, ``standing`` says of every law whether it is a theorem or tested. ``folded``
    are the roundings of computed constants, as parts of their largest elements, ``numbers`` those of tensors read as
    one number. ``opaque`` are the operators that both graphs keep unchanged. ``sizes`` are the sizes of symbolic
    dimensions of which the proof speaks, in words. ``replayed`` has the steps between both graphs.
    """

    laws: Mapping[str, int]
    standing: Mapping[str, str]
    folded: tuple[float, ...]
    numbers: tuple[float, ...]
    opaque: tuple[str, ...]
    sizes: str
    replayed: Replayed = field(repr=False, compare=False)

    def frame(self) -> pd.DataFrame:
        """Return the steps as a table: number, region, reason and both sides, a row for each pair of equal terms."""
        import pandas as pd

        return pd.DataFrame(self.replayed.by_region(), columns=self.replayed.REGIONS)

    def regions(self) -> list[ProvedRegion]:
        """Return the regions that a certificate of the result compares, each with the numbers of its steps."""
        return self.replayed.regions()

    def explain(self, output: str | None = None) -> Explanation:
        """Return the chain of steps that turns an output of the original into that of the result.

        It is the first output by default. Raise ValueError for an unknown output.
        """
        return self.replayed.explain(output)

    @property
    def tested(self) -> dict[str, int]:
        """Return the laws that are not theorems, each with the number of its steps."""
        return {name: n for name, n in self.laws.items() if self.standing[name] != THEOREM}

    def __str__(self) -> str:
        said = "over the reals, for all inputs at which all terms of the proof have values"
        said += f" and all sizes {self.sizes} at which the original runs" if self.sizes else ""
        said += ", both compute the same"
        errors = [e for e in (*self.folded, *self.numbers) if e > 0]
        if errors:
            what = _count(len(errors), "constant")
            said += f", up to the rounding of {what} by at most {_above(max(errors))} of its largest element"
        if self.opaque:
            what = _count(len(self.opaque), "operator")
            said += (
                f"; {what} without a model, the same from equal operands: {', '.join(sorted({*self.opaque}))}"
            )
        if not self.tested:
            return f"{said}; every law is a theorem"
        steps = sum(self.tested.values())
        names = ", ".join(f"{name} ({self.standing[name]})" for name in sorted(self.tested))
        rest = "rests" if steps == 1 else "rest"
        return f"{said}; {_count(steps, 'step')} {rest} on laws that are not theorems: {names}"

    def __repr__(self) -> str:
        return f"Accepted: {self}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _above(value: float) -> str:
    """Return a number with two digits that is not below a value."""
    text = f"{value:.1e}"
    return text if float(text) >= value else f"{value * 1.05:.1e}"


def check_graphs(original: Sized, result: Sized, proof: RunProof) -> Accepted:
    """Check the proof that two graphs, the result read with the original's facts, are equal at every size.

    Raise NotAccepted if the proof is wrong, or does not show that the graphs are equal.
    """
    if len(proof.steps) + len(proof.terms) > LARGEST:
        raise NotAccepted(f"a proof must have at most {LARGEST} steps and terms")
    _check_interfaces(original, result)
    terms = Congruence(original.generic.facts)
    weights: dict[str, Weight] = {}
    ends = []
    try:
        original.check_names()
        for side in (original, result):
            named = contents(side)
            weights |= {named["weight", name]: w for name, w in side.graph.weights.items()}
            nodes = [(t.op, t.attrs, t.inputs) for t in ground_terms(side, named)]
            ends.append(terms.enter(nodes, [side.kind(n.type) for n in side.graph]))
        first, second = ends
        number = [*first, *second]
        for t in proof.terms:
            original.check_words(t.attrs)
            attrs = packed(t.op, dict(zip(spec_of(t.op).attr_names, t.attrs, strict=True)))
            number.append(terms.add(t.op, attrs, tuple([number[i] for i in t.inputs])))
    except FAULTS as error:
        raise NotAccepted(f"a term is not well-typed: {error}") from None
    checker = _Checker(terms, number, Constants(terms.terms, terms.types, weights), _laws(proof))
    for position, step in enumerate(proof.steps):
        try:
            original.check_words((step.bindings or {}).values())
            checker.step(step)
        except FAULTS as error:
            raise NotAccepted(f"step {position}: {error}") from None
    for (name, a), (_, b) in zip(original.graph.outputs, result.graph.outputs, strict=True):
        if not terms.equal(first[a], second[b]):
            raise NotAccepted(f"the steps do not show that output {name!r} is the same")
    standing = {name: _standing(rule) for name, rule in checker.rules.items()}
    graph = original.graph
    kept = tuple([graph.opaques[str(n.attrs[0])].op_type for n in graph.nodes if n.op == "opaque"])
    folded, numbers = tuple(checker.folded), tuple(checker.numbers)
    replayed = Replayed(proof, (original, result), tuple(map(terms.find, number)))
    return Accepted(dict(checker.used), standing, folded, numbers, kept, original.covered(), replayed)


def _check_interfaces(original: Sized, result: Sized) -> None:
    """Raise NotAccepted unless two graphs have the same inputs and outputs, by name, order and type.

    The result must not require more of the sizes than the original.
    """
    known, mine = original.generic, result.generic
    if mine.facts.known != known.facts.known or any(known.sizes.get(n) != x for n, x in mine.sizes.items()):
        raise NotAccepted("the result requires more of its sizes than the original")
    for what in ("input", "output"):
        a, b = (
            [(name, side.kind(kind)) for name, kind in getattr(side.graph, f"{what}_types").items()]
            for side in (original, result)
        )
        if a != b:
            shown = [", ".join(f"{name}: {kind}" for name, kind in kinds) for kinds in (a, b)]
            raise NotAccepted(f"the {what}s differ: {shown[0]} and {shown[1]}")
    if _rest(original.graph) != _rest(result.graph):
        raise NotAccepted("the nodes after the graph, which are kept as they are, differ")


def _rest(graph: Graph) -> tuple[object, ...]:
    """Return what a file has beside its graph that decides what it computes."""
    if graph.info is None:
        return (b"", {}, {})
    arrays = (graph.info.tail_arrays, graph.info.defaults)
    return (
        graph.info.tail,
        *({name: weight_digest(Weight.of(a)) for name, a in own.items()} for own in arrays),
    )


class _Checker:
    """The terms of a proof while its steps are checked."""

    def __init__(
        self, terms: Congruence, number: list[int], constants: Constants, rules: Mapping[str, Rule]
    ) -> None:
        self.terms, self.number, self.constants, self.rules = terms, number, constants, rules
        self.used: Counter[str] = Counter()
        self.folded: list[float] = []
        self.numbers: list[float] = []

    def step(self, given: ProofStep) -> None:
        """Check a step, and make its terms equal."""
        step = given.moved(self.number.__getitem__)
        if step.kind == LAW:
            substitution = step.bindings or {}, step.members, self.terms.facts
            sides = Instance(self.terms.add, self.terms.types, *substitution).equations(self.rules[step.law])
            if sides != step.pairs:
                raise NoInstance(f"{step.law} does not state that the terms are equal")
            self.used[step.law] += 1
        elif step.kind == FOLD:
            self.folded += [self._same(self.constants.rounding(*pair), step.rounding) for pair in step.pairs]
        else:
            read = self.constants.read_as_number
            self.numbers += [self._same(read(*pair), step.rounding) for pair in step.pairs]
        for a, b in step.pairs:
            self.terms.equate(a, b)

    def _same(self, found: float, recorded: float) -> float:
        if not abs(found - recorded) <= 0.01 * found:
            raise TypeMismatch(f"the recorded rounding is {recorded:.2e}, the constant is off by {found:.2e}")
        return found


def _laws(proof: RunProof) -> dict[str, Rule]:
    """Return the library's rules of the laws that a proof uses; raise NotAccepted if one has another text."""
    known = {file.name: file for file in library().glob("*.rules")}
    files: dict[str, Mapping[str, Rule]] = {}
    found: dict[str, Rule] = {}
    for name, (file, law, digest) in proof.laws.items():
        if file not in files:
            path = known.get(file)
            files[file] = _rules_in(path.stem, path.stat().st_mtime_ns) if path is not None else {}
        rule = files[file].get(name)
        if rule is None:
            raise NotAccepted(f"the library has no law {name} in {file}")
        if law != law_of(rule) or digest != law_digest(rule):
            raise NotAccepted(f"{name} is another law in the library: {law_of(rule)}")
        found[name] = rule
    return found


@lru_cache(maxsize=64)
def _rules_in(stem: str, changed: int) -> Mapping[str, Rule]:
    return {rule.name: rule for rule in rules_of(stem)}


def _standing(rule: Rule) -> str:
    """Return whether a law is a theorem, whose stored proof the kernel accepts, or tested.

    Raise NotAccepted for any other law: one whose proof is rejected, or whose text was changed since it was tested.
    """
    record = proof_record(rule)
    if record is not None and has_proof(record):
        why = _rejected(rule, json.dumps(record, sort_keys=True))
        if why == UNAVAILABLE:
            return NEEDS_Z3
        if why:
            raise NotAccepted(f"the kernel does not accept the stored proof of {rule.name}: {why}")
        return THEOREM
    found = verdict_of(rule)
    if found != TESTED:
        raise NotAccepted(f"{rule.name} is neither a theorem nor tested, but {found}")
    return found


@lru_cache(maxsize=4096)
def _rejected(rule: Rule, record: str) -> str:
    """Return why the kernel rejects the stored proof of a rule, with this content; empty if it does not."""
    (found,) = check_library([rule])
    return found.reason if found.checked is None else ""
