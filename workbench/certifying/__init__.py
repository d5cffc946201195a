"""Certificates: graphs of this package are compared region by region, any two ONNX files by running both.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import lazy_names

if TYPE_CHECKING:
    from workbench.certifying.certificate import Certificate, Evidence
    from workbench.certifying.dispatch import certify
    from workbench.certifying.files.compare import certify_files
    from workbench.certifying.files.result import Comparison, Difference, Piece
    from workbench.certifying.inputs import random_inputs

__all__ = [
    "Certificate",
    "Comparison",
    "Difference",
    "Evidence",
    "Piece",
    "certify",
    "certify_files",
    "random_inputs",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Certificate": ".certificate",
        "Comparison": ".files.result",
        "Difference": ".files.result",
        "Evidence": ".certificate",
        "Piece": ".files.result",
        "certify": ".dispatch",
        "certify_files": ".files.compare",
        "random_inputs": ".inputs",
    },
)
