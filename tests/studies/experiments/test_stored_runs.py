"""Stored runs to look at: all that can be read, by study; one that cannot is skipped in one line."""

import json
from pathlib import Path

import pytest

from tests.studies.experiments.test_results import record, store
from workbench.results import browse
from workbench.run.trace import Step, StepKind, Trace
from workbench.studies.experiments.store import save_record


def trace(name="bert"):
    steps = [Step(k, StepKind.ITERATION, 0.01, 10 * 3**k, 6 * 2**k, cost=100.0 - k) for k in range(4)]
    return Trace({"kind": "saturation", "graph": name}, steps)


@pytest.fixture
def folder(tmp_path):
    store(tmp_path / "one", record("bert", "ours"), record("vgg19", "ours", optimized=160.0))
    store(tmp_path / "two", record("bert", "other", optimized=50.0))
    save_record(tmp_path / "two" / "runs" / "stepped", record("nasrnn", "other"), trace())
    return tmp_path


def test_runs_are_grouped_by_the_folder_of_their_study(folder):
    stored = browse(folder)
    assert stored.studies == ("one", "two")
    assert [(r.study, r.name) for r in stored] == [
        ("one", "bert:ours"), ("one", "vgg19:ours"), ("two", "bert:other"), ("two", "nasrnn:other"),
    ]  # fmt: skip
    assert stored["vgg19:ours"].row["speedup"] == pytest.approx(25.0)
    assert stored["two/bert:other"].row["speedup"] == pytest.approx(300.0)
    assert stored.skipped == ()
    assert repr(stored).splitlines()[1:] == ["  one: 2 runs", "  two: 2 runs"]
    # A study, or a run, may be named itself.
    assert browse(folder / "two").studies == ("two",)
    assert [r.name for r in browse(folder / "two" / "runs" / "stepped")] == ["nasrnn:other"]


def test_the_frame_is_that_of_load(folder):
    frame = browse(folder).frame()
    assert frame["speedup"].tolist() == pytest.approx([100.0, 25.0, 300.0, 100.0])
    assert frame["folder"][0].endswith("one/runs/run-0")


def test_a_part_of_the_studies(folder):
    assert browse(folder).only("two").studies == ("two",)
    with pytest.raises(LookupError, match="no study called 'tow'; there are: one, two"):
        browse(folder).only("tow")


def test_a_run_is_found_by_its_name_and_its_steps_are_read(folder):
    stored = browse(folder)
    assert len(stored["nasrnn:other"].trace()) == 4
    with pytest.raises(FileNotFoundError, match="bert:ours must have a stored trace"):
        stored["bert:ours"].trace()
    with pytest.raises(KeyError, match="no run called 'bert:mine'"):
        stored["bert:mine"]
    store(folder / "three", record("bert", "ours"))
    with pytest.raises(KeyError, match="must name one run, got one/bert:ours, three/bert:ours"):
        browse(folder)["bert:ours"]


def test_measured_speed_ups_are_kept_by_target_and_form(folder):
    rows = [
        {"target": "cpu", "form": "ours", "speedup": 1.5},
        {"target": "cpu", "form": "rival", "speedup": None},
    ]
    store(folder / "timed", record("bert", "ours") | {"latency": {"rows": rows}})
    assert browse(folder / "timed")["bert:ours"].measured == {("cpu", "ours"): 1.5}


#: Possible content of a file that is called run.json, and the remark on it.
BROKEN = {
    "": "unreadable JSON",
    "{": "unreadable JSON",
    "[1]": "got list",
    "{}": "not the record of a run",
    '{"row": {}, "config": {}}': "not the record of a run",
    json.dumps(record("bert", "ours") | {"row": 3}): "TypeError",
    json.dumps(record("bert", "ours") | {"provenance": {}}): "KeyError",
    json.dumps(record("bert", "ours") | {"latency": {"rows": [7]}}): "AttributeError",
    json.dumps(record("bert", "ours", optimized="fast")): "optimized must be a number, got 'fast'",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_is_skipped_in_one_line(folder, text):
    broken = folder / "one" / "runs" / "broken"
    broken.mkdir()
    (broken / "run.json").write_text(text)
    stored = browse(folder)
    assert len(stored) == 4
    (line,) = stored.skipped
    assert line.startswith("one/runs/broken/run.json: ")
    assert BROKEN[text] in line
    assert "\n" not in line
    assert f"skipped: {line}" in repr(stored)


def test_a_file_of_bytes_and_a_folder_of_the_name_are_skipped(folder):
    for name, make in (("bytes", lambda f: f.write_bytes(b"\xff\x00")), ("folder", lambda f: f.mkdir())):
        (folder / name).mkdir()
        make(folder / name / "run.json")
    stored = browse(folder)
    assert len(stored) == 4
    assert len(stored.skipped) == 2


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="must exist, got"):
        browse(tmp_path / "none")
    assert len(browse(tmp_path)) == 0


def test_all_results_that_come_with_the_workbench_can_be_read():
    stored = browse(Path(__file__).parents[3] / "results")
    assert stored.skipped == ()
    assert {"gym", "headline", "zoo"} <= set(stored.studies)
