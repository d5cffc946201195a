import numpy as np
import pytest

from workbench.egraph import EGraph
from workbench.egraph.rebuild import rebuild
from workbench.extraction import extract
from workbench.graph import GraphBuilder, evaluate
from workbench.ops import spec_of
from workbench.saturation.compile import compile_rule
from workbench.saturation.encoding import encoding_for
from workbench.saturation.engine import Engine, Plan, Program

from . import laws


def engine_of(graph, *rules):
    encoding = encoding_for(graph)
    compiled = [compile_rule(r, i + 1, encoding) for i, r in enumerate(rules)]
    return Engine(Program(graph.skeleton(), encoding, tuple(c for c in compiled if c)))


def saturate(engine, *, limit=5000, steps=10, multi=1):
    outcomes = []
    for step in range(1, steps + 1):
        outcomes.append(engine.iterate(Plan(step, step <= multi, limit)))
        if not outcomes[-1].changed:
            break
    return outcomes


def shared_matmuls(count=4):
    b = GraphBuilder()
    x = b.input("x", (4, 8))
    ys = [b.op("matmul", x, b.weight((8, 6))) for _ in range(count)]
    return b.graph({f"y{i}": y for i, y in enumerate(ys)})


def sum_of(leaves):
    b = GraphBuilder()
    total = b.input("x0", (2, 3))
    for i in range(1, leaves):
        total = b.op("add", total, b.input(f"x{i}", (2, 3)))
    return b.graph({"y": total})


def test_start_graph_is_read_back_whole():
    graph = shared_matmuls()
    egraph = EGraph(**engine_of(graph).columns())
    assert len(egraph) == len(graph)
    assert [egraph.ops[i] for i in egraph.original] == [n.op for n in graph.nodes]
    assert [egraph.attrs[i] for i in egraph.original] == [n.attrs for n in graph.nodes]
    assert [egraph.types[egraph.eclass[i]] for i in egraph.original] == [n.type for n in graph.nodes]
    assert list(egraph.roots) == [egraph.eclass[egraph.original[i]] for i in graph.output_ids]


def test_associativity_and_commutativity_saturate_at_the_known_size():
    # n leaves: 2^n - 1 classes of non-empty subsets, (3^n - 2^(n+1) + 1) sums, n leaves.
    n = 6
    engine = engine_of(sum_of(n), laws.ADD_COMMUTES, laws.ADD_ASSOCIATES)
    outcomes = saturate(engine, steps=20)
    assert not outcomes[-1].changed
    assert outcomes[-1].e_classes == 2**n - 1
    assert outcomes[-1].e_nodes == 3**n - 2 ** (n + 1) + 1 + n


def test_every_e_node_has_a_birth_rule_and_step():
    engine = engine_of(sum_of(5), laws.ADD_COMMUTES, laws.ADD_ASSOCIATES)
    outcomes = saturate(engine)
    egraph = EGraph(**engine.columns())
    start = set(egraph.original.tolist())
    for i in range(len(egraph)):
        assert (egraph.birth_rule[i] == -1) == (i in start)
        assert (egraph.birth_step[i] == 0) == (i in start)
    for step, outcome in enumerate(outcomes, 1):
        assert (egraph.birth_step <= step).sum() >= outcome.e_nodes * 0.5
    assert (np.diff(egraph.birth_step) >= 0).all()


def test_limit_is_never_exceeded_and_the_cut_is_reported():
    engine = engine_of(sum_of(9), laws.ADD_COMMUTES, laws.ADD_ASSOCIATES)
    sizes = []
    for step in range(1, 12):
        outcome = engine.iterate(Plan(step, False, 500))
        sizes.append(outcome.e_nodes)
        if outcome.cut:
            break
    assert max(sizes) <= 500
    assert "undone" in outcome.cut
    assert len(EGraph(**engine.columns())) == sizes[-1]


@pytest.mark.slow
def test_an_exploding_multi_pattern_is_held_back():
    # 500 matrices share an operand: 124 750 pairs at once.
    engine = engine_of(shared_matmuls(500), laws.MERGE_PAIR)
    outcome = engine.iterate(Plan(1, True, 20_000))
    assert outcome.e_nodes <= 20_000
    assert "held back" in outcome.cut


def test_pairs_are_matched_once():
    engine = engine_of(shared_matmuls(4), laws.MERGE_PAIR)
    outcome = engine.iterate(Plan(1, True, 5000))
    assert outcome.rules == {1: (6, outcome.rules[1][1])}
    # Six pairs: a concat, a product and two slices each.
    assert outcome.e_nodes == 9 + 6 * 4


