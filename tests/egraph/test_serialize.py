import gc
import gzip
import json
import random
from dataclasses import replace

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, random_egraph
from workbench.egraph import EGraphFormatError, load_json, save_json, validate
from workbench.extraction import Status, extract


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
@pytest.mark.slow
def test_known_optima_of_tensats_own_egraphs(shared_data, name, nodes, optimum):
    egraph, costs = load_json(shared_data / "extraction-gym" / f"{name}.json")
    assert len(egraph) == nodes
    solution = extract(egraph, costs, seconds=300)
    assert solution.status is Status.OPTIMAL
    assert solution.cost == pytest.approx(optimum, abs=2e-6)


def meaning(path):
    """Return what a file says, a child standing for its e-class, read in the plainest way."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    data = json.loads(text)
    nodes = data["nodes"]
    said = [
        (
            key,
            node["op"],
            node["eclass"],
            node.get("cost", 1.0),
            [nodes[child]["eclass"] for child in node.get("children", ())],
        )
        for key, node in nodes.items()
    ]
    return said, data["root_eclasses"]


def same_columns(one, other):
    """Return whether two e-graphs agree in all that the format keeps."""
    arrays = ("child_start", "children", "eclass", "birth_rule", "birth_step")
    others = ("ops", "n_classes", "roots", "node_names", "class_names")
    return all(np.array_equal(getattr(one, a), getattr(other, a)) for a in arrays) and all(
        getattr(one, a) == getattr(other, a) for a in others
    )


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "nodes", "classes"),
    [
        ("bert", 20244, 7315),
        ("resnet50", 4350, 2656),
        ("vgg", 2726, 1408),
        ("bert_acyclic", 20244, 7315),
        ("resnet50_acyclic", 266, 242),
        ("vgg_acyclic", 112, 96),
    ],
)
def test_tensats_egraphs_come_back_as_they_were(shared_data, tmp_path, name, nodes, classes):
    source = shared_data / "extraction-gym" / f"{name}.json"
    egraph, costs = load_json(source)
    validate(egraph)
    assert (len(egraph), egraph.n_classes, len(egraph.roots)) == (nodes, classes, 1)
    save_json(egraph, costs, tmp_path / "again.json")
    assert meaning(tmp_path / "again.json") == meaning(source)
    again, prices = load_json(tmp_path / "again.json")
    assert same_columns(egraph, again)
    np.testing.assert_array_equal(prices, costs)


def writable(seed):
    """Return a random e-graph in which e-nodes read only e-classes that have e-nodes; its costs."""
    egraph, costs = random_egraph(seed)
    full = {c for c, m in enumerate(egraph.members()) if m}
    return (egraph, costs) if full.issuperset([*egraph.children.tolist(), *egraph.roots]) else None


def test_round_trip(tmp_path):
    checked = 0
    for seed in range(120):
        made = writable(seed)
        if made is None:
            continue
        egraph, costs = made
        costs[0] = np.inf if seed % 3 == 0 else -1.5 if seed % 3 == 1 else costs[0]
        file = tmp_path / ("e.json.gz" if seed % 2 else "e.json")
        save_json(egraph, costs, file)
        again, prices = load_json(file)
        checked += 1
        np.testing.assert_array_equal(prices, costs)
        assert again.ops == egraph.ops
        np.testing.assert_array_equal(again.child_start, egraph.child_start)
        # E-classes are numbered by appearance now; their names are the old numbers.
        number = np.array(again.class_names, dtype=int)
        np.testing.assert_array_equal(number[again.children], egraph.children)
        np.testing.assert_array_equal(number[again.eclass], egraph.eclass)
        assert tuple(number[list(again.roots)].tolist()) == egraph.roots
        before = file.read_bytes()
        save_json(again, prices, file)
        assert file.read_bytes() == before
        assert [entry.name for entry in tmp_path.iterdir() if entry.suffix == ".part"] == []
    assert checked >= 40


def test_extraction_is_the_same_after_a_round_trip(tmp_path):
    for seed in range(20):
        made = writable(seed)
        if made is None or brute_force(*made) is None:
            continue
        save_json(*made, tmp_path / "e.json")
        assert extract(*load_json(tmp_path / "e.json")).cost == pytest.approx(extract(*made).cost)


def written(tmp_path, nodes, roots=("a",), **more):
    file = tmp_path / "e.json"
    file.write_text(json.dumps({"nodes": nodes, "root_eclasses": list(roots), **more}))
    return file


NODE = {"op": "f", "children": [], "eclass": "a", "cost": 1}


def test_ids_of_any_form_survive(tmp_path):
    strange = ['"', "\\", "ü", "a b", "", "\u2028", "e__0", "\ud800"]
    nodes = {f"n{x}": NODE | {"op": x, "eclass": f"c{x}", "children": [f"n{x}"]} for x in strange}
    source = written(tmp_path, nodes, ["c", "cü", "c"])
    egraph, costs = load_json(source)
    assert egraph.ops == tuple(strange)
    assert egraph.node_name(2) == "nü"
    assert egraph.class_name(2) == "cü"
    assert egraph.roots == (4, 2, 4)
    save_json(egraph, costs, tmp_path / "again.json")
    assert meaning(tmp_path / "again.json") == meaning(source)


def test_children_name_e_classes_by_any_member(tmp_path):
    nodes = {
        "r": NODE | {"children": ["b1", "b2", "b1"]},
        "b1": NODE | {"eclass": "b"},
        "b2": NODE | {"eclass": "b"},
    }
    egraph, costs = load_json(written(tmp_path, nodes))
    assert egraph.operands(0).tolist() == [1, 1, 1]
    save_json(egraph, costs, tmp_path / "again.json")
    again = json.loads((tmp_path / "again.json").read_text())
    assert again["nodes"]["r"]["children"] == ["b1", "b1", "b1"]


def test_what_may_be_left_out_or_added(tmp_path):
    """An e-node as egglog writes it, one with as little as the format allows, and an unreachable one."""
    nodes = {
        "a": {"op": "f", "eclass": "a", "subsumed": False, "cost": 2, "children": ["b"], "note": {"x": 1}},
        "b": {"op": "g", "eclass": "b"},
        "c": {"op": "h", "eclass": "c"},
    }
    file = written(tmp_path, nodes, comment="# pruned", class_data={"a": {"type": "M"}, "nowhere": {}})
    egraph, costs = load_json(file)
    assert costs.tolist() == [2.0, 1.0, 1.0]
    assert egraph.class_names == ("a", "b", "c")
    assert egraph.operands(1).tolist() == []
    validate(egraph)


@pytest.mark.parametrize(
    "never", [{"cost": float("inf")}, {"cost": None}, {"subsumed": True}, {"subsumed": True, "cost": -3}]
)
def test_what_must_not_be_extracted_costs_infinitely_much(tmp_path, never):
    nodes = {"cheap": NODE | {"cost": 0} | never, "costly": NODE | {"cost": 9}}
    egraph, costs = load_json(written(tmp_path, nodes))
    assert costs.tolist() == [np.inf, 9.0]
    solution = extract(egraph, costs)
    assert solution.cost == 9.0
    assert [egraph.node_name(i) for i in solution.choice] == ["costly"]
    save_json(egraph, costs, tmp_path / "again.json")
    text = (tmp_path / "again.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["nodes"]["cheap"]["cost"] is None
    np.testing.assert_array_equal(load_json(tmp_path / "again.json")[1], costs)


def test_egglogs_own_file_is_read(tmp_path):
    """A name for a deleted e-node has a cost that JSON cannot hold; an old form is subsumed."""
    from egglog import bindings

    engine = bindings.EGraph()
    program = (
        "(datatype M (A) (B M) (N i64)) (let $x (B (A))) (union $x (B (N 3))) (subsume (B (A))) (delete (A))"
    )
    engine.run_program(*engine.parse_program(program))
    text = engine.serialize(
        [], max_functions=None, max_calls_per_function=None, include_temporary_functions=False
    ).to_json()
    file = tmp_path / "e.json"
    file.write_text(text)
    with pytest.raises(EGraphFormatError, match="must list at least one e-class as root, got none"):
        load_json(file)
    data = json.loads(text)
    data["root_eclasses"] = [next(n["eclass"] for n in data["nodes"].values() if n["op"] == "B")]
    file.write_text(json.dumps(data))
    egraph, costs = load_json(file)
    solution = extract(egraph, costs)
    assert sorted(egraph.ops[i] for i in solution.choice if i >= 0) == ["3", "B", "N"]


def test_negative_costs_are_read_and_extracted(tmp_path):
    egraph, costs = load_json(written(tmp_path, {"n__0": NODE | {"cost": -1}}))
    assert costs.tolist() == [-1.0]
    assert extract(egraph, costs).cost == -1.0


def test_gzip_and_a_byte_order_mark_are_recognised_by_the_contents(tmp_path):
    plain = written(tmp_path, {"a": NODE}).read_bytes()
    for name, contents in (
        ("packed.json.gz", gzip.compress(plain)),
        ("packed.json", gzip.compress(plain)),
        ("unpacked.json.gz", plain),
        ("mark.json", b"\xef\xbb\xbf" + plain),
    ):
        file = tmp_path / name
        file.write_bytes(contents)
        assert load_json(file)[0].node_names == ("a",)


def test_equal_egraphs_make_equal_packed_files(tmp_path):
    egraph, costs = egraph_of([(0, [])]), np.ones(1)
    save_json(egraph, costs, tmp_path / "a.json.gz")
    save_json(egraph, costs, tmp_path / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def document(nodes=None, roots=("a",), **change):
    """Return a document of one e-node, changed."""
    nodes = {"n": {k: v for k, v in (NODE | change).items() if v is not ...}} if nodes is None else nodes
    return json.dumps({"nodes": nodes, "root_eclasses": roots})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"e\.json must be readable JSON, got: .*line 1 column 1"),
        ('{"nodes": {\n  "a": }}', "must be readable JSON, got: .*line 2 column 8"),
        (document() + "x", "must be readable JSON, got: Extra data"),
        ("[" * 200_000, "must be readable JSON, got: "),
        ("[]", r"must be an object with 'nodes' and 'root_eclasses', got a list"),
        ("3", r"got a number \(3\)"),
        ("{}", "'nodes' must be an object of e-nodes by id, got nothing"),
        ('{"nodes": [{}]}', r"'nodes' must be an object of e-nodes by id, got a list"),
        (
            '{"nodes": {"a": [1]}, "root_eclasses": ["a"]}',
            r"e-node 'a' must be an object, got a list \(\[1\]\)",
        ),
        (document(op=...), "e-node 'n' has no 'op'"),
        (document(eclass=...), "e-node 'n' has no 'eclass'"),
        (document(op=None), "'op' of e-node 'n' must be a string, got null"),
        (document(eclass=7.5), r"'eclass' of e-node 'n' must be a string or a number, got a number"),
        (document(children="n"), r"'children' of e-node 'n' must be a list, got a string \(\"n\"\)"),
        (document(children=None), "'children' of e-node 'n' must be a list, got null"),
        (document(children=["z"]), "e-node 'n' must read e-nodes, got 'z', which does not exist"),
        (
            document(children=["n", "a"]),
            r"e-node 'n' must read e-nodes, got 'a', which is an e-class \(try the id of one of its",
        ),
        (document(children=[0]), "e-node 'n' must read e-classes by number, got 0, which is not an e-class"),
        (document(children=[["n"]]), "the children of e-node 'n' must be ids of e-nodes, got a list"),
        (
            document(cost="costly"),
            r"'cost' of e-node 'n' must be a number or null, got a string \(\"costly\"\)",
        ),
        (document(cost=True), r"'cost' of e-node 'n' must be a number or null, got true or false \(true\)"),
        (document(cost=float("nan")), "the cost of e-node 'n' must be a number, got NaN"),
        (document(cost=10**400), "the cost of e-node 'n' must fit a 64-bit float"),
        (document(cost=1).replace('"cost": 1', '"cost": ' + 5000 * "9"), "must be readable JSON, got: "),
        (document(subsumed=1), r"'subsumed' of e-node 'n' must be true or false, got a number \(1\)"),
        (document(roots=[]), "'root_eclasses' must list at least one e-class as root, got none"),
        (json.dumps({"nodes": {"n": NODE}}), "must list at least one e-class as root, got none"),
        (document(roots="a"), r"'root_eclasses' must be a list of e-class ids, got a string \(\"a\"\)"),
        (document(roots=["a", 0]), "the id of an e-class, got 0, which does not exist"),
        (document(roots=["b"]), "a root must be the id of an e-class, got 'b', which does not exist"),
        (document(roots=["n"]), r"the id of an e-class, got 'n', which is an e-node \(try its e-class 'a'\)"),
        ('{"nodes": {"a": {"eclass": "a"}, "a": {}}, "root_eclasses": ["a"]}', "'a' is defined twice"),
        ('{"nodes": {"a": {"op": "f", "op": "g"}}, "root_eclasses": ["a"]}', "'op' is defined twice"),
    ],
)
def test_broken_files_are_refused(tmp_path, text, message):
    file = tmp_path / "e.json"
    file.write_text(text)
    with pytest.raises(EGraphFormatError, match=r"^e\.json.*" + message.removeprefix(r"e\.json")):
        load_json(file)
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b'{"nodes": "\xff"}', "must be JSON in UTF-8, got: .*position 11"),
        (gzip.compress(b"{}", mtime=0)[:-4], "must be a complete gzip file, got: "),
        (gzip.compress(b"{}" * 99, mtime=0)[:12] + b"\xff" * 20, "must be a complete gzip file, got: "),
        (b"\x1f\x8b", "must be a complete gzip file, got: "),
    ],
)
def test_broken_bytes_are_refused(tmp_path, contents, message):
    file = tmp_path / "e.json"
    file.write_bytes(contents)
    with pytest.raises(EGraphFormatError, match=message):
        load_json(file)


def test_one_bad_e_node_among_many_is_named(tmp_path):
    rng = random.Random(0)
    good = {
        f"n{i}": NODE | {"eclass": f"c{i // 2}", "children": [f"n{rng.randrange(999)}"]} for i in range(999)
    }
    for change, message in (
        ({"cost": float("nan")}, "cost of e-node 'n500' must be a number, got NaN"),
        ({"children": ["n1", "m"]}, "e-node 'n500' must read e-nodes, got 'm'"),
        ({"op": 1}, "'op' of e-node 'n500'"),
    ):
        with pytest.raises(EGraphFormatError, match=message):
            load_json(written(tmp_path, good | {"n500": good["n500"] | change}, ["c0"]))


def test_a_doubled_id_in_a_large_file_is_found_at_once(tmp_path):
    line = '"n%d": {"op": "f", "eclass": "a"}'
    nodes = ", ".join([line % i for i in range(60_000)] + [line % 59_999])
    (tmp_path / "e.json").write_text(f'{{"nodes": {{{nodes}}}, "root_eclasses": ["a"]}}')
    with pytest.raises(EGraphFormatError, match="'n59999' is defined twice"):
        load_json(tmp_path / "e.json")


@pytest.mark.parametrize(
    ("egraph", "costs", "message"),
    [
        (egraph_of([(0, [])]), [1, 2], r"costs must be an array of 1, one per e-node, got shape \(2,\)"),
        (egraph_of([(0, [])]), [float("nan")], r"the cost of e-node 0 \(op0\) cannot be nan"),
        (egraph_of([(0, [])]), [-float("inf")], r"the cost of e-node 0 \(op0\) cannot be -inf"),
        (
            egraph_of([(0, []), (1, [2])]),
            [1, 1],
            "e-class 2 is read but has no e-node, so the format has no name",
        ),
        (egraph_of([(0, [1])]), [1], "e-class 1 is read by e-node 0 but has no e-node"),
        (
            replace(egraph_of([(0, [])]), eclass=np.array([1])),
            [1],
            r"eclass\[0\] must be from 0 to 0 \(1 e-classes\), got 1",
        ),
    ],
)
def test_what_the_format_cannot_hold_is_not_written(tmp_path, egraph, costs, message):
    with pytest.raises(ValueError, match=message):
        save_json(egraph, np.array(costs, dtype=float), tmp_path / "e.json")
    assert list(tmp_path.iterdir()) == []


def test_attributes_are_in_the_operators_name(tmp_path):
    egraph = replace(egraph_of([(0, [])]), ops=("eye",), attrs=((4, "f"),))
    save_json(egraph, np.ones(1), tmp_path / "e.json")
    assert load_json(tmp_path / "e.json")[0].ops == ("eye 4 f",)


def test_no_packed_file_is_unpacked_beyond_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.egraph.serialize.LARGEST", 1 << 20)
    file = tmp_path / "bomb.json.gz"
    file.write_bytes(gzip.compress(b" " * (1 << 21)))
    with pytest.raises(EGraphFormatError, match=r"bomb\.json\.gz must unpack to at most 1 MiB of JSON, got"):
        load_json(file)


def test_costs_whose_sum_is_too_large_make_no_noise(tmp_path):
    node = {"op": "f", "cost": 1e308, "eclass": "c"}
    nodes = {
        "a": node,
        "b": node | {"children": ["a"], "eclass": "d"},
        "c": node | {"children": ["b"], "eclass": "e"},
    }
    file = tmp_path / "g.json"
    file.write_text(json.dumps({"nodes": nodes, "root_eclasses": ["e"]}))
    with pytest.raises(ValueError, match=r"costs must add up to less than 1\.8e308, got more"):
        extract(*load_json(file))


def test_integer_ids_and_children_that_are_e_classes(tmp_path):
    """SmoothE's files of logic synthesis: every id is a number, and a child is an e-class."""
    file = tmp_path / "e.json"
    node = {"op": "f", "cost": 1}
    nodes = {
        "0": node | {"children": [], "eclass": 1},
        "1": node | {"children": [1, 1], "eclass": 0},
        "2": node | {"children": [0], "eclass": 2},
    }
    for roots, rows in (([2], None), (["2"], [[], ["one", "one"], ["zero"]])):
        named = {"0": "one", "1": "zero", "2": "2"}
        data = {
            key: record if rows is None else record | {"children": rows[i], "eclass": ["one", "zero", "2"][i]}
            for i, (key, record) in enumerate(nodes.items())
        }
        file.write_text(json.dumps({"nodes": data, "root_eclasses": roots}))
        egraph, _ = load_json(file)
        assert egraph.children.tolist() == [0, 0, 1]
        assert egraph.eclass.tolist() == [0, 1, 2]
        assert egraph.roots == (2,)
        assert egraph.class_names == (("1", "0", "2") if rows is None else tuple(named.values()))
