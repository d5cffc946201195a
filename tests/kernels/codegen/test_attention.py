"""Kernels of attention: their values in all layouts, with masks, and when there are some."""

import math

import numpy as np
import pytest

from tests.kernels.codegen.needs import compiler
from workbench.frontends import to_onnx
from workbench.frontends.runtime import session
from workbench.graph import GraphBuilder, evaluate
from workbench.kernels.codegen.attention import Attention, attentions, candidates
from workbench.kernels.codegen.clusters import given, readers_of
from workbench.kernels.codegen.compiler import Build
from workbench.kernels.codegen.custom_ops import Operator, library_of, payload
from workbench.kernels.codegen.fusion import egraph_of, numbers_of
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
    from workbench.graph import Builder

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
    {"batch": 3, "heads": 1, "rows": 100, "depth": 7},
]


@pytest.mark.parametrize("given", FORMS, ids=str)
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
    assert np.isnan(got[0, 3]).all() and np.isnan(got[0, 12:]).all() and not np.isnan(got[0, 4:12]).any()
    got = run(cluster_in(guarded), order)
    assert not got[0, 3].any() and not got[0, 12:].any()
    # Numbers that are only very small exclude no keys, if there are no others.
    feeds["mask"] = np.nan_to_num(feeds["mask"], neginf=-3e38)
    order = [feeds["mask"] if x.shape == feeds["mask"].shape else x for x in order]
    np.testing.assert_allclose(run(cluster, order), expected(plain, feeds), rtol=1e-4, atol=2e-6)
