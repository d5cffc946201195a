"""A study of two tiny e-graphs, for tests."""

import json

#: By name: (e-class, children by e-node, cost); the root is e-class "r".
SHARED = {
    "r0": ("r", ["a0", "b0"], 0.0),
    "a0": ("a", ["s0"], 1.0),
    "a1": ("a", [], 3.0),
    "b0": ("b", ["s0"], 1.0),
    "b1": ("b", [], 3.0),
    "s0": ("s", [], 2.5),
}
CYCLE = {
    "r0": ("r", ["a0"], 1.0),
    "a0": ("a", ["b0"], 0.0),
    "a1": ("a", [], 4.0),
    "b0": ("b", ["a0"], 0.0),
    "b1": ("b", [], 2.0),
}


def write_egraph(path, nodes):
    """Write an e-graph as egraph-serialize JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = {
        name: {"op": name, "children": children, "eclass": eclass, "cost": cost}
        for name, (eclass, children, cost) in nodes.items()
    }
    path.write_text(json.dumps({"nodes": records, "root_eclasses": ["r"]}))


def write_study(folder, *, methods="tree, dag, exact", more=""):
    """Write two e-graphs and a study of them; return the study's path."""
    write_egraph(folder / "graphs" / "shared.json", SHARED)
    write_egraph(folder / "graphs" / "cycle.json", CYCLE)
    study = folder / "tiny.yaml"
    study.write_text(
        f"kind: extraction\ninstances:\n  files: [graphs/*.json]\nmethods: [{methods}]\nseconds: 20\n{more}"
    )
    return study


#: Two methods, cheap to run: a saturation and a search.
METHODS = "  ours: {by: saturation, iterations: 6}\n  taso: {by: search, budget: 5}\n"


def write_optimisation(folder, *, networks="vgg19", methods=METHODS, more="certify: false\n"):
    """Write a study of optimisations; return its path."""
    study = folder / "small.yaml"
    study.write_text(f"kind: optimisation\nnetworks: [{networks}]\nmethods:\n{methods}{more}")
    return study


#: Figures of a record that depend on the clock or the machine, and not on what was asked.
CLOCK = ("seconds", "seconds_best", "saturation", "extraction")


def figures(record):
    """Return what two runs of one configuration have in common.

    Not the certificate: it runs the graphs in a library that adds up in another order every time.
    """
    row = {key: value for key, value in record["row"].items() if key not in CLOCK}
    result = {key: value for key, value in record["result"].items() if key != "certificate"}
    return record["name"], row, record["stop_reason"], result
