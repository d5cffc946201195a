"""Leaves of a graph, and operators of a model that the workbench keeps but does not look into."""

from __future__ import annotations

from workbench.ops.registry import register
from workbench.ops.spec import MANY, Attr, OpSpec, no_flops

register(
    OpSpec("input", 0, 0, None, None, (Attr("name", "str"),), no_flops, doc="a graph input"),
    OpSpec("weight", 0, 0, None, None, (Attr("name", "str"),), no_flops, doc="a stored tensor"),
    OpSpec(
        "opaque",
        0,
        MANY,
        None,
        None,
        (Attr("key", "str"),),
        no_flops,
        doc="an operator kept as it came; key names its record in the graph",
    ),
    OpSpec(
        "project",
        1,
        1,
        None,
        None,
        (Attr("index", "int"),),
        no_flops,
        view=True,
        doc="one result of an opaque operator that has several",
    ),
)
