"""Certificates: graphs of this package are compared region by region, any two ONNX files by running both.

Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.certification.certificate import Certificate as Certificate
    from workbench.certification.certificate import Difference as Difference
    from workbench.certification.certificate import Evidence as Evidence
    from workbench.certification.certificate import Piece as Piece
    from workbench.certification.files import certify_files as certify_files
    from workbench.certification.graphs import certify_graphs as certify_graphs
    from workbench.certification.inputs import random_inputs as random_inputs

__getattr__, __all__ = door(
    __name__,
    {
        "certificate": "Certificate Difference Evidence Piece",
        "files": "certify_files",
        "graphs": "certify_graphs",
        "inputs": "random_inputs",
    },
    own=("certify",),
)


def certify(original: object, optimised: object, args: object = None, **options: Any) -> Certificate:
    """Compare a model with its original on random inputs and return the outcome.

    Two :class:`~workbench.Graph` objects are compared region by region (:func:`certify_graphs`). Any other
    arguments are treated as models (a path, bytes, a ``ModelProto``; a single graph is exported first), and
    both are run (:func:`certify_files`). With ``args``, an example of the inputs, one or both are torch modules, and
    the module itself is run (:func:`~workbench.torch.certifying.certify_torch`). ``options`` are those of the function.

    >>> workbench.certify("model.onnx", "optimised.onnx").passed  # doctest: +SKIP
    """
    from workbench.graph import Graph
    from workbench.support.wings import offered

    if args is not None:
        return offered("certify_torch")(original, optimised, args, **options)
    if isinstance(original, Graph) and isinstance(optimised, Graph):
        from workbench.certification.graphs import certify_graphs

        return certify_graphs(original, optimised, **options)
    from workbench.certification.files import certify_files
    from workbench.frontends import to_onnx

    a, b = (to_onnx(model) if isinstance(model, Graph) else model for model in (original, optimised))
    return certify_files(a, b, **options)
