"""Proofs of runs are accepted, and nothing else: steps, models and laws that were changed are not."""

import copy
import json
import random
from dataclasses import replace

import numpy as np
import pytest

import workbench
from workbench.graph import Graph, GraphError
from workbench.graph.weights import Weight
from workbench.laws.run_proofs import MalformedProof, NotAccepted, RunProof, check, prove
from workbench.ops import TypeMismatch

from .models import attention, block


@pytest.fixture(scope="module", params=[block, attention])
def run(request):
    result = workbench.optimize(request.param(), seconds=20, certify=False)
    assert result.graph is not result.original
    return result.original, result.graph, json.loads(prove(result).text())


def accepted(original, result, data):
    try:
        check(original, result, RunProof.read(json.dumps(data)))
    except (NotAccepted, MalformedProof):
        return False
    return True


def test_a_proof_of_theorems_is_accepted(run):
    original, result, data = run
    found = check(original, result, RunProof.read(json.dumps(data)))
    assert sum(found.laws.values()) == len([s for s in data["steps"] if s["kind"] == "law"])
    assert set(found.laws) == {name for name, *_ in data["laws"]}
    assert "compute the same" in str(found)


def test_no_step_can_be_left_out(run):
    original, result, data = run
    for k in range(len(data["steps"])):
        less = {**data, "steps": [s for i, s in enumerate(data["steps"]) if i != k]}
        assert not accepted(original, result, less), data["steps"][k]


def mutated(value, rng, others):
    """Return a value of the same kind that differs."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice([-1, 1, 2])
    if isinstance(value, float):
        return value * 1.5 + 1
    if isinstance(value, str):
        return rng.choice([o for o in others if o != value] or [value + "x"])
    return value


def leaves(data, path=()):
    """Yield the places of all values of a JSON text."""
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield from leaves(data[key], (*path, key))
    else:
        yield path


def changed(data, path, rng):
    """Return data with another value at a place."""
    found = copy.deepcopy(data)
    inside = found
    for key in path[:-1]:
        inside = inside[key]
    names = [name for name, *_ in data["laws"]]
    inside[path[-1]] = mutated(inside[path[-1]], rng, names)
    return found


def mutants_of_text(run, count, seed):
    original, result, data = run
    rng, places = random.Random(seed), list(leaves(data))
    for path in rng.sample(places, min(count, len(places))):
        other = changed(data, path, rng)
        if other != data:
            assert not accepted(original, result, other), path


def test_a_changed_number_or_name_is_not_accepted(run):
    mutants_of_text(run, 40, 0)


@pytest.mark.nightly
def test_no_changed_number_or_name_is_accepted(run):
    mutants_of_text(run, 10_000, 1)


def with_weight(graph, name):
    """Return a graph with one element of a weight changed."""
    data = graph.weights[name].value().copy()
    data.reshape(-1)[0] += np.float32(0.5)
    return replace(graph, weights={**graph.weights, name: Weight.of(data)})


def read_weights(graph):
    live = graph.reachable()
    return [str(n.attrs[0]) for i, n in enumerate(graph.nodes) if n.op == "weight" and live[i]]


def test_a_changed_weight_is_not_accepted(run):
    original, result, data = run
    for name in read_weights(original):
        assert not accepted(with_weight(original, name), result, data), name
    for name in read_weights(result):
        assert not accepted(original, with_weight(result, name), data), name


def test_swapped_operands_are_not_accepted(run):
    original, result, data = run
    for k, graph in enumerate((original, result)):
        for i, node in enumerate(graph.nodes):
            if len(node.inputs) < 2 or node.inputs[0] == node.inputs[1] or node.op in ("add", "mul"):
                continue
            turned = replace(node, inputs=(node.inputs[1], node.inputs[0], *node.inputs[2:]))
            try:
                other = replace(graph, nodes=(*graph.nodes[:i], turned, *graph.nodes[i + 1 :]))
            except (GraphError, TypeMismatch):
                continue
            pair = (other, result) if k == 0 else (original, other)
            assert not accepted(*pair, data), node


def test_other_inputs_are_not_accepted(run):
    original, result, data = run
    assert not accepted(original, original, data)
    ((name, kind),) = original.input_types.items()
    smaller = replace(kind, shape=(2, *kind.shape[1:]))
    nodes = [replace(n, type=smaller) if n.op == "input" else n for n in result.nodes]
    with pytest.raises(NotAccepted, match="inputs differ"):
        check(original, _unchecked(result, nodes), RunProof.read(json.dumps(data)))
    assert name == "x"


def _unchecked(graph, nodes):
    found = copy.copy(graph)
    object.__setattr__(found, "nodes", tuple(nodes))
    assert isinstance(found, Graph)
    return found


def test_a_law_that_is_replaced_is_not_accepted(run):
    original, result, data = run
    for k, (name, file, law, digest) in enumerate(data["laws"]):
        for other in (
            [name, file, law.replace("add(", "sub("), digest],
            [name, file, law + " where rank(x) = 4", digest],
            [name, file, law, digest[::-1]],
            [name, "axioms.rules", law, digest],
            ["sum-commutes", "branches.rules", law, digest],
        ):
            if other != data["laws"][k]:
                laws = [other if i == k else given for i, given in enumerate(data["laws"])]
                assert not accepted(original, result, {**data, "laws": laws}), other


def test_a_law_whose_stored_proof_is_rejected_is_not_accepted(run, monkeypatch):
    from workbench.laws.run_proofs import checking

    original, result, data = run
    monkeypatch.setattr(checking, "_rejected", lambda rule, record: "wrong")
    with pytest.raises(NotAccepted, match="does not accept the stored proof"):
        check(original, result, RunProof.read(json.dumps(data)))
    monkeypatch.setattr(checking, "proof_record", lambda rule: None)
    with pytest.raises(NotAccepted, match="neither a theorem nor tested"):
        check(original, result, RunProof.read(json.dumps(data)))
