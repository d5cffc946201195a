"""Instances of rules whose typing is not linear are proposed, and most of the proposals fit."""

import contextlib
import random

import pytest

from workbench.laws.verification.instances.boundary_values import coordinate_of
from workbench.laws.verification.instances.spaces import Ground
from workbench.laws.verification.refuting.sampling import Draft, draw_instance, draw_type
from workbench.ops import ACTIVATIONS, TensorType, TypeMismatch
from workbench.rules.interpret import holds
from workbench.rules.language import parse_rule


def law(text):
    (rule,) = parse_rule(f"law: {text}")
    return rule


def drawn(text, count, seed=0):
    rule, rng = law(text), random.Random(seed)
    found = [draw_instance(rule, rng) for _ in range(count)]
    return [instance for instance in found if instance is not None]


def fitting(instances):
    """Return those that have a type on both sides."""
    found = []
    for instance in instances:
        try:
            Ground().add(instance)
        except TypeMismatch:
            continue
        found.append(instance)
    return found


def test_what_is_reshaped_keeps_its_elements():
    instances = drawn("reshape[shape=s](relu(x)) => relu(reshape[shape=s](x))", 60)
    assert len(instances) == 60
    assert fitting(instances) == instances
    for instance in instances:
        assert TensorType("float32", instance.attrs["s"]).elements == instance.types["x"].elements
    changed = [i for i in instances if i.attrs["s"] != i.types["x"].shape]
    assert len(changed) > 20
    assert len({i.types["x"].rank for i in instances}) == 4
    assert all(len(i.attrs["s"]) <= 4 for i in instances)


def test_a_law_of_reshapes_that_needs_a_rank_is_met():
    instances = drawn(
        "matmul[c](reshape[shape=s](x), w) => \
         reshape[shape=(dim(x, -3) * dim(x, -2), dim(w, -1))](matmul[c](x, w)) \
         where rank(w) = 2, rank(x) = 3, dim(x, -1) = dim(w, -2)",
        120,
    )
    assert len(fitting(instances)) >= 5
    for instance in instances:
        assert (instance.types["x"].rank, instance.types["w"].rank) == (3, 2)
        assert instance.types["x"].shape[-1] == instance.types["w"].shape[-2]
        assert instance.rows["c"]["act"] in ACTIVATIONS


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("add(reshape[shape=s](x), y) => add(y, reshape[shape=s](x))", 50),
        ("reshape[shape=s](conv2d[c](x, w)) => identity(reshape[shape=s](conv2d[c](x, w)))", 50),
        ("reshape[shape=s](conv2d[c](x, w, b)) => identity(reshape[shape=s](conv2d[c](x, w, b)))", 50),
        ("maxpool[c](x) => identity(maxpool[c](x))", 50),  # with ceil_mode
        ("avgpool[c](x) => identity(avgpool[c](x))", 50),
        ("reduce_sum[c](x) => identity(reduce_sum[c](x))", 50),  # axes dropped
        ("concat[axis=a](reshape[shape=s](x), y) => identity(concat[axis=a](reshape[shape=s](x), y))", 40),
        ("reshape[shape=s](transpose[perm=p](x)) => identity(reshape[shape=s](transpose[perm=p](x)))", 50),
        ("matmul(x, eye[size=n]()) => x", 40),
        ("batchnorm[c](x, s, b, m, v) => identity(batchnorm[c](x, s, b, m, v))", 50),
        ("merge_gconv[count=n, groups=g](w) => identity(merge_gconv[count=n, groups=g](w))", 40),
        ("slice[c](reshape[shape=s](x)) => identity(slice[c](reshape[shape=s](x)))", 50),
    ],
)
def test_most_proposals_fit(text, least):
    instances = drawn(text, 60)
    assert len(fitting(instances)) >= least
    assert len({tuple(i.types.items()) for i in instances}) > 15


