"""Things by name: registered here, offered by packages, sent to another process."""

import pickle

import pytest

from tests.packages import install
from workbench.support.plugins import BrokenPlugin, Named, Table, unpack

TABLE = Named("fruit", "workbench.fruits", "tests.support.test_plugins:TABLE", lambda: ["pear"])


@pytest.fixture(autouse=True)
def _empty():
    yield
    TABLE._own.clear()


def test_a_thing_is_found_by_its_name_and_replaced_by_another():
    TABLE.register("plum", 1)
    assert TABLE.register("plum")(2) == 2
    assert TABLE.find("plum") == 2
    assert TABLE.names() == ["pear", "plum"]
    TABLE.forget("plum")
    assert TABLE.find("plum") is None


@pytest.mark.parametrize(
    ("name", "message"), [("pear", "must not be a built-in one"), ("a b", "must be letters")]
)
def test_other_names_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        TABLE.register(name, 1)


def test_the_error_for_an_unknown_name_lists_all():
    TABLE.register("plum", 1)
    assert str(TABLE.unknown("plam", ", or a path")).endswith(
        "did you mean plum? There are: pear, plum, or a path"
    )


def test_a_fixed_table_is_a_mapping_that_survives_pickling():
    table = pickle.loads(pickle.dumps(Table("fruit", {"fig": 1})))
    assert {**table} == {"fig": 1}
    with pytest.raises(LookupError, match="no fruit is called 'fog'; did you mean fig"):
        table["fog"]


def test_packages_offer_things(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "orchard", "fig = 'a fig'\n", fruits={"fig": "fig", "pear": "fig"})
    assert TABLE.names() == ["pear", "fig"]  # the built-in pear stays what it is
    assert TABLE.find("fig") == "a fig"
    TABLE.register("fig", "mine")
    assert TABLE.find("fig") == "mine"


def test_a_package_that_does_not_load_is_named(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "rotten", "raise OSError('no tree')\n", fruits={"apple": "apple"})
    with pytest.raises(BrokenPlugin, match=r"'apple' of the package rotten .* got OSError: no tree"):
        TABLE.find("apple")
    assert TABLE.find("quince") is None
    with pytest.warns(UserWarning, match="of the package rotten"):
        TABLE.load_all()


def test_things_travel_and_what_cannot_stays():
    import threading

    TABLE.register("function", lambda: 7)
    TABLE.register("lock", threading.Lock())
    packed = pickle.loads(pickle.dumps(TABLE.packed()))
    TABLE._own.clear()
    unpack(packed)
    assert TABLE.find("function")() == 7
    assert TABLE.names() == ["pear", "function"]
