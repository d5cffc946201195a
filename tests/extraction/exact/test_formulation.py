"""Integer programs of extractions as PuLP models."""

import pulp
import pytest

from tests.extraction.egraphs import brute_force, problem_of, random_egraph
from workbench.extraction.exact.ilp import pulp_problem, selection_of
from workbench.extraction.extract import Extraction
from workbench.extraction.problem import NoExtraction, dag_cost, is_acyclic
from workbench.extraction.reduce.cycles import components, cyclic
from workbench.studies.tensat import tensat_problem


def solved(model):
    model.solve(pulp.HiGHS(msg=False, gapRel=0))
    assert model.status == pulp.LpStatusOptimal
    return pulp.value(model.objective)


def is_cyclic(egraph, costs):
    problem = problem_of(egraph, costs)
    return bool(cyclic(problem, components(problem)))


def instances(count, *, cycles=None):
    """Return e-graphs whose least term costs something, with its cost; on request with cycles or without."""
    found = []
    for seed in range(1000):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best and (cycles is None or is_cyclic(egraph, costs) == cycles):
            found.append((egraph, costs, best))
        if len(found) == count:
            return found
    raise AssertionError("too few instances")


MODELS = {
    "ours": pulp_problem,
    "tensat": tensat_problem,
    "tensat-integer": lambda egraph, costs: tensat_problem(egraph, costs, integer_order=True),
}


@pytest.mark.parametrize("cycles", [False, True], ids=["acyclic", "cyclic"])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_optimum_is_that_of_brute_force(model, cycles):
    for egraph, costs, best in instances(25, cycles=cycles):
        assert solved(model(egraph, costs)) == pytest.approx(best)


def test_any_solver_takes_it():
    for egraph, costs, best in instances(8, cycles=True):
        model = pulp_problem(egraph, costs)
        model.solve(pulp.PULP_CBC_CMD(msg=False))
        assert pulp.value(model.objective) == pytest.approx(best)


@pytest.mark.parametrize("method", ["exact", "tensat", "tensat-integer"])
def test_an_extraction_has_its_program_and_reads_its_solution(method, tmp_path):
    for egraph, costs, best in instances(8, cycles=True):
        model = Extraction(egraph, costs, method).model()
        with pytest.raises(NoExtraction, match="must be solved first"):
            selection_of(egraph, costs, model)
        assert solved(model) == pytest.approx(best)
        selection = selection_of(egraph, costs, model)
        assert is_acyclic(egraph, selection)
        assert dag_cost(selection, costs) == pytest.approx(best)
    model.writeLP(str(tmp_path / "model.lp"))
    assert "Minimize" in (tmp_path / "model.lp").read_text()


def test_variables_are_named_by_the_e_graph():
    egraph, costs, _ = instances(1, cycles=True)[0]
    problem = problem_of(egraph, costs)
    names = {v.name for v in pulp_problem(egraph, costs).variables()}
    assert {f"x_{i}" for i in problem.nodes} <= names
    assert {f"t_{c}" for c in cyclic(problem, components(problem))} <= names
    # Tensat's program orders all e-classes that read or are read.
    reading = zip(problem.eclass, problem.children, strict=True)
    assert {f"t_{d}" for c, row in reading if row for d in (c, *row)} == {
        v.name for v in tensat_problem(egraph, costs).variables() if v.name[0] == "t"
    }


def test_the_model_can_be_read_and_written(tmp_path):
    egraph, costs, best = instances(1, cycles=True)[0]
    model = pulp_problem(egraph, costs)
    assert "MINIMIZE" in str(model)
    model.writeLP(str(tmp_path / "model.lp"))
    assert (tmp_path / "model.lp").read_text().count("t_") > 0
    model.writeMPS(str(tmp_path / "model.mps"))
    _, again = pulp.LpProblem.fromMPS(str(tmp_path / "model.mps"))
    assert solved(again) == pytest.approx(best)
