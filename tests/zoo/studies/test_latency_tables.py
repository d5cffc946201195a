import math

from zoo.studies.latency_tables import ratio_cell


def row(speedup, low, high):
    return {"speedup": speedup, "speedup_low": low, "speedup_high": high}


def test_a_ratio_is_marked_only_if_its_whole_interval_says_so():
    assert ratio_cell(row(1.5, 1.2, 1.8)) == "**1.50×** (1.20–1.80)"
    assert ratio_cell(row(1.5, 0.9, 1.8)) == "1.50× (0.90–1.80)"
    assert ratio_cell(row(0.9, 0.8, 0.95), 3, slower=0.98) == "✗ 0.900× (0.80–0.95)"
    assert ratio_cell(row(0.9, 0.8, 0.99), 3, slower=0.98) == "0.900× (0.80–0.99)"
    assert ratio_cell(None) == ratio_cell(row(math.nan, 1, 1)) == "—"
