"""Certification of two models: graphs of this package by regions, any two ONNX files by running both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.certification.files.compare import certify_files
from workbench.certification.files.result import Comparison

if TYPE_CHECKING:
    from workbench.certification.certificate import Certificate


def certify(original: object, optimised: object, **options: Any) -> Certificate | Comparison:
    """Compare a model with its original on random inputs and return the outcome.

    Two :class:`~workbench.Graph` objects are compared by :func:`~workbench.certification.certificate.certify`,
    which returns a certificate. Any other arguments are treated as models (a path, bytes, a ``ModelProto``;
    a single graph is exported first) and compared by :func:`certify_files`. It returns a
    :class:`Comparison`: ``equal``, the first tensor that differs, and the nodes that compute it.

    >>> workbench.certify("model.onnx", "optimised.onnx")  # doctest: +SKIP
    """
    from workbench.graph import Graph

    if isinstance(original, Graph) and isinstance(optimised, Graph):
        from workbench.certification.certificate import certify as certify_graphs

        return certify_graphs(original, optimised, **options)
    return certify_files(_model(original), _model(optimised), **options)


def _model(source: Any) -> Any:
    from workbench.graph import Graph

    if isinstance(source, Graph):
        from workbench.frontends import to_onnx

        return to_onnx(source)
    return source
