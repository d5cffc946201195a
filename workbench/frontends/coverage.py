"""The coverage report: which operators of a model are modelled, and why the others are not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class OperatorUse:
    """One node of a model and its fate at import.

    The fate is ``modelled``, ``opaque`` (with a reason) or ``constant`` (computed at import).
    """

    op_type: str
    domain: str
    name: str
    fate: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The fates of a model's nodes; nodes that no output depends on are only counted, in ``unused``.

    >>> conv = OperatorUse("Conv", "", "c1", "modelled")
    >>> Coverage((conv, OperatorUse("LRN", "", "n1", "opaque", "not modelled")))
    Coverage: 1 of 2 operators modelled (50.0%), 0 computed at import
      modelled: Conv 1
      opaque: LRN 1 (not modelled)
    """

    uses: tuple[OperatorUse, ...]
    unused: int = 0
    notes: tuple[str, ...] = ()

    def count(self, fate: str) -> dict[str, int]:
        """Count the nodes of one fate by operator, most frequent first."""
        counts = Counter(_shown(u) for u in self.uses if u.fate == fate)
        return dict(sorted(counts.items(), key=lambda kv: (-kv[1], kv[0])))

    @property
    def modelled(self) -> dict[str, int]:
        """Return the number of modelled nodes of each operator."""
        return self.count("modelled")

    @property
    def opaque(self) -> dict[str, int]:
        """Return the number of nodes of each operator that are kept unchanged."""
        return self.count("opaque")

    @property
    def constant(self) -> dict[str, int]:
        """Return the number of nodes of each operator that were computed at import (shape arithmetic)."""
        return self.count("constant")

    @property
    def fraction(self) -> float:
        """Return the modelled fraction of the run-time nodes; 1.0 for a model without run-time nodes."""
        modelled, opaque = sum(self.modelled.values()), sum(self.opaque.values())
        return modelled / (modelled + opaque) if modelled + opaque else 1.0

    def reasons(self) -> dict[tuple[str, str], int]:
        """Count the opaque nodes by operator and reason."""
        return dict(Counter((_shown(u), u.reason) for u in self.uses if u.fate == "opaque").most_common())

    def frame(self) -> pd.DataFrame:
        """Return one row per operator, fate and reason, with the number of nodes."""
        import pandas as pd

        counts = Counter((u.op_type, u.domain, u.fate, u.reason) for u in self.uses)
        rows = [(*key, number) for key, number in counts.most_common()]
        return pd.DataFrame(rows, columns=["op_type", "domain", "fate", "reason", "nodes"])

    def __repr__(self) -> str:
        modelled, opaque = sum(self.modelled.values()), sum(self.opaque.values())
        lines = [
            f"Coverage: {modelled} of {modelled + opaque} operators modelled ({self.fraction:.1%}), "
            f"{sum(self.constant.values())} computed at import"
        ]
        if self.unused:
            lines[0] += f", {self.unused} unused"
        if modelled:
            shown = [f"{op} {n}" for op, n in list(self.modelled.items())[:10]]
            lines.append("  modelled: " + ", ".join(shown) + (", …" if len(self.modelled) > 10 else ""))
        reasons = list(self.reasons().items())
        lines += [f"  opaque: {op} {n} ({reason})" for (op, reason), n in reasons[:6]]
        if len(reasons) > 6:
            lines.append(f"  opaque: … {sum(n for _, n in reasons[6:])} more; .frame() lists all")
        lines += [f"  note: {note}" for note in self.notes[:2]]
        return "\n".join(lines)


def _shown(use: OperatorUse) -> str:
    return f"{use.domain}::{use.op_type}" if use.domain else use.op_type
