"""Assignments of a space become instances, and both sides of a rule become nodes of a graph."""

import random
from ast import literal_eval
from dataclasses import replace

import pytest

from workbench.laws.verification.instances.ground import (
    Ground,
    Instance,
    broadcasting_mismatch,
    instance_of,
    options,
    sample,
)
from workbench.laws.verification.instances.linear import LEAST
from workbench.laws.verification.instances.spaces import open_space
from workbench.laws.verification.instances.typings import Enumeration, Menu
from workbench.ops import TensorType, TypeMismatch
from workbench.rules.language import parse_rule

from .enumerated import all_values


def law(text):
    (rule,) = parse_rule(f"law: {text}")
    return rule


def instance(text, attrs=None, rows=None, members=0, **shapes):
    types = {name: TensorType("float32", shape) for name, shape in shapes.items()}
    return Instance(law(text), types, attrs or {}, rows or {}, members)


def first_space(text, menu=None):
    return open_space(law(text), Enumeration(), menu or Menu())


# -- numbers --------------------------------------------------------------------------------------------
def test_values_come_from_the_menu_and_respect_least_and_top():
    menu = Menu(extents=(0, 2, 7), kernels=(3,), pads=(-1, 0, 9), ranks=(2,))
    space = first_space("pad[pads=(t, 0, 0, 0)](relu(x)) => relu(pad[pads=(t, 0, 0, 0)](x))", menu)
    kinds = space.system.kinds
    tried = {kinds[u]: options(space, u, menu) for u in space.system.free()}
    assert tried == {"extent": (2, 7), "pad": (0, 9)}
    unknown = space.system.fresh("rank", "rank", 2)
    assert options(space, len(kinds) - 1, menu) == (0, 1, 2)
    assert unknown.row().terms
    position = space.system.fresh("extent", "extent", 1)  # no value of the menu fits: the least one
    assert options(space, len(kinds) - 1, menu) == (LEAST["extent"],)
    assert position.row().terms


def test_all_values_are_those_that_complete():
    menu = Menu(ranks=(1,), extents=(1, 2, 3, 3))
    space = first_space(
        "slice[axis=-1, start=i, stop=j](x) => relu(slice[axis=-1, start=i, stop=j](x))", menu
    )
    space.typing.require(space.variables["x"].rank == 1, "")
    found = {
        (i.types["x"].shape[0], i.attrs["i"], i.attrs["j"])
        for i in (instance_of(space, v) for v in all_values(space, menu))
    }
    assert found == {(n, i, j) for n in (1, 2, 3) for i in range(4) for j in (1, 2, 3) if i < j <= n}
    assert len(list(all_values(space, menu))) == len(found)


def test_a_sample_is_one_of_all_values_and_follows_the_seed():
    menu = Menu(extents=(1, 2), pads=(0, 1))
    space = first_space("pad[pads=p](relu(x)) => relu(pad[pads=p](x))", menu)
    whole = list(all_values(space, menu))
    drawn = [sample(space, random.Random(seed), menu) for seed in range(20)]
    assert all(d in whole for d in drawn)
    assert drawn == [sample(space, random.Random(seed), menu) for seed in range(20)]
    assert len({tuple(d.values()) for d in drawn}) > 5


def test_no_sample_where_the_menu_has_no_solution():
    space = first_space("relu(x) => identity(relu(x)) where dim(x, -1) = 9 * dim(x, -2)")
    assert sample(space, random.Random(0), Menu(extents=(2, 4))) is not None
    space = first_space("relu(x) => identity(relu(x)) where 3 * dim(x, -1) = 5 * dim(x, -2)")
    assert sample(space, random.Random(0), Menu(extents=(1, 2, 4))) is None


def test_settings_name_the_attributes_of_rows():
    found = instance(
        "conv2d[c, groups=g](x, w) => conv2d[c, groups=g](x, w)",
        {"g": 2},
        {"c": {"strides": (1, 2), "act": "relu"}},
        x=(1, 2, 3, 3),
        w=(2, 1, 1, 1),
    ).settings()
    assert found == {"g": 2, "c.strides": (1, 2), "c.act": "relu"}


# -- both sides as nodes ----------------------------------------------------------------------------------
def test_equal_terms_of_the_two_sides_are_one_node():
    ground = Ground()
    ((left, right),) = ground.add(instance("add(relu(x), y) => add(y, relu(x))", x=(2, 3), y=(3,)))
    nodes = ground.builder.nodes
    assert [n.op for n in nodes].count("relu") == 1
    assert nodes[left].inputs == tuple(reversed(nodes[right].inputs))
    assert nodes[left].type == nodes[right].type == TensorType("float32", (2, 3))
    assert set(ground.leaves) == {"x", "y"}


def test_a_row_an_attribute_and_a_default_reach_the_node():
    ground = Ground()
    ((left, right),) = ground.add(
        instance(
            "conv2d[c, groups=g](x, w) => conv2d[c, groups=g // 2](x, merge_gconv[count=2, groups=g](w))",
            {"g": 4},
            {"c": {"strides": (2, 1), "pads": (1, 0, 1, 0), "act": "relu"}},
            x=(1, 4, 5, 5),
            w=(8, 1, 3, 3),
        )
    )
    given, changed = (ground.builder.nodes[i].named_attrs() for i in (left, right))
    assert given == {
        "strides": (2, 1),
        "pads": (1, 0, 1, 0),
        "dilations": (1, 1),
        "groups": 4,
        "act": "relu",
    }
    assert changed == given | {"groups": 2}


