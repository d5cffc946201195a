"""Records of runs written by hand, with every figure known; they measure nothing."""

import pandas as pd


def runs() -> pd.DataFrame:
    """Return two networks, ours twice each with k_multi 1 and once with 2, and published figures of one."""
    ours = [
        ("toy", 1, 0, 120.0, 100.0, 1.0, 1.0, 100),
        ("toy", 1, 1, 140.0, 100.0, 2.0, 2.0, 100),
        ("toy", 2, 0, 150.0, 100.0, 4.0, 6.0, 900),
        ("net", 1, 0, 100.0, 100.0, 0.1, 0.1, 10),
        ("net", 1, 1, 100.0, 100.0, 0.1, 0.1, 10),
        ("net", 2, 0, 110.0, 100.0, 0.2, 0.2, 30),
    ]
    columns = ["network", "k_multi", "repeat", "original", "optimized", "saturation", "extraction", "nodes"]
    frame = pd.DataFrame(ours, columns=columns)
    frame = frame.assign(
        method="workbench", cost_source="roofline", published=False, hardware="here", programs=8.0
    )
    others = pd.DataFrame(
        [("toy", "TASO", 12.0, 30.0, 8.0, 64.0), ("toy", "Tensat", 25.0, 3.0, None, None)],
        columns=["network", "method", "speedup", "seconds", "seconds_best", "candidates"],
    ).assign(published=True, hardware="T4", cost_source="published")
    return pd.concat([frame, others], ignore_index=True)


def with_k(k: int) -> pd.DataFrame:
    """Return ours with one k_multi, beside the published ones."""
    frame = runs()
    return frame[(frame["k_multi"] == k) | frame["published"]]
