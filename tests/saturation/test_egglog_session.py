import subprocess
import sys

import pytest

from workbench.saturation.egglog_session import Base, EngineError, gives_two_types
from workbench.support.processes import environment

DECLARED = "(sort T) (constructor a () T) (constructor b () T) (constructor f (T) T)"
RULES = {
    "one": '(ruleset one) (rule ((= x_ (a))) ((union x_ (b))) :ruleset one :name "one")',
    "two": '(ruleset two) (rule ((= x_ (f (a)))) ((union x_ (a))) :ruleset two :name "two")',
}


def sizes(base):
    (output,) = base.run("(print-size)")
    return dict(output.sizes)


def test_terms_go_and_rules_stay():
    base = Base(DECLARED)
    base.begin({"one": RULES["one"]})
    base.run("(f (a)) (run one 1)")
    assert sizes(base) == {"a": 1, "b": 1, "f": 1}
    base.begin({})
    assert sizes(base) == {"a": 0, "b": 0, "f": 0}
    base.run("(a) (run one 1)")  # refused if the rule were not there
    assert sizes(base)["b"] == 1


def test_rules_are_added_from_run_to_run():
    base = Base(DECLARED)
    base.begin({"one": RULES["one"]})
    base.push()
    assert base.missing(RULES) == {"two": RULES["two"]}
    base.begin(RULES)
    assert not base.missing(RULES)
    base.run("(f (a)) (run one 1) (run two 1)")
    base.rest()
    assert sizes(base) == {"a": 0, "b": 0, "f": 0}


def test_what_fits_has_the_same_declarations_and_no_other_rule_of_a_name():
    base = Base(DECLARED)
    base.begin({"one": RULES["one"]})
    assert base.fits(DECLARED, RULES)
    assert base.fits(DECLARED, {})
    assert not base.fits(DECLARED + "(sort U)", RULES)
    assert not base.fits(DECLARED, {"one": RULES["two"]})


def test_after_a_panic_the_e_graph_is_made_anew():
    base = Base(DECLARED)
    base.begin(RULES)
    with pytest.raises(EngineError, match="no such thing"):
        base.run('(panic "no such thing")')
    base.discard()
    base.begin({})
    base.run("(a) (run one 1)")
    assert sizes(base)["b"] == 1


def test_the_engine_alone_is_imported_and_leaves_the_package_as_it_was():
    program = (
        "import sys\nfrom workbench.saturation.egglog_session import bindings\nfound = bindings()\n"
        "assert 'black' not in sys.modules and 'egglog' not in sys.modules\n"
        "import egglog\nfrom egglog import bindings\nassert bindings is found\nprint(egglog.EGraph())"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=environment(), capture_output=True)


def test_two_types_of_one_class_are_distinguished_from_other_errors():
    base = Base(f"{DECLARED} (function type (T) i64 :no-merge)")
    base.begin({})
    base.run("(set (type (a)) 1) (set (type (b)) 2)")
    with pytest.raises(EngineError) as clash:
        base.run("(union (a) (b)) (run 1)")
    assert gives_two_types(clash.value)
    base.discard()
    base.begin({})
    with pytest.raises(EngineError) as other:
        base.run("(nobody (a))")
    assert not gives_two_types(other.value)
