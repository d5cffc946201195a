"""Rules that matter for a grammar: those of its operators, without those of some files."""

from workbench.laws.synthesis import Grammar, known_to
from workbench.rules import rule_set


def test_rules_of_other_operators_and_of_files_left_out_are_not_known():
    grammar = Grammar.of("softmax[axis=-1] add", "matrix: 2")
    every = {r.name for r in known_to(grammar, rule_set("default"))}
    assert "softmax-of-shifted" in every
    fewer = known_to(grammar, rule_set("default"), without={"movement"})
    assert every > {r.name for r in fewer}
    assert "softmax-of-shifted" not in {r.name for r in fewer}
    assert {r.phase for r in fewer} == {"any"}
