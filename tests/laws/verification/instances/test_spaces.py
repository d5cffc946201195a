"""Open instances: the numbers that type rules and conditions leave to choose, and the permutations allowed."""

import operator
import random
import zlib
from ast import literal_eval
from dataclasses import replace
from itertools import permutations, product

import pytest

from tests.sampled import in_turn
from workbench.laws.verification.instances.linear import LEAST, Inconsistent, Linear, NotLinear
from workbench.laws.verification.instances.spaces import (
    Ground,
    Instance,
    allowed,
    broadcasting_mismatch,
    instance_of,
    open_space,
    options,
    sample,
)
from workbench.laws.verification.instances.typings import Enumeration, Menu, RandomChoices, known
from workbench.laws.verification.refuting.sampling import draw_instance
from workbench.ops import TensorType, TypeMismatch
from workbench.rules import load_rules, parse_rule, rule_set
from workbench.rules.verdicts import library

from .enumerated import SMALL, all_values

LIBRARY = [*rule_set("all"), *load_rules(library() / "axioms.rules")]
SUM_OF_CONVS = "add(conv2d[c, act=none](x, w), conv2d[c, act=none](y, v)) => \
                conv2d[c, act=none](concat[axis=-3](x, y), concat[axis=-3](w, v))"


def law(text):
    (rule,) = parse_rule(f"law: {text}")
    return rule


def spaces(rule, menu):
    """Yield the family of instances of every sequence of decisions; None if one leads nowhere."""
    walk = Enumeration()
    while True:
        try:
            yield open_space(rule, walk, menu)
        except (Inconsistent, TypeMismatch):
            yield None
        if not walk.advance():
            return


def sampled(rule, count, menu=None, seed=0):
    """Yield instances of random openings."""
    menu = menu or Menu()
    rng = random.Random(seed + zlib.crc32(rule.name.encode()))
    for _ in range(count):
        try:
            space = open_space(rule, RandomChoices(rng), menu)
        except (Inconsistent, TypeMismatch):
            continue
        values = sample(space, rng, menu)
        if values is not None:
            yield instance_of(space, values)


class Alternatives(RandomChoices):
    """Decide at random and note between what there was a choice."""

    def __init__(self, seed):
        super().__init__(random.Random(seed))
        self.asked = []

    def pick(self, options):
        if len(set(options)) > 1:
            self.asked.append(tuple(options))
        return super().pick(options)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_every_instance_of_the_library_is_well_typed_on_both_sides(part):
    for rule in LIBRARY[part::8]:
        try:
            # Four slices side by side are rare.
            found = list(sampled(rule, 30)) or list(sampled(rule, 400))
        except NotLinear:
            assert any(op in str(rule) for op in ("reshape", "expand", "cast")), rule
            rng = random.Random(1)
            found = [i for i in (draw_instance(rule, rng) for _ in range(24)) if i is not None]
            fits = 0
            for instance in found:
                try:
                    Ground().add(instance)
                    fits += 1
                except TypeMismatch:  # a proposal that does not fit the right-hand side
                    continue
            assert fits, rule
            continue
        assert found, rule
        for instance in found:
            assert Ground().add(instance), rule  # raises if a type does not fit


def test_extents_ranks_and_attributes_of_a_sum_of_convolutions_fit():
    settings, shapes = set(), set()
    for instance in sampled(law(SUM_OF_CONVS), 120):
        Ground().add(instance)
        x, y, w, v = (instance.types[n].shape for n in "xywv")
        groups = instance.settings()["c.groups"]
        assert (x[1], y[1], w[0]) == (w[1] * groups, v[1] * groups, v[0])
        settings |= {(n, v) for n, v in instance.settings().items()}
        shapes |= {x, y, w, v}
    assert len(shapes) > 30
    assert {n for n, _ in settings} == {"c.strides", "c.pads", "c.dilations", "c.groups"}
    assert {v for n, v in settings if n == "c.strides"} == set(Menu().strides)


