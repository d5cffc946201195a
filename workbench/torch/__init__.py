"""PyTorch: the backend of ``torch.compile``, what it did, modules as graphs and back, graphs run by torch.

``torch.compile(model, backend="workbench")`` needs no import: torch finds the backend by its entry point. The names
are imported when they are first used, so that what is said without torch is a sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.torch.dynamo import backend as backend
    from workbench.torch.exported import load_torch as load_torch
    from workbench.torch.reports import report as report
    from workbench.torch.writer import to_module as to_module

__getattr__, __all__ = door(
    __name__, {"dynamo": "backend", "exported": "load_torch", "reports": "report", "writer": "to_module"}
)
