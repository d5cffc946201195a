"""The proof of a run as data: ground terms, and the equations between them that laws and arithmetic give.

Terms are numbered: the nodes of the original first, then those of the result, then those of the proof. A
weight is named by a digest of its data, so that both files name equal weights alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from workbench.egraph.at_sizes import plain
from workbench.frontends.onnx.opaque import payload_of, unnamed
from workbench.graph.weights import Weight
from workbench.laws.run_proofs.sizes import Sized
from workbench.laws.theorems.steps import read_int, write_int
from workbench.ops import AttrValue
from workbench.rules.pattern import Rule
from workbench.rules.verdicts import law_of

#: The first line of a proof, which says how to read it.
FORMAT: Final = "workbench proof of a run, version 2"
#: Kinds of steps: a law at a match; a computed constant; a tensor of one number, read as that number.
LAW, FOLD, NUMBER = "law", "fold", "number"


class MalformedProof(ValueError):
    """Raised when a text is not a proof of a run."""


@dataclass(frozen=True, slots=True)
class GroundTerm:
    """An operator, its attributes, and the numbers of its operands."""

    op: str
    attrs: tuple[Any, ...]
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProofStep:
    """Equations that hold: ``pairs`` of equal terms.

    A step of the kind ``law`` has the law's name and the substitution: ``bindings`` maps tensor
    variables to terms, ``@name`` to the value of an attribute variable, ``#row.name`` to an attribute of a row, and
    ``=k`` to the term that the ``k``-th number of the left side stands for. ``members`` are the starred variables of
    every member of a merge. ``rounding`` is the largest error that a computed constant was rounded by, as a part
    of its largest element.
    """

    kind: str
    pairs: tuple[tuple[int, int], ...]
    law: str = ""
    bindings: Mapping[str, Any] | None = None
    members: tuple[Mapping[str, int], ...] = ()
    rounding: float = 0.0

    def moved(
        self, to: Callable[[int], int], written: Callable[[Any], Any] = lambda given: given
    ) -> ProofStep:
        """Return the step about other terms: ``to`` gives the term for each, ``written`` the value of an attribute."""
        return replace(
            self,
            bindings=self.bindings
            and {k: written(v) if k[0] in "@#=" else to(v) for k, v in self.bindings.items()},
            members=tuple({k: to(v) for k, v in m.items()} for m in self.members),
            pairs=tuple((to(a), to(b)) for a, b in self.pairs),
        )


@dataclass(frozen=True, slots=True)
class RunProof:
    """The proof that two graphs are equal.

    ``laws`` has the library's file, the text and the digest of every law by its name.
    """

    laws: Mapping[str, tuple[str, str, str]]
    terms: tuple[GroundTerm, ...]
    steps: tuple[ProofStep, ...]

    def text(self) -> str:
        """Return the proof as a JSON text, a line for every law, term and step."""

        def block(rows: list[Any]) -> str:
            lines = (
                json.dumps(r, separators=(",", ":"), default=lambda x: {"size": write_int(x)}) for r in rows
            )
            return "[\n" + ",\n".join(lines) + "\n]"

        parts: dict[str, list[Any]] = {
            "laws": [[name, *given] for name, given in self.laws.items()],
            "terms": [[t.op, t.attrs, t.inputs] for t in self.terms],
            "steps": [_written(s) for s in self.steps],
        }
        inside = [f'"format": {json.dumps(FORMAT)}', *(f'"{k}": {block(rows)}' for k, rows in parts.items())]
        return "{" + ",\n".join(inside) + "}\n"

    @classmethod
    def read(cls, text: str) -> RunProof:
        """Return the proof that a text is; raise MalformedProof if it is none."""
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise MalformedProof(f"a proof must begin with {FORMAT!r}, got {data['format']!r}")
            laws = {str(name): (str(file), str(law), str(digest)) for name, file, law, digest in data["laws"]}
            terms = tuple(
                GroundTerm(str(op), _frozen(a), tuple(map(_number, i))) for op, a, i in data["terms"]
            )
            return cls(laws, terms, tuple(map(_read, data["steps"])))
        except MalformedProof:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MalformedProof(f"this is not a proof of a run: {type(error).__name__}: {error}") from None


def _written(step: ProofStep) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": step.kind, "equal": step.pairs}
    if step.kind != LAW:
        return found | {"rounding": step.rounding}
    found |= {"law": step.law, "with": step.bindings or {}}
    return found | ({"members": step.members} if step.members else {})


def _read(data: Mapping[str, Any]) -> ProofStep:
    pairs = tuple((_number(a), _number(b)) for a, b in data["equal"])
    if data["kind"] == LAW:
        bindings = {str(k): _frozen(v) for k, v in data["with"].items()}
        members = tuple({str(k): _number(v) for k, v in m.items()} for m in data.get("members", ()))
        return ProofStep(LAW, pairs, str(data["law"]), bindings, members)
    if data["kind"] not in (FOLD, NUMBER):
        raise MalformedProof(f"a step must be of the kind law, fold or number, got {data['kind']!r}")
    return ProofStep(data["kind"], pairs, rounding=float(data["rounding"]))


def _number(given: object) -> int:
    if type(given) is not int or given < 0:
        raise MalformedProof(f"a term must have a number, got {given!r}")
    return given


def _frozen(given: Any) -> Any:
    if isinstance(given, dict):
        return plain(read_int(given["size"]))
    return tuple(map(_frozen, given)) if isinstance(given, list) else given


# -- digests ----------------------------------------------------------------------------------------------
def law_digest(rule: Rule) -> str:
    """Return the digest of a rule's law, which does not depend on its name."""
    return hashlib.sha256(law_of(rule).encode()).hexdigest()