@pytest.mark.parametrize("count", [2, 3, 7, 20])
def test_any_number_of_members_merges_at_once(count):
    engine = engine_of(shared_matmuls(count), laws.MERGE_EACH)
    saturate(engine)
    egraph = EGraph(**engine.columns())
    assert len(egraph) == 1 + 2 * count + 2 + count
    joined = [i for i, op in enumerate(egraph.ops) if op == "concat"]
    assert [len(egraph.operands(i)) for i in joined] == [count]


def two_groups():
    """Three products of one operand, and two of another one that need a weight made by a rule."""
    b = GraphBuilder()
    x, u = b.input("x", (4, 8)), b.input("u", (4, 8))
    outs = [b.op("matmul", x, b.weight((8, 6))) for _ in range(3)]
    outs += [b.op("matmul", u, b.weight((8, 6)))]
    outs += [b.op("matmul", b.op("matmul", u, b.weight((8, 5))), b.weight((5, 6)))]
    return b.graph({f"y{i}": o for i, o in enumerate(outs)})


def test_a_group_may_need_a_name_after_another_was_merged():
    engine = engine_of(two_groups(), laws.MATMUL_ASSOCIATES, laws.MERGE_EACH)
    for step in (1, 2):
        engine.iterate(Plan(step, step == 2, 5000))
    egraph = EGraph(**engine.columns())
    # Beside the product with the new weight nobody reads the product that it replaces.
    assert sorted(len(egraph.operands(i)) for i, op in enumerate(egraph.ops) if op == "concat") == [2, 3]


def test_an_undone_merge_can_be_made_later():
    # The first merge does not fit and is undone with what it declared; with room it is made again.
    engine = engine_of(shared_matmuls(5), laws.MERGE_EACH)
    start = engine.e_nodes
    assert "undone" in engine.iterate(Plan(1, True, start + 1)).cut
    assert engine.e_nodes == start
    engine.iterate(Plan(2, True, 5000))
    assert engine.e_nodes == start + 2 + 5


def test_members_of_other_types_are_left_out():
    b = GraphBuilder()
    x, u = b.input("x", (4, 8)), b.input("u", (4, 8))
    outs = [b.op("matmul", x, b.weight((8, n))) for n in (3, 5)]
    outs += [b.op("matmul", u, b.weight((8, 3))), b.op("matmul", x, b.weight((2, 8, 3)))]
    engine = engine_of(b.graph({f"y{i}": o for i, o in enumerate(outs)}), laws.MERGE_EACH)
    saturate(engine)
    egraph = EGraph(**engine.columns())
    (joined,) = [i for i, op in enumerate(egraph.ops) if op == "concat"]
    assert egraph.types[egraph.eclass[joined]].shape == (8, 8)


def test_guards_keep_types():
    b = GraphBuilder()
    x = b.input("x", (4, 8))
    graph = b.graph({"y": b.op("relu", x)})
    engine = engine_of(graph, laws.WRONG_TYPE)
    assert not engine.iterate(Plan(1, False, 100)).changed


def test_conditions_are_guards():
    for rows, fires in ((1, True), (2, False)):
        b = GraphBuilder()
        graph = b.graph({"y": b.op("relu", b.input("x", (rows, 8)))})
        engine = engine_of(graph, laws.ONE_ROW)
        assert engine.iterate(Plan(1, False, 100)).changed == fires


def test_permutations_and_shapes_survive_the_engine():
    b = GraphBuilder()
    x = b.input("x", (2, 3, 4, 5, 6))
    t = b.op("transpose", b.op("transpose", x, perm=(4, 0, 1, 2, 3)), perm=(2, 1, 0, 4, 3))
    s = b.op("reshape", b.op("reshape", x, shape=(720,)), shape=(8, 90))
    graph = b.graph({"t": t, "s": s})
    engine = engine_of(graph, laws.TRANSPOSE_TWICE, laws.RESHAPE_TWICE)
    saturate(engine)
    egraph = EGraph(**engine.columns())
    made = {
        egraph.ops[i]: (egraph.attrs[i][0], egraph.types[egraph.eclass[i]])
        for i in range(len(egraph))
        if egraph.birth_rule[i] >= 0
    }
    assert made["transpose"][1] == graph.nodes[graph.output_ids[0]].type
    data = np.arange(720).reshape(2, 3, 4, 5, 6)
    expected = data.transpose(4, 0, 1, 2, 3).transpose(2, 1, 0, 4, 3)
    np.testing.assert_array_equal(data.transpose(made["transpose"][0]), expected)
    assert made["reshape"][0] == (8, 90)


