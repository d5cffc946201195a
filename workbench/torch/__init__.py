"""PyTorch: the backend of ``torch.compile``, what it did, and graphs as modules.

``torch.compile(model, backend="workbench")`` needs no import: torch finds the backend by its entry point.
"""

from __future__ import annotations

from workbench.torch.dynamo import backend
from workbench.torch.module import to_module
from workbench.torch.reports import report

__all__ = ["backend", "report", "to_module"]