def test_a_forced_broadcast_is_found_without_a_decision():
    # The right-hand side has a bias, which is [1, O, 1, 1]: its broadcast on the left is not a choice.
    rule = law("add(conv2d[c, act=none](x, w), b) => conv2d[c, act=none](x, w, b)")
    menu = Menu()
    for seed in range(20):
        choices = Alternatives(seed)
        space = open_space(rule, choices, menu)
        assert all(
            set(options) <= {*menu.strides, *menu.dilations, *menu.groups} for options in choices.asked
        )
        bias = space.variables["b"]
        assert known(bias.rank) == 4
        assert [known(bias.dims[i]) for i in (0, 2, 3)] == [1, 1, 1]
        assert isinstance(known(bias.dims[1]), Linear)
        assert (bias.dims[1] == space.variables["w"].dims[0]) is True
        assert not space.typing.broadcasts


def test_ranks_are_decided_where_nothing_determines_them():
    menu = Menu(ranks=(1, 3))
    found = {len(i.types["x"].shape) for i in sampled(law("relu(relu(x)) => relu(x)"), 30, menu)}
    assert found == {1, 3}
    found = {
        len(i.types["x"].shape) for i in sampled(law("concat[axis=-3](x, x) => concat[axis=-3](x, x)"), 60)
    }
    assert found == {3, 4}


@pytest.mark.parametrize(
    "text",
    [
        "concat[axis=-1](x, x) => x",  # one is twice as long
        "transpose[perm=(1, 0)](x) => expand[shape=(2, 3, 4)](x)",  # two axes and three
        "matmul(x, y) => relu(x) where rank(x) = 1",
        "conv2d(x, w) => conv2d(x, enlarge[pads=(1, 0, 0, 0)](w))",
        "slice[axis=-1, start=i, stop=j](x) => slice[axis=-1, start=j, stop=i](x)",
        "relu(x) => relu(x) where dim(x, -1) = 2, dim(x, -1) = 3",
        "matmul(x, eye[size=n]()) => eye[size=n]() where dim(x, -1) != n",
        "identity_kernel[channels=n, kernel=k]() => mean_kernel[channels=n, kernel=(2, 1)]()",
    ],
)
def test_sides_that_never_agree_in_type_fail_under_every_decision(text):
    assert [space for space in spaces(law(text), Menu(ranks=(1, 2, 3, 4))) if space is not None] == []


def test_products_of_extents_are_refused():
    with pytest.raises(NotLinear):
        open_space(law("reshape[shape=s](relu(x)) => relu(reshape[shape=s](x))"), Enumeration(), Menu())


def test_places_are_whole_numbers_of_any_rank_that_takes_the_place_of_an_axis():
    rule = law("gather[axis=-2](x, i) => identity(gather[axis=-2](x, i))")
    found = [instance_of(s, next(all_values(s, SMALL))) for s in spaces(rule, SMALL) if s is not None]
    assert {(one.types["x"].rank, one.types["i"].rank) for one in found} == {(2, 1), (2, 2)}
    assert {one.types["i"].dtype for one in found} == {"int64"}


# -- every instance, against all shapes there are ------------------------------------------------------
SHAPES = [shape for rank in range(3) for shape in product((1, 2), repeat=rank)]
BOX = Menu(ranks=(0, 1, 2), extents=(1, 2), acts=("none",))


