"""The reader of files for proofs: every operator as it is written.

It is the import of the optimiser without what that changes afterwards: nothing is recognised as an idiom, left out
as neutral, or computed, except shapes and the arithmetic on them, which the types decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from workbench.frontends.model import DimensionError
from workbench.frontends.onnx.file import Source, names_as_text, read_tensors
from workbench.frontends.onnx.importer import Opening, import_prepared
from workbench.frontends.onnx.prepare import prepare
from workbench.laws.run_proofs.sizes import Sized
from workbench.symbolic.facts import Facts


def read_plainly(source: Source, dims: Mapping[str, int] | None = None, like: Sized | None = None) -> Sized:
    """Return an ONNX file as a graph, operator by operator; dimensions without a size in ``dims`` stay symbols.

    A result is read with what its original, ``like``, says of the sizes. Raise ModelError if the file is no valid
    model, and OSError if it cannot be read.
    """
    with names_as_text():
        try:
            prepared = prepare(read_tensors(source), dims or {}, open_dimensions=True)
        except DimensionError:
            if like is None:
                raise
            # A result may have the sizes already.
            prepared = prepare(read_tensors(source), {}, open_dimensions=True)
        prepared = replace(prepared, plain=True)
        if not prepared.symbols:
            return Sized.of(import_prepared(prepared).graph)
        opening = Opening(prepared)
        if like is not None:
            known, facts = like.generic, like.generic.facts
            opening.sizes = {name: known.sizes.get(name, size) for name, size in opening.sizes.items()}
            opening.facts = Facts(list(facts.known), dict(facts.least), dict(facts.most))
            opening.kinds = dict.fromkeys(known.primes, "other") | opening.kinds
        return Sized.of(opening.run())
