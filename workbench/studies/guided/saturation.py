"""A saturation whose rules a policy chooses, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.graph import Graph
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import RuleSet
from workbench.run.trace import Step, StopReason
from workbench.saturation.engine import Plan
from workbench.saturation.limits import Limits
from workbench.saturation.remote import RemoteEngine
from workbench.saturation.saturation import Saturation
from workbench.studies.guided.schedule import Policy, Progress
from workbench.support.messages import UnknownName


class Guided(Saturation):
    """A saturation in which a :class:`Policy` decides before every step which rules run.

    The limits still apply. Phases, rests and ``settle`` do not: the policy alone chooses the rules. A rule of
    several roots runs if it is chosen; ``k_multi`` limits the steps with such rules.

    Args:
        graph: The start graph.
        rules: The rules.
        policy: The policy.
        limits: The limits; by default those of :class:`Limits`.
        engine: An engine that another saturation no longer needs; by default a new one.
    """

    def __init__(
        self,
        graph: Graph,
        rules: RuleSet | Sequence[Rule],
        policy: Policy,
        limits: Limits | None = None,
        *,
        engine: RemoteEngine | None = None,
    ) -> None:
        super().__init__(graph, rules, limits, engine=engine, keep=0)
        self.policy = policy
        self.chosen: list[frozenset[str]] = []
        self._multi = frozenset(r.name for r in self.rules if r.multi)
        self._usable = frozenset(c.rule.name for c in self.engine.program.rules)

    def step(self) -> Step:
        """Run the step that the policy chooses; raise StopIteration if it chooses none."""
        self.start_engine()
        if self.unfinished:
            choice = self.policy.choose(self._progress())
            if choice is None:
                complete = bool(self.chosen) and self._calm and self.chosen[-1] >= self._usable
                self.stop_reason = StopReason.SATURATED if complete else StopReason.FINISHED
                raise StopIteration("the policy has ended the run")
            self.chosen.append(self._known(choice))
        return super().step()

    def _known(self, choice: object) -> frozenset[str]:
        """Return the names that a policy chose; a policy of a caller's own may be wrong about them."""
        if isinstance(choice, str) or not isinstance(choice, Iterable):
            raise TypeError(f"a policy must choose a set of names of rules, got {choice!r}")
        names = frozenset(choice)
        if strange := sorted(map(str, names - self._usable - {r.name for r in self.rules})):
            raise UnknownName("rule", strange[0], sorted(self._usable), listed=False)
        return names

    def _progress(self) -> Progress:
        last = self.trace.steps[-1]
        return Progress(
            tuple(sorted(self._usable)),
            tuple(self.chosen),
            self.e_nodes,
            self.limits.e_nodes,
            not self._calm,
            {r.rule: r.matches for r in last.rules},
        )

    def _plan(self, index: int) -> Plan:
        choice = self.chosen[-1]
        multi = bool(choice & self._multi) and self._multi_done < self.limits.k_multi
        banned = frozenset(c.number for c in self.engine.program.rules if c.rule.name not in choice)
        return Plan(index, multi, self.limits.e_nodes, banned, self.profile)
