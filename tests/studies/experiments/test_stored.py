"""Stored runs are found from any folder, or the error says how they are made."""

import re
from pathlib import Path

import pytest

from workbench.studies.experiments import stored
from workbench.studies.experiments.stored import stored_folder

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
    monkeypatch.setattr(
        stored, "__file__", str(tmp_path / "site" / "workbench" / "experiments" / "stored.py")
    )
    with pytest.raises(FileNotFoundError, match=r"workbench run experiments/headline\.yaml"):
        stored_folder()
