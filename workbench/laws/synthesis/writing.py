"""A synthesis as a file of rules, with the evidence for each law as a comment."""

from __future__ import annotations

from workbench.laws.synthesis.derivation import backwards
from workbench.laws.synthesis.synthesis import Law, Synthesis
from workbench.rules.pattern import format_rule


def rules_text(synthesis: Synthesis) -> str:
    """Return the laws as the text of a rule file: a header, then the laws, each with its evidence.

    A law that can be read in both directions is written with ``<=>``.
    """
    grammar, made = synthesis.grammar, synthesis.trace.meta
    levels = synthesis.enumeration.levels[1:]
    stop = synthesis.stop_reason.value if synthesis.stop_reason else "not finished"
    lines = [
        f"# Laws of {', '.join(map(str, grammar.forms))}",
        f"# over {', '.join(made['operands'])},",
        f"# found among {sum(level.terms for level in levels)} terms of at most {synthesis.size} operators; "
        f"synthesis {stop}, seed {synthesis.seed}, workbench {made['versions']['workbench']}.",
    ]
    if synthesis.known:
        lines.append(f"# Not repeated here: what {len(synthesis.known)} known laws imply.")
    by_rule = {law.rule: law for law in synthesis.laws}
    for rule in synthesis.law_rules:
        lines += ["", f"# {_evidence(by_rule[rule])}", _line(by_rule[rule])]
    if synthesis.joint:
        lines += ["", "# Laws of several outputs; those above imply each of their equations."]
    for law in synthesis.joint:
        lines += ["", f"# {_evidence(law)}", format_rule(law.rule)]
    return "\n".join(lines) + "\n"


def _evidence(law: Law) -> str:
    return f"{law.verdict.verdict}: {law.verdict.reason()}"


def _line(law: Law) -> str:
    text = format_rule(law.rule)
    return text.replace(" => ", " <=> ", 1) if backwards(law.rule) is not None else text
