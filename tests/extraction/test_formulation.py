import pulp
import pytest

from workbench.extraction import extract
from workbench.extraction.formulation import pulp_problem, tensat_problem

from .egraphs import brute_force, random_egraph


def solved(model):
    model.solve(pulp.HiGHS(msg=False, gapRel=0))
    return pulp.value(model.objective) or 0.0


def instances(count):
    found = 0
    for seed in range(1000):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best:
            found += 1
            yield egraph, costs, best
        if found == count:
            return


def test_the_printed_model_has_the_same_optimum():
    for egraph, costs, _ in instances(25):
        assert solved(pulp_problem(egraph, costs)) == pytest.approx(extract(egraph, costs).cost)


@pytest.mark.parametrize("integer_order", [False, True])
def test_tensats_formulation_has_the_true_optimum(integer_order):
    for egraph, costs, best in instances(25):
        assert solved(tensat_problem(egraph, costs, integer_order=integer_order)) == pytest.approx(best)


def test_the_model_can_be_read_and_written(tmp_path):
    egraph, costs, _ = next(instances(1))
    model = pulp_problem(egraph, costs)
    assert "MINIMIZE" in str(model)
    model.writeLP(str(tmp_path / "model.lp"))
    model.writeMPS(str(tmp_path / "model.mps"))
    assert (tmp_path / "model.lp").stat().st_size > 0
