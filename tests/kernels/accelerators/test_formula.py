"""Formulas of cycles, in the description of a unit."""

import pytest

from workbench.kernels.accelerators.unit import Formula, FormulaError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("rows + columns", 15),
        ("2 * (rows - 1) // 3", 4),
        ("max(rows, inner, columns) % 4", 0),
        ("ceil(rows / 2) * min(inner, 3)", 12),
        ("16", 16),
        ("rows / 2", 3.5),
    ],
)
def test_a_formula_computes(text, value):
    assert Formula(text)(rows=7, inner=5, columns=8) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows + colums", "names must be among rows, inner, columns, got colums"),
        ("rows +", "must be an arithmetic expression"),
        ("__import__('os')", "a formula has numbers"),
        ("rows ** 2", "a formula has numbers"),
        ("rows if rows else 1", "a formula has numbers"),
        ("ceil(rows, 2)", "a formula has numbers"),
        ("True", "a formula has numbers"),
    ],
)
def test_what_is_not_a_formula_is_refused(text, message):
    with pytest.raises(FormulaError, match=message.replace("(", r"\(")):
        Formula(text)


def test_values_must_be_numbers_of_at_least_0():
    with pytest.raises(FormulaError, match="at least 0, got -1"):
        Formula("rows - columns")(rows=1, inner=1, columns=2)
    with pytest.raises(FormulaError, match="divide by zero"):
        Formula("1 / rows")(rows=0, inner=1, columns=2)
