"""Strict reading of studies: YAML, dataclasses, and checks that name the key at fault."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

import pytest
from pydantic import PositiveFloat

from workbench.studies.experiments.config import (
    Declared,
    Names,
    Study,
    StudyError,
    check_keys,
    check_names,
    parse,
    read_object,
    resource,
    said,
    sha256,
)


@dataclass(frozen=True)
class Inner(Declared):
    seconds: PositiveFloat = 1.0


@dataclass(frozen=True)
class Outer(Declared):
    names: Names
    inner: Inner = field(default_factory=Inner)
    by_name: Mapping[str, int] = field(default_factory=dict)
    wanted: bool = True


NESTED: list = []
for _ in range(250):
    NESTED = [NESTED]


def test_a_list_that_contains_itself_is_refused():
    with pytest.raises(StudyError, match="nothing that contains itself"):
        read_object(Outer, parse("names: &x [*x]"))


def test_a_mapping_becomes_settings():
    found = read_object(
        Outer, {"names": ["a"], "inner": {"seconds": 2}, "by_name": {"b": 3}, "wanted": False}
    )
    assert found == Outer(("a",), Inner(2.0), {"b": 3}, False)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "'names' is missing"),
        ({"names": ["a"], "innr": {}}, "unknown key 'innr'; did you mean inner?"),
        ({"names": "a"}, "names must be a list, got a text ('a')"),
        ({"names": []}, "names must name at least one, got none"),
        ({"names": ["a", "b", "a"]}, "names must be distinct, got 'a' twice"),
        ({"names": [1]}, "names[0] must be a text, got a number ('1')"),
        ({"names": ["a"], "wanted": 1}, "wanted must be true or false, got a number ('1')"),
        ({"names": ["a"], "by_name": {"b": 1.5}}, "by_name.b must be a whole number, got a number ('1.5')"),
        (
            {"names": ["a"], "by_name": {"b": True}},
            "by_name.b must be a whole number, got true or false ('True')",
        ),
        ({"names": ["a"], "inner": [2]}, "inner must be a mapping, got a list"),
        ({"names": [NESTED]}, "a study must have a few levels, got too many"),
        (
            {"names": {date(2021, 1, 1): "a"}},
            "a study must have texts as keys, and nothing that contains itself",
        ),
        ({"names": ["a"], "inner": {"seconds": 0}}, "inner.seconds must be greater than 0, got 0"),
    ],
)
def test_an_error_names_the_key_at_fault(data, message):
    with pytest.raises(StudyError) as caught:
        read_object(Outer, data)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "a study must be a mapping of keys to values, got a list"),
        ("a: 1\na: 2", "line 2: the key 'a' is duplicated"),
        ("a:\n  - {b: 1, b: 2}", "line 2: the key 'b' is duplicated"),
        ("a: " + "[" * 5000 + "]" * 5000, "a study must have a few levels, got too many"),
    ],
)
def test_texts_that_are_no_mapping_are_refused(text, message):
    with pytest.raises(StudyError, match=message):
        parse(text)


def test_aliases_are_read():
    assert parse("a: &x [1, 2]\nb: *x") == {"a": [1, 2], "b": [1, 2]}


def test_an_unknown_name_has_the_nearest_known_one():
    check_names("networks", "network", ["bert"], ["bert", "vgg19"])
    with pytest.raises(StudyError, match=r"networks: .*'brt'.*bert"):
        check_names("networks", "network", ["brt"], ["bert", "vgg19"])


@pytest.mark.parametrize("name", ["", "a b", "../a", "-a", "ä"])
def test_names_that_cannot_be_part_of_a_folder_are_refused(name):
    with pytest.raises(StudyError, match="a name must start with"):
        check_keys("methods", ["good-1.0", name])


@pytest.mark.parametrize(
    "wrong", [{"grace": -1.0}, {"memory": 0.0}, {"seed": 2**32}, {"repeats": 0}, {"memory": float("inf")}]
)
def test_numbers_have_bounds(wrong):
    assert read_object(Study, {"memory": 1, "seed": 2**32 - 1}) == Study(memory=1.0, seed=2**32 - 1)
    (name,) = wrong
    with pytest.raises(StudyError, match=f"^{name} must be"):
        read_object(Study, wrong)


def test_values_are_described_briefly():
    assert said(None) == "empty"
    assert said([1, 2]) == "a list"
    assert said("x" * 100) == f"a text ({'x' * 40!r})"


def test_a_file_is_found_or_the_reason_said(tmp_path, monkeypatch):
    file = tmp_path / "own.rules"
    file.write_text("")
    assert resource("default", tmp_path) == ("default", "default", "")
    found = (str(file), {"file": "own.rules", "sha256": sha256(file)}, "")
    assert resource("own.rules", tmp_path) == found
    assert resource("../none.rules", tmp_path)[1:] == (
        {"file": "../none.rules"},
        "../none.rules: no such file",
    )
    monkeypatch.delenv("ELSEWHERE", raising=False)
    why = "${ELSEWHERE}/own.rules: ELSEWHERE is not set in the environment"
    assert resource("${ELSEWHERE}/own.rules", tmp_path)[2] == why
    monkeypatch.setenv("ELSEWHERE", str(tmp_path))
    assert resource("${ELSEWHERE}/own.rules", tmp_path / "other")[::2] == (str(file), "")
    assert sha256(file).startswith("e3b0c442")
