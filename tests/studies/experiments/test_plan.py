from workbench.studies.experiments.config import SaturationMethod
from workbench.studies.experiments.optimisation import OptimisationStudy, make_plan
from workbench.studies.experiments.plan import cells


def study(**changes):
    methods = {"own": SaturationMethod(rules="own.rules"), "library": SaturationMethod()}
    return OptimisationStudy(networks=("bert", "vgg19"), methods=methods, **changes)


def test_every_method_runs_on_every_network(tmp_path):
    (tmp_path / "own.rules").write_text("twice: relu(relu(x)) => relu(x)\n")
    found = list(cells(study(), tmp_path))
    assert [(run.subject, run.method) for run in found] == [
        (network, name) for network in ("bert", "vgg19") for name in ("own", "library")
    ]
    first = found[0]
    assert (*first.order[2:], first.absent) == (
        str(tmp_path / "own.rules"),
        "analytic",
        "",
    )
    assert list(first.config) == ["network", "method", "cost"]
    assert first.config["method"]["rules"]["file"] == "own.rules"


def test_a_missing_file_is_named_once(tmp_path):
    missing = "costs.parquet: no such file"
    assert make_plan(study(cost="costs.parquet"), tmp_path, tmp_path).skipped == (missing,)
    assert make_plan(study(), tmp_path, tmp_path).skipped == ("own: own.rules: no such file",)
