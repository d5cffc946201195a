from workbench.studies.experiments.config import SaturationMethod
from workbench.studies.experiments.optimisation import OptimisationStudy
from workbench.studies.experiments.plan import cells


def study(**changes):
    methods = {"own": SaturationMethod(rules="own.rules"), "library": SaturationMethod()}
    return OptimisationStudy(networks=("bert", "vgg19"), methods=methods, **changes)


def test_every_method_runs_on_every_network(tmp_path):
    (tmp_path / "own.rules").write_text("twice: relu(relu(x)) => relu(x)\n")
    found, skipped = cells(study(), tmp_path)
    assert [(c.network, c.name) for c in found] == [
        (network, name) for network in ("bert", "vgg19") for name in ("own", "library")
    ]
    assert skipped == ()
    first = found[0]
    assert (first.rules, first.cost, first.absent) == (str(tmp_path / "own.rules"), "analytic", "")
    assert list(first.config) == ["study", "network", "method", "cost"]
    assert first.config["method"]["rules"]["file"] == "own.rules"


def test_a_missing_file_is_named_once(tmp_path):
    found, skipped = cells(study(cost="costs.parquet"), tmp_path)
    missing = "costs.parquet: no such file"
    assert skipped == (missing, "own: own.rules: no such file")
    assert {c.absent for c in found} == {missing}
