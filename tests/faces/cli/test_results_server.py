"""The server of stored runs, for this machine alone."""

import http.client
import socket
import threading
from contextlib import contextmanager

import pytest

from tests.studies.experiments.test_results import record, store
from workbench.faces.cli.results_server import server


@pytest.fixture
def folder(tmp_path):
    return store(tmp_path / "study", record("bert", "ours"))


@contextmanager
def serving(folder):
    found = server(folder, 0)
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


def test_the_server_is_on_this_machine_alone_and_serves_one_page(folder):
    with serving(folder) as found:
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


def test_a_page_of_somebody_else_cannot_read_it(folder):
    with serving(folder) as found:
        assert ask(found, host="evil.example")[0].status == 403
        assert ask(found, host=f"localhost:{found.server_port}")[0].status == 200


def test_a_reload_has_the_new_runs_and_a_lost_folder_is_an_error_not_an_end(folder):
    with serving(folder) as found:
        assert "vgg19:ours" not in ask(found)[1]
        store(folder / "more", record("vgg19", "ours"))
        assert "vgg19:ours" in ask(found)[1]
        folder.rename(folder.with_name("moved"))
        assert ask(found)[0].status == 500
        folder.with_name("moved").rename(folder)
        assert ask(found)[0].status == 200


def test_a_port_that_is_taken_is_said(run, folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = run("results", "serve", folder, "--port", taken.getsockname()[1])
    assert code == 2
    assert "must be free" in err