def test_what_linear_systems_do_not_express_is_drawn():
    assert {i.rows["c"]["ceil"] for i in drawn("maxpool[c](x) => identity(maxpool[c](x))", 20)} == {0, 1}
    sums = drawn("reduce_sum[c](x) => identity(reduce_sum[c](x))", 40)
    assert {i.rows["c"]["keepdims"] for i in sums} == {0, 1}
    convs = drawn("conv2d[c](x, w) => identity(conv2d[c](x, w))", 60)
    assert {i.rows["c"]["act"] for i in convs} == set(ACTIVATIONS)
    assert any(i.rows["c"]["groups"] not in (1, i.types["x"].shape[1]) for i in convs)
    assert any(i.rows["c"]["groups"] == i.types["x"].shape[1] > 1 for i in convs)  # depthwise
    assert any(len(set(i.rows["c"]["pads"])) > 1 for i in convs)  # uneven


def test_operands_broadcast_now_and_then():
    shapes = [(i.types["x"].shape, i.types["y"].shape) for i in drawn("add(x, y) => identity(add(x, y))", 80)]
    assert sum(a == b for a, b in shapes) > 10
    assert sum(a != b for a, b in shapes) > 10
    assert any(len(a) != len(b) for a, b in shapes)


def test_conditions_hold_and_attributes_are_bound_once():
    rule = law(
        "slice[axis=a, start=i, stop=j](reshape[shape=s](x)) => relu(x) where i < 2, dim(x, -1) >= 2, j = 3"
    )
    rng = random.Random(0)
    instances = [i for i in (draw_instance(rule, rng) for _ in range(40)) if i is not None]
    assert len(instances) > 20
    for instance in instances:
        assert set(instance.attrs) == {"a", "i", "j", "s"}
        assert all(holds(c, instance.attrs.__getitem__, instance.types.__getitem__) for c in rule.conditions)
    twice = drawn(
        "add(slice[axis=-1, start=i, stop=j](x), slice[axis=-1, start=i, stop=j](y)) => relu(x)", 10
    )
    assert all(set(i.attrs) == {"i", "j"} for i in twice)


def test_several_sources_share_their_variables():
    text = "matmul[c](x, w) ; reshape[shape=s](x) => matmul[c](identity(x), w) ; relu(reshape[shape=s](x))"
    instances = drawn(text, 30)
    assert len(instances) == 30
    assert fitting(instances) == instances
    for instance in instances:
        assert set(instance.types) == {"x", "w"}


def test_the_same_seed_draws_the_same_instances():
    text = "reshape[shape=s](conv2d[c](x, w)) => identity(reshape[shape=s](conv2d[c](x, w)))"
    assert drawn(text, 10, 1) == drawn(text, 10, 1) != drawn(text, 10, 2)


def test_there_is_none_if_no_proposal_fits():
    assert draw_instance(law("relu(x) => x where dim(x, -1) = 99"), random.Random(0)) is None
    merge = law("each matmul[c](x, w*) => slice[axis=-1](matmul[c](x, concat[axis=-1](w*)))")
    assert draw_instance(merge, random.Random(0)) is None  # its typing is linear


def test_a_bound_variable_keeps_its_type():
    kind = TensorType("float32", (2, 3, 4))
    draft = Draft(random.Random(0), {"x": kind})
    (source,) = law("add(reshape[shape=s](x), x) => x").sources
    with contextlib.suppress(TypeMismatch):
        draw_type(draft, source)
    assert draft.types == {"x": kind}
    assert TensorType("float32", draft.attrs["s"]).elements == 24


@pytest.mark.parametrize(
    "left",
    [
        "reduce_max[axes=(a, b), keepdims=1](transpose[perm=p](x))",
        "transpose[perm=(a, b)](relu(x))",
        "reduce_sum[axes=a](x)",
    ],
)
def test_a_vector_gets_as_many_values_as_it_has(left):
    found = drawn(f"{left} => {left}", 30)
    assert len(found) > 10
    assert fitting(found) == found


def test_a_convolution_without_groups_is_not_drawn():
    rule = law("conv2d[groups=g, c](x, w) => conv2d[groups=g, c](x, w)")
    assert draw_instance(rule, random.Random(0), fixed={coordinate_of("g"): 0}) is None
