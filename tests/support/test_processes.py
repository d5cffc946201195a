"""Processes of our own."""

import io
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import workbench
from workbench.graph import GraphBuilder
from workbench.support.processes import Child, limit_memory, out_of_memory, receive, send, served


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
    stream = io.BytesIO()
    send(stream, [1, 2, 3])
    with pytest.raises(EOFError):
        receive(io.BytesIO(stream.getvalue()[:-1]))


@pytest.mark.slow
def test_files_of_the_working_folder_are_the_users(tmp_path, monkeypatch):
    for name in ("random.py", "struct.py", "workbench.py", "highspy.py"):
        (tmp_path / name).write_text("raise SystemExit('this is not yours')")
    monkeypatch.chdir(tmp_path)
    b = GraphBuilder("twice")
    graph = b.graph({"y": b.op("relu", b.op("relu", b.input("x", (2, 3))))})
    assert workbench.optimize(graph).graph.operators() == {"relu": 1}


#: This module is the child's program, too.
ECHO = "tests.support.test_processes"


@pytest.fixture
def child(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]))
    child = Child(ECHO, "hello", variables={"GREETING": "good day"})
    yield child
    child.kill()


def test_messages_go_both_ways_and_prints_do_not_disturb_them(child):
    assert child.receive() == ["hello", "good day"]
    child.send({"big": b"x" * 3_000_000})
    assert child.answered(30)
    assert child.receive() == {"big": b"x" * 3_000_000}


def test_on_windows_the_error_names_a_way(monkeypatch):
    monkeypatch.setattr(os, "name", "nt")
    with pytest.raises(NotImplementedError, match="got Windows \\(try WSL\\)"):
        Child(ECHO)


def test_waiting_has_a_limit_and_select_takes_a_child(child):
    child.receive()
    assert not child.answered(0.05)
    child.send(1)
    assert select.select([child], [], [], 30)[0] == [child]


def test_an_ended_process_is_an_end_of_file(child):
    child.receive()
    os.kill(child.number, signal.SIGKILL)
    assert child.wait(30) == -signal.SIGKILL
    assert out_of_memory(child.wait())
    with pytest.raises(EOFError):
        child.receive()
    assert not child.running


def test_killing_twice_is_not_an_error(child):
    child.kill()
    child.kill()
    assert not child.running


def test_a_process_that_is_asked_ends_by_itself(child):
    child.receive()
    child.terminate(30)
    assert child.wait() == -signal.SIGTERM


def test_a_process_that_does_not_listen_is_ended(child):
    child.receive()
    child.send("deaf")
    assert child.receive() == "deaf"
    child.terminate(0.05)
    assert child.wait() == -signal.SIGKILL


def test_ctrl_c_does_not_reach_it(child):
    child.receive()
    os.kill(child.number, signal.SIGINT)
    child.send(1)
    assert child.receive() == 1


def test_a_wait_may_be_of_any_length(child):
    assert child.answered(1e308)


def test_waiting_for_one_that_continues_is_a_timeout(child):
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.05)


def echo():
    requests, answers = served()
    limit_memory(None)
    print("this goes to the standard error")
    send(answers, [*sys.argv[1:], os.environ["GREETING"]])
    while True:
        message = receive(requests)
        if message == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        send(answers, message)


if __name__ == "__main__":
    echo()
