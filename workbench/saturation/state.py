"""The state of a run: its e-graph in egglog, and the facts about it that egglog does not keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from workbench.graph import Graph
from workbench.saturation.egglog_session import Base
from workbench.saturation.encoding import Constructor, Encoding

if TYPE_CHECKING:
    from egglog.bindings import FrozenFunction

    from workbench.saturation.pairs import Pair


@dataclass(slots=True)
class Record:
    """The facts about an e-graph that are undone together with it.

    ``constructors`` are those declared. ``applied`` counts the matches of rules of several roots by rule set,
    ``merged`` holds the groups that ``each`` rules have merged, ``made_by_merge`` the handles of the tensors
    that they joined. ``combined`` names the rule sets that run together, by the numbers of their rules.
    ``pairs`` are pairs of operators that were found (:mod:`workbench.saturation.pairs`).
    """

    constructors: list[Constructor]
    applied: dict[str, int] = field(default_factory=dict)
    merged: set[tuple[Any, ...]] = field(default_factory=set)
    made_by_merge: set[int] = field(default_factory=set)
    combined: dict[tuple[int, ...], str] = field(default_factory=dict)
    pairs: set[Pair] = field(default_factory=set)

    def copy(self) -> Record:
        """Return a record that later changes of this one do not reach."""
        return replace(
            self,
            constructors=list(self.constructors),
            applied=dict(self.applied),
            merged=set(self.merged),
            made_by_merge=set(self.made_by_merge),
            combined=dict(self.combined),
            pairs=set(self.pairs),
        )


@dataclass(slots=True)
class State:
    """The e-graph of one run of a graph, and its record.

    ``bookkeeping`` gives the rules that come with a constructor's declaration. ``handles`` is the number of
    the next e-class that is named ``(h_ n)``; a number is not used again, even if its e-class is undone.
    """

    base: Base
    graph: Graph
    encoding: Encoding
    bookkeeping: Callable[[Constructor], list[str]]
    record: Record
    handles: int

    def run(self, text: str) -> list[Any]:
        """Run commands; raise :class:`~workbench.saturation.egglog_session.EngineError` with the engine's message."""
        return self.base.run(text)

    @property
    def functions(self) -> dict[str, FrozenFunction]:
        """Return the tables of the e-graph, as they are now."""
        return self.base.egraph.freeze().functions

    def new_handle(self) -> int:
        """Return the number of a new handle."""
        self.handles += 1
        return self.handles - 1

    def name(self, expression: str) -> int:
        """Name an expression's e-class; return its handle."""
        number = self.new_handle()
        self.run(f"(set (h_ {number}) {expression})")
        return number

    def declare(self, constructor: Constructor) -> None:
        """Declare a constructor that a merge of many members needs."""
        declared = self.record.constructors
        if constructor not in declared:
            stamp = constructor.stamp(len(declared))
            self.run("\n".join([constructor.declaration(), stamp, *self.bookkeeping(constructor)]))
            declared.append(constructor)
