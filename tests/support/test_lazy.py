"""Names imported on first use, and modules and names under their former names."""

from importlib import import_module
from importlib.util import find_spec

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


@pytest.mark.parametrize(
    "former",
    ["certifying.runner", "plots.style", "views.widgets", "experiments.plan", "verification.verify"],
)
def test_a_module_is_found_by_its_former_name(former):
    with pytest.warns(DeprecationWarning, match=f"workbench.{former} is now workbench."):
        assert import_module(f"workbench.{former}").__name__ != f"workbench.{former}"


def test_every_present_name_of_a_moved_module_is_one():
    for former, home in workbench._MOVED.items():
        assert find_spec(f"workbench.{home}"), former


def test_a_module_that_is_run_by_its_former_name_has_a_file():
    spec = find_spec("workbench.devices.measure")
    assert spec.origin == find_spec("workbench.studies.devices.measure").origin
    assert spec.loader.get_code(spec.name).co_filename == spec.origin
