"""Ablation as a figure: the cost of the result without each rule."""

import pytest
from matplotlib.figure import Figure

import workbench
from tests.studies.analysis.test_rule_activity import sums
from workbench.faces.plots import plot_ablation
from workbench.studies.analysis.ablation import Ablation


@pytest.fixture(scope="module")
def made():
    chosen = ["merge-matmuls", "relu-twice"]
    return workbench.studies.ablation(sums(), candidates=chosen, certify=False)


def test_the_most_expensive_rules_are_drawn_first(made, monkeypatch):
    costs = sorted((row.cost for row in made.rows), reverse=True)
    for most in (1, 20):
        monkeypatch.setattr("workbench.faces.plots.cost.MOST_RULES", most)
        ax = plot_ablation(made, Figure().subplots())
        assert [b.get_width() for b in ax.patches] == costs[:most]


def test_a_rule_that_is_not_needed_says_so(made):
    ax = plot_ablation(made, Figure().subplots())
    assert ax.texts[-1].get_text() == "not needed"
    lines = {line.get_label(): line.get_xdata()[0] for line in ax.lines}
    assert lines == {"with all rules": made.best.cost_after, "original": made.best.cost_before}


def test_what_has_not_begun_is_refused():
    with pytest.raises(ValueError, match="must have begun"):
        plot_ablation(Ablation(sums()))
