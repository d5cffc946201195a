"""Certificates: graphs of this package are compared region by region, any two ONNX files by running both.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import lazy_names

if TYPE_CHECKING:
    from workbench.certification.api import certify
    from workbench.certification.certificate import Certificate, Evidence
    from workbench.certification.files.compare import certify_files
    from workbench.certification.files.result import Comparison, Difference, Piece
    from workbench.certification.inputs import random_inputs

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
        "certify": ".api",
        "certify_files": ".files.compare",
        "random_inputs": ".inputs",
    },
)
