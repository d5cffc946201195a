"""What is not linear in extents, such as a reshape, is decided by numbers, and its instances fit."""

import random

import pytest

from workbench.laws.verification.instances.ground import Ground, draw, instance_of
from workbench.laws.verification.instances.linear import Inconsistent, NotLinear
from workbench.laws.verification.instances.nondeterminism import RandomChoices
from workbench.laws.verification.instances.spaces import open_space
from workbench.laws.verification.instances.typings import Menu
from workbench.laws.verification.refuting.refute import FULL
from workbench.ops import TensorType, TypeMismatch
from workbench.rules.language import parse_rule


def drawn(text, count, seed=0):
    (rule,) = parse_rule(f"law: {text}")
    rng, found = random.Random(seed), []
    for _ in range(count):
        try:
            one = draw(rule, rng, FULL)
        except (Inconsistent, TypeMismatch):
            continue
        if one is not None:
            found.append(instance_of(*one))
    return found


def test_what_is_reshaped_keeps_its_elements():
    instances = drawn("reshape[shape=s](relu(x)) => relu(reshape[shape=s](x))", 100)
    assert len(instances) > 50
    for instance in instances:
        assert TensorType("float32", instance.attrs["s"]).elements == instance.types["x"].elements
    assert sum(i.attrs["s"] != i.types["x"].shape for i in instances) > 20
    assert len({i.types["x"].rank for i in instances}) >= 4


def test_a_law_of_reshapes_that_needs_a_rank_is_met():
    instances = drawn(
        "matmul[c](reshape[shape=s](x), w) => \
         reshape[shape=(dim(x, -3) * dim(x, -2), dim(w, -1))](matmul[c](x, w)) \
         where rank(w) = 2, rank(x) = 3, dim(x, -1) = dim(w, -2)",
        100,
    )
    assert len(instances) >= 10
    for instance in instances:
        assert (instance.types["x"].rank, instance.types["w"].rank) == (3, 2)
        assert instance.types["x"].shape[-1] == instance.types["w"].shape[-2]


@pytest.mark.parametrize(
    "left",
    [
        "add(reshape[shape=s](x), y)",
        "reshape[shape=s](conv2d[c](x, w, b))",
        "maxpool[c](x)",  # with ceil_mode
        "avgpool[c](x)",
        "reduce_sum[c](x)",  # axes dropped
        "concat[axis=a](reshape[shape=s](x), y)",
        "reshape[shape=s](transpose[perm=p](x))",
        "slice[c](reshape[shape=s](x))",
    ],
)
def test_instances_fit_on_both_sides(left):
    instances = drawn(f"{left} => identity({left})", 120)
    assert len(instances) > 30
    for instance in instances:
        assert Ground().add(instance)
    assert len({tuple(i.types.items()) for i in instances}) > 15


def test_both_ways_to_round_and_to_drop_axes_are_met():
    assert {i.rows["c"]["ceil"] for i in drawn("maxpool[c](x) => identity(maxpool[c](x))", 40)} == {0, 1}
    sums = drawn("reduce_sum[c](x) => identity(reduce_sum[c](x))", 40)
    assert {i.rows["c"]["keepdims"] for i in sums} == {0, 1}


def test_the_same_seed_draws_the_same_instances():
    text = "reshape[shape=s](conv2d[c](x, w)) => identity(reshape[shape=s](conv2d[c](x, w)))"
    assert drawn(text, 20, 1) == drawn(text, 20, 1) != drawn(text, 20, 2)


def test_a_menu_that_decides_no_numbers_has_no_instances():
    (rule,) = parse_rule("law: reshape[shape=s](relu(x)) => relu(reshape[shape=s](x))")
    with pytest.raises(NotLinear, match="a product of two unknowns"):
        open_space(rule, RandomChoices(random.Random(0)), Menu(ranks=(2,)))
