import os
from pathlib import Path

import pytest

from workbench.support.files import UnwritableOutput, check_writable, write_atomic


def test_a_new_file_and_an_old_one_are_writable_and_checking_leaves_no_trace(tmp_path):
    old = tmp_path / "old.json"
    old.write_text("kept")
    assert check_writable(old) == old
    assert check_writable(tmp_path / "new.json") == tmp_path / "new.json"
    assert [p.name for p in tmp_path.iterdir()] == ["old.json"]
    assert old.read_text() == "kept"


def test_a_folder_and_a_missing_folder_are_refused(tmp_path):
    with pytest.raises(UnwritableOutput, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(UnwritableOutput, match="does not exist; create it"):
        check_writable(tmp_path / "nowhere" / "out.json")


def test_a_place_where_no_file_can_be_made_is_refused(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(UnwritableOutput, match="Permission denied"):
        check_writable(tmp_path / "out.json")


def test_content_replaces_a_file_and_keeps_its_mode(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("before")
    target.chmod(0o640)
    write_atomic(target, "µs")
    assert target.read_bytes() == "µs".encode()
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_usual_mode(tmp_path):
    write_atomic(tmp_path / "a", b"1")
    (tmp_path / "b").write_bytes(b"1")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    target = tmp_path / "out.txt"
    target.write_text("before")

    def fail(self, other):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(target, "after")
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]
    assert target.read_text() == "before"


def test_a_link_stays_and_the_file_that_it_names_is_replaced(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("before")
    link.symlink_to(real)
    assert check_writable(link) == real
    write_atomic(link, "after")
    assert link.is_symlink()
    assert real.read_text() == "after"


def test_a_named_pipe_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert check_writable(pipe) == pipe
        write_atomic(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_is_an_error():
    with pytest.raises(OSError, match="No space left"):
        write_atomic("/dev/full", "text")


def test_a_name_of_any_length_that_a_folder_takes_can_be_written(tmp_path):
    target = tmp_path / ("n" * 250 + ".json")
    write_atomic(target, "text")
    assert target.read_text() == "text"
