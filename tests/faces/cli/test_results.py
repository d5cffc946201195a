"""`workbench results`: a page in a file."""

import http.client
import socket
import threading
from contextlib import contextmanager

import pytest

from tests.studies.experiments.test_results import record, store
from workbench.faces.cli.studies import server


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


@pytest.fixture
def served_folder(tmp_path):
    return store(tmp_path / "study", record("bert", "ours"))


@contextmanager
def serving(served_folder):
    found = server(served_folder, 0)
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield found
    finally:
        found.shutdown()
        thread.join()
        found.server_close()


def ask(found, path="/", method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", found.server_port, timeout=30)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def test_the_server_is_on_this_machine_alone_and_serves_one_page(served_folder):
    with serving(served_folder) as found:
        assert found.server_address[0] == "127.0.0.1"
        answer, text = ask(found)
        assert answer.status == 200
        assert "bert:ours" in text
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert ask(found, "/?x=1")[0].status == 200
        assert ask(found, method="HEAD")[1] == ""
        for path in ("/run.json", "/../../etc/passwd", "/study/run.json"):
            assert ask(found, path)[0].status == 404
        for method in ("POST", "PUT", "DELETE"):
            assert ask(found, method=method)[0].status == 501


def test_a_page_of_somebody_else_cannot_read_it(served_folder):
    with serving(served_folder) as found:
        assert ask(found, host="evil.example")[0].status == 403
        assert ask(found, host=f"localhost:{found.server_port}")[0].status == 200


def test_a_reload_has_the_new_runs_and_a_lost_folder_is_an_error_not_an_end(served_folder):
    with serving(served_folder) as found:
        assert "vgg19:ours" not in ask(found)[1]
        store(served_folder / "more", record("vgg19", "ours"))
        assert "vgg19:ours" in ask(found)[1]
        served_folder.rename(served_folder.with_name("moved"))
        assert ask(found)[0].status == 500
        served_folder.with_name("moved").rename(served_folder)
        assert ask(found)[0].status == 200


def test_a_port_that_is_taken_is_said(run, served_folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = run("results", "serve", served_folder, "--port", taken.getsockname()[1])
    assert code == 2
    assert "must be free" in err
