"""What programs share inside egglog: declarations and rules that stay loaded while terms come and go."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any


class EngineError(RuntimeError):
    """Raised when the engine refuses a program: a defect of a rule or of the compiler."""


def bindings() -> Any:
    """Return egglog's engine without its interface for Python, which is slow to import and not used."""
    known = sys.modules.get("egglog.bindings")
    if known is not None:
        return known
    spec = importlib.machinery.PathFinder.find_spec("egglog")
    if "egglog" in sys.modules or spec is None or spec.submodule_search_locations is None:
        from egglog import bindings

        return bindings
    # A package that holds nothing stands in while the engine is loaded from its folder.
    package = ModuleType("egglog")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["egglog"] = package
    try:
        return importlib.import_module("egglog.bindings")
    finally:
        del sys.modules["egglog"]


class Base:
    """An e-graph in egglog with declarations and rules, from which every run starts without terms.

    Rules stay from run to run: loading them is what takes longest in a start. What a run puts in goes away
    with it, because it works on a copy (egglog's push and pop). A rule is loaded here, never into a run's
    copy: egglog plans a query by the sizes of its tables, so that a run that came upon a rule half-way would
    find the same matches in another order than one that had it from the start.
    """

    def __init__(self, declarations: str) -> None:
        self.declarations = declarations
        self.seconds = 0.0  # spent on loading rules
        self._rules: dict[str, str] = {}  # what is to be loaded: texts by the name of their rule set
        self.discard()

    def discard(self) -> None:
        """Give up the e-graph: the next run starts from a new one. A panic may have left it in any state."""
        self.egraph: Any = None
        self._depth = 0
        self._fresh = False  # the copy is there, and nothing is in it
        self._loaded: set[str] = set()

    def fits(self, declarations: str, rules: Mapping[str, str]) -> bool:
        """Say whether a program with these declarations and rules can start from here."""
        return declarations == self.declarations and all(
            rules.get(name, text) == text for name, text in self._rules.items()
        )

    def begin(self, rules: Mapping[str, str]) -> None:
        """Drop what the last run put in, load rules, and take a copy for the next run to work on."""
        began = time.perf_counter()
        if self.egraph is None:
            self.egraph = bindings().EGraph()
            self.include(self.declarations)
        self._rules |= rules
        missing = self.missing(self._rules)
        if missing or not self._fresh:
            self._empty()
            if missing:
                self.include("\n".join(missing.values()))
                self._loaded.update(missing)
            self.push()
        self._fresh = False
        self.seconds += time.perf_counter() - began

    def rest(self) -> None:
        """Drop what the last run put in, keep the rules, and take the copy that the next run begins with."""
        if self.egraph is not None and not self._fresh:
            self._empty()
            self.push()
            self._fresh = True

    def _empty(self) -> None:
        while self._depth:
            self.pop()

    def missing(self, rules: Mapping[str, str]) -> dict[str, str]:
        """Return those of some rules that are not loaded."""
        return {name: text for name, text in rules.items() if name not in self._loaded}

    def push(self) -> None:
        """Go on with a copy."""
        self.run("(push)")
        self._depth += 1

    def pop(self) -> None:
        """Go back to what was copied last."""
        self.run("(pop)")
        self._depth -= 1

    def run(self, text: str) -> list[Any]:
        """Run commands; raise :class:`EngineError` with the engine's message."""
        try:
            return list(self.egraph.run_program(*self.egraph.parse_program(text)))
        except BaseException as error:  # the engine's panics are BaseExceptions
            if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
                raise
            raise EngineError(str(error)) from None

    def include(self, text: str) -> None:
        """Run a long program: through a file, because parsing a long string is quadratic."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.egg"
            path.write_text(text)
            self.run(f'(include "{path}")')
