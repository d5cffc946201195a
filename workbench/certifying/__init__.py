"""Certify models: two graphs of ours by regions, any two ONNX files by running both."""

from __future__ import annotations

from typing import Any

from workbench.certifying.files import certify_files
from workbench.certifying.result import Comparison, Difference, Piece


def certify(original: Any, optimised: Any, **options: Any) -> Any:
    """Compare a model with its original on random inputs and say whether they agree.

    Two :class:`~workbench.Graph` objects are compared by :func:`workbench.verification.certify`, which
    returns a certificate. Anything else is taken for models (a path, bytes, a ``ModelProto``; a graph beside
    one is exported first) and compared by :func:`certify_files`, which returns a :class:`Comparison`:
    ``equal``, the first tensor that differs, and the nodes behind it.

    >>> workbench.certify("model.onnx", "optimised.onnx")  # doctest: +SKIP
    """
    from workbench.graph import Graph

    if isinstance(original, Graph) and isinstance(optimised, Graph):
        from workbench.verification.certificate import certify as certify_graphs

        return certify_graphs(original, optimised, **options)
    return certify_files(_model(original), _model(optimised), **options)


def _model(source: Any) -> Any:
    from workbench.graph import Graph

    if isinstance(source, Graph):
        from workbench.frontends import to_onnx

        return to_onnx(source)
    return source


__all__ = ["Comparison", "Difference", "Piece", "certify", "certify_files"]
