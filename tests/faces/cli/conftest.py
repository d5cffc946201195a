"""What the tests of the command line share: a command that is run here, and a model to run it on."""

import onnx
import pytest

from tests.faces.cli.models import two_matmuls
from workbench.faces import cli


@pytest.fixture
def run(capsys):
    """Run a command in this process and return its exit code, stdout and stderr."""

    def call(*args):
        with pytest.raises(SystemExit) as stop:
            cli.app([str(a) for a in args], prog_name="workbench")
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "two.onnx"
    onnx.save(two_matmuls(), path)
    return path
