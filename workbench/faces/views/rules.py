"""Rules and their activity: drawings of both sides, static faces, and the data of the rule browser."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from workbench.faces.views.markup import (
    aligned,
    details,
    heading,
    packed,
    pairs,
    picture,
    preformatted,
    table,
)
from workbench.faces.views.scene import Box, Cluster, Edge, Scene, family_of, lay_out
from workbench.faces.views.svg import svg
from workbench.rules.pattern import App, Rule, Term, Var, format_expr, format_term, subterms
from workbench.rules.ruleset import RuleSet
from workbench.rules.verdicts import WORST_FIRST
from workbench.studies.analysis.rule_activity import RuleActivity, RuleTable, rule_table
from workbench.support.formatting import change, microseconds, thousands

#: The captions of the frames of both sides.
CAPTIONS: Final = ("matched pattern", "replacement")


def term_lines(term: Term) -> tuple[str, ...]:
    """Return the label of a node: a variable's name, or an operator with its attributes below."""
    if isinstance(term, Var):
        return (term.name + ("*" if term.starred else ""),)
    inside = [f"{name}={format_expr(expr)}" for name, expr in term.attrs]
    if term.row is not None:
        inside.append(f"…{term.row}")
    return (term.op, *textwrap.wrap(", ".join(inside), 26, break_long_words=False))


def rule_scene(rule: Rule) -> Scene:
    """Return both sides of a rule as one scene with two frames; equal terms of a side are one box.

    Operators of the left side that the right side lacks are marked as removed, new ones of the right side as
    added. Several roots are numbered, as are the operands of an operator that has more than two.
    """
    sides = (rule.sources, rule.targets)
    terms = [dict.fromkeys(term for root in side for term in subterms(root)) for side in sides]
    kept = terms[0].keys() & terms[1].keys()
    boxes: list[Box] = []
    edges: list[Edge] = []
    for at, frame in enumerate(CAPTIONS):
        key = {term: f"{at}.{i}" for i, term in enumerate(terms[at])}
        for term in terms[at]:
            read = term.args if isinstance(term, App) else ()
            mark = ("removed", "added")[at] if isinstance(term, App) and term not in kept else ""
            family = "input" if isinstance(term, Var) else family_of(term.op)
            boxes.append(Box(key[term], term_lines(term), family, mark, cluster=frame))
            places = [str(k) if len(read) > 2 else "" for k in range(1, len(read) + 1)]
            edges += [Edge(key[a], key[term], place=place) for a, place in zip(read, places, strict=True)]
        for k, root in enumerate(sides[at]):
            text = "each of k" if rule.each else "result" if len(sides[at]) == 1 else f"result {k + 1}"
            boxes.append(Box(f"{at}.end{k}", (text,), "view", "stub", cluster=frame))
            edges.append(Edge(key[root], f"{at}.end{k}"))
    return Scene(rule.name, tuple(boxes), tuple(edges), tuple(Cluster(name, name) for name in CAPTIONS))


def rule_svg(rule: Rule) -> bytes:
    """Return both sides of a rule as one drawing with a white background, readable on dark pages too."""
    scene = rule_scene(rule)
    return svg(scene, lay_out(scene))


#: Limit on the characters of a static face; cards are made as far as the tables leave room for them.
MOST_CHARACTERS: Final = 390_000
#: Limit on the rows of the table of all rules.
MOST_RULES: Final = 600


def table_of(thing: object) -> RuleTable | None:
    """Return the table of a rule or a set of rules, a table itself unchanged, or None for other objects."""
    if isinstance(thing, RuleTable):
        return thing
    if isinstance(thing, Rule):
        return rule_table(RuleSet(thing.name, (thing,)))
    return rule_table(thing) if isinstance(thing, RuleSet) else None


# -- static faces -----------------------------------------------------------------------------------
def rule_html(rule: Rule) -> str:
    """Return the face of one rule: the law, both sides drawn, the verdict and its evidence."""
    return heading(f"Rule {rule.name}") + _card(rule_table([rule]).rows[0], None)


def rule_table_html(rules: RuleTable) -> str:
    """Return the face of a table: the rules that fired by matches, cards, and the other rules.

    Cards are made for the most important rules, as many as fit. With a run these are the rules that made the
    best graph, then the others by matches; without a run the refuted and undecided rules come first, and
    among rules of one verdict the multi-pattern and conditional ones.
    """
    parts = [heading(f"Rules {rules.name}", rules.summary())]
    if rules.run:
        by_matches = sorted(rules.fired, key=lambda r: (-r.matches, r.rule.name))
        parts.append(table(*_columns(rules, by_matches), most=60))
    rest = [r for r in rules.rows if not r.fired]
    name = "rules that did not fire" if rules.run else "all rules"
    plain = RuleTable(rules.name, rules.rows)
    others = details(f"{name} ({len(rest)})", table(*_columns(plain, rest), most=MOST_RULES)) if rest else ""
    left = MOST_CHARACTERS - len(aligned("".join([*parts, others])))
    return "".join([*parts, *_cards(rules, left), others])


