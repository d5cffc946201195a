from workbench.frontends.onnx.writer import plan
from workbench.graph import GraphBuilder


def positions(graph, op):
    return [i for i, n in enumerate(graph.nodes) if n.op == op]


def biased(shape=(1, 4, 1, 1), *, twice=False, output=False, act="none", with_bias=False):
    b = GraphBuilder()
    x, w = b.input("x", (2, 3, 5, 5)), b.weight((4, 3, 3, 3))
    operands = (x, w, b.weight((1, 4, 1, 1))) if with_bias else (x, w)
    c = b.op("conv2d", *operands, act=act)
    outputs = {"y": b.op("add", b.weight(shape), c)}
    if twice:
        outputs["z"] = b.op("relu", c)
    if output:
        outputs["c"] = c
    return b.graph(outputs)


def test_a_constant_per_channel_becomes_the_bias():
    for shape in ((1, 4, 1, 1), (4, 1, 1)):
        graph = biased(shape)
        p = plan(graph)
        (add,), (conv,) = positions(graph, "add"), positions(graph, "conv2d")
        assert p.bias == {add: conv}
        assert conv not in p.order
        assert len(p.reads[add]) == 3


def test_a_sum_stays_one_where_the_convolution_is_read_elsewhere_or_has_more_to_it():
    refused = [
        biased(twice=True), biased(output=True), biased(act="relu"), biased(with_bias=True),
        biased((1, 1, 1, 1)), biased((1, 4, 3, 3)), biased((3, 1, 4, 1, 1)),
    ]  # fmt: skip
    assert [plan(g).bias for g in refused] == [{}] * len(refused)


def test_a_bias_that_was_reshaped_for_the_operator_is_read_as_it_was():
    b = GraphBuilder()
    flat = b.input("flat", (4,))
    reshaped = b.op("reshape", flat, shape=(1, 4, 1, 1))
    graph = b.graph({"y": b.op("conv2d", b.input("x", (2, 3, 5, 5)), b.weight((4, 3, 3, 3)), reshaped)})
    p = plan(graph)
    (conv,) = positions(graph, "conv2d")
    assert graph.nodes[p.reads[conv][2]].attrs == ("flat",)
    assert not set(positions(graph, "reshape")) & set(p.order)


def test_a_sum_with_a_run_time_value_stays_one():
    b = GraphBuilder()
    c = b.op("conv2d", b.input("x", (2, 3, 5, 5)), b.weight((4, 3, 3, 3)))
    assert plan(b.graph({"y": b.op("add", c, b.input("z", (1, 4, 1, 1)))})).bias == {}


def test_identities_are_passed_through_and_chains_of_reshapes_are_one():
    b = GraphBuilder()
    x = b.input("x", (2, 6))
    r1 = b.op("reshape", x, shape=(3, 4))
    r2 = b.op("reshape", b.op("identity", r1), shape=(12,))
    graph = b.graph({"y": b.op("relu", b.op("identity", r2))})
    p = plan(graph)
    (relu,) = positions(graph, "relu")
    assert [graph.nodes[i].op for i in p.order] == ["input", "reshape", "relu"]
    (written,) = p.reads[relu]
    assert graph.nodes[written].tensor.shape == (12,)
    assert graph.nodes[p.reads[written][0]].op == "input"


def test_a_reshape_that_others_read_is_written_for_them():
    b = GraphBuilder()
    r1 = b.op("reshape", b.input("x", (2, 6)), shape=(3, 4))
    graph = b.graph({"y": b.op("reshape", r1, shape=(12,)), "z": b.op("relu", r1)})
    assert [graph.nodes[i].op for i in plan(graph).order].count("reshape") == 2


def slices(*cuts, axis=-1, extent=6):
    b = GraphBuilder()
    x = b.input("x", (2, extent))
    return b.graph(
        {f"y{i}": b.op("slice", x, axis=axis, start=a, stop=z, step=s) for i, (a, z, s) in enumerate(cuts)}
    )


def test_slices_that_partition_an_axis_are_one_split_whatever_their_order():
    graph = slices((4, 6, 1), (0, 1, 1), (1, 4, 1))
    p = plan(graph)
    members = positions(graph, "slice")
    assert set(p.parts) == set(members)
    starts = [graph.nodes[i].attr("start") for i in p.parts[members[0]]]
    assert starts == [0, 1, 4]


def test_slices_with_gaps_overlaps_steps_or_alone_are_written_as_they_are():
    for cuts in (
        [(0, 2, 1), (3, 6, 1)], [(0, 4, 1), (3, 6, 1)], [(0, 3, 1), (3, 6, 2)], [(0, 6, 1)],
        [(1, 3, 1), (3, 6, 1)], [(0, 3, 1), (3, 5, 1)],
    ):  # fmt: skip
        assert plan(slices(*cuts)).parts == {}


def test_slices_of_two_values_or_axes_are_two_groups():
    b = GraphBuilder()
    x, z = b.input("x", (4, 6)), b.input("z", (4, 6))
    outputs = {}
    for name, v, axis, cut in (("a", x, -1, 2), ("b", z, -1, 3), ("c", x, -2, 1)):
        first, second = b.split(v, axis, [cut, (6 if axis == -1 else 4) - cut])
        outputs |= {f"{name}0": first, f"{name}1": second}
    assert len(set(plan(b.graph(outputs)).parts.values())) == 3
