"""The table of facts about ONNX operators names operators that exist, each once."""

import onnx
import pytest
from onnx.helper import make_node

from workbench.frontends.onnx.traits import _MICROSOFT, _ONNX, OnnxTrait, draws_random_numbers, has


def with_trait(trait):
    return {name for traits, names in _ONNX.items() if trait in traits for name in names.split()}


def test_each_operator_is_named_once_and_exists():
    for table in (_ONNX, _MICROSOFT):
        names = [name for row in table.values() for name in row.split()]
        assert len(names) == len(set(names))
    assert {name for row in _ONNX.values() for name in row.split()} <= {
        schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""
    }


def test_what_is_random_by_its_schema_is_random_here():
    marked = {s.name for s in onnx.defs.get_all_schemas() if s.non_deterministic and s.domain == ""}
    known = with_trait(OnnxTrait.RANDOM) | with_trait(OnnxTrait.RANDOM_IN_TRAINING)
    assert known <= marked
    assert {name for name in marked - known if "Random" in name} == set()


@pytest.mark.parametrize(
    ("name", "domain", "random"),
    [
        ("Bernoulli", "", True),
        ("Bernoulli", "ai.onnx", True),
        ("Bernoulli", "own", False),
        ("Sampling", "com.microsoft", True),
        ("Sampling", "", False),
    ],
)
def test_random_operators_are_known_by_their_domain(name, domain, random):
    assert draws_random_numbers(make_node(name, ["x"], ["y"], domain=domain)) is random


@pytest.mark.parametrize(
    ("name", "domain", "before"),
    [
        ("Dropout", "", ["x", "r"]),
        ("BitmaskDropout", "com.microsoft", ["x", "r"]),
        ("BiasDropout", "com.microsoft", ["x", "b", "", "r"]),
        ("BitmaskBiasDropout", "com.microsoft", ["x", "b", "", "r"]),
    ],
)
def test_dropouts_are_random_in_training(name, domain, before):
    def drawn(inputs):
        return draws_random_numbers(make_node(name, inputs, ["y"], domain=domain))

    assert not drawn(before)
    assert drawn([*before, "training"])


def test_import_computes_no_random_operator_and_no_subgraph():
    foldable = with_trait(OnnxTrait.FOLDABLE)
    assert not foldable & with_trait(OnnxTrait.RANDOM)
    assert not foldable & with_trait(OnnxTrait.SUBGRAPHS)
    assert not has(make_node("Dropout", ["x"], ["y"]), OnnxTrait.FOLDABLE)
