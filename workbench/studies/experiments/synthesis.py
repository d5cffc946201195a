"""The synthesis study: the laws of each grammar at each size of terms, and the rules that they imply."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from workbench.studies.experiments import config
from workbench.studies.experiments.plan import Plan, Record, Run
from workbench.studies.experiments.tables import about, lines, missing, run_table, seconds_text

if TYPE_CHECKING:
    import pandas as pd

    from workbench.rules.pattern import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisStudy(config.Study):
    """A study that synthesises the laws of every grammar at every size of terms.

    ``grammars`` are YAML files. ``sizes`` are the numbers of operators in a term. ``known`` is a rule set
    or a file whose laws are not found again, as far as a grammar has their operators; ``without`` are names
    of its files that are left out. ``against`` are files of rules, of which the tables report those that the
    laws imply. Without ``sizes`` each grammar has its own. ``seconds`` limits a synthesis. ``instances`` are
    drawn at the end of each law that does not follow from axioms; with 0 there are none.
    """

    KIND: ClassVar[str] = "synthesis"

    grammars: config.Names
    sizes: tuple[PositiveInt, ...] = ()
    known: str = ""
    without: tuple[str, ...] = ()
    against: config.Distinct = ()
    seconds: PositiveFloat = 600.0
    instances: NonNegativeInt = 0
    grace: NonNegativeFloat = 120.0

    def __post_init__(self) -> None:
        if self.known:
            config.check_rules(self.known)


def make_plan(study: SynthesisStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, one grammar after another; paths in the study are relative to ``home``."""
    found = {text: config.resource(text, home) for text in study.against}
    present = {text: (where, form) for text, (where, form, absent) in found.items() if not absent}
    files = tuple(
        (f"{Path(text).parent.name}/{Path(text).stem}".lstrip("/"), where)
        for text, (where, _) in present.items()
    )
    known, known_config, missing = config.resource(study.known, home) if study.known else ("", "", "")
    # Coverage and further instances come after the synthesis, and have their own limits.
    grace = study.grace + 600.0 * (len(study.against) + bool(study.instances))
    runs = []
    for text in study.grammars:
        where, grammar, absent = config.resource(text, home)
        for size in study.sizes or (0,):
            settings = {
                "grammar": grammar,
                "size": size,
                "known": known_config,
                **({"without": list(study.without)} if study.without else {}),
                "against": {text: form for text, (_, form) in present.items()},
                "seconds": study.seconds,
                **({"instances": study.instances} if study.instances else {}),
            }
            order = (where, size, known, files, folder / "unfinished")
            more: dict[str, Any] = {"order": order, "columns": {"grammar": Path(text).stem}, "grace": grace}
            method = f"{size}-operators" if size else "own-size"
            runs.append(
                Run(Path(text).stem, method, settings, study.seconds, absent=absent or missing, **more)
            )
    skipped = [absent for *_, absent in found.values() if absent]
    return Plan.of(study, folder, synthesise_one, runs, skipped)


def outcome(record: Record) -> str:
    """Return the outcome of a synthesis in one line."""
    row = record["row"]
    covered = record["result"]["covers"]
    said = "".join(
        f"; {name}: {found['derived']} derived, {found['not derived']} not, {found['refuted']} refuted"
        for name, found in covered.items()
    )
    return (
        f"{row['terms']} terms, {row['classes']} classes, {row['candidates']} candidates, {row['laws']} laws "
        f"in {row['seconds']:.1f} s{said}"
    )