def typed(rule, types, attrs):
    try:
        return bool(Ground().add(Instance(rule, types, attrs, {})))
    except TypeMismatch:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "attrs"),
    in_turn(
        [
            ("add(x, y) => add(y, x)", {}),
            (
                "mul(add(x, y), z) => add(mul(x, z), mul(y, z)) where rank(x) = 2, rank(y) = 1, rank(z) = 2",
                {},
            ),
            ("add(x, y) => add(x, x)", {}),  # y broadcasts to x
            ("sub(x, y) => sub(y, x)", {}),
            ("matmul(x, y) => matmul(y, x)", {}),
            ("add(matmul(x, y), z) => matmul(x, add(y, z)) where rank(x) = 2, rank(y) = 2, rank(z) = 1", {}),
            ("concat[axis=a](x, y) => concat[axis=a](y, x)", {"a": (-1, -2)}),
            (
                "concat[axis=a](add(x, y), z) => add(concat[axis=a](x, z), concat[axis=a](y, z)) \
             where rank(x) = 2, rank(y) = 2",
                {"a": (-1, -2)},
            ),
            (
                "transpose[perm=p](add(x, y)) => add(transpose[perm=p](x), transpose[perm=p](y))",
                {"p": ((0, 1), (1, 0))},
            ),
            ("slice[axis=-1, start=i, stop=j](x) => relu(x)", {"i": (0, 1, 2), "j": (1, 2)}),
            ("relu(x) => matmul(eye[size=2](), x)", {}),
            ("expand[shape=(2, 1)](x) => relu(x)", {}),
        ],
        1,
        quick=4,
    ),
)
def test_the_families_hold_every_instance_there_is(text, attrs):
    rule = law(text)
    names = [n for n in "xyz" if f"({n}" in text or f" {n}" in text]
    found = set()
    for space in spaces(rule, BOX):
        for values in all_values(space, BOX) if space is not None else ():
            instance = instance_of(space, values)
            shapes = tuple(instance.types[n].shape for n in names)
            settings = tuple(instance.attrs[a] for a in attrs)
            if all(shape in SHAPES for shape in shapes) and all(
                v in options for v, options in zip(settings, attrs.values(), strict=True)
            ):
                found.add((shapes, settings))
    expected = {
        (shapes, settings)
        for shapes in product(SHAPES, repeat=len(names))
        for settings in product(*attrs.values())
        if typed(
            rule,
            {n: TensorType("float32", s) for n, s in zip(names, shapes, strict=True)},
            dict(zip(attrs, settings, strict=True)),
        )
    }
    assert expected
    assert found == expected


def test_permutations_are_all_there():
    rule = law("transpose[perm=p](relu(x)) => relu(transpose[perm=p](x))")
    menu = Menu(ranks=(2, 3))
    found = [space.attrs["p"] for space in spaces(rule, menu)]
    assert sorted(found) == sorted([*permutations(range(2)), *permutations(range(3))])


def test_permutations_compose_where_their_ranks_agree():
    rule = law("transpose[perm=q](transpose[perm=p](x)) => transpose[perm=compose(p, q)](x)")
    found = list(spaces(rule, Menu(ranks=(2, 3))))
    assert len(found) == 8 * 8
    assert sum(space is not None for space in found) == 2 * 2 + 6 * 6


def test_few_values_are_decided_one_by_one():
    rule = law("relu(x) => identity(relu(x)) where rank(x) = 1, dim(x, -1) <= 3")
    assert [len(space.system.free()) for space in spaces(rule, Menu())] == [1]
    few = list(spaces(rule, Menu(decide_few=True)))
    assert [known(space.variables["x"].dims[-1]) for space in few] == [1, 2, 3]


# -- attributes and conditions ------------------------------------------------------------------------
def test_a_row_is_made_once_and_shared():
    rule = law("concat[axis=-4](conv2d[c](x, w), conv2d[c](y, w)) => conv2d[c](concat[axis=-4](x, y), w)")
    space = open_space(rule, RandomChoices(random.Random(2)), Menu())
    assert set(space.rows) == {"c"}
    assert set(space.rows["c"]) == {"strides", "pads", "dilations", "groups", "act"}
    assert not space.attrs


def test_groups_are_halved_where_a_condition_says_they_divide():
    rule = law(
        "conv2d[c, groups=g](x, w) => conv2d[c, groups=g // 2](x, merge_gconv[count=2, groups=g](w)) \
         where g % 2 = 0"
    )
    found = list(sampled(rule, 60, Menu(groups=(1, 2, 3, 4))))
    assert {i.attrs["g"] for i in found} == {2, 4}
    assert all(i.types["x"].shape[1] == i.types["w"].shape[1] * i.attrs["g"] for i in found)


