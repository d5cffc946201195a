"""An error on the command line is one line: its message, and whose code raised it."""

import pytest

from workbench.faces.cli.console import describe
from workbench.support.plugins import naming


def test_the_line_names_the_plug_in_that_raised_it():
    with pytest.raises(ValueError, match="e-node here") as raised, naming("the extractor 'mine'"):
        raise ValueError("no\n  e-node here")
    assert describe(raised.value) == "no e-node here, in the extractor 'mine'"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (KeyError("x"), "x"),
        (ValueError(), "ValueError"),
        (FileNotFoundError(2, "", "m.onnx"), "no such file: m.onnx"),
    ],
)
def test_an_error_is_one_line_without_quotes(error, line):
    assert describe(error) == line
