"""Comparison of graphs with their copies in TASO's text format, for the tests."""

from dataclasses import replace

import numpy as np

from workbench.certification.inputs import random_inputs
from workbench.graph import Weight, evaluate
from workbench.ops import spec_of
from workbench.studies.taso.model_reader import load_taso_model
from workbench.studies.taso.model_writer import to_taso_model


def read_back(graph, folder):
    """Return the graph read from a graph's text."""
    path = folder / f"{graph.name}.model"
    path.write_text(to_taso_model(graph))
    return load_taso_model(path)


def nameless(graph):
    """Return the structure of a graph without names: every output as nested operators and types.

    Inputs are identified by position and weights by type, but a weight read twice is one weight.
    """
    order = {i: ("input", k, node.type) for k, i in enumerate(graph.inputs) if (node := graph.nodes[i])}
    numbers = {}
    for i in order_of_reading(graph):
        node = graph.nodes[i]
        if node.op == "weight":
            numbers[i] = ("weight", len(numbers), node.type)
    table, seen = [], {}
    for i in order_of_reading(graph):
        node = graph.nodes[i]
        if node.op in ("input", "weight"):
            table.append(order[i] if node.op == "input" else numbers[i])
        else:
            table.append((node.op, node.attrs, node.type, tuple(seen[j] for j in node.inputs)))
        seen[i] = len(table) - 1
    return table, [seen[i] for i in graph.output_ids]


def order_of_reading(graph):
    """Return the nodes in an order that follows from the structure alone."""
    from workbench.support.orders import postorder

    return postorder(graph.output_ids, lambda i: graph.nodes[i].inputs)


def same_values(graph, copy):
    """Return whether a copy computes the same values as a graph, on the graph's weights.

    The format does not store the data of weights, so the copy gets those of the graph, in the same order.
    """
    live = graph.reachable()
    mine = [str(n.attrs[0]) for i, n in enumerate(graph.nodes) if n.op == "weight" and live[i]]
    theirs = [str(n.attrs[0]) for n in copy.nodes if n.op == "weight"]
    data = {t: Weight.of(graph.weights[m].value()) for m, t in zip(mine, theirs, strict=True)}
    filled = replace(copy, weights=data)
    inputs = random_inputs(graph, 0, 0)
    renamed = dict(zip(copy.input_types, inputs.values(), strict=True))
    before = evaluate(graph, inputs, precise=True)
    after = evaluate(filled, renamed, precise=True)
    return all(
        np.allclose(b, a, rtol=1e-9, atol=1e-9, equal_nan=True)
        for b, a in zip(before.values(), after.values(), strict=True)
    )


def operators(graph):
    """Return the operators in order, without leaves."""
    return [n.op for n in graph.nodes if not spec_of(n.op).leaf]