def test_a_quotient_of_extents_is_a_number_that_is_decided():
    rule = law("conv2d[groups=g](x, w) => conv2d[groups=dim(x, -3) // dim(w, -3)](x, w)")
    found = list(sampled(rule, 80))
    assert {i.attrs["g"] for i in found} >= {1, 2, 3}
    for instance in found:
        assert instance.types["x"].shape[1] == instance.types["w"].shape[1] * instance.attrs["g"]


@pytest.mark.parametrize(
    ("relation", "compare"),
    [
        ("=", operator.eq),
        ("!=", operator.ne),
        ("<", operator.lt),
        ("<=", operator.le),
        (">", operator.gt),
        (">=", operator.ge),
    ],
)
def test_conditions_on_extents_hold_in_every_instance_and_exclude_no_other(relation, compare):
    rule = law(f"add(x, y) => add(y, x) where dim(x, -1) {relation} dim(y, -1), rank(x) = 1, rank(y) = 1")
    menu = Menu(extents=(1, 2, 3))
    found = set()
    for space in spaces(rule, menu):
        if space is not None:
            for values in all_values(space, menu):
                types = instance_of(space, values).types
                found.add((*types["x"].shape, *types["y"].shape))
    pairs = [(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a == b or 1 in (a, b)]
    assert found == {(a, b) for a, b in pairs if compare(a, b)}


def test_the_larger_of_two_attributes_is_either():
    rule = law(
        "conv2d[c, pads=(t, 0, 0, 0)](pad[pads=(u, 0, 0, 0), value=0.0](x), w) => \
         conv2d[c, pads=(0, 0, 0, 0)](pad[pads=(max(t, u) + min(t, u), 0, 0, 0), value=0.0](x), w)"
    )
    found = {(i.attrs["t"], i.attrs["u"]) for i in sampled(rule, 150)}
    assert any(t > u for t, u in found)
    assert any(t < u for t, u in found)


def test_members_of_a_merge_have_their_own_operands_and_share_the_rest():
    rule = law("each matmul[c](x, w*) => slice[axis=-1](matmul[c](x, concat[axis=-1](w*)))")
    sizes = set()
    for instance in sampled(rule, 40, Menu(members=(2, 3))):
        own = [n for n in instance.types if n != "x"]
        assert "x" in instance.types
        assert len(own) == instance.members
        pairs = Ground().add(instance)
        assert len(pairs) == instance.members
        sizes.add((instance.members, len({instance.types[n] for n in own})))
    assert {m for m, _ in sizes} == {2, 3}
    assert (2, 2) in sizes  # members of different widths


def test_odd_kernels_follow_from_an_identity_kernel():
    rule = law(
        "conv2d[strides=(1, 1), pads=(t, l, t, l), groups=g]"
        "(x, identity_kernel[channels=n, groups=g, kernel=(k, m)]()) => x"
        " where k = 2 * t + 1, m = 2 * l + 1"
    )
    found = list(sampled(rule, 40))
    assert len({i.attrs["t"] for i in found}) > 1
    for instance in found:
        assert instance.attrs["k"] == 2 * instance.attrs["t"] + 1
        assert instance.types["x"].shape[1] == instance.attrs["n"]
        assert instance.attrs["n"] % instance.attrs["g"] == 0


def conditions(text):
    (rule,) = parse_rule(f"r: transpose[perm=p](x) => transpose[perm=p](x) where {text}")
    return rule.conditions


def test_conditions_on_a_permutation_alone_are_met():
    last = conditions("p[-1] = -1, p[-2] = -2, p[-3] = -3")
    assert allowed("p", 4, last) == ((0, 1, 2, 3),)
    assert allowed("p", 5, last) == ((0, 1, 2, 3, 4), (1, 0, 2, 3, 4))
    assert len(allowed("p", 6, last)) == 6


def test_other_conditions_are_left_out():
    assert len(allowed("p", 3, conditions("dim(x, -1) = 3"))) == 6
    assert len(allowed("q", 3, conditions("p[-1] = -1"))) == 6


def test_an_axis_that_a_permutation_lacks_allows_none():
    assert allowed("p", 2, conditions("p[-3] = -3")) == ()


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
