import inspect
from dataclasses import dataclass, fields

import numpy as np
import pytest

import workbench
from workbench.optimizer.settings import Settings
from workbench.run.settings import changed, check, setting, settings_of, takes_settings
from workbench.saturation import Limits


@dataclass(frozen=True, slots=True)
class Oven:
    heat: float = setting(180.0, "Degrees.", above=0)
    trays: int = setting(2, "Trays.", least=1)
    mode: str = setting("fan", "How to heat.")
    minutes: float | None = setting(None, "Minutes; without them until it is done.", above=0)
    name: str = "oven"

    def __post_init__(self):
        check(self)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"heat": 0}, "heat must be positive, got 0"),
        ({"heat": float("nan")}, "heat must be a finite number, got nan"),
        ({"heat": float("inf")}, "heat must be a finite number, got inf"),
        ({"trays": 0}, "trays must be at least 1, got 0"),
        ({"minutes": -1}, "minutes must be positive, got -1"),
        ({"trays": 2.5}, "trays must be a whole number, got 2.5"),
        ({"trays": "two"}, "trays must be a whole number, got 'two'"),
        ({"trays": None}, "trays must be a whole number, got None"),
        ({"trays": True}, "trays must be a whole number, got True"),
        ({"minutes": "1"}, "minutes must be a number, got '1'"),
        ({"heat": float("nan"), "trays": float("nan")}, "heat must be a finite number, got nan"),
        ({"trays": float("nan")}, "trays must be a whole number, got nan"),
        ({"trays": float("inf")}, "trays must be a whole number, got inf"),
    ],
)
def test_values_out_of_bounds_are_refused_with_the_bound(wrong, message):
    with pytest.raises(ValueError) as error:
        Oven(**wrong)
    assert str(error.value) == message


def test_whole_numbers_may_be_written_in_other_types():
    assert Oven(trays=2e1, heat=np.float32(100), minutes=3).trays == 20
    assert Oven(trays=np.int64(3)).trays == 3


def test_fields_without_facts_are_not_settings():
    assert list(settings_of(Oven)) == ["heat", "trays", "mode", "minutes"]


def test_changes_are_checked_by_name_and_value():
    assert changed(Oven(), {"trays": 3}, "bake") == Oven(trays=3)
    with pytest.raises(TypeError, match=r"^bake\(\) has no argument 'tray'; did you mean trays\?$"):
        changed(Oven(), {"tray": 3}, "bake")
    with pytest.raises(ValueError, match="trays must be at least 1, got 0"):
        changed(Oven(), {"trays": 0}, "bake")


def test_a_function_shows_every_setting_as_an_argument_of_its_own():
    @takes_settings(Oven, "mode")
    def bake(what: str, **changes: object) -> object:
        """Bake something."""
        return what, changed(Oven(), changes, "bake")

    assert list(inspect.signature(bake).parameters) == ["what", "heat", "trays", "minutes"]
    assert inspect.signature(bake).parameters["trays"].default == 2
    assert "    trays: Trays." in bake.__doc__
    assert bake("bread", trays=1) == ("bread", Oven(trays=1))


def test_optimize_has_every_setting_and_refuses_others():
    shown = inspect.signature(workbench.optimize).parameters
    assert set(settings_of(Settings)) <= set(shown)
    defaults = {f.name: f.default for f in fields(Settings) if f.name in settings_of(Settings)}
    assert {name: shown[name].default for name in settings_of(Settings)} == defaults
    with pytest.raises(TypeError, match="did you mean e_nodes"):
        workbench.optimize(workbench.GraphBuilder(), e_node=5)


def test_limits_are_settings_and_the_same_everywhere():
    assert Settings(e_nodes=5, settle=1).limits() == Limits(e_nodes=5, settle=1)
    assert set(settings_of(Limits)) < set(settings_of(Settings))
