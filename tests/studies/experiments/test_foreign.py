"""What Tensat and TASO write of their runs is read whole, in our units, or the broken line is named."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.studies.experiments import (
    read_taso_log,
    read_taso_metrics,
    read_taso_timer,
    read_taso_times,
    read_tensat_stats,
)
from workbench.studies.experiments.foreign import TENSAT_KEYS

#: The mean of five runs of BERT in the authors' own logs, and a run of NasRNN.
BERT = dict(zip(TENSAT_KEYS, (1.204, 0.905, 0.488, 0.49, 1569, 625, 559.1, 8), strict=True))
NASRNN = dict(zip(TENSAT_KEYS, (1.602, 1.069, 0.072, 0.198, 1990, 1345, 312.5, 3), strict=True))
LOG = """\
        ===== Start Cost-Based Backtracking Search =====
        [0] cost = 1.2040 bestCost = 1.2040 candidates.size() = 0
        [1] cost = 1.1000 bestCost = 1.1000 candidates.size() = 7
        ===== Finish Cost-Based Backtracking Search =====

        Cost metrics: exe_time(1.1000) flops(12.5000) memory_access(34.2500) kernel_launches(40)
        [0] cost = 2.0000 bestCost = 2.0000 candidates.size() = 0
"""


@pytest.fixture
def write(tmp_path):
    def written(content, name="bert_1_stats.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def stats(*runs):
    return "".join(json.dumps(run) + "\n" for run in runs)


# -- Tensat ---------------------------------------------------------------------------------------
def test_a_line_of_tensats_is_a_run_in_our_units(write):
    frame = read_tensat_stats(write(stats(BERT, BERT | {"optimized": 1.0})))
    assert list(frame.columns) == ["network", "method", "k_multi", "repeat", *TENSAT_KEYS, "seconds"]
    first, second = frame.to_dict("records")
    assert (first["network"], first["method"], first["k_multi"]) == ("bert", "Tensat", 1)
    assert [first["repeat"], second["repeat"]] == [0, 1]
    # Milliseconds become microseconds, seconds stay.
    assert first["original"] == pytest.approx(1204)
    assert second["optimized"] == pytest.approx(1000)
    assert first["seconds"] == pytest.approx(0.978)
    assert (first["nodes"], first["classes"], first["iter"]) == (1569, 625, 8)
    assert first["programs"] == 559.1
    assert (frame["original"] / frame["optimized"] - 1).iloc[0] == pytest.approx(0.330, abs=5e-4)


@pytest.mark.parametrize(
    ("name", "network", "k"),
    [
        ("nasrnn_0_stats.txt", "nasrnn", 0),
        ("inceptionv3_2_stats.txt", "inceptionv3", 2),
        ("nasnet_a_stats.txt", "nasnet_a", None),
        ("stats.txt", "", None),
    ],
)
def test_network_and_k_multi_are_in_the_name(write, name, network, k):
    path = write(stats(NASRNN), name)
    (row,) = read_tensat_stats(path).astype(object).to_dict("records")
    assert row["network"] == network
    assert (row["k_multi"] if k is not None else None) == k
    (row,) = read_tensat_stats(path, network="mine", k_multi=3).to_dict("records")
    assert (row["network"], row["k_multi"]) == ("mine", 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "a line must be JSON, got '{'"),
        ("[" * 100_000, "a line must be JSON, got '[[[["),
        ('{"original": ' + "1" * 5000 + "}", "a line must be JSON, got"),
        ("[1, 2]", "a line must be a JSON object, got list"),
        ("{}", "original, optimized, saturation, extraction, nodes, classes, programs, iter missing"),
        (json.dumps({k: v for k, v in BERT.items() if k != "iter"}), "line 3: iter missing"),
        (json.dumps(BERT | {"nodes": "many"}), "nodes must be a whole number from 0 to 1e+18, got 'many'"),
        (json.dumps(BERT | {"nodes": 1.5}), "nodes must be a whole number"),
        (json.dumps(BERT | {"nodes": 10**30}), "nodes must be a whole number from 0 to 1e+18"),
        (json.dumps(BERT | {"iter": True}), "iter must be a whole number"),
        (json.dumps(BERT | {"original": float("nan")}), "original must be a number from 0 to 1e+18, got nan"),
        (json.dumps(BERT | {"saturation": -1}), "saturation must be a number from 0 to 1e+18, got -1"),
        (json.dumps(BERT | {"programs": float("inf")}), "programs must be a number"),
        (json.dumps(BERT | {"extraction": None}), "extraction must be a number from 0 to 1e+18, got None"),
    ],
)
def test_a_broken_line_of_tensats_is_named(write, line, message):
    path = write(stats(BERT) + "\n" + line + "\n" + stats(BERT))
    with pytest.raises(ValueError, match=r"bert_1_stats\.txt, line 3: ") as raised:
        read_tensat_stats(path)
    assert message in str(raised.value)


@given(
    st.fixed_dictionaries(
        {
            key: st.integers(0, 10**9)
            if key in ("nodes", "classes", "iter")
            else st.floats(0, 1e9, allow_subnormal=False)
            for key in TENSAT_KEYS
        }
    )
)
@pytest.mark.slow
def test_every_run_that_tensat_could_write_is_read(tmp_path_factory, run):
    path = tmp_path_factory.mktemp("stats") / "net_1_stats.txt"
    path.write_text(stats(run))
    (row,) = read_tensat_stats(path).to_dict("records")
    for key in TENSAT_KEYS:
        assert row[key] == pytest.approx(run[key] * (1000 if key in ("original", "optimized") else 1))


# -- TASO -----------------------------------------------------------------------------------------
def test_a_line_of_the_timer_is_a_search(write):
    path = write(
        "best: 0.25, total: 13.6, candidates: 331\nbest: 1, total: 1e1, candidates: 0\n", "timer.txt"
    )
    frame = read_taso_timer(path, network="bert")
    assert list(frame.columns) == ["network", "method", "repeat", "seconds", "seconds_best", "candidates"]
    assert frame.to_dict("records") == [
        {"network": "bert", "method": "TASO", "repeat": 0, "seconds": 13.6, "seconds_best": 0.25,
         "candidates": 331},
        {"network": "bert", "method": "TASO", "repeat": 1, "seconds": 10.0, "seconds_best": 1.0,
         "candidates": 0},
    ]  # fmt: skip
    assert list(read_taso_timer(path)["network"]) == ["", ""]


@pytest.mark.parametrize(
    "line",
    ["best: 1, total: 2", "best: 3, total: 2, candidates: 1", "best: , total: 2, candidates: 1", "1 2 3"],
)
def test_a_broken_line_of_the_timer_is_named(write, line):
    with pytest.raises(ValueError, match=r"timer\.txt, line 2: "):
        read_taso_timer(write("best: 1, total: 2, candidates: 3\n" + line, "timer.txt"))


def test_run_times_before_and_after(write):
    frame = read_taso_times(write("1.88\t1.73\n1.9 1.7\n", "nasnet_a_time_1k.txt"))
    assert list(frame["network"]) == ["nasnet_a", "nasnet_a"]
    assert list(frame["original"]) == pytest.approx([1880, 1900])
    assert list(frame["optimized"]) == pytest.approx([1730, 1700])
    for line in ("1.88", "1.88\t-1", "1.88\t1e999", "a\tb"):
        with pytest.raises(ValueError, match="line 1: "):
            read_taso_times(write(line, "bert_time.txt"))


def test_the_steps_of_searches_are_read_from_a_log(write):
    frame = read_taso_log(write(LOG, "taso.log"), network="bert")
    assert list(frame.columns) == [
        *("network", "method", "repeat", "step", "cost", "best_cost", "candidates"),
    ]
    assert list(frame["repeat"]) == [0, 0, 1]
    assert list(frame["step"]) == [0, 1, 0]
    assert list(frame["cost"]) == pytest.approx([1204, 1100, 2000])
    assert list(frame["best_cost"]) == pytest.approx([1204, 1100, 2000])
    assert list(frame["candidates"]) == [0, 7, 0]


def test_cost_metrics_are_read_from_a_log(write):
    (row,) = read_taso_metrics(write(LOG, "taso.log")).to_dict("records")
    assert row["cost"] == pytest.approx(1100)
    assert (row["gflops"], row["memory_mib"], row["kernels"]) == (12.5, 34.25, 40)


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (read_taso_log, "[0] cost = x bestCost = 1.2 candidates.size() = 0"),
        (read_taso_log, "[0] cost = 1.2 bestCost = 1.2 candidates.size() ="),
        (read_taso_log, "[0] cost = nan bestCost = 1.2 candidates.size() = 0"),
        (read_taso_metrics, "Cost metrics: exe_time(1.2) flops(1)"),
        (read_taso_metrics, "Cost metrics: exe_time(-1) flops(1) memory_access(1) kernel_launches(1)"),
    ],
)
def test_a_broken_line_of_a_log_is_named(write, read, line):
    with pytest.raises(ValueError, match=r"taso\.log, line 2: "):
        read(write("anything\n" + line, "taso.log"))


# -- every reader ---------------------------------------------------------------------------------
READERS = [read_tensat_stats, read_taso_timer, read_taso_times, read_taso_log, read_taso_metrics]


@pytest.mark.parametrize("read", READERS)
def test_what_is_not_a_file_and_what_is_empty_is_named(read, write, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none"):
        read(tmp_path / "none")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(ValueError, match=r"bert_1_stats\.txt: "):
        read(write("\n\n"))
    with pytest.raises(ValueError, match="line 2: a line must be UTF-8 text"):
        read(write(b"\n\xff\xfe"))
