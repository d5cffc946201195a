"""The part of egglog that programs share: declarations and rules that stay loaded between runs."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

#: The phase of an iteration to which a command belongs, by its first word; others add merged operators.
PHASES: Final = {
    "(run": "match and apply",
    "(clock_": "bookkeeping",
    "(run-schedule": "bookkeeping",
    "(print-size)": "bookkeeping",
    "(push)": "copies",
    "(pop)": "copies",
}


class EngineError(RuntimeError):
    """Raised when the engine rejects a program, which is a defect of a rule or of the compiler."""


def bindings() -> ModuleType:
    """Return egglog's engine without its Python interface, which is slow to import and not used here."""
    known = sys.modules.get("egglog.bindings")
    if known is not None:
        return known
    spec = importlib.machinery.PathFinder.find_spec("egglog")
    if "egglog" in sys.modules or spec is None or spec.submodule_search_locations is None:
        from egglog import bindings

        return bindings
    # An empty package takes the place of egglog while the engine is loaded from its folder.
    package = ModuleType("egglog")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["egglog"] = package
    try:
        return importlib.import_module("egglog.bindings")
    finally:
        del sys.modules["egglog"]


def gives_two_types(error: EngineError) -> bool:
    """Return whether the engine's message is that of uniting e-classes of two types: ``ty_`` merges nothing."""
    return "Illegal merge" in str(error)


class Base:
    """An e-graph in egglog with declarations and rules but no terms, from which every run starts.

    Rules stay from run to run, because loading them is the slowest part of a start. The terms of a run
    disappear with it, because the run works on a copy (egglog's push and pop). A rule is always loaded here
    and never into the copy of a run: egglog plans a query by the sizes of its tables, so that a run that
    met a rule half-way would find the same matches in another order than a run that had it from the start.
    """

    def __init__(self, declarations: str) -> None:
        self.declarations = declarations
        self.spent = dict.fromkeys((*PHASES.values(), "merges"), 0.0)  # seconds by phase
        self._rules: dict[str, str] = {}  # rules to be loaded: their texts by the name of their rule set
        self.discard()

    def discard(self) -> None:
        """Discard the e-graph, so that the next run starts from a new one; a panic may leave any state."""
        self.egraph: Any = None
        self._depth = 0
        self._fresh = False  # whether the copy exists and is empty
        self._loaded: set[str] = set()

    def fits(self, declarations: str, rules: Mapping[str, str]) -> bool:
        """Return whether a program with these declarations and rules can start from this base."""
        return declarations == self.declarations and all(
            rules.get(name, text) == text for name, text in self._rules.items()
        )

    def begin(self, rules: Mapping[str, str]) -> None:
        """Drop the terms of the last run, load rules, and make a copy for the next run."""
        if self.egraph is None:
            self.egraph = bindings().EGraph()
            self.include(self.declarations)
        self._rules |= rules
        if (missing := self.missing(self._rules)) or not self._fresh:
            self._empty()
            if missing:
                self.include("\n".join(missing.values()))
                self._loaded.update(missing)
            self.push()
        self._fresh = False

    def rest(self) -> None:
        """Drop the terms of the last run, keep the rules, and make the copy for the next run."""
        if self.egraph is not None and not self._fresh:
            self._empty()
            self.push()
            self._fresh = True

    def _empty(self) -> None:
        while self._depth:
            self.pop()

    def missing(self, rules: Mapping[str, str]) -> dict[str, str]:
        """Return the given rules that are not loaded yet."""
        return {name: text for name, text in rules.items() if name not in self._loaded}

    def push(self) -> None:
        """Continue on a copy."""
        self.run("(push)")
        self._depth += 1

    def pop(self) -> None:
        """Return to the state before the last copy."""
        self.run("(pop)")
        self._depth -= 1

    def run(self, text: str) -> list[Any]:
        """Run commands; raise :class:`EngineError` with the engine's message."""
        began = time.perf_counter()
        try:
            return list(self.egraph.run_program(*self.egraph.parse_program(text)))
        except BaseException as error:  # the engine's panics are BaseExceptions
            if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
                raise
            raise EngineError(str(error)) from None
        finally:
            self.spent[PHASES.get(text.partition(" ")[0], "merges")] += time.perf_counter() - began

    def include(self, text: str) -> None:
        """Run a long program through a file, because parsing a long string is quadratic."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.egg"
            path.write_text(text)
            self.run(f'(include "{path}")')
