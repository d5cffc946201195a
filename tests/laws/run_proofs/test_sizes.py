"""Proofs for all sizes: accepted for dynamic models, and never for what some size breaks."""

import json

import numpy as np
import onnx
import pytest

import workbench
from tests.frontends.models import model, node, normal, value, weight
from tests.frontends.symbolic_models import heads, ints
from workbench.laws.run_proofs import MalformedProof, NotAccepted, RunProof, check, prove
from workbench.laws.run_proofs.congruence import Congruence
from workbench.laws.run_proofs.instance import Instance, NoInstance
from workbench.laws.run_proofs.sizes import SizedType, packed
from workbench.ops import TypeMismatch
from workbench.rules.language import parse_rule
from workbench.symbolic.facts import Facts
from workbench.symbolic.integers import sym

LIMITS = {"cost": "analytic", "time": False, "certify": False, "seconds": 60}
N, M = sym("+n"), sym("+m")


def products(*more, last="c"):
    """Return two products of one input, cut and joined along the sequence, and more nodes of the second part."""
    return model(
        [
            node("MatMul", "x a", "p"),
            node("MatMul", "x b", "q"),
            node("Add", "p q", "s"),
            node("Transpose", "s", "t", perm=[0, 2, 1]),
            node("Transpose", "t", "c", perm=[0, 2, 1]),
            *more,
            node("Relu", last, "y"),
        ],
        [value("x", ["batch", "sequence", 8])],
        [value("y", None)],
        [
            normal("a", 8, 8),
            normal("b", 8, 8),
            ints("zero", 0),
            ints("one", 1),
            ints("long", 64),
            ints("halves", 0, -1, 2, 8),
            ints("whole", 0, -1, 8),
            weight("seventh", np.full((1, 1, 1), 1 / 7)),
        ],
    )


