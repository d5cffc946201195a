"""E-graphs as scenes: their nodes, marks and statements."""

import json

import numpy as np
import pytest

import workbench
from workbench.egraph import EGraph
from workbench.faces.views.egraphs import (
    MOST_HOPS,
    MOST_OPENED,
    Known,
    Part,
    class_table,
    egraph_data,
    egraph_html,
    egraph_scene,
    selection,
)
from workbench.support.formatting import thousands


@pytest.fixture(scope="module")
def result():
    return workbench.optimize(workbench.benchmark("squeezenet"))


@pytest.fixture(scope="module")
def known(result):
    return Known(result.egraph, result.costs, result.solution.choice)


def test_the_extracted_term_is_bold_and_first(result, known):
    scene = egraph_scene(known, Part(most=60))
    bold = [b for b in scene.boxes if b.bold]
    assert bold
    assert all(int(result.solution.choice[int(result.egraph.eclass[int(b.key)])]) == int(b.key) for b in bold)
    assert any(e.bold for e in scene.edges)


@pytest.mark.parametrize("most", [10, 50, 100_000])
def test_the_limit_is_kept_and_stated(result, known, most):
    scene = egraph_scene(known, Part(most=most))
    drawn = [b for b in scene.boxes if not b.key.startswith("more")]
    assert len(drawn) <= max(most, 8)
    if most < 100:
        assert f"of {len(result.egraph)} e-nodes" in scene.note
        assert "starting from the roots" in scene.note


def test_every_box_is_in_its_class(known):
    scene = egraph_scene(known)
    frames = {c.key for c in scene.clusters}
    assert {b.cluster for b in scene.boxes} == frames
    for edge in scene.edges:
        assert edge.from_cluster in frames


def test_another_class_can_be_the_centre(result, known):
    c = int(result.egraph.n_classes) // 2
    scene = egraph_scene(known, Part(c, most=20))
    assert scene.clusters[0].key == f"e-class {c}"


def test_cycles_are_marked():
    # Class 1 holds neg(2), class 2 holds neg(1) and an input: a ring, and a way out.
    egraph = EGraph(
        ops=("input", "neg", "neg", "relu"), attrs=(("x",), (), (), ()),
        child_start=np.array([0, 0, 1, 2, 3]), children=np.array([2, 1, 1]),
        eclass=np.array([2, 1, 2, 0]), n_classes=3, roots=(0,),
        birth_step=np.array([0, 0, 1, 0]), birth_rule=np.array([-1, -1, 0, -1]), rules=("neg-neg",),
    )  # fmt: skip
    marks = {c.key: c.mark for c in egraph_scene(Known(egraph)).clusters}
    assert marks == {"e-class 0": "", "e-class 1": "cycle", "e-class 2": "cycle"}


def test_steps_show_births_and_merges():
    b = workbench.GraphBuilder()
    x, y, z = (b.input(n, (4, 4)) for n in "xyz")
    graph = b.graph({"l": b.op("add", b.op("add", x, y), z), "r": b.op("add", x, b.op("add", y, z))})
    with workbench.Saturation(graph, workbench.rule_set("ac")) as saturation:
        saturation.run()
        data = egraph_data(Known(saturation.egraph(), history=saturation.snapshots))
    (level,) = data["panes"][0]["levels"].values()
    assert len(data["steps"]) == len(saturation.trace)
    born = {b.get("born", 0) for b in level["boxes"]}
    assert {0, 1} <= born <= set(range(len(saturation.trace)))
    assert any(c["merged"] for c in level["clusters"])
    assert "merging" in data["steps"][1]


def test_the_table_has_the_largest_classes_first(result, known):
    headings, rows = class_table(known)
    assert headings[:4] == ("e-class", "e-nodes", "operators", "readers")
    assert all(len(row) == len(headings) for row in rows)
    sizes = [row[1] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == len(result.egraph)
    assert len(class_table(known, most=3)[1]) == 3


def test_faces_are_small_and_say_what_is_cut(result, known):
    html = egraph_html(known)
    assert len(html) < 400_000
    assert "<img" in html
    assert "<script" not in html
    assert len(json.dumps(egraph_data(known))) < 400_000


@pytest.mark.slow
def test_e_graphs_of_other_programs_have_a_face(shared_data):
    from workbench.egraph import load_json

    egraph, costs = load_json(shared_data / "extraction-gym" / "bert.json")
    data = egraph_data(Known(egraph, costs))
    assert data["steps"] == []
    assert f"of {thousands(len(egraph))} e-nodes" in data["panes"][0]["levels"]["whole"]["note"]


@pytest.fixture(scope="module")
def egraph():
    """Return the e-graph of a long chain with a wide e-class in it."""
    b = workbench.GraphBuilder("sums")
    xs = [b.input(f"x{k}", (4,)) for k in range(6)]
    while len(xs) > 1:
        xs = [b.op("add", xs[0], xs[1]), *xs[2:]]
    y = xs[0]
    for _ in range(8):
        y = b.op("tanh", y)
    with workbench.Saturation(b.graph({"y": y}), tuple(workbench.rule_set("ac"))) as saturation:
        saturation.run()
        return saturation.egraph()


def neighbours(egraph, c):
    """Return the e-classes that one reads, and those that read it."""
    reads = {int(d) for i in range(len(egraph)) if egraph.eclass[i] == c for d in egraph.operands(i)}
    return reads | {int(egraph.eclass[i]) for i in range(len(egraph)) if c in egraph.operands(i)}


def test_it_starts_at_the_roots_and_keeps_the_limit(egraph):
    shown, labels = selection(egraph, Part(most=10))
    assert next(iter(shown)) == egraph.roots[0]
    assert sum(map(len, shown.values())) + len(labels) <= 10


def test_one_hop_is_what_it_reads_and_what_reads_it(egraph):
    c = int(egraph.eclass[next(i for i, op in enumerate(egraph.ops) if op == "tanh")])
    one, _ = selection(egraph, Part(most=1000).around(c, 1))
    assert set(one) == {c} | neighbours(egraph, c)
    two, _ = selection(egraph, Part(most=1000).around(c, 2))
    assert set(one) < set(two)
    assert Part().around(c, 100).hops == MOST_HOPS


def test_an_opened_class_shows_everything_it_has_and_reads(egraph):
    sizes = [len(m) for m in egraph.members()]
    wide = max(range(egraph.n_classes), key=lambda c: sizes[c])
    before, _ = selection(egraph, Part(most=60))
    part = Part(most=60).with_opened(wide)
    after, _ = selection(egraph, part)
    assert len(before.get(wide, ())) < sizes[wide]
    assert len(after[wide]) == min(sizes[wide], MOST_OPENED)
    read = {int(d) for i in after[wide] for d in egraph.operands(i)}
    assert read <= set(after)
    assert set(before) <= set(after)
    assert part.with_opened(wide) == part


def test_the_centre_is_named():
    assert Part().centre() == "starting from the roots"
    assert Part(3).centre() == "starting from e-class 3"
    assert Part(3, 1).centre() == "at most 1 hop from e-class 3"
