"""The study of policies: an e-graph grown under the same limits by every policy, and its best term."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

from workbench.studies.experiments.isolated_runs import Call, plan_apart, repeats
from workbench.studies.experiments.plan import Plan, Record, Run
from workbench.studies.experiments.policies.config import PoliciesStudy

if TYPE_CHECKING:
    from workbench.egraph.egraph import EGraph
    from workbench.rules.ruleset import RuleSet
    from workbench.saturation.guided.policies import Policy, Progress, Trial

#: Seconds for the extraction that prices a trial, which is greedy.
PRICING: Final = 5.0
#: Sequences tried before each step of a tree search, their length, and the steps of a run.
ROLLOUTS, DEPTH, STEPS = 6, 3, 8


@dataclass(frozen=True, slots=True)
class Order:
    """The argument of one run's process."""

    network: str
    policy: str
    k_multi: int
    rules: str
    cost: str
    e_nodes: int
    iterations: int
    seconds: float
    extraction_seconds: float
    seed: int


def make_plan(study: PoliciesStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, network by network; the study names no files, so ``home`` is unused."""
    return plan_apart(study, folder, run_one, _runs(study))


def _runs(study: PoliciesStudy) -> Iterator[tuple[Run, Call]]:
    limit = study.seconds + study.extraction_seconds
    for network, k, policy in product(study.networks, study.k_multi, study.policies):
        for repeat, seed in repeats(study.repeats, study.seed):
            order = Order(
                network, policy, k, study.rules, study.cost, study.e_nodes, study.iterations,
                study.seconds, study.extraction_seconds, seed,
            )  # fmt: skip
            config = {"study": "policies", **asdict(order)}
            columns = {"network": network, "policy": policy, "k_multi": k}
            run = Run(network, f"{policy}-k{k}", config, limit, seed, repeat)
            yield run, Call(order, columns, study.grace)


def outcome(record: Record) -> str:
    """Return the outcome of a run in one line."""
    row = record["row"]
    return (
        f"{row['original']:.6g} → {row['optimized']:.6g} µs ({row['status']}), {row['e_nodes']} e-nodes "
        f"in {row['steps']} steps, {row['growing']:.1f} s"
    )


# -- in the process of a run ---------------------------------------------------------------------------
def groups_of(rules: RuleSet) -> dict[str, frozenset[str]]:
    """Return groups of rules: those of several roots, and the others by the operator that they match."""
    groups: dict[str, set[str]] = {}
    for rule in rules:
        groups.setdefault("several roots" if rule.multi else rule.sources[0].op, set()).add(rule.name)
    return {name: frozenset(members) for name, members in groups.items()}


def timed(policy: Policy, until: float) -> Policy:
    """Return a policy that chooses as another until a deadline of ``time.perf_counter``, and then ends."""
    from workbench.saturation.guided.policies import Policy as Base

    class Timed(Base):
        def choose(self, progress: Progress) -> frozenset[str] | None:
            return None if time.perf_counter() > until else policy.choose(progress)

    return Timed()


def policy_of(order: Order, groups: Mapping[str, frozenset[str]], trial: Trial) -> Policy:
    """Return the policy of an order, with its own defaults."""
    from workbench.saturation.guided.policies import Backoff, BestFirst, MatchLimited, TreeSearch

    if order.policy == "backoff":
        return Backoff()
    if order.policy == "match-limited":
        return MatchLimited()
    if order.policy == "best-first":
        return BestFirst(groups, trial)
    return TreeSearch(groups, trial, ROLLOUTS, DEPTH, STEPS, order.seed)


def run_one(order: Order) -> Record:
    """Grow one e-graph by one policy and return the figures of the best term in it."""
    from workbench.costs import graph_cost, price_egraph
    from workbench.costs.registry import cost_model
    from workbench.extraction import extract
    from workbench.rules import rule_set
    from workbench.saturation import Limits, Saturation
    from workbench.saturation.guided.saturation import Guided, trials
    from workbench.studies.benchmarks import benchmark

    graph, rules, model = benchmark(order.network), rule_set(order.rules), cost_model(order.cost)
    model.bind(graph)
    limits = Limits(order.e_nodes, order.seconds, order.iterations, order.k_multi, settle=0)
    tried = 0
    began = time.perf_counter()
    until = began + order.seconds

    def price(egraph: EGraph) -> float:
        nonlocal tried
        tried += 1
        return extract(egraph, price_egraph(egraph, model), "dag", seconds=PRICING).cost

    known = trials(graph, rules, limits, price)

    def trial(steps: tuple[frozenset[str], ...]) -> tuple[float, bool]:
        # After the deadline nothing is tried any more: no group seems to change anything.
        return known(steps) if time.perf_counter() < until else (float("inf"), False)

    if order.policy == "plain":
        run: Saturation = Saturation(graph, rules, limits, keep=0)
    else:
        run = Guided(graph, rules, timed(policy_of(order, groups_of(rules), trial), until), limits)
    with run:
        stop = run.run()
        growing = time.perf_counter() - began
        egraph = run.egraph()
    found = extract(egraph, price_egraph(egraph, model), "exact", seconds=order.extraction_seconds)
    row = {
        "original": graph_cost(graph, model),
        "optimized": found.cost,
        "bound": found.bound,
        "e_nodes": len(egraph),
        "steps": len(run.trace) - 1,
        "trials": tried,
        "growing": round(growing, 3),
        "saturation": round(run.seconds, 3),
        "extraction": round(found.seconds, 3),
        "scope": found.scope,
        "cost_source": model.source,
    }
    return {
        "row": row,
        "status": found.status.value,
        "stop_reason": "time limit" if growing > order.seconds else stop.value,
        "notes": found.notes,
    }
