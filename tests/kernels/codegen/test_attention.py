"""Kernels of attention: their values in all layouts, with masks, and when there are some."""

import math

import numpy as np
import onnxruntime
import pytest

from tests.kernels.codegen.needs import compiler, run_under_sanitisers, skip_if_not_for_here
from tests.sampled import in_turn
from workbench.costs.analytic import AnalyticCost
from workbench.frontends import to_onnx
from workbench.frontends.runtime import session
from workbench.graph import Builder, GraphBuilder, evaluate
from workbench.kernels.codegen.attention import Attention, attentions, candidates, heads_of
from workbench.kernels.codegen.clusters import given, readers_of
from workbench.kernels.codegen.compiler import Build
from workbench.kernels.codegen.custom_ops import Operator, library_of, payload
from workbench.kernels.codegen.deployment import deploy
from workbench.kernels.codegen.fusion import Beside, egraph_of, numbers_of
from workbench.kernels.composites.evaluate import evaluate as evaluate_composite

pytestmark = compiler


def merged(b, x, batch, rows, heads, depth):
    """Return queries, keys and values of one product, in the form of timm's vision transformers."""
    y = b.op("reshape", x, shape=(batch, rows, 3, heads, depth))
    y = b.op("transpose", y, perm=(2, 0, 3, 1, 4))
    parts = (b.op("slice", y, axis=-5, start=k, stop=k + 1, step=1) for k in range(3))
    return [b.op("reshape", part, shape=(batch, heads, rows, depth)) for part in parts]


def attention(
    *,
    batch=1,
    heads=3,
    rows=20,
    keys=20,
    depth=16,
    values=None,
    form="merged",
    mask="none",
    scale="query",
    guard=False,
    last=True,
):
    """Return a graph of attention; ``form`` says how heads lie in its inputs."""
    b = GraphBuilder("attention", seed=0)
    values = values or depth
    if form == "merged":
        q, k, v = merged(b, b.input("x", (batch, rows, 3 * heads * depth)), batch, rows, heads, depth)
    elif form == "apart":
        q, k, v = (
            b.op(
                "transpose",
                b.op("reshape", b.input(n, (batch, m, heads * d)), shape=(batch, m, heads, d)),
                perm=(0, 2, 1, 3),
            )
            for n, m, d in (("q", rows, depth), ("k", keys, depth), ("v", keys, values))
        )
    else:
        q, k, v = (
            b.input(n, (batch, heads, m, d))
            for n, m, d in (("q", rows, depth), ("k", keys, depth), ("v", keys, values))
        )
    turned = (0, 1, 3, 2)
    number = b.op("scalar", value=1 / math.sqrt(depth))
    if scale == "query":
        q = b.op("mul", q, number)
    k = b.op("transpose", k, perm=turned)
    if scale == "both":
        q, k = (b.op("mul", x, b.op("scalar", value=depth**-0.25)) for x in (q, k))
    s = b.op("matmul", q, k)
    if scale == "scores":
        s = b.op("div", s, b.op("scalar", value=math.sqrt(depth)))
    if mask != "none":
        shape = {
            "whole": (1, 1, rows, keys),
            "keys": (batch, 1, 1, keys),
            "heads": (1, heads, rows, keys),
            "queries": (rows, 1),
            "one": (),
        }[mask]
        s = b.op("add", s, b.input("mask", shape))
    p = b.op("softmax", s, axis=-1)
    if guard:
        p = b.op("select", b.op("is_nan", p), b.op("scalar", value=0.0), p)
    y = b.op("matmul", p, v)
    if last:
        y = b.op("reshape", b.op("transpose", y, perm=(0, 2, 1, 3)), shape=(batch, rows, heads * values))
    return b.graph({"y": y})


def cluster_in(graph):
    found = list(attentions(readers_of(egraph_of(graph), numbers_of(graph))))
    return found[0] if found else None


def run(cluster, feeds, how=None, threads=1):
    op = Operator(cluster, how or candidates(cluster)[0], 16)
    builder = Builder("kernel")
    (y,) = builder.opaque(payload(op), given(builder, cluster))
    library = library_of([op], Build())
    loaded = session(to_onnx(builder.graph({"y": y})), threads=threads, spin=False, operators=library)
    return loaded.run(None, {f"x{k}": x for k, x in enumerate(feeds)})[0]


def inputs_of(graph, cluster, seed=0, masked=None):
    random = np.random.default_rng(seed)
    feeds = {}
    for i in graph.inputs:
        name, shape = graph.nodes[i].attr("name"), graph.nodes[i].tensor.shape
        feeds[name] = random.standard_normal(shape).astype(np.float32)
        if name == "mask" and masked is not None:
            feeds[name] = masked(random, shape).astype(np.float32)
    order = [feeds[graph.nodes[j].attr("name")] for j in cluster.inputs]
    return feeds, order