def weight_digest(weight: Weight) -> str:
    """Return a digest of a weight's type and data; of a generated weight, of its seed."""
    found = hashlib.sha256(str(weight.type).encode())  # the fastest of the safe ones: processors compute it
    if weight.data is None:
        found.update(f"seed {weight.seed}".encode())
    elif weight.data.dtype == object:
        found.update(repr(weight.data.tolist()).encode())
    else:
        data = weight.value()
        found.update(np.ascontiguousarray(data).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def contents(sized: Sized) -> dict[tuple[str, str], str]:
    """Return digests of the weights and opaque operators of a graph, by operator and key."""
    graph = sized.graph
    found = {("weight", name): weight_digest(w) for name, w in graph.weights.items()}
    for key, record in graph.opaques.items():
        # Random numbers are drawn anew by every operator: only the operator that has the same key is the same.
        own = b"" if record.deterministic else key.encode()
        payload = unnamed(payload_of(record)) if record.payload else b""
        content = hashlib.blake2b(payload + own, digest_size=20)
        results = tuple(map(sized.kind, record.results))
        content.update(repr((record.op_type, record.domain, results, record.deterministic)).encode())
        found["opaque", key] = content.hexdigest()
    return found


def ground_terms(sized: Sized, names: Mapping[tuple[str, str], str] | None = None) -> list[GroundTerm]:
    """Return the nodes of a graph as terms over symbols; weights and opaque operators are named by their content.

    ``names`` are the graph's :func:`contents` if they are known.
    """
    names = contents(sized) if names is None else names
    return [
        GroundTerm(n.op, sized.attrs(n.op, by_content(names, n.op, n.attrs)), n.inputs)
        for n in sized.graph.nodes
    ]


def by_content(
    names: Mapping[tuple[str, str], str], op: str, attrs: tuple[AttrValue, ...]
) -> tuple[AttrValue, ...]:
    """Return attributes with the content of a weight or an opaque operator in place of its key."""
    return (names[op, str(attrs[0])],) if op in ("weight", "opaque") else attrs
