import pytest

import workbench
from workbench.support.lazy import lazy_names


def test_a_name_is_imported_on_first_use_and_kept():
    attribute = lazy_names("workbench.support", {"times": ".formatting"})
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
