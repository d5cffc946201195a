"""Units read from TOML: the files that come with the workbench, and the line and reason of each error."""

from pathlib import Path

import pytest

from workbench.kernels.accelerators import UnitError, parse_unit, unit, units
from workbench.kernels.accelerators.unit import folder
from workbench.support.messages import UnknownName

TEXT = (folder() / "systolic64.toml").read_text()


def test_the_units_that_come_with_the_workbench():
    assert set(units()) == {"amx_int8", "systolic128", "systolic16", "systolic64", "vnni", "wmma16"}
    for name in units():
        found = unit(name)
        assert found.name == name
        assert found.doc
        assert unit(found) is found


def test_a_unit_is_read_from_any_file(tmp_path):
    place = tmp_path / "mine.toml"
    place.write_text(TEXT.replace("systolic64", "mine").replace("columns = 64", "columns = 7"))
    assert (unit(place).columns, unit(str(place)).name) == (7, "mine")


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("rows + columns", "rows + colums", "cycles", "names must be among rows, inner, columns, got colums"),
        ("inner = 64", "inner = 0", "inner", "inner must be at least 1, got 0"),
        ("inner = 64", "iner = 64", "iner", "did you mean inner"),
        ('accumulator = "float32"', 'accumulator = "float23"', "accumulator", "did you mean float32"),
        ('accumulator = "float32"', 'accumulator = "int32"', "unit", "all be floating-point or all whole"),
        ('rows = "any"', "rows = -4", "rows", "rows must be at least 0, got -4"),
        ("strided = true", 'strided = "yes"', "strided", "strided must be true or false, got 'yes'"),
        ('["relu"]', '["gelu"]', "activations", "activations must be among sigmoid, relu, tanh, got 'gelu'"),
        ('["relu"]', '[["relu"]]', "activations", "activations must be a list, got [['relu']]"),
        ("inner = 64", "inner = true", "inner", "inner must be a whole number, got True"),
        ("clock = 1000", "clock = inf", "clock", "clock must be positive, got inf"),
        ("[vector]", "[vectors]", "vectors", "did you mean vector"),
        ("clock = 1000", "clock = ", "clock", "not TOML: invalid value"),
        (
            'name = "systolic64"',
            'name = "my unit"',
            "name",
            "name must be letters, digits and _, got 'my unit'",
        ),
        ('load = "inner"', 'load = "inner - 100"', "load", "must be at least 0, got -36"),
    ],
)
def test_a_wrong_file_gets_a_line_and_a_reason(old, new, line, reason):
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    with pytest.raises(UnitError) as caught:
        parse_unit(text, "mine.toml")
    assert reason in str(caught.value)
    found = next(i for i, row in enumerate(text.splitlines(), 1) if row.startswith((line, f"[{line}]")))
    assert str(caught.value).startswith(f"mine.toml, line {found}: ")


def test_a_missing_key_is_named_with_its_table():
    text = "\n".join(row for row in TEXT.splitlines() if not row.startswith("cycles"))
    with pytest.raises(UnitError, match=r"line \d+: \[time\] must have cycles"):
        parse_unit(text, "mine.toml")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UnknownName, match="did you mean systolic64"):
        unit("systolic46")
    with pytest.raises(FileNotFoundError):
        unit("nowhere.toml")


def test_the_files_are_part_of_the_wheel():
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert '"accelerators" = "workbench/_accelerators"' in project
