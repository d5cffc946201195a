import math
import random

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from tests.sampled import in_turn
from workbench.graph import evaluate
from workbench.torch.views import ViewBuilder, axes_of

pytestmark = pytest.mark.torch


def factors(rng, size):
    """Return extents with a product, in a random number of axes."""
    shape = []
    while size > 1:
        shape.append(rng.choice([d for d in range(1, size + 1) if size % d == 0]))
        size //= shape[-1]
    return tuple(shape) or (1,)


def chain(rng, builder, x, value):
    """Apply random views to a value and to the array that it stands for."""
    for _ in range(rng.randint(1, 7)):
        match rng.choice(["reshape", "transpose", "slice"]):
            case "reshape":
                shape = factors(rng, value.size)
                x, value = builder.op("reshape", x, shape=shape), value.reshape(shape)
            case "transpose":
                perm = tuple(rng.sample(range(value.ndim), value.ndim))
                x, value = builder.op("transpose", x, perm=perm), value.transpose(perm)
            case _:
                axis = rng.randrange(value.ndim)
                start = rng.randrange(value.shape[axis])
                stop = rng.randint(start + 1, value.shape[axis])
                step = rng.choice([1, 1, 2])
                place = {"axis": axis - value.ndim, "start": start, "stop": stop, "step": step}
                x = builder.op("slice", x, **place)
                value = value[(slice(None),) * axis + (slice(start, stop, step),)]
    return x, value


@pytest.mark.parametrize("seed", in_turn(range(200), 4))
def test_a_chain_is_what_numpy_makes_of_it(seed):
    rng = random.Random(seed)
    builder = ViewBuilder("views")
    shape = rng.choice([(4, 6), (2, 3, 12), (24,), (2, 2, 3, 8), (5, 7)])
    given = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    x, value = chain(rng, builder, builder.input("x", shape), given)
    assert builder.type(x).shape == value.shape
    np.testing.assert_array_equal(evaluate(builder.graph([("y", x)]), {"x": given})["y"], value)


def test_packed_heads_are_columns_of_a_product():
    b = ViewBuilder("heads")
    x = b.input("x", (64, 8, 1536))
    stacked = b.op("transpose", b.op("reshape", x, shape=(1, 64, 8, 3, 512)), perm=(3, 1, 2, 0, 4))
    keys = b.op("slice", b.op("reshape", stacked, shape=(3, 64, 8, 512)), axis=-4, start=1, stop=2, step=1)
    flat = b.op("transpose", b.op("reshape", keys, shape=(64, 64, 64)), perm=(1, 0, 2))
    heads = b.op("transpose", b.op("reshape", flat, shape=(8, 8, 64, 64)), perm=(0, 2, 1, 3))
    columns = b.op("slice", x, axis=-1, start=512, stop=1024, step=1)
    assert b.op("reshape", heads, shape=(8, 64, 512)) == b.op("transpose", columns, perm=(1, 0, 2))


def test_equal_views_are_one_value():
    b = ViewBuilder("equal")
    x = b.input("x", (4, 6))
    turned = b.op("transpose", x, perm=(1, 0))
    assert b.op("transpose", turned, perm=(1, 0)) == x
    assert b.op("reshape", b.op("reshape", x, shape=(2, 2, 6)), shape=(4, 6)) == x
    part = b.op("slice", b.op("slice", x, axis=-2, start=1, stop=4, step=1), axis=-2, start=1, stop=2, step=1)
    assert part == b.op("slice", x, axis=-2, start=2, stop=3, step=1)


def test_a_linear_layer_reads_rows_before_they_are_joined():
    b = ViewBuilder("rows")
    x, w, bias = b.input("x", (8, 64, 512)), b.input("w", (512, 16)), b.input("b", (16,))
    joined = b.op("add", b.op("matmul", b.op("reshape", x, shape=(512, 512)), w), bias)
    cut = b.op("reshape", joined, shape=(8, 64, 16))
    assert b.nodes[cut].op == "add"
    assert b.nodes[b.nodes[cut].inputs[0]].inputs == (x, w)


def test_what_no_strides_give_is_no_view():
    repeated = np.broadcast_to(np.empty((1, 3), np.int8), (4, 3))
    assert axes_of(repeated) is None
