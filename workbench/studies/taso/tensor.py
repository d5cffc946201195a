"""TASO's class for a value of a graph under construction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.studies.taso.errors import TasoError

if TYPE_CHECKING:
    from workbench.studies.taso.operators import Operators


class PyTensor:
    """A reference to a value of a :class:`~workbench.studies.taso.core.PyGraph`."""

    def __init__(self, graph: Operators, value: int) -> None:
        self._graph, self._value = graph, value

    @property
    def tensor(self) -> int:
        """Return the value's position in its graph."""
        return self._value

    @property
    def nDim(self) -> int:
        """Return the number of axes."""
        return self._graph._builder.type(self._value).rank

    def dim(self, idx: int) -> int:
        """Return the extent of an axis."""
        shape = self._graph._builder.type(self._value).shape
        if not 0 <= idx < len(shape):
            raise TasoError(f"axis must be from 0 to {len(shape) - 1}, got {idx}")
        return shape[idx]

    def __repr__(self) -> str:
        return f"PyTensor({self._graph._builder.type(self._value)})"
