"""Ablation as a figure: the cost of the result without each rule."""

import pytest
from matplotlib.figure import Figure

import workbench
from tests.studies.analysis.test_rule_activity import sums
from workbench.faces.plots import ablation_data, plot_ablation
from workbench.studies.analysis.ablation import Ablation


@pytest.fixture(scope="module")
def made():
    chosen = ["merge-matmuls", "relu-twice"]
    return workbench.studies.ablation(sums(), candidates=chosen, certify=False)


def test_costs_are_those_of_the_rows_most_expensive_first(made):
    data = ablation_data(made)
    assert (data.original, data.best) == (made.best.cost_before, made.best.cost_after)
    assert dict(data.rules) == {row.rule: row.cost for row in made.rows}
    costs = [cost for _, cost in data.rules]
    assert costs == sorted(costs, reverse=True)
    assert len(ablation_data(made, 1).rules) == 1


def test_a_rule_that_is_not_needed_says_so(made):
    ax = plot_ablation(made, Figure().subplots())
    assert [b.get_width() for b in ax.patches] == [cost for _, cost in ablation_data(made).rules]
    assert ax.texts[-1].get_text() == "not needed"
    lines = {line.get_label(): line.get_xdata()[0] for line in ax.lines}
    assert lines == {"with all rules": made.best.cost_after, "original": made.best.cost_before}


def test_what_has_not_begun_is_refused():
    with pytest.raises(ValueError, match="must have begun"):
        ablation_data(Ablation(sums()))
