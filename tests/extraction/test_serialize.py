import json
import os
from pathlib import Path

import numpy as np
import pytest

from workbench.extraction import EGraphFormatError, Status, extract, load_json, save_json

from .egraphs import brute_force, random_egraph

FOLDER = Path(os.environ.get("WORKBENCH_SHARED", Path(__file__).parents[3] / "shared"))
GYM = FOLDER / "data" / "extraction-gym"


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "nodes", "optimum"),
    [
        ("resnet50_acyclic", 266, 4.415993),
        ("vgg_acyclic", 112, 4.866775),
        ("vgg", 2726, 4.850757),
        ("resnet50", 4350, 4.385795),
        ("bert", 20244, 0.704720),
    ],
)
def test_known_optima_of_tensats_own_egraphs(name, nodes, optimum):
    if not GYM.is_dir():
        pytest.skip("Tensat's e-graphs are not here (set WORKBENCH_SHARED)")
    egraph, costs = load_json(GYM / f"{name}.json")
    assert len(egraph) == nodes
    solution = extract(egraph, costs, seconds=300)
    assert solution.status is Status.OPTIMAL
    assert solution.cost == pytest.approx(optimum, abs=2e-6)


def test_round_trip(tmp_path):
    for seed in range(20):
        egraph, costs = random_egraph(seed)
        if brute_force(egraph, costs) is None or any(not m for m in egraph.members()):
            continue
        save_json(egraph, costs, tmp_path / "e.json")
        again, prices = load_json(tmp_path / "e.json")
        assert len(again) == len(egraph)
        np.testing.assert_array_equal(prices, costs)
        assert len(again.roots) == len(egraph.roots)
        assert extract(again, prices).cost == pytest.approx(extract(egraph, costs).cost)


NODE = {"op": "f", "children": [], "eclass": "a", "cost": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "nodes"),
        (json.dumps({"nodes": {"a": NODE}}), "no root"),
        (json.dumps({"nodes": {"a": NODE}, "root_eclasses": ["b"]}), "'b' does not exist"),
        (json.dumps({"nodes": {"a": NODE | {"children": ["z"]}}, "root_eclasses": ["a"]}), "reads 'z'"),
        (json.dumps({"nodes": {"a": {"op": "f"}}, "root_eclasses": ["a"]}), "eclass"),
        (json.dumps({"nodes": {"a": NODE | {"cost": "dear"}}, "root_eclasses": ["a"]}), "dear"),
        ('{"nodes": {"a": {"eclass": "a"}, "a": {"eclass": "b"}}, "root_eclasses": ["a"]}', "twice"),
    ],
)
def test_broken_files_are_refused(tmp_path, text, message):
    file = tmp_path / "e.json"
    file.write_text(text)
    with pytest.raises(EGraphFormatError, match=message):
        load_json(file)
