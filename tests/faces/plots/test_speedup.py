import pytest
from matplotlib.figure import Figure

from tests.faces.plots.runs import runs, with_k
from workbench.faces.plots import plot_speedup, speedup_data


def test_means_and_standard_errors_over_repeats():
    data = speedup_data(with_k(1))
    ours = data.series[0].values
    assert (ours[0].mean, ours[0].error, ours[0].count) == pytest.approx((30, 10, 2))
    assert ours[1].mean == 0
    # TASO and Tensat have no figure for the second network, so the mean is over the first alone.
    assert [m.mean for m in data.means] == pytest.approx([30, 12, 25])


def test_the_picture_names_methods_networks_and_the_source_of_costs():
    ax = plot_speedup(with_k(1), Figure().subplots())
    assert [t.get_text() for t in ax.get_legend().get_texts()] == [
        "workbench", "TASO, published (T4)", "Tensat, published (T4)",
    ]  # fmt: skip
    assert [t.get_text() for t in ax.get_xticklabels()] == ["toy", "net"]
    assert ax.get_xlabel() == "costs: roofline"


def test_no_records_say_so():
    assert plot_speedup(runs()[:0], Figure().subplots()).texts[0].get_text() == "no records"