@pytest.fixture(scope="module", params=[heads, products])
def files(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    given, saved = folder / "given.onnx", folder / "saved.onnx"
    onnx.save(request.param(), given)
    result = workbench.optimize(given, **LIMITS)
    assert result.dynamic.kept == ("batch", "sequence")
    result.save(saved)
    return given, saved, prove(result, given, saved)


def test_a_dynamic_model_is_proved_for_all_sizes(files):
    given, saved, proof = files
    found = check(given, saved, RunProof.read(proof.text()))
    assert found.laws
    assert "all sizes batch >= 1, sequence >= 1 at which the original runs" in str(found)


def test_a_proof_of_the_graphs_needs_no_files():
    result = workbench.optimize(heads(), **LIMITS)
    assert check(heads(), result.to_onnx(), prove(result)).sizes == "batch >= 1, sequence >= 1"


def sizes_in(data):
    """Yield the parts of a text that are sizes, to be changed in place."""
    for part in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        if isinstance(part, dict) and part.keys() == {"size"}:
            yield part
        else:
            yield from sizes_in(part)


def test_no_other_size_is_accepted(files):
    given, saved, proof = files
    count = len(list(sizes_in(json.loads(proof.text()))))
    others = (
        "+batch",
        "+sequence",
        7,
        ["+", "+sequence", 1],
        ["*", "+sequence", 2],
        "+other",
        ["f", "+batch"],
        [],
    )
    for k in range(count):
        for other in others:
            data = json.loads(proof.text())
            part = list(sizes_in(data))[k]
            if part["size"] == other:
                continue
            part["size"] = other
            with pytest.raises((NotAccepted, MalformedProof)):
                check(given, saved, RunProof.read(json.dumps(data)))


WRONG = {
    "right up to a length of 64": [node("Slice", "c zero long one", "d")],
    "fits even lengths alone": [node("Reshape", "c halves", "h"), node("Reshape", "h whole", "d")],
    "right at a length of 1": [node("ReduceMean", "c", "d", axes=[1], keepdims=1)],
    "right at a length of 7": [
        node("ReduceSum", "c one", "u"),
        node("Mul", "u seventh", "v"),
        node("ReduceMean", "c", "w", axes=[1], keepdims=1),
        node("Sub", "v w", "z"),
        node("Add", "c z", "d"),
    ],
    "right if batch and length are equal": [node("Transpose", "c", "d", perm=[1, 0, 2])],
}


@pytest.mark.slow
@pytest.mark.parametrize("nodes", WRONG.values(), ids=[*WRONG])
def test_a_result_that_some_size_breaks_is_not_accepted(nodes, tmp_path):
    given, right, wrong = (tmp_path / name for name in ("given.onnx", "right.onnx", "wrong.onnx"))
    onnx.save(products(), given)
    onnx.save(products(*nodes, last="d"), wrong)
    result = workbench.optimize(given, **LIMITS)
    result.save(right)
    proof = prove(result, given, right)
    assert check(given, right, proof).sizes
    with pytest.raises(NotAccepted):
        check(given, wrong, proof)
    # Nor is a proof of the wrong file found: it would be one of the right one.
    with pytest.raises(NotAccepted):
        check(given, wrong, RunProof({}, (), ()))


def test_a_proof_at_fixed_sizes_says_nothing_of_others(tmp_path):
    given, saved = tmp_path / "given.onnx", tmp_path / "saved.onnx"
    onnx.save(heads(), given)
    sizes = {"batch": 2, "sequence": 5}
    result = workbench.optimize(given, dims=sizes, **LIMITS)
    result.save(saved)
    proof = prove(result, given, saved)
    assert not check(given, saved, proof, sizes).sizes
    with pytest.raises(NotAccepted):
        check(given, saved, proof)
    with pytest.raises(NotAccepted):
        check(given, given, proof)


def test_a_dimension_whose_name_is_that_of_another_size_is_refused(tmp_path):
    given = tmp_path / "given.onnx"
    onnx.save(model([node("Relu", "x", "y")], [value("x", ["a", "1*+a"])], [value("y", None)]), given)
    with pytest.raises(NotAccepted, match="must have a name without"):
        check(given, given, RunProof({}, (), ()))


def test_conditions_hold_at_every_size_or_not_at_all():
    facts = Facts()
    at = Instance(Congruence().add, (), {}, facts=facts)
    assert at.related(">=", N, 1)
    assert at.related("=", N * M, M * N)
    assert not any(
        at.related(relation, N, other) for relation in ("=", "!=", "<", "<=", ">") for other in (1, M)
    )
    facts.add(N - 2)
    assert at.related("!=", N, 1)
    assert at.arith("//", N * M * 4, N) == M * 4
    for divisor in (N - 2, N - M, 0, -1, 0.5):
        with pytest.raises((TypeMismatch, ValueError)):
            at.arith("//", N, divisor)


def test_a_law_that_fails_at_a_length_of_one_has_no_instance():
    (rule,) = parse_rule("long: relu(relu(x)) => relu(x) where dim(x, -1) != 1")
    for facts, holds in ((Facts(), False), (Facts(least={"+n": 2}), True)):
        terms = Congruence(facts)
        x = terms.add("input", ("x",), (), SizedType("float32", (3, N)))
        if holds:
            assert Instance(terms.add, terms.types, {"x": x}, facts=facts).equations(rule)
        else:
            with pytest.raises(NoInstance, match="condition"):
                Instance(terms.add, terms.types, {"x": x}, facts=facts).equations(rule)


def test_terms_have_types_and_elements_at_every_size():
    terms = Congruence()
    x = terms.add("input", ("x",), (), SizedType("float32", (4, N)))
    y = terms.add("input", ("y",), (), SizedType("float32", (4, M)))
    with pytest.raises(TypeMismatch):
        terms.add("add", (), (x, y))
    cut = packed("slice", {"axis": -1, "start": 0, "stop": N})
    assert terms.types[terms.add("slice", cut, (x,))] == SizedType("float32", (4, N))
    with pytest.raises(TypeMismatch):
        terms.add("slice", packed("slice", {"axis": -1, "start": 1, "stop": N}), (x,))
    with pytest.raises(TypeMismatch, match="must not depend on a size"):
        packed("transpose", {"perm": (0, N)})
