"""The rules of a set that follow from its other rules, and are kept because one step is faster than several.

Run as ``python -m workbench.laws.synthesis.redundancy`` it asks this of every default rule and writes a record
and a table to ``results/library``. It continues where an earlier run ended; ``--seconds`` limits one run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from workbench.laws.synthesis.derivation import MOST_TERMS, SECONDS, chains_at
from workbench.laws.verification.proving import generic_cases
from workbench.laws.verification.refuting.refute import search
from workbench.rules import rule_set
from workbench.rules.pattern import App, Rule, Term, applications, canonical, operators_of
from workbench.rules.verdicts import law_of
from workbench.support import deadline
from workbench.support.files import write_atomic

#: Drawn instances at which a derivation is repeated.
DRAWS: Final = 6
#: The place of the record and of the table.
FOLDER: Final = Path("results") / "library"


@dataclass(frozen=True, slots=True)
class Redundant:
    """The outcome for one rule.

    ``outcome`` is ``derived``, ``independent`` (within the bounds), or ``open`` if the rule has no generic
    instance or is derived at these only. ``used`` names the rules of the chain in the first case. ``cases`` is the
    number of cases, ``steps`` that of the chain's steps.
    """

    name: str
    outcome: str
    used: tuple[str, ...] = ()
    cases: int = 0
    steps: int = 0


def redundant(rule: Rule, rules: Sequence[Rule]) -> Redundant:
    """Return whether the other rules of a set imply a rule, in every case of its typing and at drawn instances.

    The other rules, of all phases, are read in both directions. The rule itself, its other direction and its
    renamings are not among them. Only those that are :func:`near` are used.
    """
    own = _key(rule)
    others = near(rule, [replace(r, phase="any") for r in rules if _key(r) != own])
    cases = generic_cases(rule, broadcast=True).instances
    outcome = "independent" if cases else "open"
    with suppress(deadline.OutOfTime), deadline.ending(time.time() + SECONDS):
        if cases and others and (chains := chains_at(cases, others)) is not None:
            # More is open to chance at drawn instances: in a generic one an expansion may expand nothing.
            outcome = "open"
            if chains_at([cases[0], *search(rule, DRAWS, corners=()).passed], others) is not None:
                used = tuple(dict.fromkeys(name for chain in chains for name in chain.axioms))
                steps = sum(len(chain.steps) for chain in chains)
                return Redundant(rule.name, "derived", used, len(cases), steps)
    return Redundant(rule.name, outcome, cases=len(cases))


def near(rule: Rule, others: Iterable[Rule]) -> list[Rule]:
    """Return the rules that can matter for a rule.

    Those are the rules of its own operators, and of operators that one step from these can make.

    >>> from workbench.rules import parse_rule
    >>> texts = "a: relu(neg(x)) => neg(x)", "b: add(x, y) => add(y, x)", "c: relu(x) => max(x, x)"
    >>> rules = [parse_rule(text)[0] for text in texts]
    >>> [r.name for r in near(rules[0], rules)]
    ['a', 'c']
    """
    every, known = list(others), operators_of(rule)

    def applies(side: Sequence[Term]) -> bool:  # a mere variable is not read
        return all(isinstance(t, App) for t in side) and all(t.op in known for t in applications(*side))

    near_by = (operators_of(o) for o in every if applies(o.sources) or applies(o.targets))
    grown = known.union(*near_by)
    return [other for other in every if operators_of(other) <= grown]


def _key(rule: Rule) -> frozenset[Any]:
    """Return a value that a rule shares with its renamings and with its other direction."""
    first = canonical([*rule.sources, *rule.targets])[0]
    second = canonical([*rule.targets, *rule.sources])[0]
    return frozenset({(first, len(rule.sources)), (second, len(rule.targets))})


# -- the library --------------------------------------------------------------------------------------
def examine(
    rules: Sequence[Rule], known: Mapping[str, Mapping[str, Any]], seconds: float
) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield the outcomes of rules by name: those still known from an earlier run, then again after every decision.

    A known outcome names the law and the digest of the set that it holds for. After ``seconds`` no rule is begun.
    """
    mark, began = digest(rules), time.perf_counter()
    found = {
        r.name: dict(known[r.name])
        for r in rules
        if known.get(r.name, {}).get("set") == mark and known[r.name].get("law") == law_of(r)
    }
    yield found
    for rule in (r for r in rules if r.name not in found):
        if time.perf_counter() - began > seconds:
            return
        one = redundant(rule, rules)
        found[rule.name] = {"law": law_of(rule), "set": mark, **asdict(one), "used": list(one.used)}
        print(f"{rule.name}: {one.outcome} {', '.join(one.used)}".rstrip(), flush=True)
        yield found


def digest(rules: Iterable[Rule]) -> str:
    """Return a short text that changes if a law of a set does."""
    text = "\n".join(f"{r.name}: {law_of(r)}" for r in rules)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def table(rules: Sequence[Rule], found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the outcomes as a table for readers."""
    counts = {o: sum(f["outcome"] == o for f in found.values()) for o in ("derived", "independent", "open")}
    parts = [
        "# Which rules of the library follow from the others?",
        "Written by `python -m workbench.laws.synthesis.redundancy`, which continues where it ended. "
        f"{len(found)} of {len(rules)} default rules asked: {counts['derived']} derived, "
        f"{counts['independent']} independent, {counts['open']} open.",
        "A rule is *derived* if a chain of the other default rules, read in both directions, leads from one side "
        f"to the other in every case of its typing, among at most {MOST_TERMS} new terms. It is kept for speed: one "
        "step instead of several, and no e-nodes in between, or a direction in which the others are not read "
        "while a graph is optimised. "
        "*Independent* says that these bounds were not enough, not that a derivation is missing. *Open* "
        "rules have no generic instance, or are derived at generic instances and not at drawn ones.",
        "Each rule is judged separately: two rules may each follow from the other one, and then only one "
        "of them can be left out.",
    ]
    rows = [
        f"| {name} | {one['outcome']} | {', '.join(one['used'])} | {one['steps'] or ''} |"
        for name, one in ((r.name, found[r.name]) for r in rules if r.name in found)
    ]
    head = ["| rule | outcome | rules of the chain in its first case | steps |", "|---|---|---|---|"]
    return "\n\n".join([*parts, "\n".join(head + rows)]) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask which default rules follow from the others, and write the record and the table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="limit on this run in seconds")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the folder of the record and the table")
    options = parser.parse_args(arguments)
    if not options.seconds > 0:
        parser.error(f"the limit must be positive, got {options.seconds} (try 600)")
    options.folder.mkdir(parents=True, exist_ok=True)
    record = options.folder / "redundancy.json"
    known = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    rules = list(rule_set("default"))

    for found in examine(rules, known, options.seconds):
        write_atomic(record, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    where = options.folder / "redundancy.md"
    write_atomic(where, table(rules, found))
    print(f"{len(found)} of {len(rules)} rules asked; see {where}", file=sys.stderr)


if __name__ == "__main__":
    main()
