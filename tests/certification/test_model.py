"""Pieces of a model load like the model itself."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tests.certification.models import model
from workbench.certification.model import Model


@pytest.mark.parametrize(("stated", "version"), [(3, 4), (4, 4), (8, 8)])
def test_a_piece_keeps_the_version_of_its_file_or_the_first_with_weights_that_are_no_inputs(stated, version):
    """Version 3 lists weights as inputs, too; a piece does not. Version 8 brought local functions."""
    whole = model(
        [helper.make_node("Mul", ["x", "k"], ["y"])], [("x", 1, [2]), ("k", 1, [2])], [("y", 1, [2])]
    )
    whole.graph.initializer.append(numpy_helper.from_array(np.float32([3, 4]), "k"))
    whole.ir_version = stated
    piece = Model.of(whole, None, "").cut(["y"])
    assert [v.name for v in piece.graph.input] == ["x"]
    assert [t.name for t in piece.graph.initializer] == ["k"]
    assert piece.ir_version == version
