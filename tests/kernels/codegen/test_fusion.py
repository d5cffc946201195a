import numpy as np
import pytest

from tests.kernels.codegen.needs import compiler
from workbench.graph import evaluate
from workbench.kernels.codegen import tuning
from workbench.kernels.codegen.clusters import Member, as_graph, cluster_of
from workbench.kernels.codegen.compiler import Build
from workbench.kernels.codegen.fusion import Bench
from workbench.ops import TensorType

KIND, ROW = TensorType("float32", (8, 64)), TensorType("float32", (64,))


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    members = [Member(2, "add", (), (0, 1), KIND), Member(3, "softmax", (-1,), (2,), KIND)]
    return cluster_of(members, {0: KIND, 1: ROW, 2: KIND, 3: KIND}, {})


@pytest.mark.slow
@compiler
def test_a_cluster_is_measured_once(cluster, monkeypatch):
    measure = Bench(Build(), seconds=0.01)
    first = measure(cluster)
    assert first.operators > 0
    assert first.kernel > 0

    def again(*args, **options):
        raise AssertionError("the times are known")

    monkeypatch.setattr(tuning, "rounds", again)
    assert measure(cluster) == first


@compiler
def test_the_fastest_schedule_is_one_of_the_measured_ones(cluster):
    op = Bench(Build(), threads=2).fastest(cluster)
    assert op.cluster is cluster
    assert not op.schedule.threaded  # the runtime's threads run its parts


def test_operators_run_on_arrays_where_they_are(cluster):
    random = np.random.default_rng(0)
    x, b = (random.standard_normal(t.shape).astype(np.float32) for t in (KIND, ROW))
    graph = as_graph(cluster)
    run = Bench(Build()).bound(graph, [x, b])
    run()
    (results,) = run.__defaults__
    np.testing.assert_allclose(results[1][0], evaluate(graph, {"x0": x, "x1": b})["y"], rtol=1e-5)
    x += 1
    run()
    np.testing.assert_allclose(results[1][0], evaluate(graph, {"x0": x, "x1": b})["y"], rtol=1e-5)
