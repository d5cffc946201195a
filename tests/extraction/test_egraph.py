import contextlib
import gc
from dataclasses import replace

import numpy as np
import pytest

from workbench.extraction import EGraph, NoExtraction, extract, validate
from workbench.extraction.collector import collector_paused
from workbench.extraction.history import born_by

from .egraphs import egraph_of, random_egraph


def slow_members(egraph):
    return [[i for i, c in enumerate(egraph.eclass) if c == k] for k in range(egraph.n_classes)]


def slow_constant_classes(egraph):
    """Take every e-node again until no e-class changes."""
    constant = [False] * egraph.n_classes
    changed = True
    while changed:
        changed = False
        for i, c in enumerate(egraph.eclass.tolist()):
            given = egraph.ops[i] in ("input", "opaque", "project")
            if not given and not constant[c] and all(constant[d] for d in egraph.operands(i)):
                constant[c] = changed = True
    return constant


def test_members_and_constant_classes_are_those_of_the_definition():
    for seed in range(200):
        egraph, _ = random_egraph(seed)
        rng = np.random.default_rng(seed)
        ops = tuple(rng.choice(["add", "input", "weight", "project", "opaque"], len(egraph)).tolist())
        egraph = replace(egraph, ops=ops)
        assert egraph.members() == slow_members(egraph)
        assert egraph.constant_classes().tolist() == slow_constant_classes(egraph)


def empty():
    none = np.empty(0, dtype=np.int64)
    return EGraph((), (), np.zeros(1, dtype=np.int64), none, none, 0, ())


def test_an_empty_e_graph():
    validate(empty())
    assert empty().members() == []
    constant = empty().constant_classes()
    assert constant.shape == (0,)
    assert constant.dtype == bool


def test_other_integers_do_as_well():
    egraph, _ = random_egraph(3)
    for kind in (np.int32, np.uint64):
        other = replace(
            egraph,
            child_start=egraph.child_start.astype(kind),
            children=egraph.children.astype(kind),
            eclass=egraph.eclass.astype(kind),
        )
        assert other.members() == egraph.members()
        assert other.constant_classes().tolist() == egraph.constant_classes().tolist()


def small():
    """A root over a leaf of two forms, with names."""
    egraph = egraph_of([(0, [1]), (1, []), (1, [])])
    return replace(egraph, node_names=("top", "one", "other"), class_names=("root", "leaf"))


def test_names_are_those_of_the_file_or_the_numbers():
    assert (small().node_name(2), small().class_name(1)) == ("other", "leaf")
    nameless = replace(small(), node_names=(), class_names=())
    assert (nameless.node_name(2), nameless.class_name(1)) == ("2", "1")


def test_names_go_with_their_e_nodes_when_the_e_graph_shrinks():
    smaller, _ = born_by(replace(small(), birth_step=np.array([0, 2, 1])), 1)
    assert smaller.node_names == ("top", "other")
    assert smaller.class_names == ("root", "leaf")
    validate(smaller)
    nameless = replace(small(), node_names=(), birth_step=np.array([0, 2, 1]))
    assert born_by(nameless, 1)[0].node_names == ()


def test_unusable_costs_are_reported_by_name():
    with pytest.raises(NoExtraction, match=r"e-node one \(op1\) costs -2.0: .* 0 or more; give it"):
        extract(small(), np.array([1.0, -2.0, 1.0]))


def test_a_consistent_e_graph_passes():
    validate(small())
    validate(replace(small(), rules=("r",), birth_rule=np.array([-1, 0, 0]), original=np.array([0, -1, 2])))
    validate(replace(small(), types=(), birth_rule=np.empty(0, int), birth_step=np.empty(0, int)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attrs": ((),)}, "attrs has 1 entries, not 3: one per e-node"),
        (
            {"child_start": np.array([0, 1, 1])},
            "child_start has 3 entries, not 4: one per e-node and the end",
        ),
        ({"eclass": np.array([0, 1])}, "eclass has 2 entries, not 3: one per e-node"),
        ({"types": (None,)}, "types has 1 entries, not 2: one per e-class"),
        ({"birth_rule": np.array([-1])}, "birth_rule has 1 entries, not 3: one per e-node"),
        ({"birth_step": np.array([0])}, "birth_step has 1 entries, not 3: one per e-node"),
        ({"node_names": ("a",)}, "node_names has 1 entries, not 3: one per e-node"),
        ({"class_names": ("a",)}, "class_names has 1 entries, not 2: one per e-class"),
        ({"eclass": np.array([0, 1, 2])}, r"eclass\[2\] is 2, which is none of the 2 e-classes"),
        ({"eclass": np.array([0, 1, -1])}, r"eclass\[2\] is -1"),
        (
            {"eclass": np.array([0.0, 1.0, 1.0])},
            r"eclass is no one-dimensional array of integers \(float64\)",
        ),
        ({"eclass": [0, 1, 1]}, r"eclass is no one-dimensional array of integers \(list\)"),
        ({"eclass": np.array([[0], [1], [1]])}, r"eclass is no one-dimensional array"),
        ({"children": np.array([2])}, r"children\[0\] is 2, which is none of the 2 e-classes"),
        ({"children": np.array([])}, r"children is no .* \(float64\)"),
        ({"roots": (0, 2)}, r"roots\[1\] is 2, which is none of the 2 e-classes"),
        ({"roots": (0.0,)}, r"roots is no .* \(float64\)"),
        ({"birth_rule": np.array([0, -1, -1])}, r"birth_rule\[0\] is 0, which is none of the 0 rules"),
        ({"original": np.array([0, 3])}, r"original\[1\] is 3, which is none of the 3 e-nodes"),
        (
            {"child_start": np.array([0, 1, 1, 0])},
            "child_start runs from 0 to 0, not from 0 to the 1 children",
        ),
        ({"child_start": np.array([1, 1, 1, 1])}, "child_start runs from 1 to 1"),
        ({"child_start": np.array([0, 1, 0, 1])}, "child_start falls from 1 to 0 at e-node 1"),
        ({"child_start": np.array([0, 1, 0, 1], dtype=np.uint8)}, "child_start falls from 1 to 0"),
        ({"child_start": np.array([0, 2, 1, 1])}, r"child_start\[1\] is 2, which is none of the 2 places"),
        ({"child_start": np.array([0.0, 1, 1, 1])}, r"child_start is no .* \(float64\)"),
        ({"node_names": ("a", "b", "a")}, r"node_names\[0\] and node_names\[2\] are both 'a'"),
        ({"class_names": ("a", "a")}, r"class_names\[0\] and class_names\[1\] are both 'a'"),
        ({"eclass": np.array([0, 0, 0])}, "e-class leaf is read by e-node top and has no e-node"),
        ({"eclass": np.array([1, 1, 1])}, "e-class root is a root and has no e-node"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        validate(replace(small(), **change))


def test_an_e_class_without_e_nodes_is_refused_only_where_the_roots_lead_to_it():
    nodes = [(0, [1]), (1, []), (2, [3])]
    validate(egraph_of(nodes, roots=(0,)))
    with pytest.raises(ValueError, match="e-class 3 is read by e-node 2 and has no e-node"):
        validate(egraph_of(nodes, roots=(0, 2)))


def test_the_collector_runs_again_after_a_pause_unless_it_did_not_before():
    with collector_paused():
        assert not gc.isenabled()
        with contextlib.suppress(KeyError), collector_paused():
            raise KeyError
        assert not gc.isenabled()
    assert gc.isenabled()
