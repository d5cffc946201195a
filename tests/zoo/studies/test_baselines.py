"""Rivals run in processes of their own: quiet, and whatever they do is a note."""

import os
import sys

import numpy as np
import onnx
import pytest

from workbench.frontends import to_onnx
from zoo.studies import baselines
from zoo.studies.baselines import RIVALS, rival


def model():
    from zoo.branches import branched  # a child process imports this file without the zoo

    return to_onnx(branched("repvgg", blocks=1, channels=4, size=5))


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.slow
def test_a_rival_returns_a_model_that_computes_the_same_without_a_word(name, capfd):
    pytest.importorskip(name)
    found = rival(name, model())
    assert found.model is not None
    assert found.note == ""
    assert found.difference < 1e-5
    assert found.version
    assert len(found.model.graph.node) <= len(model().graph.node)
    assert capfd.readouterr() == ("", "")


def test_a_rival_that_is_not_installed_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxsim", None)
    found = rival("onnxsim", model())
    assert found.model is None
    assert "not installed: pip install 'tamago-workbench[rivals]'" in found.note


def crash(order):
    os.abort()


def fail(order):
    raise RuntimeError("no such operator")


def spoil(order):
    made = onnx.load_from_string(order[1])
    for weight in made.graph.initializer:
        data = onnx.numpy_helper.to_array(weight)
        weight.CopyFrom(onnx.numpy_helper.from_array((2 * data).astype(data.dtype), weight.name))
    return made.SerializeToString(), 0.0


def maim(order):
    made = onnx.load_from_string(order[1])
    del made.graph.node[0]
    return made.SerializeToString(), 0.0


@pytest.mark.parametrize(
    ("does", "note"),
    [
        (crash, "it crashed: the process was ended by SIGABRT"),
        (fail, "it failed: RuntimeError: no such operator"),
        (spoil, "its model is wrong"),
        (maim, "its model does not run"),
    ],
)
def test_what_goes_wrong_is_a_note(monkeypatch, does, note):
    pytest.importorskip("onnxslim", reason="onnxslim is not installed")
    monkeypatch.setattr(baselines, "_optimised", does)
    found = rival("onnxslim", model())
    assert found.model is None
    assert note in found.note
    assert found.difference is None or np.isfinite(found.difference)