# -- in the process of a run ---------------------------------------------------------------------------
def synthesise_one(study: SynthesisStudy, given: Run) -> Record:
    """Synthesise once and return the figures with the trace."""
    from workbench.laws.synthesis import Coverage, Synthesis, read_grammar
    from workbench.laws.synthesis.grammar import known_to
    from workbench.laws.synthesis.judge import recheck
    from workbench.rules import rule_set
    from workbench.rules.ruleset import load_rules, read_rules

    (path, size, laws, against, journals), seed = given.order, given.seed
    journal = journals / f"{given.folder}.journal"
    grammar = read_grammar(path)
    if size:  # 0 is the grammar's own
        grammar = grammar.with_operators(size)
    known: list[Rule] = []
    if laws:
        named = load_rules(laws) if config.is_file_name(laws) else rule_set(laws)
        known = known_to(grammar, named, study.without)
    began, _ = _used()
    run = Synthesis(grammar, known, seconds=study.seconds, seed=seed, journal=str(journal))
    reason = run.run()
    journal.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the folder goes with its last journal
        journal.parent.rmdir()
    processor, memory = _used()
    rules = {name: read_rules(file).rules for name, file in against}
    covers = {name: run.covers(rules[name], seed=seed) for name in rules}
    before = {name: Coverage(rules[name], known, seed=seed) for name in rules if known}
    open_laws = [law.rule for law in (*run.laws, *run.joint) if not law.verdict.by_axioms]
    result = {
        "laws": {law.rule.name: [law.verdict.short, law.verdict.law] for law in run.laws},
        "covers": {
            name: {
                **found.counts,
                "names": {o: found.named(o) for o in ("derived", "not derived", "refuted")},
                "sampled": found.sampled,
                "known": before[name].derived if name in before else [],
            }
            for name, found in covers.items()
        },
        "joint": {law.rule.name: [law.verdict.short, law.verdict.law] for law in run.joint},
        # How many drawn instances of each law that does not follow from axioms passed, and whether one failed.
        "rechecks": {law.name: [*recheck(law, study.instances)] for law in open_laws if study.instances},
        "levels": run.funnel().to_dict("records"),
    }
    funnel = run.funnel()
    row = {
        **{column: int(funnel[column].sum()) for column in ("terms", "classes", "candidates", "open")},
        "laws": len(run.laws),
        "joint": len(run.joint),
        "by_axioms": sum(law.verdict.by_axioms for law in run.laws),
        "refuted": len(run.refuted),
        "seconds": round(run.seconds, 2),
        "memory": round(memory),
        "processor": round(processor - began, 1),
    }
    ended = {"status": reason.value, "stop_reason": reason.value}
    return {"row": row, **ended, "result": result, "trace": run.trace}


