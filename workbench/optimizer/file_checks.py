"""The file of a result beside the given one, run at several bindings of the symbolic dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from workbench.graph import Graph
from workbench.symbolic import Undecodable
from workbench.symbolic.sizes import named

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from workbench.frontends.onnx.shapes import SymbolTable

#: Words of the summary for the parts that were compared.
FILES: Final = "files"
BOTH: Final = "graphs and files"


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of a check at one binding: sizes, the parts that were compared, and the difference.

    ``why`` is empty if original and result agree. ``files`` is whether both files ran and agree without a
    remark; ``note`` is a text for people.
    """

    sizes: Mapping[str, int]
    note: str
    why: str = ""
    files: bool = False

    def __str__(self) -> str:
        return f"{named(self.sizes)} ({f'FAILED: {self.why}' if self.why else self.note})"


class Files:
    """The given file and the one that would be saved, loaded once, run at several bindings.

    Args:
        given: The model of the user, or None.
        term: The graph of generic extents that was found.
        table: The symbols of the extents.

    """

    def __init__(self, given: object, term: Graph, table: SymbolTable) -> None:
        from workbench.certification.end_to_end import without_kernels
        from workbench.frontends import RuntimeFailure
        from workbench.frontends.onnx.exporter import to_onnx_apart
        from workbench.frontends.onnx.file import ModelError
        from workbench.frontends.onnx.sessions import shared_session

        self._note, self._why = "", ""
        self._first: InferenceSession | None = None
        try:
            apart = to_onnx_apart(term, symbols=table)
        except (ModelError, Undecodable) as error:
            self._why = f"the result cannot be written: {error}"
            return
        if given is None:
            self._note = "graphs compared"
            return
        try:
            self._first = shared_session(given, optimise=False)
        except (RuntimeFailure, ModelError):
            self._note = "graphs compared; ONNX Runtime does not load the original"
            return
        try:
            self._second = shared_session(apart.model, apart.arrays, optimise=False)
        except (RuntimeFailure, ModelError) as error:
            if lacking := without_kernels(term):
                self._first = None
                self._note = f"graphs compared; ONNX Runtime has no kernel for {', '.join(lacking)}"
                return
            self._why = f"the result does not load: {error}"

    @property
    def there(self) -> bool:
        """Return whether both files can run."""
        return self._first is not None and not self._why

    def compare(self, sizes: Mapping[str, int], graph: Graph, seed: int) -> Checked:
        """Run both on inputs for a graph, which is the original at a binding; return the outcome."""
        if self._why or self._first is None:
            return Checked(sizes, self._note, self._why)
        import onnxruntime as ort

        from workbench.certification.end_to_end import run_both

        version = f"ONNX Runtime {ort.__version__}"
        found = run_both(self._first, self._second, graph, seed, version)
        if found.why:
            return Checked(sizes, "", found.why)
        files = found.ran and found.steady
        return Checked(sizes, FILES if files else f"files: {found.note}", files=files)
