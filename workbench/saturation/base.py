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
    """Return egglog's engine without its interface for Python, which takes 0.2 s to import and is not used."""
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

    Rules are loaded as a run needs them, and stay for the next one: loading them again is what takes longest
    in a start. What a run puts in goes away with it, because it works on a copy (egglog's push and pop).
    """

    def __init__(self, declarations: str) -> None:
        self.declarations = declarations
        self.seconds = 0.0  # spent on loading rules
        self._used: dict[str, str] = {}  # rules that any run has needed, by rule set
        self.discard()

    def discard(self) -> None:
        """Give up the e-graph: the next run starts from a new one. A panic may have left it in any state."""
        self.egraph: Any = None
        self._loaded: list[set[str]] = []  # rule sets that are loaded, for every copy

    def begin(self) -> None:
        """Drop what the last run put in, and take a copy for the next one to work on."""
        if self.egraph is None:
            self.egraph = bindings().EGraph()
            self._loaded = [set()]
            self.include(self.declarations)
        self.rest()
        self.push()

    def rest(self) -> None:
        """Drop what the last run put in; keep the rules that it needed."""
        while len(self._loaded) > 1:
            self.pop()
        self.load(dict(self._used))

    def push(self) -> None:
        """Go on with a copy."""
        self.run("(push)")
        self._loaded.append(set(self._loaded[-1]))

    def pop(self) -> None:
        """Go back to what was copied last."""
        self.run("(pop)")
        self._loaded.pop()

    def load(self, rules: Mapping[str, str]) -> None:
        """Load rules, given as texts by the name of their rule set, that are not loaded yet."""
        fresh = [name for name in rules if name not in self._loaded[-1]]
        if not fresh:
            return
        began = time.perf_counter()
        self.include("\n".join(rules[name] for name in fresh))
        self._loaded[-1].update(fresh)
        self._used.update((name, rules[name]) for name in fresh)
        self.seconds += time.perf_counter() - began

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
