"""The proof of a result, and the check of a proof, by files."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from workbench.egraph.at_sizes import egraph_at, graph_at
from workbench.frontends.onnx.file import Source
from workbench.graph import Graph
from workbench.laws.run_proofs.checking import Accepted, NotAccepted, check_graphs
from workbench.laws.run_proofs.proof import MalformedProof, RunProof
from workbench.laws.run_proofs.sizes import Sized, read_plainly
from workbench.support.deadline import TimeUp, deadline

if TYPE_CHECKING:
    from workbench.optimizer.result import Optimized

#: A model for a proof: an ONNX file or message, or a graph.
Readable: TypeAlias = "Graph | Source"


def prove(
    result: Optimized,
    given: Readable | None = None,
    saved: Readable | None = None,
    seconds: float | None = None,
) -> RunProof:
    """Return the proof that a result is equal to its original, at every size that the original accepts.

    Args:
        result: The result of :func:`workbench.optimize`.
        given: The file that was optimised; by default the result's original, as a graph.
        saved: The file to which the result was saved; by default the result's graph. If dimensions are left open,
            both are by default the files themselves.
        seconds: Limit on the search for the proof; by default that of the call that found the result.

    Raises:
        NotProved: (a ValueError) if no proof was found; the message names the part that is not connected.
    """
    from workbench.laws.run_proofs.proving import NotProved

    limit = float(result.settings["seconds"]) if seconds is None else seconds
    if not limit > 0:
        raise ValueError(f"the time limit must be positive, got {limit:g} (try seconds=60)")
    try:
        with deadline(time.perf_counter() + limit):
            return _proof(result, given, saved)
    except TimeUp:
        why = f"the search reached its limit of {limit:g} s (try seconds={10 * limit:g})"
        raise NotProved(why) from None


def _proof(result: Optimized, given: Readable | None, saved: Readable | None) -> RunProof:
    from workbench.laws.run_proofs.proving import NotProved, prove_graphs

    model = result.given
    dims = None if model is None else model.dims
    if model is None or not model.symbols:
        first = Sized.of(result.original) if given is None else _read(given, dims)
        second = Sized.of(result.graph) if saved is None else _read(saved, dims, first)
        return prove_graphs(first, second, result.original, result.graph, result.egraph, result.ruleset)
    if result.dynamic is None or result.dynamic.graph is None or result.dynamic.egraph is None:
        raise NotProved("the result was not searched at all sizes")
    first = _read(model.source if given is None else given, dims)
    ends = first, _read(result.to_onnx() if saved is None else saved, dims, first)

    def number(extent: int) -> int:
        return first.generic.number(model.generic.expression(extent))

    try:
        second = ends[1].at(first.generic)
        original, found = (graph_at(g, number) for g in (model.searched, result.dynamic.graph))
        egraph = egraph_at(result.dynamic.egraph, number)
    except ValueError as error:
        raise NotProved(f"sizes have no numbers that stand for them: {error}") from None
    proof = prove_graphs(first, second, original, found, egraph, result.ruleset)
    try:
        check_graphs(*ends, proof)
    except NotAccepted as error:
        raise NotProved(f"a step is not proved for every size: {error}") from None
    return proof


def checked_proof(result: Optimized, seconds: float | None = None) -> Accepted:
    """Return what the proof of a result shows, as the checker accepts it; :func:`prove` has the errors.

    Without symbolic dimensions the proof is about the graphs, otherwise about the files.
    """
    proof, model = prove(result, seconds=seconds), result.given
    if model is None or not model.symbols:
        return check(result.original, result.graph, proof)
    return check(model.source, result.to_onnx(), proof, model.dims)


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
    first = _read(original, dims)
    return check_graphs(first, _read(result, dims, first), proof)


def _read(model: Readable, dims: Mapping[str, int] | None, like: Sized | None = None) -> Sized:
    return Sized.of(model) if isinstance(model, Graph) else read_plainly(model, dims, like)
