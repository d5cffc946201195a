import pytest
from matplotlib.figure import Figure

from tests.faces.plots.runs import with_k
from workbench.faces.plots import plot_programs, programs_data


def test_exponents_of_e_graphs_and_of_candidates():
    data = programs_data(with_k(1))
    assert [s.method for s in data.series] == ["workbench", "TASO"]
    assert data.series[0].values[0].mean == 8
    assert data.series[1].values[0].mean == 6
    assert [m.mean for m in data.means] == [8, 6]


def test_the_axis_is_logarithmic():
    ax = plot_programs(with_k(1), Figure().subplots())
    assert ax.get_yscale() == "log"
    assert [t.get_text() for t in ax.texts] == ["8", "8", "6"]


def test_records_without_programs_are_refused():
    with pytest.raises(ValueError, match="must have 'programs' or 'candidates', got neither"):
        programs_data([{"network": "n", "speedup": 3}])
