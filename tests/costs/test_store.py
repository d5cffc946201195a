import sqlite3
import subprocess
import sys
import threading

import pytest

from workbench.costs.store import Measurement, Store, cache_folder

ONE = Measurement(1.0, 0.1, 3)


def test_measurements_are_kept_by_device(tmp_path):
    Store(tmp_path, "device").write({"a": ONE, "b": Measurement(2.0, 0.2, 4)})
    Store(tmp_path, "device").write({"a": Measurement(5.0, 0.0, 3)})
    assert Store(tmp_path, "device").read() == {"a": Measurement(5.0, 0.0, 3), "b": Measurement(2.0, 0.2, 4)}
    assert Store(tmp_path, "another").read() == {}


def test_measurements_of_a_busy_machine_are_kept_for_an_hour(tmp_path, monkeypatch):
    now, load = 1e9, 0.0
    monkeypatch.setattr("workbench.costs.store.time.time", lambda: now)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    store = Store(tmp_path, "device")
    store.write({"quiet": ONE})
    load = 3.0
    store.write({"busy": ONE, "twice": ONE})
    now += 3500
    assert store.read().keys() == {"quiet", "busy", "twice"}
    load = 2.0
    store.write({"twice": ONE})
    now += 200
    assert store.read().keys() == {"quiet", "twice"}
    assert store.read(["busy", "twice"]).keys() == {"twice"}


@pytest.mark.parametrize("figures", [(-1.0, 0.0, 3), (float("nan"), 0.0, 3), ("1", 0.0, 3), (1.0, None, 3)])
def test_a_measurement_is_numbers(figures):
    with pytest.raises(ValueError, match="must be finite and non-negative, got"):
        Measurement(*figures)


def broken_text(path):
    path.write_bytes(b"this is not a database" * 100)


def broken_page(path):
    Store(path.parent, "device").write({str(i): ONE for i in range(2000)})
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)


def other_columns(path):
    with sqlite3.connect(path) as connection:
        connection.execute("create table cost (something text)")
    connection.close()


@pytest.mark.parametrize("spoil", [broken_text, broken_page, other_columns])
def test_a_broken_file_is_set_aside_with_a_warning(tmp_path, spoil):
    spoil(tmp_path / "measured.sqlite")
    store = Store(tmp_path, "device")
    with pytest.warns(UserWarning, match="unreadable"):
        assert store.read() == {}
    assert len(list(tmp_path.glob("measured-broken-*"))) == 1
    store.write({"a": ONE})
    assert Store(tmp_path, "device").read() == {"a": ONE}


def test_a_row_that_is_not_a_measurement_is_passed_over(tmp_path):
    store = Store(tmp_path, "device")
    store.write({"a": ONE, "b": ONE})
    with sqlite3.connect(store.path) as connection:
        connection.execute("update cost set median = 'much' where instance = 'b'")
    connection.close()
    assert store.read() == {"a": ONE}


def test_a_locked_database_is_not_broken(tmp_path, monkeypatch):
    store = Store(tmp_path, "device")
    store.write({"a": ONE})
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("begin exclusive")
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, timeout: connect(path, timeout=0.05))
    with pytest.warns(UserWarning, match="not kept.*locked"):
        store.write({"b": ONE})
    other.close()
    assert Store(tmp_path, "device").read() == {"a": ONE}
    assert not list(tmp_path.glob("measured-broken-*"))


def test_where_nothing_can_be_kept_work_continues(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(UserWarning, match="not kept"):
        store = Store(tmp_path / "file" / "cache", "device")
    store.write({"a": ONE})
    assert store.read() == {}
    with store.measuring():
        pass


def test_several_writers_lose_nothing(tmp_path):
    def write(k):
        store = Store(tmp_path, "device")
        for i in range(20):
            store.write({f"{k}-{i}": ONE})

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(Store(tmp_path, "device").read()) == 80


WRITER = """
import sys, warnings
from pathlib import Path
from workbench.costs.store import Measurement, Store
warnings.simplefilter("ignore")
store = Store(Path(sys.argv[1]), "device")
for i in range(30):
    store.write({f"{sys.argv[2]}-{i}": Measurement(1.0, 0.1, 3)})
"""


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_several_processes_lose_nothing(tmp_path, broken):
    if broken:
        broken_text(tmp_path / "measured.sqlite")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, str(k)]) for k in range(2)]
    assert [w.wait(timeout=60) for w in writers] == [0, 0]
    assert len(Store(tmp_path, "device").read()) == 60
    assert len(list(tmp_path.glob("measured-broken-*"))) == int(broken)


def test_one_at_a_time_measures(tmp_path):
    first, second = Store(tmp_path, "device"), Store(tmp_path, "device")
    with first.measuring(), pytest.raises(TimeoutError, match="held"), second.measuring(patience=0.1):
        pass
    with second.measuring(patience=0.0):
        pass


def test_the_folder_may_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("WORKBENCH_CACHE")
    assert cache_folder() != tmp_path
