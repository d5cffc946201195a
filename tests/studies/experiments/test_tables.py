import math

import pandas as pd
import pytest

from workbench.studies.experiments.tables import (
    about,
    cell,
    distinct,
    lines,
    machines,
    repeat_text,
    run_table,
    seconds_text,
)


def record(**changes):
    machine = {"cpus": 2, "processor": "x86_64", "platform": "Linux"}
    where = {"machine": machine, "versions": {"workbench": "1"}, "commit": "abc", "load": 0.5}
    return {"row": {"network": "bert", "e_nodes": 7}, "provenance": where, "failed": False} | changes


def test_a_table_has_one_line_per_row():
    assert lines(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_counts_stay_whole_numbers_if_some_are_missing():
    frame = run_table(
        [record(), record(row={"network": "vgg19"})], ["network", "e_nodes", "failed"], ["e_nodes"]
    )
    assert frame["e_nodes"].tolist() == [7, pd.NA]
    assert frame["failed"].tolist() == [False, False]


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA])
def test_a_missing_figure_is_an_empty_cell(missing):
    assert cell(missing, "{:.1f}") == ""


def test_cells_have_the_form_that_is_asked_for():
    assert [cell(True), cell(False), cell("kept"), cell(3.0, "{:d}"), cell(0.5, "{:.0%}")] == [
        "yes", "no", "kept", "3", "50%",
    ]  # fmt: skip


def test_only_repeats_are_numbered():
    assert [repeat_text(0), repeat_text(1)] == ["", " (repeat 2)"]


def test_the_first_lines_name_the_origin_and_the_machines():
    text = about([record(), record()], ", one row per run.", "A sentence.").splitlines()
    assert text[0].endswith("`table.csv` has the same figures, one row per run.")
    assert text[1] == "A sentence."
    assert text[2:] == machines([record()])
    assert text[2] == "Machine: 2 CPUs (x86_64), Linux."


def test_commits_with_changes_are_explained():
    changed = record()
    changed["provenance"]["commit"] = "abc+"
    assert "changes not committed" in machines([changed])[1]
    assert "changes not committed" not in machines([record()])[1]


def test_seconds_have_their_significant_digits():
    assert [seconds_text(v) for v in (123.4, 12.34, 0.1234, None, math.nan)] == [
        "123 s",
        "12.3 s",
        "0.123 s",
        "",
        "",
    ]


def test_texts_are_listed_once_and_in_order():
    assert distinct(["b", "a", "b"]) == ["b", "a"]
