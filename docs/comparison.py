"""Draw the README's example, original and optimised, by e-class: python docs/comparison.py."""

from pathlib import Path

import workbench
from workbench.views.compare import side_notes
from workbench.views.graphs import graph_svg
from workbench.views.svg import beside


def main() -> None:
    """Optimise the example and save both graphs as one SVG."""
    b = workbench.GraphBuilder("attention")
    x = b.input("x", (128, 512))
    query, key, value = (b.op("matmul", x, b.weight((512, 512))) for _ in range(3))
    scores = b.op("softmax", b.op("matmul", query, b.op("transpose", key, perm=(1, 0))), axis=-1)
    graph = b.graph({"y": b.op("relu", b.op("matmul", scores, value))})

    comparison = workbench.optimize(graph).compare()
    sides = (comparison.before, comparison.after)
    picture = beside(*(graph_svg(side.graph, side_notes(comparison, side)) for side in sides))
    (Path(__file__).parent / "attention.svg").write_bytes(picture)


if __name__ == "__main__":
    main()
