import contextlib
import gc
from dataclasses import replace

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of, random_egraph
from workbench.egraph import EGraph, validate
from workbench.extraction import NoExtraction, extract
from workbench.extraction.cost_history import born_by
from workbench.support.machine import collector_paused


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
    with pytest.raises(
        NoExtraction, match=r"e-node one \(op1\) must be a number above minus infinity, got nan \(try"
    ):
        extract(small(), np.array([1.0, np.nan, 1.0]))


def test_a_consistent_e_graph_passes():
    validate(small())
    validate(replace(small(), rules=("r",), birth_rule=np.array([-1, 0, 0]), original=np.array([0, -1, 2])))
    validate(replace(small(), types=(), birth_rule=np.empty(0, int), birth_step=np.empty(0, int)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attrs": ((),)}, r"attrs must have 3 entries \(one per e-node\), got 1"),
        (
            {"child_start": np.array([0, 1, 1])},
            r"child_start must have 4 entries \(one per e-node and the end\), got 3",
        ),
        ({"eclass": np.array([0, 1])}, r"eclass must have 3 entries \(one per e-node\), got 2"),
        ({"types": (None,)}, r"types must have 2 entries \(one per e-class\), got 1"),
        ({"birth_rule": np.array([-1])}, r"birth_rule must have 3 entries \(one per e-node\), got 1"),
        ({"birth_step": np.array([0])}, r"birth_step must have 3 entries \(one per e-node\), got 1"),
        ({"node_names": ("a",)}, r"node_names must have 3 entries \(one per e-node\), got 1"),
        ({"class_names": ("a",)}, r"class_names must have 2 entries \(one per e-class\), got 1"),
        ({"eclass": np.array([0, 1, 2])}, r"eclass\[2\] must be from 0 to 1 \(2 e-classes\), got 2"),
        ({"eclass": np.array([0, 1, -1])}, r"eclass\[2\] must be from 0 to 1 \(2 e-classes\), got -1"),
        (
            {"eclass": np.array([0.0, 1.0, 1.0])},
            r"eclass must be a one-dimensional array of integers, got float64",
        ),
        ({"eclass": [0, 1, 1]}, r"eclass must be a one-dimensional array of integers, got list"),
        ({"eclass": np.array([[0], [1], [1]])}, r"eclass must be a one-dimensional array"),
        ({"children": np.array([2])}, r"children\[0\] must be from 0 to 1 \(2 e-classes\), got 2"),
        ({"children": np.array([])}, r"children must be a .* integers, got float64"),
        ({"roots": (0, 2)}, r"roots\[1\] must be from 0 to 1 \(2 e-classes\), got 2"),
        ({"roots": (0.0,)}, r"roots must be a .* integers, got float64"),
        ({"birth_rule": np.array([0, -1, -1])}, r"birth_rule\[0\] must be from -1 to -1 \(0 rules\), got 0"),
        ({"original": np.array([0, 3])}, r"original\[1\] must be from -1 to 2 \(3 e-nodes\), got 3"),
        (
            {"child_start": np.array([0, 1, 1, 0])},
            r"child_start must run from 0 to 1 \(all children\), got 0 to 0",
        ),
        (
            {"child_start": np.array([1, 1, 1, 1])},
            r"child_start must run from 0 to 1 \(all children\), got 1 to 1",
        ),
        ({"child_start": np.array([0, 1, 0, 1])}, "child_start must not fall, got 1, then 0 at e-node 1"),
        ({"child_start": np.array([0, 1, 0, 1], dtype=np.uint8)}, "child_start must not fall, got 1, then 0"),
        (
            {"child_start": np.array([0, 2, 1, 1])},
            r"child_start\[1\] must be from 0 to 1 \(2 places among the children\), got 2",
        ),
        ({"child_start": np.array([0.0, 1, 1, 1])}, r"child_start must be a .* integers, got float64"),
        ({"node_names": ("a", "b", "a")}, r"node_names must be distinct, got 'a' at both 0 and 2"),
        ({"class_names": ("a", "a")}, r"class_names must be distinct, got 'a' at both 0 and 1"),
        ({"eclass": np.array([0, 0, 0])}, "e-class leaf is read by e-node top but has no e-node"),
        ({"eclass": np.array([1, 1, 1])}, "e-class root is a root but has no e-node"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        validate(replace(small(), **change))


def test_an_e_class_without_e_nodes_is_refused_only_where_the_roots_lead_to_it():
    nodes = [(0, [1]), (1, []), (2, [3])]
    validate(egraph_of(nodes, roots=(0,)))
    with pytest.raises(ValueError, match="e-class 3 is read by e-node 2 but has no e-node"):
        validate(egraph_of(nodes, roots=(0, 2)))


def test_the_collector_runs_again_after_a_pause_unless_it_did_not_before():
    with collector_paused():
        assert not gc.isenabled()
        with contextlib.suppress(KeyError), collector_paused():
            raise KeyError
        assert not gc.isenabled()
    assert gc.isenabled()
