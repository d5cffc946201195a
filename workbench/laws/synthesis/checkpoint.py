"""A file of the verdicts of a synthesis: a run that was ended continues without verifying them again."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Final

from workbench._version import __version__
from workbench.ops.serialization import definition_of
from workbench.rules.pattern import format_term
from workbench.support.disk_cache import DataReader

if TYPE_CHECKING:
    from workbench.laws.synthesis.enumeration import Equation
    from workbench.laws.synthesis.grammar import Grammar
    from workbench.laws.synthesis.judge import Judged
    from workbench.laws.verification.evidence import Effort

#: The modules whose classes an entry is made of.
_CLASSES: Final = (
    "fractions",
    "workbench.laws.synthesis.judge",
    "workbench.laws.verification.verdict",
    "workbench.rules.pattern",
)


class Journal:
    """The outcomes of equations in a file, which is extended after every verification.

    A journal of another grammar, effort, seed or version is begun anew. One whose last entry was cut off is
    read up to there. Enumeration is repeated in a new run: it is the same, and takes little time.

    Args:
        path: The file. Nothing in it is run.
        grammar: The grammar.
        effort: The limits of each verification.
        seed: The seed of the verification.

    Raises:
        ValueError: The file is not a journal.

    """

    def __init__(self, path: Path, grammar: Grammar, effort: Effort, seed: int) -> None:
        self.path = path
        operators = sorted({f.op for f in grammar.forms})
        head = (
            __version__,
            [str(f) for f in grammar.forms],
            [(o.name, o.shape, o.dtype) for o in grammar.operands],
            [sorted(s.items()) for s in grammar.sizes],
            grammar.repeats,
            [definition_of(op) for op in operators],
            repr(effort),
            seed,
        )
        self.known: dict[str, Judged] = {}
        end = self._read(head) if path.is_file() else 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("r+b" if end else "wb") as file:
            file.truncate(end)
            if not end:
                pickle.dump(head, file)

    def _read(self, head: tuple[object, ...]) -> int:
        """Read the entries and return the place at which the last whole one ends, 0 for another head."""
        end = 0
        with self.path.open("rb") as file:
            try:
                found = DataReader(file, ()).load()
            except Exception:  # whatever pickle makes of other data
                found = None
            if not (isinstance(found, tuple) and found and isinstance(found[0], str)):
                file.seek(0)
                if pickle.dumps(head).startswith(file.read()):  # ended while the first entry was written
                    return 0
                raise ValueError(f"{self.path} must be a journal of a synthesis, or a new file")
            if found != head:
                return 0
            end = file.tell()
            while True:
                try:
                    key, one = DataReader(file, _CLASSES).load()
                except Exception:  # the end, or an entry that was cut off
                    return end
                self.known[key] = one
                end = file.tell()

    def of(self, equation: Equation) -> Judged | None:
        """Return the outcome of an equation, or None if it is not known."""
        return self.known.get(_key(equation))

    def add(self, equation: Equation, outcome: Judged) -> None:
        """Keep the outcome of an equation if it is decided."""
        if outcome.decided:
            self.known[_key(equation)] = outcome
            with self.path.open("ab") as file:
                pickle.dump((_key(equation), outcome), file)


def _key(equation: Equation) -> str:
    return f"{format_term(equation.left)} = {format_term(equation.right)}"
