"""``workbench extract``: the cheapest term of an e-graph from a file."""

import json

import pytest


@pytest.fixture
def egraph(tmp_path):
    """Two parts of one merged operator: expensive once, cheap if it is shared; and a cycle."""
    nodes = {
        "root": ("0", ["a", "b"], 1.0), "a": ("1", [], 6.0), "b": ("2", [], 6.0),
        "a-part": ("1", ["both"], 0.5), "b-part": ("2", ["both"], 0.5), "both": ("3", [], 9.0),
        "both-again": ("3", ["a"], 0.1),
    }  # fmt: skip
    data = {
        "nodes": {n: {"op": n, "eclass": c, "children": k, "cost": p} for n, (c, k, p) in nodes.items()},
        "root_eclasses": ["0"],
    }
    path = tmp_path / "egraph.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("method", "cost", "status"),
    [("tree", 13, "greedy"), ("exact", 7.6, "optimal"), ("auto", 7.6, "optimal"), ("tensat", 7.6, "optimal")],
)
def test_extract_prints_and_writes_what_it_found(run, egraph, tmp_path, method, cost, status):
    code, out, _ = run("extract", egraph, "--method", method, "--json", tmp_path / "o.json", "-q")
    found = json.loads((tmp_path / "o.json").read_text())
    assert code == 0
    assert status in out
    assert found["status"] == status
    assert found["bound"] <= found["cost"] + 1e-9
    taken = {"root": 1.0, "a": 6.0, "b": 6.0, "a-part": 0.5, "b-part": 0.5, "both": 9.0, "both-again": 0.1}
    assert sum(taken[n] for n in found["choice"].values()) == pytest.approx(found["cost"])
    assert found["choice"]["0"] == "root"
    assert {"gap", "seconds", "method", "trace"} <= set(found)


def test_extract_never_goes_round_in_a_circle(run, egraph, tmp_path):
    code, _, _ = run("extract", egraph, "--method", "exact", "--json", tmp_path / "o.json", "--trace", "-q")
    found = json.loads((tmp_path / "o.json").read_text())
    assert code == 0
    assert found["cost"] == pytest.approx(7.6)
    assert found["choice"] == {"0": "root", "1": "a", "2": "b-part", "3": "both-again"}


def test_extract_says_that_a_program_of_tensats_found_nothing(run, egraph, tmp_path):
    where = tmp_path / "o.json"
    arguments = ("--method", "tensat", "--memory", "0.1", "--trace", "--json", where, "-q")
    code, out, _ = run("extract", egraph, *arguments)
    assert code == 0
    found = json.loads(where.read_text())
    assert (found["cost"], found["found_by"], found["status"]) == (13, "tree", "greedy")
    assert "note: tensat " in out
    assert "note: nothing found: this is the tree selection" in out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["nodes"]["root"].update(children=["nothing"]), "nothing"),
        (lambda d: d.update(root_eclasses=["7"]), "7"),
        (lambda d: d.update(root_eclasses=[]), "root"),
        (lambda d: d["nodes"]["a"].update(cost=-float("inf")), "must be a number above minus infinity"),
        (lambda d: d["nodes"]["a"].update(cost="costly"), "cost"),
        (lambda d: d["nodes"]["root"].update(children=["root"]), "must have a finite term"),
    ],
)
def test_extract_of_a_broken_file_says_what_is_wrong(run, egraph, change, message):
    data = json.loads(egraph.read_text())
    change(data)
    egraph.write_text(json.dumps(data))
    code, out, err = run("extract", egraph, "-q")
    assert (code, out) == (2, "")
    assert message in err


def test_the_scope_and_the_method_are_next_to_the_status(run, tmp_path):
    """Optimal in what is left after breaking cycles is not optimal in the e-graph."""
    rows = {"a": ("r", ["x"], 1), "b": ("r", [], 9), "x": ("s", ["r2"], 1), "r2": ("t", ["x"], 1)}
    rows |= {"y": ("t", [], 5), "z": ("s", [], 7)}
    data = {
        "nodes": {n: {"op": n, "eclass": c, "children": k, "cost": p} for n, (c, k, p) in rows.items()},
        "root_eclasses": ["r"],
    }
    path = tmp_path / "e.json"
    path.write_text(json.dumps(data))
    code, out, _ = run("extract", path, "--method", "filtered", "--json", tmp_path / "o.json", "-q")
    found = json.loads((tmp_path / "o.json").read_text())
    assert code == 0
    assert found["scope"] in out
    assert {"scope", "method", "found", "filtered"} <= set(out.split())


def test_small_costs_are_not_printed_as_zero(run, tmp_path):
    data = {
        "nodes": {"a": {"op": "a", "eclass": "r", "children": [], "cost": 2.5e-8}},
        "root_eclasses": ["r"],
    }
    path = tmp_path / "e.json"
    path.write_text(json.dumps(data))
    _, out, _ = run("extract", path, "-q")
    assert "2.5e-08" in out


def test_extract_prints_and_writes_the_k_cheapest_terms(run, egraph, tmp_path):
    code, out, _ = run("extract", egraph, "--k", "3", "--json", tmp_path / "o.json", "-q")
    best = json.loads((tmp_path / "o.json").read_text())["best"]
    assert code == 0
    assert [found["cost"] for found in best] == pytest.approx([7.6, 11.0, 13.0])
    assert all(f"{found['cost']:.6f}" in out for found in best)
    _, out, _ = run("extract", egraph, "--k", "3", "--distance", "2", "-q")
    assert "7.600000" in out
    assert "11.000000" in out
