"""Draw the README's example, original and optimised, by e-class: python docs/comparison.py."""

from pathlib import Path

import numpy as np

import workbench
from workbench.faces.views.compare import side_notes
from workbench.faces.views.graphs import graph_svg
from workbench.faces.views.svg import beside


def main() -> None:
    """Optimise the example and save both graphs as one SVG."""
    rng, b = np.random.default_rng(0), workbench.GraphBuilder("block")

    def norm(y: int) -> int:
        return b.op("batchnorm", y, *(b.weight(data=1 + rng.random(64, "f4")) for _ in range(4)))

    x = b.input("x", (1, 64, 56, 56))
    wide = norm(b.op("conv2d", x, b.weight((64, 64, 3, 3)), pads=1))
    point = norm(b.op("conv2d", x, b.weight((64, 64, 1, 1))))
    graph = b.graph({"y": b.op("relu", b.op("add", b.op("add", wide, point), norm(x)))})

    comparison = workbench.optimize(graph).compare()
    sides = (comparison.before, comparison.after)
    picture = beside(*(graph_svg(side.graph, side_notes(comparison, side)) for side in sides))
    (Path(__file__).parent / "block.svg").write_bytes(picture)


if __name__ == "__main__":
    main()
