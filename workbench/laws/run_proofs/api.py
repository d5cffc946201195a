"""The proof of a result, and the check of a proof, by files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from workbench.graph import Graph
from workbench.laws.run_proofs.checking import Accepted, check_graphs
from workbench.laws.run_proofs.proof import MalformedProof, RunProof
from workbench.laws.run_proofs.reading import read_plainly

if TYPE_CHECKING:
    from workbench.optimizer.result import Optimized

#: A model for a proof: the path of an ONNX file, or a graph.
Readable: TypeAlias = "Graph | str | os.PathLike[str]"


def prove(result: Optimized, given: Readable | None = None, saved: Readable | None = None) -> RunProof:
    """Return the proof that a result is equal to its original.

    Args:
        result: The result of :func:`workbench.optimize`.
        given: The file that was optimised; by default the result's original, as a graph.
        saved: The file to which the result was saved; by default the result's graph.

    Raises:
        NotProved: (a ValueError) if no proof was found; the message names the part that is not connected.
    """
    from workbench.laws.run_proofs.proving import NotProved, prove_graphs

    if result.dynamic is not None and result.dynamic.kept:
        kept = ", ".join(result.dynamic.kept)
        raise NotProved(f"dimensions must have sizes in a proof, got {kept} left open (try --dim)")
    dims = None if result.given is None else result.given.dims
    first = result.original if given is None else _read(given, dims)
    second = result.graph if saved is None else _read(saved, dims)
    return prove_graphs(first, second, result.original, result.graph, result.egraph, result.ruleset)


def check(
    original: Readable,
    result: Readable,
    proof: RunProof | str | os.PathLike[str],
    dims: Mapping[str, int] | None = None,
) -> Accepted:
    """Check the proof that two models are equal.

    Args:
        original: The original.
        result: The rewritten model.
        proof: The proof, or the path of its file.
        dims: Sizes of symbolic dimensions, for which alone the proof then speaks.

    Raises:
        NotAccepted: (a ValueError) if the proof does not show that the models are equal.
        MalformedProof: (a ValueError) if the file is no proof.
        ModelError: (a ValueError) if a model cannot be read.
        OSError: if a file cannot be read.
    """
    if not isinstance(proof, RunProof):
        try:
            proof = RunProof.read(Path(proof).read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise MalformedProof("a proof must be a text, got something else") from None
    return check_graphs(_read(original, dims), _read(result, dims), proof)


def _read(model: Readable, dims: Mapping[str, int] | None) -> Graph:
    return model if isinstance(model, Graph) else read_plainly(model, dims)
