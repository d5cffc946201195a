"""Corrupted models: each of thousands of small corruptions must give a graph or a clear error.

The seeds make all runs equal; raise ROUNDS to search longer.
"""

import random

import onnx
import pytest
from google.protobuf.descriptor import FieldDescriptor

from tests.frontends.models import INT64, model, node, normal, value, weight
from tests.frontends.onnx.test_opaque import branches
from workbench.frontends import ModelError, import_onnx, to_onnx

ROUNDS = 400
NUMBERS = [0, -1, 1, 2, 7, 13, 99, 1 << 31, 1 << 40, -(1 << 62)]
SMALL = [0, -1, 1, 2, 7, 13, 99, 1 << 30]


def network():
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", "c", "r"),
        node("MaxPool", "r", "m", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("Split", "m sizes", "s0 s1", axis=1), node("Concat", "s1 s0", "k", axis=1),
        node("Shape", "k", "sh"), node("Gather", "sh zero", "n"), node("Unsqueeze", "n ax", "n1"),
        node("Concat", "n1 rest", "to", axis=0), node("Reshape", "k to", "f"), node("Gemm", "f v u", "g"),
        node("Softmax", "g", "y", axis=1),
    ]  # fmt: skip
    weights = [
        normal("w", 4, 3, 3, 3), normal("b", 4), normal("v", 16, 6), normal("u", 6),
        weight("sizes", [1, 3], "int64"), weight("zero", 0, "int64"), weight("ax", [0], "int64"),
        weight("rest", [-1], "int64"),
    ]  # fmt: skip
    return model(nodes, [value("x", [2, 3, 8, 8])], [value("y", [2, 6])], weights, 18)


def others():
    topk = onnx.helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=-1)
    return model(
        [topk, node("Tile", "v reps", "t"), node("ReduceMean", "t axes", "y", keepdims=0)],
        [value("x", [2, 6])],
        [value("y", [2]), value("i", [2, 3], INT64)],
        [weight("k", [3], "int64"), weight("reps", [1, 2], "int64"), weight("axes", [1], "int64")],
        18,
    )


def messages(message, found):
    for field, content in message.ListFields():
        found.append((message, field))
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in content if repeated(message, field) else [content]:
                messages(inner, found)
    return found


def repeated(message, field):
    return hasattr(getattr(message, field.name), "append")


def corrupted(number, field, r):
    """Return another value for a number or text field."""
    if field.type in (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64):
        return r.choice(NUMBERS)
    if field.type in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_ENUM):
        return r.choice(SMALL)
    if field.type == FieldDescriptor.TYPE_STRING:
        return r.choice(["", "x", "y", "Relu", "Add", "Conv", "If", "Loop", "Reshape", "Split", "Tile"])
    if field.type == FieldDescriptor.TYPE_FLOAT:
        return r.choice([0.0, float("nan"), float("inf"), -1e30])
    return r.choice([b"", b"\xff", b"NOTSET", b"VALID", bytes(64)])


def mutate(m, r):
    found = messages(m, [])
    if not found:
        return
    message, field = r.choice(found)
    content = getattr(message, field.name)
    if r.random() < 0.25:
        message.ClearField(field.name)
    elif not repeated(message, field):
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            try:
                setattr(message, field.name, corrupted(content, field, r))
            except ValueError:
                message.ClearField(field.name)  # an enumeration refuses the number
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        i = r.randrange(len(content))
        if r.random() < 0.5:
            del content[i]
        else:
            content.add().CopyFrom(content[i])
    else:
        i = r.randrange(len(content))
        content[i] = corrupted(content[i], field, r)


def attempt(source):
    """Return the outcome of importing a model; all errors except clear ones propagate."""
    try:
        graph = import_onnx(source).graph
    except (ModelError, FileNotFoundError):  # the latter for external data
        return "refused"
    try:
        to_onnx(graph)
    except ModelError:
        return "not written"
    return "imported"


@pytest.mark.slow
@pytest.mark.parametrize("base", [network, others, branches])
def test_corrupted_messages_end_in_a_graph_or_an_error_of_ours(base):
    fates = []
    for seed in range(ROUNDS):
        r = random.Random(seed)
        m = onnx.ModelProto()
        m.CopyFrom(base())
        for _ in range(r.choice([1, 1, 2, 4])):
            mutate(m, r)
        fates.append(attempt(m))
    assert fates.count("refused") > ROUNDS / 3
    assert fates.count("imported") > ROUNDS / 20


@pytest.mark.parametrize("base", [network, others, branches])
def test_corrupted_bytes_end_in_a_graph_or_an_error_of_ours(base):
    content = base().SerializeToString()
    fates = []
    for seed in range(ROUNDS):
        r = random.Random(seed)
        broken = bytearray(content)
        for _ in range(r.choice([1, 2, 5])):
            broken[r.randrange(len(broken))] = r.randrange(256)
        fates.append(attempt(bytes(broken)))
    assert set(fates) <= {"refused", "imported", "not written"}
    assert "refused" in fates
