"""Records appear whole or not at all, and say what their figures depend on."""

import json
import os
import re
from pathlib import Path

import pytest

from workbench.run.trace import Step, StepKind, Trace
from workbench.studies.experiments import store
from workbench.studies.experiments.store import (
    commit,
    digest,
    load_record,
    provenance,
    repetition,
    save_record,
    stored_folder,
)
from workbench.support.files import UnwritableOutput


def test_a_digest_is_of_the_settings_and_not_of_their_order():
    assert digest({"a": 1, "b": {"c": 2.5, "d": "e"}}) == digest({"b": {"d": "e", "c": 2.5}, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert len(digest({})) == 12


def test_what_is_saved_is_read_back_and_nothing_else_stays(tmp_path):
    folder = tmp_path / "runs" / "one"
    assert load_record(folder) is None
    save_record(
        folder,
        {"name": "µ", "row": {"cost": None}},
        Trace(steps=[Step(0, StepKind.START, 0.1, 3, 2, cost=1.0)]),
    )
    assert load_record(folder) == {"name": "µ", "row": {"cost": None}}
    assert sorted(p.name for p in folder.iterdir()) == ["run.json", "trace.parquet"]
    assert Trace.load(folder / "trace.parquet").steps[0].cost == 1.0
    assert [p.name for p in folder.parent.iterdir()] == ["one"]


def test_a_record_replaces_another_as_a_whole(tmp_path):
    folder = tmp_path / "one"
    save_record(folder, {"n": 1}, Trace())
    save_record(folder, {"n": 2})
    assert load_record(folder) == {"n": 2}
    assert [p.name for p in folder.iterdir()] == ["run.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["one"]


def test_a_failure_half_way_leaves_the_old_record_and_no_rest(tmp_path):
    class Broken(Trace):
        def save(self, path):
            path.write_text("half")
            raise OSError(28, "No space left on device")

    folder = tmp_path / "one"
    save_record(folder, {"n": 1})
    with pytest.raises(UnwritableOutput, match="No space left"):
        save_record(folder, {"n": 2}, Broken())
    assert load_record(folder) == {"n": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["one"]


def test_a_figure_that_is_not_a_number_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError):
        save_record(tmp_path / "one", {"cost": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00"])
def test_a_broken_record_is_named(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(ValueError, match=r"run\.json must be the record of a run.*delete it"):
        load_record(tmp_path)


def test_provenance_says_versions_commit_machine_and_load():
    found = provenance()
    assert {"workbench", "python", "egglog", "highspy", "numpy"} <= set(found["versions"])
    assert found["machine"]["cpus"] == os.cpu_count()
    assert found["machine"]["platform"]
    assert json.dumps(found, allow_nan=False)


def test_outside_of_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() is None
    monkeypatch.undo()
    monkeypatch.setattr("workbench.studies.experiments.store.PACKAGE", tmp_path)
    assert commit() is None


@pytest.mark.parametrize(
    ("name", "number"), [("net:dag", 1), ("net:dag#3", 3), ("a #1:dag", 1), ("a #1:dag#2", 2)]
)
def test_the_repetition_of_a_run_is_read_from_its_name(name, number):
    instance = "net" if name.startswith("net") else "a #1"
    assert repetition({"name": name, "row": {"instance": instance, "method": "dag"}}) == number


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("start", [ROOT, ROOT / "notebooks", ROOT / "workbench" / "faces" / "plots"])
def test_it_is_found_from_inside_the_repository(start, monkeypatch):
    monkeypatch.chdir(start)
    assert stored_folder() == ROOT / "results"


def test_it_is_found_from_elsewhere_next_to_the_package(tmp_path, monkeypatch):
    (tmp_path / "results").mkdir()  # somebody else's
    monkeypatch.chdir(tmp_path)
    assert stored_folder() == ROOT / "results"


def test_a_copy_of_the_project_around_the_working_folder_comes_first(tmp_path, monkeypatch):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "README.md").touch()
    (tmp_path / "experiments").mkdir()
    monkeypatch.chdir(tmp_path)
    assert stored_folder() == tmp_path / "results"


def test_a_folder_that_is_given_is_taken_or_refused(tmp_path):
    assert stored_folder(tmp_path) == tmp_path
    with pytest.raises(FileNotFoundError, match=re.escape(f"must exist, got {str(tmp_path / 'no')!r}")):
        stored_folder(tmp_path / "no")


def test_without_any_the_error_says_how_they_are_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "PACKAGE", tmp_path / "site" / "workbench")
    with pytest.raises(FileNotFoundError, match=r"workbench run experiments/headline\.yaml"):
        stored_folder()
