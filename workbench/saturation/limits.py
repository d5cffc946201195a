"""The limits of a saturation."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.run.settings import check, setting


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a saturation, and when its multi-pattern rules run.

    ``e_nodes`` is hard: no step ends above it. ``seconds`` counts the engine's work, not its start.
    Multi-pattern rules run in ``k_multi`` iterations (Tensat's k_multi). These begin after ``settle``
    iterations of the other rules, or as soon as the other rules stop changing anything; Tensat has
    ``settle=0``. A rule that finds more than ``match_limit`` matches in an iteration rests for the next
    ones, longer each time.

    With ``weights=False`` terms of weights alone are rewritten only if that makes them smaller, and of
    the e-nodes of an e-class that differ in weights alone only one is matched: weights are computed once,
    whatever form they have. Of many joins that differ in the order of their parts, one is matched. ``None``
    leaves the choice to the rule set; for rules that are not a set it means ``True``. Raise
    ValueError if a limit is out of its bounds.
    """

    e_nodes: int = setting(50_000, "Limit on e-nodes.", least=1)
    seconds: float = setting(60.0, "Limit on saturation in seconds.", metavar="S", above=0)
    iterations: int = setting(60, "Limit on iterations.", least=1)
    k_multi: int = setting(1, "Iterations with multi-pattern rules.", least=0)
    memory: int = setting(8 << 30, "Limit on the engine's memory in bytes.", metavar="BYTES", least=1)
    # Measured on the nine networks: 4 finds the better NasRNN (602 µs, 619 µs with 0) and never a worse
    # result; e-graphs grow by at most 41 %. 6 finds nothing more.
    settle: int = setting(4, "Iterations before the first one with multi-pattern rules.", least=0)
    match_limit: int = setting(20_000, "Matches in an iteration after which a rule rests.", least=1)
    weights: bool | None = setting(None, "Rewrite terms of weights alone, too.", metavar="BOOL")

    def __post_init__(self) -> None:
        check(self)
