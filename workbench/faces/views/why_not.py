"""Answers about an e-graph, in words: why a term is not in it, and why two terms are equal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from workbench.faces.views.markup import details, heading, paragraph, table
from workbench.graph.text import format_attr

if TYPE_CHECKING:
    from workbench.saturation.explain.proof_graph import Guard
    from workbench.saturation.explain.report import Explanation, Move, Tried, WhyNot


def why_not_text(answer: WhyNot) -> str:
    """Return the answer to a question in lines of text."""
    lines = [f"{answer.target}: {_verdict(answer)}", *(f"  {line}" for line in _reasons(answer))]
    if answer.parts:
        lines.append("  the largest parts that are represented:")
        lines += [f"    {p.term} (e-class {p.eclass})" for p in answer.parts]
    if answer.chain:
        lines.append("  a chain of rules from the e-graph to the target:")
        lines += [f"    {line}" for line in map(move_text, answer.chain)]
    if answer.tried:
        lines.append("  rules that match at the missing equality:")
        lines += [f"    {t.rule}: {_outcome(t)}" for t in answer.tried]
    return "\n".join(lines)


def explanation_text(explanation: Explanation) -> str:
    """Return the chain between two terms in lines of text."""
    lines = [f"{explanation.left} = {explanation.right} (e-class {explanation.eclass})"]
    return "\n".join([*lines, *(f"  {line}" for line in _chain(explanation))])


def move_text(move: Move) -> str:
    """Return one step of a chain as text."""
    rule = move.rule + ("" if move.forward else ", read backward")
    missing = "" if move.held else "  [missing]"
    return f"{move.before} = {move.after} by {rule}{missing}"


def why_not_html(answer: WhyNot) -> str:
    """Return the answer to a question as HTML."""
    parts = [heading(f"Why not {answer.target}?", _verdict(answer))]
    parts += [paragraph(line) for line in _reasons(answer)]
    if answer.chain:
        parts.append(_moves(answer.chain))
    if answer.parts:
        rows = [(p.term, p.operators, p.eclass) for p in answer.parts]
        parts.append(details("the largest parts", table(("part", "operators", "e-class"), rows)))
    if answer.tried:
        rows_tried = [(t.rule, _outcome(t)) for t in answer.tried]
        parts.append(details("rules that match there", table(("rule", "outcome"), rows_tried)))
    return "".join(parts)


def explanation_html(explanation: Explanation) -> str:
    """Return the chain between two terms as HTML."""
    title = heading(f"{explanation.left} = {explanation.right}", f"e-class {explanation.eclass}")
    if not explanation.moves:
        return title + "".join(map(paragraph, _chain(explanation)))
    return title + _moves(explanation.moves)


def _moves(moves: Sequence[Move]) -> str:
    rows = [
        (m.before, m.after, m.rule, "forward" if m.forward else "backward", "yes" if m.held else "no")
        for m in moves
    ]
    return table(("before", "after", "rule", "read", "in the e-graph"), rows)


def _chain(explanation: Explanation) -> Iterable[str]:
    if explanation.moves:
        return map(move_text, explanation.moves)
    if explanation.complete:
        return ["both are the same term"]
    return ["no chain was found within the limits of the search"]


def _verdict(answer: WhyNot) -> str:
    if answer.represented:
        return f"represented, equal to {answer.compared}"
    if answer.elsewhere:
        return f"in the e-graph, but not equal to {answer.compared}; {answer.cause.value}"
    return f"not in the e-graph; {answer.cause.value}"


def _reasons(answer: WhyNot) -> Iterable[str]:
    if answer.missing is not None:
        gap = answer.missing
        yield f"the first missing equality: {gap.present} = {gap.wanted} (e-class {gap.eclass})"
    if answer.rule and not answer.represented:
        yield f"the rule for it: {answer.rule}"
    for guard in answer.guards:
        yield f"the guard: {_guard(guard)}"
    if not answer.represented and answer.stop_reason is not None:
        yield f"the saturation stopped because: {answer.stop_reason.value}"
    elif not answer.represented:
        yield "the saturation is not finished"


def _guard(guard: Guard) -> str:
    if guard.left is None or guard.right is None:
        return f"{guard.condition} does not hold"
    return f"{guard.condition} does not hold: {format_attr(guard.left)} and {format_attr(guard.right)}"


def _outcome(tried: Tried) -> str:
    more = [*map(_guard, tried.guards), *([tried.misfit] if tried.misfit else [])]
    return tried.outcome.value + (f": {'; '.join(more)}" if more else "")
