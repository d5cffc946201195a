"""`workbench results`: a page in a file."""

import pytest

from tests.studies.experiments.test_results import record, store


@pytest.fixture
def folder(tmp_path):
    return store(tmp_path / "study", record("bert", "ours"))


def test_a_page_is_written_and_what_is_skipped_is_said(run, folder, tmp_path):
    (folder / "runs" / "broken").mkdir()
    (folder / "runs" / "broken" / "run.json").write_text("{")
    code, out, err = run("results", "page", folder, "-o", tmp_path / "runs.html")
    assert code == 0
    assert out.startswith("1 runs of 1 studies; ")
    assert "skipped: runs/broken/run.json: " in err
    assert "bert:ours" in (tmp_path / "runs.html").read_text()


def test_where_nothing_is_stored_or_can_be_written_it_is_said(run, folder, tmp_path):
    code, _, err = run("results", "page", tmp_path / "none")
    assert code == 2
    assert "the folder of stored runs must exist" in err
    assert run("results", "page", folder, "-o", tmp_path / "no" / "runs.html")[0] == 3
