import pytest

from workbench.graph import GraphBuilder
from workbench.kernels.composites.composite import NotationError
from workbench.kernels.composites.declared import declared_rules
from workbench.optimizer.pipeline import optimize

TEXT = """
# A soft clipped gate.
soft_gate_of_file: x{T}[~], z{T}[~] -> y{T}[~]
    y = x * tanh(z / 3)

# A norm of rows, with a number of its own.
norm_of_file(eps=1e-5): x{T}[~ D], g{T}[D] -> y{T}[~ D]
    y[~ d] = x[~ d] * g[d] / sqrt(mean(e) x[~ e]^2 + eps)
"""


@pytest.fixture
def file(tmp_path):
    place = tmp_path / "mine.composite"
    place.write_text(TEXT)
    return place


@pytest.mark.slow
def test_composites_of_a_file_have_judged_laws_in_both_directions(file):
    rules = declared_rules(file)
    names = ["soft-gate-of-file-is", "soft-gate-of-file-found", "norm-of-file-is", "norm-of-file-found"]
    assert [rule.name for rule in rules] == names
    assert {rules.verdict(rule) for rule in rules} <= {"proved", "tested"}


@pytest.mark.slow
def test_a_search_finds_a_composite_in_a_graph(file):
    b = GraphBuilder()
    x, z = b.input("x", (4, 8)), b.input("z", (4, 8))
    third = b.op("div", z, b.op("scalar", value=3.0, dtype="float32"))
    graph = b.graph({"y": b.op("mul", x, b.op("tanh", third))})
    found = optimize(graph, rules=[declared_rules(file)], cost="analytic", time=False)
    assert "soft_gate_of_file" in found.egraph.ops
    assert found.certificate.passed


def test_a_file_without_a_law_is_refused(tmp_path):
    place = tmp_path / "none.composite"
    place.write_text("sizes: -> y{T}[N]\n    y[i] = i\n")
    with pytest.raises(NotationError):
        declared_rules(place)
