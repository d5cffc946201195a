import pytest

from workbench.frontends import load_onnx
from workbench.graph import GraphBuilder
from workbench.rules import rule_set
from workbench.saturation import Saturation
from workbench.saturation.group_merge import REACH, Reader, independent
from workbench.studies.benchmarks.light import light_path


def graph(**operands):
    """Return the readers of e-classes; ``ab|c`` are two e-nodes, and one of ``*ab`` selects."""
    found = {}
    for name, text in operands.items():
        for one in text.split("|"):
            reader = Reader(name, tuple(one.removeprefix("*")), one.startswith("*"))
            for value in dict.fromkeys(reader.operands):
                found.setdefault(value, []).append(reader)
    return found


def test_members_that_are_read_together_stay():
    assert independent("ab", graph(y="ab"), "y") == ["a", "b"]
    assert independent("ab", graph(c="a", d="b", y="cd"), "y") == ["a", "b"]


def test_a_member_below_another_one_goes():
    # b = scale(a); nothing else reads a
    assert independent("ab", graph(b="a", y="b"), "y") == ["b"]


def test_a_member_below_another_one_stays_if_it_is_read_elsewhere_too():
    assert independent("ab", graph(b="a", c="a", y="bc"), "y") == ["a", "b"]
    assert independent("ab", graph(b="a"), "ab") == ["a", "b"]


def test_of_two_forms_that_meet_the_nearer_one_stays():
    # m is either f(a) or g(b), and b is h(c)
    assert independent("ab", graph(m="a|b", y="m"), "y") == ["a"]
    assert independent("ab", graph(c="a", m="c|b", y="m"), "y") == ["b"]


def test_two_members_that_one_operator_reads_before_they_meet_stay():
    assert independent("ab", graph(m="a|b|ab", y="m"), "y") == ["a", "b"]
    assert independent("ab", graph(c="a", d="b", m="cd", y="m"), "y") == ["a", "b"]


def test_a_selection_from_other_members_goes_but_arithmetic_on_them_stays():
    readers = graph(s="*ab", y="sab", p="ab", z="pab")
    assert independent("abs", readers, "yz") == ["a", "b"]
    assert independent("abp", readers, "yz") == ["a", "b", "p"]


def test_of_two_selections_from_each_other_one_stays():
    assert len(independent("ab", graph(a="*b", b="*a", y="ab"), "y")) == 1


def test_members_whose_forms_meet_far_above_stay():
    def kept(distance):
        readers = {f"{c}{n}": [Reader(f"{c}{n + 1}", (f"{c}{n}",))] for c in "ab" for n in range(distance)}
        readers |= {f"{c}{distance}": [Reader("m", (f"{c}{distance}",))] for c in "ab"}
        return independent(["a0", "b0"], readers | {"m": [Reader("y", ("m",))]}, ["y"])

    assert kept(1) == ["a0"]
    assert kept(REACH) == ["a0", "b0"]


def test_forms_of_one_convolution_are_not_merged_with_one_another():
    b = GraphBuilder("g")
    x = b.input("x", (1, 4, 6, 6))
    y = b.op(
        "conv2d", x, b.weight((4, 4, 1, 1)), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), groups=1
    )
    normalised = b.op("batchnorm", y, *(b.weight((4,)) for _ in range(4)), eps=1e-5)
    with Saturation(b.graph([("y", normalised)]), rule_set("default")) as saturation:
        saturation.run()
        assert "slice" not in saturation.egraph().ops


@pytest.mark.slow
def test_a_real_network_of_grouped_convolutions_saturates_without_useless_merges():
    graph = load_onnx(str(light_path("shufflenet")))
    with Saturation(graph, rule_set("default"), keep=0) as saturation:
        saturation.run()
        assert saturation.stop_reason.value == "saturated"
        assert saturation.e_nodes < 3000
