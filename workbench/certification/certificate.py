"""The outcome of comparing two models: one class for graphs and for files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from workbench.rules.verdicts import counted
from workbench.run.display import Face

#: Lists in messages name at most this many items.
_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class Evidence:
    """A disagreement between two graphs: the value, the entry, the draw and both numbers.

    ``output`` names the graph's output, or is empty for an inner value; ``what`` then describes that value.
    ``form`` is the arithmetic in which they disagree. ``region`` lists the operators of the rewritten part
    that disagrees, ``rules`` the rules that made it.
    """

    output: str
    draw: int
    index: tuple[int, ...]
    expected: float
    found: float
    form: str
    what: str = ""
    region: str = ""
    rules: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = f"output {self.output!r}" if self.output else self.what
        region = f"; region: {self.region}" if self.region else ""
        return (
            f"{what} at {list(self.index)}: {self.expected:.9g} in the original, "
            f"{self.found:.9g} in the optimised graph ({self.form}, draw {self.draw}){region}"
        )


@dataclass(frozen=True, slots=True)
class Piece:
    """The nodes of one model that compute a differing tensor: operators, node names and input values."""

    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        if not self.operators:
            return f"the weight {self.output!r}"
        shown = [f"{n} × {op}" if n > 1 else op for op, n in Counter(self.operators).items()]
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
        at = f" at {list(self.index)}" if self.index else ""
        both = f"{_number(self.expected)} in A, {_number(self.found)} in B"
        values = self.what or f"{both}{at}, tolerance {self.tolerance:.2g}"
        lines = [f"first tensor that differs: {called}", f"  {values}; {self.draw}"]
        if self.a is not None and self.b is not None:
            lines += [f"  computed in A by {self.a}", f"  computed in B by {self.b}"]
        lines += [f"  {line}" for line in self.weights]
        lines += [f"  {self.located}"] if self.located else []
        shown = ", ".join(map(repr, self.outputs[:_NAMED])) or "none on these draws"
        more = f" and {len(self.outputs) - _NAMED} more" if len(self.outputs) > _NAMED else ""
        return [*lines, f"outputs that differ: {shown}{more}"]

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
class Certificate(Face):
    """The outcome of comparing a model with its original, two graphs or two files.

    ``passed`` is evidence on random inputs from ``seed``, not a proof for all inputs; ``reason`` is one line on
    why the models differ. ``error`` is the largest difference found, relative to the largest entry of the
    value, ``draws`` the number of random inputs. ``own_rounding`` is the rounding of the original itself.

    Of two graphs, each rewritten region is compared on ``draws`` random values at its own boundary, in float64.
    ``regions`` counts these regions; of those that differ only in the data of their weights, one is compared
    (``distinct``). If ``arithmetic`` says so, ``error`` leaves out what the model's numbers, such as sqrt(2) in
    float32, change by their own rounding. Then both models run once as they are saved, in their own dtype. ``whole``
    names the runtime, or gives the reason if they did not run (``whole_ran`` is then False); with operators for which
    ONNX Runtime has no kernel (``lacking``) both run in numpy. ``deployed_error`` is the largest difference between
    their outputs, ``errors`` has it for each, and ``evidence`` is the disagreement, if one was found. ``rounding`` is
    the distance of the saved result from the original in float64, ``own_rounding`` that of the original in its own
    dtype: the first minus the second is the accuracy that rewriting costs. Both are None if the model was not
    evaluated in float64, for example because it is too large. ``rules`` maps each rule that fired in the run to the
    verdict on it; the rules that made the result come first.

    Two files, ``files`` by name, run as they are on each of the inputs that ``drawn`` describes. ``own_rounding`` is
    the largest change of the original's outputs when its own operands are changed by units of their last place, and
    ``allowed`` says in words how much the files may differ. ``difference`` is the first tensor that differs, and
    ``repro`` names the small models that show it. ``undecided`` means that the files differ in entries that are noise
    in the original, so that one cannot tell. ``extreme`` is what B alone loses on values that networks do not have,
    such as an overflow; it is no failure.
    """

    passed: bool
    draws: int
    seed: int
    arithmetic: str = ""
    error: float = 0.0
    tolerance: float = 0.0
    deployed_error: float = 0.0
    deployed_tolerance: float = 0.0
    outputs: tuple[str, ...] = ()
    reason: str = ""
    evidence: Evidence | None = None
    seconds: float = 0.0
    errors: Mapping[str, float] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    rounding: float | None = None
    own_rounding: float | None = None
    regions: int = 0
    distinct: int = 0
    whole: str = ""
    whole_ran: bool = True
    lacking: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    allowed: str = ""
    notes: tuple[str, ...] = ()
    difference: Difference | None = None
    repro: tuple[str, ...] = ()
    undecided: bool = False
    extreme: str = ""

    @property
    def equal(self) -> bool:
        """Return whether the models are equal on what was drawn: another name of ``passed``."""
        return self.passed

    def verdict(self) -> str:
        """Return the outcome in one line."""
        plural = "" if self.draws == 1 else "s"
        if self.undecided:
            return f"cannot tell: {self.reason}"
        if not self.passed:
            return f"differs: {self.reason}" if self.files else f"FAILED: {self.reason}"
        if self.files:
            return (
                f"equal on {self.draws} draw{plural}: outputs at most {self.error:.1e} apart, relative to "
                f"their largest entry (A itself moves by {self.own_rounding or 0.0:.1e} when its operands move "
                "by units of their last place)"
            )
        parts = [f"{self.regions} rewritten region{'' if self.regions == 1 else 's'}"]
        if self.distinct != self.regions:
            parts.append(f"{self.distinct} distinct")
        steady = self.deployed_error <= self.deployed_tolerance
        bound = f"≤ {self.deployed_tolerance:.0e}" if steady else self.whole
        saved = f"as saved {self.deployed_error:.1e} ({bound})"
        if self.lacking:
            saved += f" in numpy, as ONNX Runtime has no kernel for {', '.join(self.lacking)}"
        if not self.whole_ran:
            saved = f"as saved {self.whole}"
        return (
            f"equal on {self.draws} random input{plural} ({', '.join([*parts, self.arithmetic])}): relative "
            f"error {self.error:.1e} (≤ {self.tolerance:.0e}), {saved}"
        )

    def rounding_line(self) -> str:
        """Return one line with the rounding error of the result and of the original in the model's dtype."""
        if self.rounding is None or self.own_rounding is None:
            return "not measured: some operators are opaque, or float64 takes too long"
        if not self.rounding and not self.own_rounding:
            return "computed without rounding"
        return (
            f"in the model's dtype {self.rounding:.1e} off the original in float64; "
            f"the original itself is {self.own_rounding:.1e} off"
        )

    def rules_line(self) -> str:
        """Return one line with the number of rules that fired and the verdicts on them."""
        if not self.rules:
            return "no rule fired"
        weak = [name for name, verdict in self.rules.items() if verdict != "theorem"]
        named = f" ({', '.join(weak[:6])}{', …' if len(weak) > 6 else ''} not proved)" if weak else ""
        return f"{len(self.rules)} rules fired: {counted(self.rules.values())}{named}"

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON; those of two files and of two graphs differ."""
        if self.files:
            return {
                "a": self.files[0],
                "b": self.files[1],
                "equal": None if self.undecided else self.passed,
                "reason": self.reason,
                "draws": list(self.drawn),
                "seed": self.seed,
                "error": _plain(self.error),
                "own_rounding": _plain(self.own_rounding),
                "tolerance": self.allowed,
                "notes": list(self.notes),
                "extreme": self.extreme,
                "difference": self.difference.summary() if self.difference else None,
                "repro": list(self.repro),
                "seconds": self.seconds,
                "runtime": self.whole,
            }
        names = (
            "passed draws seed arithmetic error tolerance deployed_error deployed_tolerance rounding "
            "own_rounding regions distinct whole lacking outputs reason rules"
        )
        found = {("distinct_regions" if n == "distinct" else n): getattr(self, n) for n in names.split()}
        infinite = {n: "infinite" for n, v in found.items() if isinstance(v, float) and not math.isfinite(v)}
        return found | infinite | {
            "lacking": list(self.lacking), "outputs": list(self.outputs), "rules": dict(self.rules),
        }  # fmt: skip

    def __str__(self) -> str:
        if not self.files:
            return repr(self)
        lines = [self.verdict(), *(self.difference.lines() if self.difference else ())]
        lines += [f"but not at extreme values: {self.extreme}"] if self.extreme and self.passed else []
        lines += [f"reproduced by {path}" for path in self.repro]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return str(self) if self.files else f"Certificate: {self.verdict()}"


def _number(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)
