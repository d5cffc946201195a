import os
import pickle

import pytest

from workbench.rules import parse_rules, rule_set
from workbench.rules.ruleset import RuleSet
from workbench.saturation.encoding import Encoding
from workbench.saturation.saturation import compile_rules
from workbench.support import disk_cache as module
from workbench.support.disk_cache import Needed, remembered

RULES = tuple(parse_rules("twice: neg(neg(x)) => x\nback: mul(x, add(y, z)) => add(mul(x, y), mul(x, z))"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    monkeypatch.delenv("WORKBENCH_RULE_CACHE", raising=False)
    module._memory.clear()
    yield tmp_path / "rules"
    module._memory.clear()


def forget():
    module._memory.clear()


def counting(value):
    calls = []

    def make():
        calls.append(1)
        return value

    return make, calls


def test_the_same_is_computed_once_and_read_by_another_process(folder):
    make, calls = counting(RULES)
    assert remembered("rules", ["a"], make) is remembered("rules", ["a"], make)
    forget()
    assert remembered("rules", ["a"], make) == RULES
    assert len(calls) == 1
    assert len(list(folder.iterdir())) == 1


def test_something_else_is_computed_anew():
    make, calls = counting(RULES)
    for kind, given in (("rules", ["ab", "c"]), ("rules", ["a", "bc"]), ("other", ["ab", "c"])):
        remembered(kind, given, make)
    assert len(calls) == 3


def test_other_source_computes_anew(monkeypatch):
    make, calls = counting(RULES)
    remembered("rules", ["a"], make)
    monkeypatch.setattr(module, "_source", lambda: b"another compiler")
    remembered("rules", ["a"], make)
    assert len(calls) == 2


@pytest.mark.parametrize("content", [b"", b"short", b"0" * 16 + pickle.dumps(RULES)], ids=len)
def test_a_broken_file_is_as_good_as_none(folder, content):
    make, calls = counting(RULES)
    remembered("rules", ["a"], make)
    (file,) = folder.iterdir()
    file.write_bytes(content)
    forget()
    assert remembered("rules", ["a"], make) == RULES
    assert len(calls) == 2
    forget()
    assert remembered("rules", ["a"], make) == RULES
    assert len(calls) == 2  # it was written again


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harmed",)


def test_a_file_that_would_run_something_is_as_good_as_none(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, calls = counting(RULES)
    remembered("rules", ["a"], make)
    (file,) = folder.iterdir()
    module._write(file, Harmful())
    forget()
    assert remembered("rules", ["a"], make) == RULES
    assert len(calls) == 2
    assert not (tmp_path / "harmed").exists()


def test_where_nothing_can_be_kept_all_is_computed(folder, monkeypatch):
    folder.write_text("a file where the folder should be")
    make, calls = counting(RULES)
    for _ in range(2):
        assert remembered("rules", ["a"], make) == RULES
        forget()
    assert len(calls) == 2


def test_the_cache_can_be_switched_off(folder, monkeypatch):
    monkeypatch.setenv("WORKBENCH_RULE_CACHE", "0")
    make, calls = counting(RULES)
    for _ in range(2):
        assert remembered("rules", ["a"], make) == RULES
        forget()
    assert len(calls) == 2
    assert not folder.exists()


def test_old_entries_go(folder, monkeypatch):
    monkeypatch.setattr(module, "MOST", 3)
    for i in range(6):
        remembered("rules", [str(i)], lambda: RULES)
    assert len(list(folder.iterdir())) == 3


def test_what_cannot_be_made_is_not_kept(folder):
    def make():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        remembered("rules", ["a"], make)
    assert not folder.exists()


@pytest.mark.slow
def test_a_rule_set_and_its_compiled_rules_are_read_as_they_were_made():
    made = rule_set("default")
    compiled = compile_rules(made, Encoding(4), True)
    forget()
    again = rule_set("default")
    assert again is not made
    assert again.rules == made.rules
    assert (again.name, again.weights) == (made.name, made.weights)
    assert compile_rules(again, Encoding(4), True) == compiled


def test_compiled_rules_depend_on_rules_order_encoding_and_use():
    def of(rules, rank=4, running=False):
        return compile_rules(RuleSet("some", tuple(rules)), Encoding(rank), running)

    known = [of(RULES), of(RULES[::-1]), of(RULES, 5), of(RULES, running=True), of(RULES[:1])]
    assert all(a != b for i, a in enumerate(known) for b in known[:i])
    assert of(RULES) is known[0]


def test_what_a_run_needs_is_expected_of_the_next_one(folder):
    first = Needed(["a"])
    first.note([3, 1])
    first.keep()
    assert Needed(["a"]).known == {1, 3}
    forget()
    again = Needed(["a"])
    assert again.known == {1, 3}
    assert Needed(["b"]).known == frozenset()
    again.note([7])
    again.keep()
    forget()
    assert Needed(["a"]).known == {1, 3, 7}


def test_expectations_that_are_broken_are_none(folder):
    first = Needed(["a"])
    first.note([3])
    first.keep()
    (file,) = folder.iterdir()
    module._write(file, ("three",))
    forget()
    assert Needed(["a"]).known == frozenset()
