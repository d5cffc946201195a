"""Proofs of files: made by the command line, checked by a process that has no engine, and refused."""

import os
import subprocess
import sys

import onnx
import pytest

import workbench
from workbench.faces import cli
from workbench.frontends import save_model
from workbench.laws.run_proofs import RunProof, check

from .models import attention, block

#: A program that checks a proof where neither the engine nor any solver nor a runtime can be imported.
CHECK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        without = {"egglog", "onnxruntime", "highspy", "pulp", "torch", *sys.argv[4:]}
        parts = {"saturation", "extraction", "certification", "optimizer"}
        if name.split(".")[0] in without or name.split(".")[:1] == ["workbench"] and parts & {*name.split(".")[1:2]}:
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Absent())
from workbench.laws.run_proofs import check
print(check(*sys.argv[1:4]))
"""


def command(*words):
    with pytest.raises(SystemExit) as ended:
        cli.app([str(w) for w in words], prog_name="workbench")
    return ended.value.code


@pytest.fixture(scope="module", params=[block, attention])
def files(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("proof")
    original, result, proof = (folder / name for name in ("model.onnx", "fast.onnx", "fast.proof"))
    save_model(request.param(), original)
    limits = ("--cost", "analytic", "--no-time", "--quiet")
    assert command("optimize", original, "-o", result, "--proof", proof, *limits) == 0
    return original, result, proof


@pytest.mark.slow
def test_the_command_line_makes_and_checks_a_proof(files, capsys):
    assert command("check", *files) == 0
    assert "proved: over the reals" in capsys.readouterr().out
    assert check(*files).folded


@pytest.mark.slow
def test_a_result_proves_itself_by_its_graphs_or_at_all_sizes_by_its_files(files, tmp_path):
    options = {"cost": "analytic", "time": False, "certify": False}
    accepted = workbench.optimize(files[0], **options).proof()
    assert accepted.laws
    assert not accepted.tested
    assert not accepted.sizes
    open_batch = tmp_path / "open.onnx"
    model = onnx.load(files[0])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(model, open_batch)
    assert "n" in workbench.optimize(open_batch, **options).proof().sizes


def checked_apart(files, *without):
    """Return what a process says of a proof that has no engine, and some packages less."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHECK, *map(str, files), *without]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_process_without_the_engine_checks_a_proof(files):
    assert "both compute the same" in checked_apart(files)


@pytest.mark.slow
def test_without_z3_laws_whose_proofs_need_it_are_named(files):
    found = checked_apart(files, "z3")
    assert "both compute the same" in found
    assert "its proof needs z3, which is not installed" in found or "every law is a theorem" in found


def test_exit_codes_tell_a_wrong_proof_from_no_proof(files, tmp_path):
    original, result, proof = files
    found = RunProof.read(proof.read_text())
    less = tmp_path / "less.proof"
    less.write_text(RunProof(found.laws, found.terms, found.steps[1:]).text())
    assert command("check", original, result, less) == 1
    assert command("check", original, original, proof) == 1
    assert command("check", original, result, original) == 2
    assert command("check", original, result, tmp_path / "none.proof") == 2


def test_a_proof_needs_a_file_of_the_result(files, tmp_path):
    assert command("optimize", files[0], "--proof", tmp_path / "x.proof", "--no-time") == 2