def agree(graph, other, dtype):
    (kind,) = graph.input_types.values()
    data = {"x": np.random.default_rng(0).standard_normal(kind.shape).astype(dtype)}
    expected, found = (evaluate(g, data, precise=True)["y"] for g in (graph, other))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_constants_are_taken_away(dtype):
    b = GraphBuilder()
    x = b.input("x", (3, 4), dtype)
    y = b.op("matmul", b.op("relu", x), b.op("eye", size=4, dtype=dtype))
    graph = b.graph({"y": b.op("mul", y, b.op("ones", shape=(3, 1), dtype=dtype))})
    engine = engine_of(graph, laws.EYE_RIGHT, laws.ONES_RIGHT)
    assert not saturate(engine)[-1].changed
    egraph = EGraph(**engine.columns())
    rebuilt = rebuild(graph, egraph, extract(egraph, np.ones(len(egraph))).choice)
    assert rebuilt.operators() == {"relu": 1}
    agree(graph, rebuilt, dtype)


def test_a_constant_that_broadcasts_its_operand_stays():
    b = GraphBuilder()
    y = b.op("mul", b.input("x", (1, 4)), b.op("ones", shape=(3, 1)))
    engine = engine_of(b.graph({"y": y}), laws.ONES_RIGHT)
    assert not saturate(engine)[-1].changed
    assert engine.e_classes == 3


def test_a_law_that_makes_a_constant_saturates():
    for dtype in ("float32", "float64"):
        b = GraphBuilder()
        graph = b.graph({"y": b.op("relu", b.input("x", (2, 3, 4), dtype))})
        engine = engine_of(graph, laws.EYE_MADE, laws.EYE_RIGHT)
        assert not saturate(engine)[-1].changed
        egraph = EGraph(**engine.columns())
        (made,) = [i for i, op in enumerate(egraph.ops) if op == "eye"]
        assert egraph.attrs[made] == (4, dtype)
        assert egraph.types[egraph.eclass[made]] == spec_of("eye").result_type([], (4, dtype))
        assert egraph.constant_classes()[egraph.eclass[made]]
        # The product stands in the class of its own operand: the operand is extracted.
        (product,) = [i for i, op in enumerate(egraph.ops) if op == "matmul"]
        assert egraph.eclass[product] == egraph.roots[0]
        agree(graph, rebuild(graph, egraph, extract(egraph, np.ones(len(egraph))).choice), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_constants_that_laws_make_are_extracted(dtype):
    b = GraphBuilder()
    x = b.input("x", (2, 3, 6, 6), dtype)
    pooled = b.op("avgpool", x, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), include_pad=1)
    graph = b.graph({"y": b.op("add", pooled, pooled)})
    engine = engine_of(graph, laws.TWICE, laws.MEANS)
    assert not saturate(engine)[-1].changed
    egraph = EGraph(**engine.columns())
    # E-nodes of the start graph are too expensive, so that only those made by the laws are taken.
    costs = np.ones(len(egraph))
    costs[egraph.original[1:]] = 1e3
    rebuilt = rebuild(graph, egraph, extract(egraph, costs).choice)
    assert rebuilt.operators() == {"mean_kernel": 1, "conv2d": 1, "ones": 1, "add": 1, "mul": 1}
    agree(graph, rebuilt, dtype)


def test_a_shape_made_for_another_element_type():
    b = GraphBuilder()
    x = b.input("x", (3, 4), "float64")
    graph = b.graph({"y": b.op("cast", b.op("reshape", x, shape=(2, 6)), to="float32")})
    engine = engine_of(graph, laws.ONES_MADE, laws.ONES_RIGHT)
    assert not saturate(engine)[-1].changed
    egraph = EGraph(**engine.columns())
    (made,) = [i for i, op in enumerate(egraph.ops) if op == "ones"]
    assert egraph.attrs[made] == ((2, 6), "float32")
    assert str(egraph.types[egraph.eclass[made]]) == "float32[2, 6]"


def test_two_runs_are_identical():
    def columns():
        engine = engine_of(sum_of(6), laws.ADD_COMMUTES, laws.ADD_ASSOCIATES)
        saturate(engine)
        e = EGraph(**engine.columns())
        return e.ops, e.attrs, e.children.tolist(), e.eclass.tolist(), e.birth_rule.tolist()

    assert columns() == columns()


def test_profiled_rules_have_their_own_times():
    engine = engine_of(sum_of(6), laws.ADD_COMMUTES, laws.ADD_ASSOCIATES)
    outcome = engine.iterate(Plan(1, False, 5000, profile=True))
    assert all(seconds > 0 for _, seconds in outcome.rules.values())
