import re

import pytest

from tests.saturation.test_engine import engine_of, sum_of
from workbench.egraph import EGraph
from workbench.graph import GraphBuilder
from workbench.rules import parse_rule, rule_set
from workbench.saturation import compile as compile_module
from workbench.saturation.compile import compile_rule
from workbench.saturation.encoding import PRELUDE, Encoding
from workbench.saturation.engine import Plan
from workbench.saturation.program import named, parse, share, show


def spelled(lines):
    """Return lines with every name replaced by what it stands for, and without those that give names."""
    names, found = {}, []

    def whole(expr):
        if isinstance(expr, str):
            return names.get(expr, expr)
        return tuple(whole(e) for e in expr)

    for (line,) in map(parse, lines):
        if line[0] in ("=", "let") and str(line[1]).startswith("k") and line[1] not in names:
            names[line[1]] = whole(line[2])
        else:
            found.append(show(whole(line)))
    return found


def test_what_stands_once_stays():
    facts, actions = ("(= t_ (f x_ (vec-get s_ 1)))",), ("(union t_ x_)",)
    assert share(facts, actions) == (facts, actions)


def test_what_stands_twice_is_named_where_it_stands_first():
    facts, actions = share(["(< 0 (vec-get s_ 1))", "(= (+ (vec-get s_ 1) 1) y_)"], ["(f (vec-get s_ 1))"])
    assert facts == ("(= k0_ (vec-get s_ 1))", "(< 0 k0_)", "(= (+ k0_ 1) y_)")
    assert actions == ("(f k0_)",)


def test_what_only_actions_share_is_let_there():
    facts, actions = share(["(= x_ (g y_))"], ["(f (+ a_ 1))", "(h (+ a_ 1) (+ a_ 2))"])
    assert facts == ("(= x_ (g y_))",)
    assert actions == ("(let k0_ (+ a_ 1))", "(f k0_)", "(h k0_ (+ a_ 2))")


def test_the_larger_of_two_that_are_shared_together_has_the_name():
    facts, _ = share(["(< (* (+ a_ 1) 2) b_)", "(< (* (+ a_ 1) 2) c_)"], [])
    assert facts == ("(= k0_ (* (+ a_ 1) 2))", "(< k0_ b_)", "(< k0_ c_)")


def test_terms_are_never_named():
    facts = ("(= e_ (f x_))", "(!= e_ (f x_))")
    assert share(facts, [])[0] == facts


def test_strings_are_words():
    text = '(rule "a (b) \\" c" x_)'
    assert [show(e) for e in parse(text)] == [text]


@pytest.mark.parametrize("name", ["conv-sums-nested", "concat-of-adds", "conv-takes-more-bias-left"])
def test_the_librarys_rules_mean_what_they_say_in_full(name, monkeypatch):
    rule = rule_set("default")[name]

    def lines():
        compile_module._compiled.cache_clear()
        program = compile_rule(rule, 1, Encoding(4)).program
        return [*program.facts, *program.actions]

    named = lines()
    monkeypatch.setattr(compile_module, "share", lambda facts, actions: (tuple(facts), tuple(actions)))
    plain = lines()
    compile_module._compiled.cache_clear()
    assert spelled(named) == plain
    assert sum(map(len, named)) < sum(map(len, plain))


def grown(x, y):
    (rule,) = parse_rule(f"exchanged: add({x}, {y}) => add({y}, {x})")
    engine = engine_of(sum_of(4), rule)
    engine.iterate(Plan(1, False, 1000))
    return engine.sizes()


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ("x", "s_x"),  # the type of x
        ("k0", "v_k0"),  # the new name of k0
        ("uniform", "stamp"),
        ("t1", "n2"),
        ("add_n2", "x"),
        ("ea", "constant"),
    ],
)
def test_rules_match_alike_whatever_their_variables_are_called(x, y):
    assert grown(x, y) == grown("x", "y") != grown("x", "x")


def test_a_variable_is_not_mistaken_for_an_attribute():
    b = GraphBuilder("g")
    total = b.op("add", b.input("x", (2, 3)), b.input("y", (2, 3)))
    graph = b.graph({"t": b.op("transpose", total, perm=(1, 0))})
    found = []
    for y in ("y", "a_p"):
        (rule,) = parse_rule(f"moved: transpose[perm=p](add(x, {y})) => add({_moved('x')}, {_moved(y)})")
        engine = engine_of(graph, rule)
        engine.iterate(Plan(1, False, 1000))
        found.append(sorted(EGraph(**engine.columns()).ops))
    assert found[0] == found[1]
    assert found[0].count("transpose") == 3


def _moved(name):
    return f"transpose[perm=p]({name})"


def test_no_variable_has_the_name_of_a_table_or_a_rule_set():
    own = re.findall(r"\((?:function|relation|ruleset|constructor) (\w+)_ ?[()]", PRELUDE)
    assert {"ty", "uniform", "found"} <= set(own)
    assert {named(name) for name in own} == {f"v_{name}_" for name in own}


def test_different_variables_have_different_names():
    names = ["x", "s_x", "v_x", "v_s_x", "k0", "v_k0", "v_v_k0", "h", "v_h", "add_n2_t", "rs_x", "group1"]
    assert len({named(name) for name in names}) == len(names)
