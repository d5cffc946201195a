"""Names imported on first use, and names under their former names."""

import pytest

import workbench
from workbench.support.lazy import door
from workbench.support.messages import UnknownName


def test_a_name_is_imported_on_first_use_and_kept():
    attribute, names = door("workbench.support", {"formatting": "times"})
    assert names == ["times"]
    try:
        assert attribute("times")(2.0) == "2.00×"
        assert workbench.support.times is attribute("times")
    finally:
        del workbench.support.times


def test_other_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'workbench' has no attribute 'optimise'"):
        workbench.optimise  # noqa: B018


def test_public_modules_are_attributes():
    assert workbench.results.__name__ == "workbench.results"
    assert workbench.taso.__name__ == "workbench.taso"


def test_a_moved_name_is_found_at_its_former_place():
    attribute, names = door("workbench", {}, moved={"workbench.support.messages": "UnknownName"})
    assert names == []
    with pytest.warns(DeprecationWarning, match=r"workbench.UnknownName is now workbench.support.messages"):
        assert attribute("UnknownName") is UnknownName