def _columns(
    rules: RuleTable, rows: Iterable[RuleActivity]
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    columns: dict[str, Callable[[RuleActivity], object]]
    columns = {"rule": lambda r: r.rule.name, "verdict": lambda r: r.verdict}
    if not rules.run:
        columns["tags"] = lambda r: ", ".join(r.tags)
        columns["provenance"] = lambda r: ", ".join(r.rule.provenance)
    else:
        columns["matches"] = lambda r: thousands(r.matches)
        columns["e-nodes"] = lambda r: thousands(r.e_nodes)
        columns["ms"] = lambda r: _milliseconds(r.seconds)
        columns["steps"] = lambda r: " to ".join(map(str, dict.fromkeys(r.span or ())))
        columns["in the best graph"] = lambda r: r.contribution or ""
        if any(r.without is not None for r in rules.rows):
            columns["without it"] = lambda r: _without(r, rules.best)
    columns["law"] = lambda r: r.law
    return tuple(columns), [tuple(column(row) for column in columns.values()) for row in rows]


def _milliseconds(seconds: float) -> str:
    """Return the time of an active rule as text; the engine counts whole milliseconds."""
    return f"{1000 * seconds:.1f}" if seconds else "<1"


def _without(row: RuleActivity, best: float | None) -> str:
    if row.without is None:
        return ""
    return microseconds(row.without) + ("" if best is None else f" ({change(best, row.without)})")


def _cards(rules: RuleTable, left: int) -> list[str]:
    """Return the cards that fit in ``left`` characters, and the number of all rules if some do not."""

    def key(row: RuleActivity) -> tuple[int, bool, bool]:
        return WORST_FIRST.index(row.verdict), not row.rule.multi, not row.rule.conditions

    order: Sequence[RuleActivity] = rules.fired if rules.run else sorted(rules.rows, key=key)
    parts: list[str] = []
    for row in order:
        summary = f"{row.rule.name} · {row.verdict}"
        if row.fired:
            summary += f" · {thousands(row.matches)} matches · {thousands(row.e_nodes)} e-nodes"
        if row.contribution is not None:
            summary += f" · in the best graph: {row.contribution}"
        card = details(summary, _card(row, rules.best))
        size = len(aligned(card))
        if size > left:
            break
        left -= size
        parts.append(card)
    if len(parts) < len(order):
        which = "of the rules that fired" if rules.run else "of the rules"
        parts.append(f"<p>cards of {len(parts)} {which} ({len(order)}); .view() shows all of them</p>")
    return parts


def _law(row: RuleActivity) -> str:
    """Return a law in short lines: one per root and side, then the conditions."""
    each = "each " if row.rule.each else ""
    lines = [
        f"{each}{format_term(source)}\n    => {format_term(target)}"
        for source, target in zip(row.rule.sources, row.rule.targets, strict=True)
    ]
    return "\n".join([*lines, *(["where " + ", ".join(row.conditions)] if row.conditions else [])])


def _card(row: RuleActivity, best: float | None) -> str:
    known = [
        ("verdict", row.verdict),
        ("evidence", row.evidence),
        ("condition", ", ".join(row.conditions)),
        ("provenance", ", ".join(row.rule.provenance)),
        ("tags", ", ".join(row.tags)),
        ("in the best graph", str(row.contribution or "")),
        ("best cost without it", _without(row, best)),
    ]
    parts = [
        preformatted(_law(row)),
        picture(rule_svg(row.rule), f"{row.rule.name}: both sides as graphs"),
        pairs((k, v) for k, v in known if v != ""),
        preformatted(row.counterexample) if row.counterexample else "",
    ]
    if row.fired:
        steps = [(k, f.matches, f.e_nodes, _milliseconds(f.seconds)) for k, f in row.firings.items()]
        parts.append(details("steps in which it fired", table(("step", "matches", "e-nodes", "ms"), steps)))
    return "".join(parts)


# -- the browser ------------------------------------------------------------------------------------
def rules_data(rules: RuleTable) -> dict[str, Any]:
    """Return all data of the rule browser, ready for JSON, so that it works without a kernel.

    ``rules`` has the rows of the table. ``cards`` has the rest by the rule's name, with the drawing of both
    sides, as deflated JSON in base64: of many rules few cards are looked at, and they are similar.
    """
    return {
        "title": f"Rules {rules.name}",
        "summary": rules.summary(),
        "run": rules.run,
        "tried": any(r.without is not None for r in rules.rows),
        "rules": [_row_data(row, rules.best) for row in rules.rows],
        "cards": packed({row.rule.name: _card_data(row, rules.best) for row in rules.rows}),
    }


def _row_data(row: RuleActivity, best: float | None) -> dict[str, Any]:
    rule, (first, last) = row.rule, row.span or (None, None)
    return {
        "name": rule.name,
        "law": row.law,
        "verdict": row.verdict,
        "tags": list(row.tags),
        "provenance": list(rule.provenance),
        "matches": row.matches,
        "made": row.e_nodes,
        "ms": round(1000 * row.seconds, 1),
        "first": first,
        "last": last,
        "given": 0 if row.contribution is None else row.contribution.e_nodes,
        "without": row.without,
        "change": "" if row.without is None or best is None else change(best, row.without),
        "firings": [[k, f.matches, f.e_nodes, round(1000 * f.seconds, 1)] for k, f in row.firings.items()],
    }


def _card_data(row: RuleActivity, best: float | None) -> dict[str, Any]:
    rule = row.rule
    return {
        "drawing": rule_svg(rule).decode(),
        "text": _law(row),
        "evidence": row.evidence,
        "counterexample": row.counterexample,
        "place": f"{rule.file}, line {rule.line}" if rule.file and rule.line else rule.file,
        "gave": "" if row.contribution is None else str(row.contribution),
        "loss": _without(row, best),
    }