def _used() -> tuple[float, float]:
    """Return seconds of processor time and MiB of memory of this process and of those that it has ended."""
    import resource as usage

    both = [usage.getrusage(who) for who in (usage.RUSAGE_SELF, usage.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in both), sum(u.ru_maxrss for u in both) / 1024


COLUMNS: Final = (
    "grammar", "method", "repeat", "terms", "classes", "candidates", "open", "laws", "by_axioms",
    "joint", "refuted", "memory", "processor", "seconds", "status", "failed", "notes",
)  # fmt: skip

#: The figures in TASO's paper for its generator, and those of its released file of rules.
PUBLISHED_GENERATOR: Final = (
    "TASO's paper, for orientation: graphs of at most 4 operators of 26 settings, 28 744 candidates, 17 346 "
    "after renaming, 743 after common subgraphs are left out, about 5 minutes and less than 10 more to "
    "verify; graphs of 5 operators exceeded its memory. Its released generator stops at 3 operators, its "
    "released file has 133 rules, 11 of them wrong"
)


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run."""
    return run_table(records, COLUMNS, COLUMNS[2:12])


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text: the funnel, coverage, and the laws of each run."""
    done = [record for record in records if not record["failed"]]
    described = about(
        records,
        ", one row per run.",
        "*Terms* are evaluated, *classes* are those with a fingerprint of their own, *candidates* are equal "
        "pairs up to renaming, *laws* are those that the others do not imply. Each law was verified. "
        "*Joint* laws have several outputs; the laws imply each of their equations. *Memory* is the largest "
        "of the process plus the largest of the engine's. *Processor* time is that of both, without the "
        "steps after a synthesis.",
    )
    parts = ["# Synthesis: laws of operators from nothing", described]
    parts += ["## Terms, classes, candidates, laws", _funnel(done), f"{PUBLISHED_GENERATOR}."]
    parts += ["## By number of operators", _levels(done)]
    parts += ["## Rules that the laws imply", _covered(done)]
    together = _together(done)
    parts += ["## Rules that the laws of all grammars imply", *together] if together else []
    parts += ["## Laws", *map(_laws, done), *missing(plan)]
    return "\n\n".join(parts) + "\n"


def _funnel(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        row: dict[str, Any] = record["row"]
        names = ("grammar", "method", "terms", "classes", "candidates", "open", "laws", "by_axioms")
        texts = [str(row[name]) for name in names] + [str(row.get("joint", "")), f"{row['memory']} MiB"]
        spent = [seconds_text(float(row.get(name, math.nan))) for name in ("processor", "seconds")]
        rows.append([*texts, *spent, str(row["status"])])
    head = ["grammar", "terms of", "terms", "classes", "candidates", "open", "laws", "of them by axioms"]
    return lines([*head, "joint", "memory", "processor", "seconds", "ended by"], rows)


def _levels(records: Sequence[Record]) -> str:
    columns = ["terms", "classes", "pairs", "candidates", "derived", "special", "refuted", "laws", "open"]
    rows = []
    for record in records:
        for level in record["result"]["levels"]:
            cut = "" if level["complete"] else ", cut by a limit"
            counts = [f"{level['size']}{cut}", *(str(level[c]) for c in columns)]
            rows.append([str(record["row"]["grammar"]), str(record["row"]["method"]), *counts])
    return lines(["grammar", "terms of", "size", *columns], rows)


def _covered(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        for name, found in record["result"]["covers"].items():
            names = found["names"]
            cells = [str(found[o]) for o in ("derived", "not derived", "refuted")]
            where = [str(record["row"]["grammar"]), str(record["row"]["method"]), name]
            rows.append([*where, *cells, ", ".join(names["not derived"])])
    if not rows:
        return "No files of rules to compare with."
    return lines(
        ["grammar", "terms of", "rules", "derived", "not derived", "refuted", "not derived are"], rows
    )


def _together(records: Sequence[Record]) -> list[str]:
    """Return for each file the rules with the grammars whose laws imply them; none for one run."""
    if len(records) < 2:
        return []
    found = []
    for name in dict.fromkeys(n for record in records for n in record["result"]["covers"]):
        by_rule: dict[str, list[str]] = {}
        for record in records:
            names = record["result"]["covers"].get(name, {}).get("names", {})
            for rule in chain.from_iterable(names.values()):
                by_rule.setdefault(rule, [])
            for rule in names.get("derived", ()):
                by_rule[rule].append(_source(record, name, rule))
        derived = sum(map(bool, by_rule.values()))
        rows = [[rule, ", ".join(dict.fromkeys(by_rule[rule]))] for rule in sorted(by_rule)]
        found += [f"{name}: {derived} of {len(by_rule)} derived.", lines(["rule", "derived by"], rows)]
    return found


def _source(record: Record, name: str, rule: str) -> str:
    covered, grammar = record["result"]["covers"][name], str(record["row"]["grammar"])
    if rule in covered.get("known", ()):
        return "known laws alone"
    count = covered.get("sampled", {}).get(rule)
    return f"{grammar} (at {count} drawn instances)" if count else grammar


def _laws(record: Record) -> str:
    row, result = record["row"], record["result"]
    rows = [[name, _told(law), evidence] for name, (evidence, law) in result["laws"].items()]
    parts = [f"### {row['grammar']}, {row['method']}", lines(["law", "equation", "evidence"], rows)]
    joint = [[name, _told(law), evidence] for name, (evidence, law) in result.get("joint", {}).items()]
    if joint:
        parts += ["Laws of several outputs:", lines(["law", "equations", "evidence"], joint)]
    checks = result.get("rechecks", {})
    if checks:
        refuted = sorted(name for name, (_, wrong, _) in checks.items() if wrong)
        fewest = min(passed for passed, _, _ in checks.values())
        said = f"refuted: {', '.join(refuted)}" if refuted else "none is refuted"
        parts.append(
            f"The {len(checks)} laws that do not follow from axioms were evaluated once more, each on at "
            f"least {fewest} further instances: {said}."
        )
    return "\n\n".join(parts)


def _told(law: str) -> str:
    """Return a law with the condition that both sides have one type, unless its other conditions imply it."""
    from workbench.laws.verification.proofs import is_typed
    from workbench.rules import parse_rules

    (rule,) = parse_rules(f"law: {law}")
    return f"`{law}`" if is_typed(rule) else f"`{law}`, where both sides have one type"
