import pytest

from workbench.rules import rule_set
from workbench.saturation import compile as compile_module
from workbench.saturation.compile import compile_rule
from workbench.saturation.cse import parse, share, show
from workbench.saturation.encoding import Encoding


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
    facts, actions = ["(= t_ (f x_ (vec-get s_ 1)))"], ["(union t_ x_)"]
    assert share(facts, actions) == (facts, actions)


def test_what_stands_twice_is_named_where_it_stands_first():
    facts, actions = share(["(< 0 (vec-get s_ 1))", "(= (+ (vec-get s_ 1) 1) y_)"], ["(f (vec-get s_ 1))"])
    assert facts == ["(= k0_ (vec-get s_ 1))", "(< 0 k0_)", "(= (+ k0_ 1) y_)"]
    assert actions == ["(f k0_)"]


def test_what_only_actions_share_is_let_there():
    facts, actions = share(["(= x_ (g y_))"], ["(f (+ a_ 1))", "(h (+ a_ 1) (+ a_ 2))"])
    assert facts == ["(= x_ (g y_))"]
    assert actions == ["(let k0_ (+ a_ 1))", "(f k0_)", "(h k0_ (+ a_ 2))"]


def test_the_larger_of_two_that_are_shared_together_has_the_name():
    facts, _ = share(["(< (* (+ a_ 1) 2) b_)", "(< (* (+ a_ 1) 2) c_)"], [])
    assert facts == ["(= k0_ (* (+ a_ 1) 2))", "(< k0_ b_)", "(< k0_ c_)"]


def test_terms_are_never_named():
    facts = ["(= e_ (f x_))", "(!= e_ (f x_))"]
    assert share(facts, [])[0] == facts


def test_strings_are_words():
    text = '(rule "a (b) \\" c" x_)'
    assert [show(e) for e in parse(text)] == [text]


@pytest.mark.parametrize("name", ["conv-sums-nested", "concat-of-adds", "conv-takes-more-bias-left"])
def test_the_librarys_rules_mean_what_they_say_in_full(name, monkeypatch):
    rule = rule_set("default")[name]

    def lines():
        compile_module._compiled.cache_clear()
        *_, (_, facts, actions, *_) = parse(compile_rule(rule, 1, Encoding(4)).text)
        return [show(e) for e in (*facts, *actions)]

    named = lines()
    monkeypatch.setattr(compile_module, "share", lambda facts, actions: (list(facts), list(actions)))
    plain = lines()
    compile_module._compiled.cache_clear()
    assert spelled(named) == plain
    assert sum(map(len, named)) < sum(map(len, plain))
