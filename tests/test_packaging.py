"""The project's files agree with each other: versions, dependencies, citations, commands."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import workbench

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())
#: conda-forge packages that pyproject.toml does not know, and why they are there.
CONDA_ONLY = {"pip": "installs the rest", "graphviz": "programs", "pygraphviz": "optional drawings"}


def pyproject_requirements() -> dict[str, Requirement]:
    lines = list(PROJECT["project"]["dependencies"])
    for extra in PROJECT["project"]["optional-dependencies"].values():
        lines += extra
    return {r.name.lower(): r for r in map(Requirement, lines)}


def environment_requirements() -> dict[str, Requirement]:
    conda = [d for d in ENVIRONMENT["dependencies"] if isinstance(d, str)]
    pip = next(d["pip"] for d in ENVIRONMENT["dependencies"] if isinstance(d, dict))
    return {
        r.name.lower(): r for r in map(Requirement, [*conda, *(p for p in pip if not p.startswith("-e"))])
    }


def test_environment_and_pyproject_ask_for_the_same_versions():
    wanted, given = pyproject_requirements(), environment_requirements()
    python = given.pop("python")
    assert python.specifier == SpecifierSet(PROJECT["project"]["requires-python"])
    for name, requirement in given.items():
        if name in CONDA_ONLY:
            assert name not in wanted or requirement.specifier in (wanted[name].specifier, SpecifierSet())
            continue
        assert name in wanted, f"environment.yml names {name}, which pyproject.toml does not"
        assert requirement.specifier == wanted[name].specifier, name
        assert requirement.extras == wanted[name].extras, name


def test_environment_installs_the_project_with_an_extra_that_exists():
    pip = next(d["pip"] for d in ENVIRONMENT["dependencies"] if isinstance(d, dict))
    (line,) = [p for p in pip if p.startswith("-e")]
    extras = re.fullmatch(r"-e \.\[(.+)\]", line).group(1).split(",")
    assert set(extras) <= set(PROJECT["project"]["optional-dependencies"])


def test_binder_installs_the_project_with_extras_and_a_python_that_exist():
    lines = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
    (line,) = [line for line in lines if not line.startswith("#")]
    extras = re.fullmatch(r"\.\[(.+)\]", line).group(1).split(",")
    assert set(extras) <= set(PROJECT["project"]["optional-dependencies"])
    (python,) = (ROOT / "binder" / "runtime.txt").read_text().split()
    assert python.removeprefix("python-") in SpecifierSet(PROJECT["project"]["requires-python"])
    text = (ROOT / "docs" / "online.md").read_text()
    for opened in re.findall(r"(notebooks/[\w-]+\.ipynb)", text):
        assert (ROOT / opened).is_file()


def test_the_container_has_a_python_and_programs_that_exist():
    text = (ROOT / "Dockerfile").read_text()
    (python,) = re.findall(r"^FROM python:([\d.]+)-slim$", text, re.MULTILINE)
    assert python in SpecifierSet(PROJECT["project"]["requires-python"])
    for program in re.findall(r"bin/\w+", text):
        assert (ROOT / program).is_file()


def test_pins_that_have_reasons_hold():
    wanted = pyproject_requirements()
    assert "13.2.0" in wanted["egglog"].specifier
    assert not {"13.1.9", "13.3.0", "14.0.0"} & set(
        wanted["egglog"].specifier.filter(["13.1.9", "13.3.0", "14.0.0"])
    )
    assert "3.3.0" in wanted["pulp"].specifier
    assert "4.0" not in wanted["pulp"].specifier
    assert "highs" in wanted["pulp"].extras
    assert "highspy" in wanted
    assert "torch" not in {Requirement(d).name for d in PROJECT["project"]["dependencies"]}


def third_party_imports() -> set[str]:
    names = set()
    for path in (ROOT / "workbench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module.partition(".")[0])
    of_checkers = {"_typeshed"}  # a module that only type checkers have
    own = {"workbench", "zoo"}
    return names - set(sys.stdlib_module_names) - of_checkers - own


@pytest.mark.slow
def test_what_is_imported_is_declared_and_the_reverse():
    declared = {Requirement(d).name.replace("-", "_") for d in PROJECT["project"]["dependencies"]}
    extras = {
        "torch",
        "matplotlib",
        "pyarrow",
        "scipy",
        "graphviz",
        "pygraphviz",
        "anywidget",
        "ipywidgets",
        "traitlets",
        "papermill",
        "distributed",
        "onnxsim",
        "onnxslim",
        "openvino",
        "ncnn",
        "pnnx",
        "z3",
        "onnxscript",
        "onnx_ir",  # comes with onnxscript
        "sympy",  # comes with torch
    }
    distributions = {"google": "protobuf", "yaml": "pyyaml"}  # where the names differ
    assert {distributions.get(n, n) for n in third_party_imports() - extras} == declared


def test_every_python_classifier_is_allowed():
    allowed = SpecifierSet(PROJECT["project"]["requires-python"])
    prefix = "Programming Language :: Python :: 3."
    minors = [c.removeprefix(prefix) for c in PROJECT["project"]["classifiers"] if c.startswith(prefix)]
    assert "11" in minors
    assert all(f"3.{minor}" in allowed for minor in minors)


def test_citation_has_the_version_and_the_works_it_builds_on():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == workbench.__version__
    assert citation["license"] == PROJECT["project"]["license"]
    cited = {r["notes"]: r for r in citation["references"]}
    assert {"Tensat", "TASO", "egglog"} <= set(cited)
    assert (cited["Tensat"]["year"], cited["TASO"]["year"], cited["egglog"]["year"]) == (2021, 2019, 2023)
    assert any("2101.01332" in i["value"] for i in cited["Tensat"]["identifiers"])
    assert all(r["title"] and r["authors"] for r in citation["references"])


def test_changelog_has_the_version_or_what_is_to_come():
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] in ("Unreleased", workbench.__version__)


@pytest.mark.parametrize(
    "script", ["bin/environment", "bin/test", "bin/demo", "bin/lab", "bin/docs", "bin/gpu", ".ci/run"]
)
def test_scripts_are_executable_bash_that_stops_at_errors(script):
    path = ROOT / script
    assert os.access(path, os.X_OK)
    text = path.read_text()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="a driver is installed")
def test_the_script_for_a_gpu_ends_in_one_line_without_a_driver():
    run = subprocess.run([ROOT / "bin/gpu"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    assert line.startswith("No NVIDIA driver answers")


def test_environment_script_refuses_an_unknown_level():
    run = subprocess.run(
        [ROOT / "bin/environment", "everything"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "core|notebook|test|docs|dev" in run.stderr


def test_the_quick_tests_leave_out_markers_that_exist_and_all_leaves_out_what_is_nightly():
    script = (ROOT / "bin/test").read_text()
    left_out = re.search(r"options=\(-m '(.+)'\)", script).group(1).removeprefix("not ").split(" and not ")
    markers = {m.partition(":")[0] for m in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    assert left_out == ["slow", "notebook", "torch", "browser", "nightly"]
    assert set(left_out) <= markers
    assert "--all) options=(-m 'not nightly');" in script
    assert "--nightly) options=(-m nightly);" in script


def test_continuous_integration_ends_with_all_tests():
    last = (ROOT / ".ci/run").read_text().rstrip().splitlines()[-3:]
    command = subprocess.run(
        ["bash", "-c", f"{last[0]}; echo $command"], cwd=ROOT, capture_output=True, text=True
    )
    assert command.stdout.strip() == "bin/test --all"
    assert last[-1] == "$command"


def test_the_notebook_that_is_opened_is_there():
    (opened,) = re.findall(r"/lab/tree/(\S+)", (ROOT / "bin/lab").read_text())
    assert (ROOT / opened).is_file()


def test_the_types_are_published():
    assert (ROOT / "workbench/py.typed").exists()


def test_import_is_light():
    heavy = [
        "IPython",
        "matplotlib",
        "anywidget",
        "onnx",
        "onnxruntime",
        "torch",
        "pandas",
        "scipy",
        "egglog",
        "highspy",
    ]
    code = f"import sys, workbench; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_public_names_exist():
    for name in workbench.__all__:
        assert getattr(workbench, name) is not None