@pytest.mark.parametrize(
    ("text", "attrs", "shapes"),
    [
        ("concat[axis=-1](x, y) => add(x, y)", {}, {"x": (2, 2), "y": (2, 2)}),  # another type
        ("relu(x) => matmul(x, x)", {}, {"x": (2, 3)}),  # the right-hand side is ill-typed
        ("relu(x) => identity(x) where dim(x, -1) = 2", {}, {"x": (3,)}),  # a condition does not hold
        ("transpose[perm=p](x) => x where rank(x) = 2", {"p": (1, 0)}, {"x": (2, 3)}),
        # a root that is context has to be well-typed as well
        ("matmul(x, y) ; relu(x) => matmul(x, y) ; identity(relu(x))", {}, {"x": (2, 3), "y": (2, 3)}),
    ],
)
def test_an_instance_that_does_not_fit_is_refused(text, attrs, shapes):
    with pytest.raises(TypeMismatch):
        Ground().add(instance(text, attrs, **shapes))


def test_roots_that_stay_as_they_are_make_no_pair():
    ground = Ground()
    text = "matmul(x, y) ; relu(x) => matmul(x, y) ; identity(relu(x))"
    ((left, right),) = ground.add(instance(text, x=(2, 3), y=(3, 1)))
    assert (ground.builder.nodes[left].op, ground.builder.nodes[right].op) == ("relu", "identity")


def test_members_are_paired_with_their_own_parts():
    rule = law("each matmul(x, w*) => slice[axis=-1](matmul(x, concat[axis=-1](w*)))")
    space = open_space(rule, Enumeration(), Menu(members=(3,), broadcast=False))
    values = sample(space, random.Random(1), Menu())
    found = instance_of(space, values)
    sizes = iter((2, 1, 4))
    types = {
        n: TensorType("float32", (3, 5)) if n == "x" else TensorType("float32", (5, next(sizes)))
        for n in found.types
    }
    ground = Ground()
    pairs = ground.add(replace(found, types=types))
    nodes = ground.builder.nodes
    assert [nodes[left].tensor.shape for left, _ in pairs] == [(3, 2), (3, 1), (3, 4)]
    parts = [nodes[right].named_attrs() for _, right in pairs]
    assert [(p["axis"], p["start"], p["stop"]) for p in parts] == [(-1, 0, 2), (-1, 2, 3), (-1, 3, 7)]
    assert len({nodes[right].inputs for _, right in pairs}) == 1  # of one product


def test_canonical_names_share_leaves_between_instances():
    one = instance("add(x, y) => add(y, x)", x=(2, 3), y=(2, 3))
    other = instance("sub(p, q) => add(p, neg(q))", p=(2, 3), q=(2, 3))
    more = instance("mul(y, mul(x, z)) => mul(mul(y, x), z)", x=(3,), y=(2, 3), z=(3,))
    ground = Ground(canonical=True)
    pairs = [ground.add(i)[0] for i in (one, other, more)]
    nodes = ground.builder.nodes
    # Two of one type and two of the other, whatever the rules call them.
    assert (
        sorted(str(nodes[i].type) for i in ground.leaves.values())
        == ["float32[2, 3]"] * 2 + ["float32[3]"] * 2
    )
    assert nodes[pairs[0][0]].inputs == nodes[pairs[1][0]].inputs
    assert nodes[pairs[2][0]].inputs[0] == nodes[pairs[0][0]].inputs[0]
    # The same instance under other names is the same pair of nodes.
    renamed = instance("add(v, u) => add(u, v)", u=(2, 3), v=(2, 3))
    assert ground.add(renamed) == [pairs[0]]
    # Variables of one instance stay apart.
    assert len(set(nodes[pairs[0][0]].inputs)) == 2


# -- rules that broadcasting breaks -----------------------------------------------------------------------
def test_a_rule_that_broadcasting_breaks_is_named_with_shapes():
    rule = law("concat[axis=-1](add(x, y), add(z, w)) => add(concat[axis=-1](x, z), concat[axis=-1](y, w))")
    text = broadcasting_mismatch(rule)
    shapes, _, reason = text.partition(": ")
    assert all(name in shapes for name in "xyzw")
    assert reason
    found = {part[0]: tuple(literal_eval(part[1:])) for part in shapes.replace("], ", "]; ").split("; ")}
    with pytest.raises(TypeMismatch, match=r".+"):
        Ground().add(Instance(rule, {n: TensorType("float32", s) for n, s in found.items()}, {}, {}))
    left = replace(rule, targets=rule.sources)
    Ground().add(Instance(left, {n: TensorType("float32", s) for n, s in found.items()}, {}, {}))
    assert text == broadcasting_mismatch(rule)


@pytest.mark.parametrize(
    "text",
    [
        "add(x, y) => add(y, x)",
        "mul(add(x, y), z) => add(mul(x, z), mul(y, z))",
        "relu(concat[axis=-1](x, y)) => concat[axis=-1](relu(x), relu(y))",  # nothing broadcasts
        "mul(concat[axis=-1](x, y), z) => concat[axis=-1](mul(x, z), mul(y, z)) where dim(z, -1) = 1",
    ],
)
def test_a_rule_that_broadcasts_alike_on_both_sides_is_not(text):
    assert broadcasting_mismatch(law(text)) == ""
