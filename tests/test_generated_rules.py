"""The generated rules that notebook 04 judges are those of their generator, and some of them are wrong."""

import importlib.util
from pathlib import Path

from workbench.laws.verification.refuting.refute import search
from workbench.rules import format_rule
from workbench.rules.ruleset import read_rules

ROOT = Path(__file__).parent.parent


def generator():
    spec = importlib.util.spec_from_file_location("generated_rules", ROOT / "docs" / "generated_rules.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_what_the_generator_writes():
    made = generator()
    assert made.TARGET.read_text() == "\n".join(made.rules()) + "\n"


def test_it_is_read_as_tensats_form_and_holds_a_law_that_is_wrong_for_groups():
    contents = read_rules(ROOT / "notebooks" / "generated-rules.txt")
    assert contents.form == "tensat"
    assert contents.rejected == ()
    laws = {format_rule(rule): rule for rule in contents.rules}
    (merge,) = (r for law, r in laws.items() if law.count("conv2d") == 3 and "concat[axis=-4]" in law)
    assert search(merge).counterexample is not None
