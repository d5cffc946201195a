"""Draw the README's picture: one real run, from the trace alone: python docs/picture.py."""

from pathlib import Path

import matplotlib.pyplot as plt

import workbench
from workbench import plots
from workbench.benchmarks.light import light_model


def main() -> None:
    """Optimise densenet121 with measured costs and save growth, rule firing and costs as one PNG."""
    trace = workbench.optimize(light_model("densenet121"), cost="cpu").trace
    with plots.paper_style():
        figure, axes = plt.subplots(2, 2, figsize=(12, 7.6), layout="constrained", height_ratios=[1, 1.25])
        figure.get_layout_engine().set(h_pad=0.12, w_pad=0.12)
        plots.plot_growth(trace, axes[0, 0])
        plots.plot_cost_curve(trace, axes[0, 1])
        plots.plot_firing(trace, axes[1, 0], most=10)
        plots.plot_cost_bars(trace, axes[1, 1], most=7)
        figure.savefig(Path(__file__).parent / "densenet121.png", dpi=100)


if __name__ == "__main__":
    main()
