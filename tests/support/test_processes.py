"""Processes of our own."""

import io

import pytest

import workbench
from workbench.graph import GraphBuilder
from workbench.support.processes import frame, receive, send


def test_what_is_sent_is_received():
    stream = io.BytesIO()
    send(stream, {"a": (1, 2)})
    send(stream, None)
    stream.seek(0)
    assert receive(stream) == {"a": (1, 2)}
    assert receive(stream) is None
    with pytest.raises(EOFError):
        receive(stream)


def test_half_a_frame_is_an_end():
    with pytest.raises(EOFError):
        receive(io.BytesIO(frame([1, 2, 3])[:-1]))


def test_files_of_the_working_folder_are_the_users(tmp_path, monkeypatch):
    for name in ("random.py", "struct.py", "workbench.py", "highspy.py"):
        (tmp_path / name).write_text("raise SystemExit('this is not yours')")
    monkeypatch.chdir(tmp_path)
    b = GraphBuilder("twice")
    graph = b.graph({"y": b.op("relu", b.op("relu", b.input("x", (2, 3))))})
    assert workbench.optimize(graph).graph.operators() == {"relu": 1}