def expected(graph, feeds):
    wide = {k: x.astype(np.float64) for k, x in feeds.items()}
    return evaluate(graph, wide)["y"]


FORMS = [
    {},
    {"form": "apart", "keys": 33, "values": 40},
    {"form": "whole", "keys": 70, "depth": 20, "last": False},
    {"form": "whole", "last": False, "rows": 50, "values": 8, "scale": "scores"},
    {"batch": 2, "mask": "whole", "rows": 37, "keys": 37},
    {"form": "apart", "batch": 2, "mask": "keys", "scale": "both", "keys": 64},
    {"form": "apart", "mask": "heads", "scale": "scores", "guard": True},
    {"form": "whole", "mask": "queries", "heads": 1},
    {"form": "whole", "mask": "one", "last": False},
    {"batch": 3, "heads": 1, "rows": 100, "depth": 7},
]


@pytest.mark.slow
@pytest.mark.parametrize("given", in_turn(FORMS, 1, quick=4), ids=str)
def test_a_kernel_has_the_values_of_attention(given):
    graph = attention(**given)
    cluster = cluster_in(graph)
    assert cluster is not None
    assert set(cluster.inputs) == set(graph.inputs)
    feeds, order = inputs_of(graph, cluster)
    want = expected(graph, feeds)
    for how in {*candidates(cluster), Attention(1), Attention(13)}:
        np.testing.assert_allclose(run(cluster, order, how), want, rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(run(cluster, order, threads=2), want, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("given", FORMS[:6], ids=str)
def test_the_composite_is_the_same_attention(given):
    graph = attention(**given)
    cluster = cluster_in(graph)
    feeds, order = inputs_of(graph, cluster)
    y = evaluate_composite(cluster.composite, order)
    np.testing.assert_allclose(y, expected(graph, feeds), rtol=1e-5, atol=1e-6)


def causal(low):
    def mask(random, shape):
        return np.broadcast_to(
            np.where(np.arange(shape[-1]) > np.arange(shape[-2])[:, None], low, 0.0), shape
        )

    return mask


@pytest.mark.parametrize("low", [-np.inf, np.finfo(np.float32).min, -1e9])
def test_keys_that_a_mask_excludes_are_left_out(low):
    graph = attention(mask="whole", rows=100, keys=100, heads=2)
    cluster = cluster_in(graph)
    feeds, order = inputs_of(graph, cluster, masked=causal(low))
    np.testing.assert_allclose(run(cluster, order), expected(graph, feeds), rtol=1e-4, atol=2e-6)


@pytest.mark.slow
def test_a_query_without_keys_gets_what_the_operators_give():
    def mask(random, shape):
        found = np.zeros(shape)
        found[..., 3, :] = -np.inf  # one of a group of queries
        found[..., 12:, :] = -np.inf  # all of others
        return found

    plain, guarded = (attention(mask="whole", rows=40, keys=70, form="whole", guard=g) for g in (False, True))
    cluster = cluster_in(plain)
    feeds, order = inputs_of(plain, cluster, masked=mask)
    got = run(cluster, order)
    assert np.isnan(got[0, [3, *range(12, 40)]]).all()
    assert not np.isnan(got[0, 4:12]).any()
    got = run(cluster_in(guarded), order)
    assert not got[0, [3, *range(12, 40)]].any()
    # A very low finite mask excludes a key only if another key is not masked.
    feeds["mask"] = np.nan_to_num(feeds["mask"], neginf=-3e38)
    order = [feeds["mask"] if x.shape == feeds["mask"].shape else x for x in order]
    np.testing.assert_allclose(run(cluster, order), expected(plain, feeds), rtol=1e-4, atol=2e-6)


def draws(count, seed):
    """Yield random sizes and forms of attention."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        form = ["merged", "apart", "whole"][random.integers(3)]
        rows, keys, depth, values = (int(n) for n in random.integers((8, 8, 1, 1), (90, 140, 70, 70)))
        if form == "merged":
            keys, values = rows, depth
        yield attention(
            batch=int(random.integers(1, 4)),
            heads=int(random.integers(1, 5)),
            rows=rows,
            keys=keys,
            depth=depth,
            values=values,
            form=form,
            mask=["none", "whole", "keys", "heads", "queries"][random.integers(5)],
            scale=["query", "both", "scores", "none"][random.integers(4)],
            guard=bool(random.integers(2)),
            last=bool(random.integers(2)),
        )


def check_random(count, march):
    """Run random attention as one program and compare it with float64."""
    build, made, b, feeds, wanted = Build(march=march, opt=1), [], GraphBuilder("all"), {}, {}
    for k, graph in enumerate(draws(count, seed=count)):
        cluster = cluster_in(graph)
        own, order = inputs_of(graph, cluster, seed=k)
        made.append(Operator(cluster, candidates(cluster)[-1], 1 + k % 4, build))
        feeds |= {f"x{k}_{j}": x for j, x in enumerate(order)}
        places = [b.input(f"x{k}_{j}", x.shape) for j, x in enumerate(order)]
        wanted[f"y{k}"] = expected(graph, own), b.opaque(payload(made[-1]), places)[0]
    graph = b.graph({name: place for name, (_, place) in wanted.items()})
    try:
        program = session(to_onnx(graph), threads=2, spin=False, operators=library_of(made, build))
    except Exception as error:
        skip_if_not_for_here(error)
        raise
    for (name, (exact, _)), found in zip(wanted.items(), program.run(list(wanted), feeds), strict=True):
        assert np.abs(found - exact).max() < 2e-5 * max(np.abs(exact).max(), 1e-6), name


@pytest.mark.parametrize(
    ("count", "march"),
    [(2, "native"), *(pytest.param(12, m, marks=pytest.mark.slow) for m in ("native", "x86-64-v3", ""))],
)
def test_random_attention_is_that_of_float64(count, march):
    check_random(count, march)


@pytest.mark.slow
@pytest.mark.nightly
def test_much_random_attention_is_that_of_float64():
    check_random(600, "native")


@pytest.mark.slow
@pytest.mark.nightly
def test_kernels_touch_no_memory_but_their_own(tmp_path):
    for graph in [*(attention(**form) for form in FORMS), *draws(40, seed=5)]:
        cluster = cluster_in(graph)
        for how in {*candidates(cluster), Attention(5)}:
            run_under_sanitisers(how.written("layer", cluster), cluster, tmp_path)


def test_what_is_in_a_kernel():
    cluster = cluster_in(attention())
    moves = ["reshape", "transpose"]
    ops = [m.op for m in cluster.members]
    assert ops[:2] == moves
    assert ops[-2:] == moves[::-1]
    assert ops.count("matmul") == 2
    heads = heads_of(cluster)
    assert heads.sizes == (1, 3, 20, 20, 16, 16)
    assert heads.scale == pytest.approx(0.25)
    assert heads.query.steps == (0, 16, 144, 1)
    assert (heads.query.first, heads.key.first, heads.value.first) == (0, 48, 96)
    assert heads.mask is None


def test_a_value_that_is_read_elsewhere_ends_a_kernel():
    b = GraphBuilder("shared", seed=0)
    q, k, v = (b.input(n, (1, 2, 10, 16)) for n in "qkv")
    p = b.op("softmax", b.op("matmul", q, b.op("transpose", k, perm=(0, 1, 3, 2))), axis=-1)
    y = b.op("matmul", p, v)
    z = b.op("transpose", y, perm=(0, 2, 1, 3))
    cluster = cluster_in(b.graph({"z": z, "neg": b.op("neg", y)}))
    assert [m.op for m in cluster.members] == ["transpose", "matmul", "softmax", "matmul"]


@pytest.mark.parametrize("why", ["axis", "few", "half", "weights", "places"])
def test_other_attention_stays(why):
    b = GraphBuilder("other", seed=0)
    rows = 4 if why == "few" else 10
    dtype = "float16" if why == "half" else "float32"
    q, k = (b.input(n, (1, 2, rows, 16), dtype) for n in "qk")
    v = b.weight((1, 2, rows, 16)) if why == "weights" else b.input("v", (1, 2, rows, 16), dtype)
    s = b.op("matmul", q, b.op("transpose", k, perm=(0, 1, 3, 2)))
    y = b.op("matmul", b.op("softmax", s, axis=-2 if why == "axis" else -1), v)
    if why == "places":  # the axes of the result cross those of heads
        y = b.op("reshape", b.op("transpose", y, perm=(0, 3, 1, 2)), shape=(1, 32, 10))
        y = b.op("transpose", b.op("reshape", y, shape=(1, 8, 4, 10)), perm=(0, 3, 2, 1))
        y = b.op("reshape", y, shape=(5, 2, 32))
    found = cluster_in(b.graph({"y": y}))
    assert found is None or why in ("weights", "places")


@pytest.mark.slow
def test_a_network_gets_kernels_that_its_file_runs_with_and_without(tmp_path):
    graph = attention(rows=40)
    random = np.random.default_rng(0)
    done = deploy(graph, AnalyticCost("t4"), time=False, measure=lambda c: Beside(1e3, 1.0), build=Build())
    assert done.certificate.passed
    assert [len(c.members) for c in done.plan.clusters] == [len(cluster_in(graph).members)]
    model, library = done.save(tmp_path / "fast.onnx")
    feeds = {"x": random.standard_normal((1, 40, 144)).astype(np.float32)}
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(library))
    fast = onnxruntime.InferenceSession(str(model), options).run(None, feeds)[0]
    plain = onnxruntime.InferenceSession(str(model)).run(None, feeds)[0]
    np.testing.assert_allclose(fast, plain, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fast, expected(graph, feeds), rtol=1e-4, atol=2e-6)
