"""The result of comparing two model files, as text and as data."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from workbench.certification.files.bisect import Region

#: Lists in messages name at most this many items.
_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """The nodes of one model that compute a differing tensor: operators, node names and input values."""

    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str

    @classmethod
    def of(cls, region: Region) -> Piece:
        """Return the piece that describes a region."""
        operators = tuple(f"{n.domain}:{n.op_type}" if n.domain else n.op_type for n in region.nodes)
        return cls(operators, tuple(n.name for n in region.nodes), region.inputs, region.output)

    def __str__(self) -> str:
        if not self.operators:
            return f"the weight {self.output!r}"
        counts = Counter(self.operators)
        shown = [f"{n} × {op}" if n > 1 else op for op, n in counts.items()]
        named = [n for n in self.nodes if n]
        names = f" ({', '.join(named[:_NAMED])}{', …' if len(named) > _NAMED else ''})" if named else ""
        more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
        source = ", ".join(repr(n) for n in self.inputs[:_NAMED]) or "weights alone"
        rest = ", …" if len(self.inputs) > _NAMED else ""
        return f"{', '.join(shown[:_NAMED])}{more}{names} from {source}{rest}"

    def summary(self) -> dict[str, Any]:
        """Return the piece as plain data."""
        return {
            "nodes": [{"operator": o, "name": n} for o, n in zip(self.operators, self.nodes, strict=True)],
            "inputs": list(self.inputs),
            "output": self.output,
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two models: the first tensor that differs, the entry that shows it, its nodes.

    ``tensor`` is its name in A, ``counterpart`` its name in B. ``weights`` has one line for each weight
    of the same name that differs between the pieces. ``located`` is a remark on the search, or empty.
    """

    tensor: str
    counterpart: str
    index: tuple[int, ...]
    expected: Any
    found: Any
    tolerance: float
    draw: str
    outputs: tuple[str, ...]
    what: str = ""
    a: Piece | None = None
    b: Piece | None = None
    weights: tuple[str, ...] = ()
    located: str = ""

    def lines(self) -> list[str]:
        """Return the difference as lines of text."""
        called = repr(self.tensor)
        if self.counterpart != self.tensor:
            called += f" (in B {self.counterpart!r})"
        if self.what:
            values = self.what
        else:
            at = f" at {list(self.index)}" if self.index else ""
            both = f"{_number(self.expected)} in A, {_number(self.found)} in B"
            values = f"{both}{at}, tolerance {self.tolerance:.2g}"
        lines = [f"first tensor that differs: {called}", f"  {values}; {self.draw}"]
        if self.a is not None and self.b is not None:
            lines += [f"  computed in A by {self.a}", f"  computed in B by {self.b}"]
        lines += [f"  {line}" for line in self.weights]
        if self.located:
            lines.append(f"  {self.located}")
        lines.append(f"outputs that differ: {_list(self.outputs) or 'none on these draws'}")
        return lines

    def summary(self) -> dict[str, Any]:
        """Return the difference as plain data, ready for JSON."""
        return {
            "tensor": self.tensor,
            "counterpart": self.counterpart,
            "index": list(self.index),
            "expected": _plain(self.expected),
            "found": _plain(self.found),
            "tolerance": self.tolerance,
            "draw": self.draw,
            "what": self.what,
            "outputs": list(self.outputs),
            "a": self.a.summary() if self.a else None,
            "b": self.b.summary() if self.b else None,
            "weights": list(self.weights),
            "located": self.located,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of comparing two model files on random inputs.

    ``equal`` is evidence on these ``draws``, not a proof for all inputs. ``error`` is the largest difference
    of an output that was attributed to rounding, relative to the output's largest entry. ``own`` is the
    largest change of the original's outputs when its own operands are changed by units of their last place,
    also relative. ``reason`` is one line on why the models differ.
    """

    a: str
    b: str
    equal: bool
    reason: str
    draws: tuple[str, ...]
    seed: int
    error: float = 0.0
    own: float = 0.0
    tolerance: str = ""
    notes: tuple[str, ...] = ()
    difference: Difference | None = None
    repro: tuple[str, ...] = ()
    seconds: float = 0.0
    runtime: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Return whether the models are equal; a certificate of graphs has the same property."""
        return self.equal

    def verdict(self) -> str:
        """Return the outcome in one line."""
        if not self.equal:
            return f"differs: {self.reason}"
        plural = "" if len(self.draws) == 1 else "s"
        return (
            f"equal on {len(self.draws)} draw{plural}: outputs at most {self.error:.1e} apart, relative to "
            f"their largest entry (A itself moves by {self.own:.1e} when its operands move by units of their "
            "last place)"
        )

    def __str__(self) -> str:
        lines = [self.verdict()]
        if self.difference is not None:
            lines += self.difference.lines()
        lines += [f"reproduced by {path}" for path in self.repro]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def summary(self) -> dict[str, Any]:
        """Return the outcome as plain data, ready for JSON."""
        return {
            "a": self.a,
            "b": self.b,
            "equal": self.equal,
            "reason": self.reason,
            "draws": list(self.draws),
            "seed": self.seed,
            "error": _plain(self.error),
            "own_rounding": _plain(self.own),
            "tolerance": self.tolerance,
            "notes": list(self.notes),
            "difference": self.difference.summary() if self.difference else None,
            "repro": list(self.repro),
            "seconds": self.seconds,
            "runtime": self.runtime,
        }


def _number(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _list(names: tuple[str, ...]) -> str:
    shown = ", ".join(repr(n) for n in names[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
