"""What needs the model zoo says so where there is none, as in an installed wheel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.studies import zoo
from workbench.studies.experiments.config import StudyError
from workbench.studies.experiments.registry import read_study
from workbench.studies.zoo import find_zoo

ROOT = Path(__file__).parents[2]


@pytest.fixture
def wheel(monkeypatch, tmp_path):
    """Hide the zoo: it is neither imported nor next to the package or the working folder."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "zoo"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p).name != "experiments"])
    monkeypatch.setattr(zoo, "__file__", str(tmp_path / "site" / "workbench" / "studies" / "zoo.py"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WORKBENCH_ZOO", raising=False)


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize("kind", ["branches", "deployment", "kernels"])
def test_a_study_that_needs_the_zoo_names_what_is_missing(kind, tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(f"kind: {kind}\n")
    with pytest.raises(StudyError, match=rf"own.yaml: kind {kind}: the model zoo.*clone.*WORKBENCH_ZOO"):
        read_study(file)


@pytest.mark.usefixtures("wheel")
def test_other_studies_need_none(tmp_path):
    (tmp_path / "own.yaml").write_text("kind: extraction\ninstances: {networks: [vgg19]}\nmethods: [tree]\n")
    assert read_study(tmp_path / "own.yaml").KIND == "extraction"


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize("by", ["variable", "folder"])
def test_the_zoo_of_a_checkout_is_found(by, monkeypatch):
    if by == "variable":
        monkeypatch.setenv("WORKBENCH_ZOO", str(ROOT / "experiments"))
    else:
        monkeypatch.chdir(ROOT / "docs")
    find_zoo()
    assert Path(sys.path[-1]).resolve() == ROOT / "experiments"


@pytest.mark.slow
def test_the_process_of_a_job_finds_the_functions_of_the_zoo(tmp_path):
    script = (
        "from workbench.studies.experiments.process import Job, run_jobs\n"
        "from workbench.studies.zoo import find_zoo\n"
        "find_zoo()\n"
        "from zoo.layers import same_pads\n"
        "((_, outcome),) = run_jobs([Job('pads', same_pads, (3, 3), 60.0)])\n"
        "assert outcome.value == (1, 1, 1, 1), outcome\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
