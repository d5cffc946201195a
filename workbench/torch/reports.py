"""What the backend did to each graph that torch gave it."""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx


@dataclass(frozen=True, slots=True)
class Part:
    """A graph that torch gave to the backend, and what became of it.

    Attributes:
        modules: Where in the module tree its parameters are.
        parameters: References to its parameters.
        training: Whether gradients were asked for.
        operators: The number of its operators.
        unknown: The operators that were kept as they are, with the reasons.
        before: The price of the original in microseconds.
        after: The price of the result.
        laws: The rules that made it.
        handed_on: Why the graph was handed on as it came, or nothing.
        seconds: The seconds that rewriting took.
        way: What runs since the first call.
        failures: What the check of the first call refused.
        distance: The largest relative distance from the original at the first call.
        timed: The gain that was measured then; 0 if it was not.
    """

    modules: tuple[str, ...] = ()
    parameters: tuple[weakref.ref[torch.nn.Parameter], ...] = ()
    training: bool = False
    operators: int = 0
    unknown: Mapping[str, str] = field(default_factory=dict)
    before: float = 0.0
    after: float = 0.0
    laws: tuple[str, ...] = ()
    handed_on: str = ""
    seconds: float = 0.0
    way: str = ""
    failures: tuple[str, ...] = ()
    distance: float = 0.0
    timed: float = 0.0

    @classmethod
    def of(cls, module: fx.GraphModule, arguments: Sequence[Any], training: bool) -> Part:
        """Return the record of a graph before anything is done to it."""
        names: dict[str, None] = {}
        for node in module.graph.nodes:
            source = getattr(getattr(node, "_dynamo_source", None), "name", "")
            text = source() if callable(source) else str(source)
            if found := re.findall(r"_modules\['([^']+)'\]", text):
                names[".".join(found)] = None
        parameters = tuple(weakref.ref(a) for a in arguments if isinstance(a, torch.nn.Parameter))
        return cls(tuple(names), parameters, training)

    @property
    def gain(self) -> float:
        """Return the predicted gain: the price of the original by that of the result."""
        return self.before / self.after if self.after and not self.handed_on else 1.0

    def __str__(self) -> str:
        kind = "training" if self.training else "inference"
        lines = [f"graph of {self.operators} values, {kind}: "]
        if self.handed_on:
            lines[0] += f"handed on as it came ({self.handed_on})"
        else:
            lines[0] += f"predicted {self.gain:.2f}× by {', '.join(self.laws)}"
        if self.modules:
            shown = ", ".join(self.modules[:4]) + (", …" if len(self.modules) > 4 else "")
            lines.append(f"  in {shown}")
        if self.unknown:
            lines.append(f"  kept as they are: {', '.join(sorted(self.unknown))}")
        if self.way:
            measured = f", {self.timed:.2f}× when timed" if self.timed else ""
            lines.append(f"  first step: {self.way}, largest distance {self.distance:.1e}{measured}")
        lines += [f"  refused: {failure}" for failure in self.failures]
        return "\n".join(lines)


_PARTS: list[Part] = []


def note(part: Part | None = None, *, number: int | None = None, **changes: Any) -> int:
    """Keep a record, or change the one of this number; return its number."""
    if number is None:
        assert part is not None
        _PARTS.append(part)
        return len(_PARTS) - 1
    _PARTS[number] = replace(_PARTS[number], **changes)
    return number


@dataclass(frozen=True, slots=True)
class Report:
    """The graphs of a model that the backend was given."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts)) or "no graph was compiled yet (try calling the model once)"

    __repr__ = __str__


def report(model: torch.nn.Module | None = None) -> Report:
    """Return what was rewritten in a model, compiled or not, or in all models of this process."""
    if model is None:
        return Report(tuple(_PARTS))
    own = {id(p) for p in model.parameters()}  # those of parameters that exist are unique
    return Report(tuple(part for part in _PARTS if any(id(ref()) in own for ref in part.parameters)))
