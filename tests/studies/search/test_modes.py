import numpy as np
import pytest

from workbench.certification import certify
from workbench.costs.analytic import AnalyticCost
from workbench.graph import GraphBuilder
from workbench.laws.verification import Verification
from workbench.rules import load_rules
from workbench.studies.benchmarks import benchmark
from workbench.studies.search import MODES, BacktrackingSearch
from workbench.studies.search.modes import guarded_merges


def run(graph, rules, mode, **options):
    search = BacktrackingSearch(graph, rules, AnalyticCost(), mode=mode, **options)
    search.run()
    return search


def test_what_the_modes_bring_along():
    assert [len(rules()) for rules in MODES.values()] == [0, 18, 6]
    names = [r.name for r in MODES["taso-release"]()]
    assert len(set(names)) == 18
    assert names[-6:] == [r.name for r in MODES["tensat-fork"]()]
    assert [n.split("-")[2] for n in names[:12]] == ["relu"] * 4 + ["batchnorm"] * 4 + ["mul"] * 4


def test_tasos_file_is_taken_whole(shared_data):
    rules = load_rules(shared_data / "taso" / "graph_subst.pb")
    graph = benchmark("bert", layers=1)
    counts = {m: len(BacktrackingSearch(graph, rules, AnalyticCost(), mode=m).rules) for m in MODES}
    assert counts == {"sound": 133, "taso-release": 151, "tensat-fork": 139}


def scaled_conv(groups=1):
    b = GraphBuilder("scaled")
    x, w = b.input("x", (1, 4, 8, 8)), b.weight((4, 4 // groups, 3, 3))
    conv = b.op("conv2d", x, w, pads=(1, 1, 1, 1), groups=groups)
    return b.graph({"y": b.op("mul", conv, b.input("s", (1, 4, 8, 8)))})


def test_the_release_drops_a_factor_and_the_certificate_says_so():
    search = run(scaled_conv(), (), "taso-release")
    assert search.history == ("taso-conv-mul-1-same",)
    assert search.best.operators() == {"conv2d": 1}
    assert not certify(scaled_conv(), search.best).passed
    assert run(scaled_conv(), (), "tensat-fork").history == ()


def depthwise_pair():
    b = GraphBuilder("pair")
    x = b.input("x", (1, 8, 4, 4))
    convs = [b.op("conv2d", x, b.weight((8, 1, 3, 3)), pads=(1, 1, 1, 1), groups=8) for _ in range(2)]
    return b.graph({"a": convs[0], "b": convs[1]})


@pytest.mark.parametrize("mode", ["taso-release", "tensat-fork"])
def test_grouped_convolutions_are_merged_wrongly_without_a_guard(mode):
    search = run(depthwise_pair(), (), mode)
    assert "taso-enlarge-merge-none" in search.history
    assert not certify(depthwise_pair(), search.best).passed
    guarded = run(depthwise_pair(), guarded_merges(), "sound")
    assert guarded.history == ()


@pytest.mark.slow
def test_the_guarded_merge_is_sound_and_enlarges():
    verification = Verification(list(guarded_merges()))
    verification.run()
    assert {v.verdict for v in verification.verdicts} == {"tested"}
    b = GraphBuilder("kernels")
    x = b.input("x", (1, 4, 4, 4))
    small = b.op("conv2d", x, b.weight((4, 4, 1, 1)), act="relu")
    large = b.op("conv2d", x, b.weight((6, 4, 3, 3)), pads=(1, 1, 1, 1), act="relu")
    graph = b.graph({"a": small, "b": large})
    search = run(graph, guarded_merges(), "sound", alpha=1.0)
    assert search.history == ("enlarge-merge-relu",)
    assert certify(graph, search.best).passed


def normalised(eps):
    b = GraphBuilder("normalised")
    x, w = b.input("x", (1, 4, 8, 8)), b.weight((4, 4, 3, 3))
    conv = b.op("conv2d", x, w, pads=(1, 1, 1, 1))
    small = [b.weight(data=np.full((4,), v, np.float32)) for v in (1.0, 0.0, 0.0, 0.01)]
    return b.graph({"y": b.op("batchnorm", conv, *small, eps=eps)})


@pytest.mark.parametrize(("eps", "right"), [(1e-5, True), (1e-2, False)])
def test_the_release_folds_normalisation_with_an_epsilon_of_its_own(eps, right):
    search = run(normalised(eps), (), "taso-release")
    assert search.history == ("taso-conv-batchnorm-1-same",)
    assert certify(normalised(eps), search.best).passed is right


def test_neighbouring_groups_are_merged():
    b = GraphBuilder("groups")
    conv = b.op("conv2d", b.input("x", (1, 8, 4, 4)), b.weight((8, 2, 3, 3)), pads=(1, 1, 1, 1), groups=4)
    graph = b.graph({"y": conv})
    search = run(graph, (), "tensat-fork", alpha=10.0, growth=9.0)
    assert {s.rule for step in search.trace for s in step.rules} == {"taso-merge-groups-1-none"}
    # 4 groups, 2, 1: three graphs.
    assert search.found == 3


@pytest.mark.parametrize("network", ["bert", "nasrnn", "squeezenet", "vgg19", "resnet50"])
@pytest.mark.parametrize("mode", ["taso-release", "tensat-fork"])
@pytest.mark.slow
def test_tasos_rules_on_networks_without_groups_are_certified(shared_data, network, mode):
    from tests.studies.search.test_search import SMALL

    graph = benchmark(network, **SMALL[network])
    rules = load_rules(shared_data / "taso" / "graph_subst.pb")
    search = run(graph, rules, mode, budget=12)
    assert search.cost < search.trace.meta["cost_before"]
    assert certify(graph, search.best, draws=1).passed
