import json

import pytest

from tests.ops.test_onnx_form import INSTANCES, instance
from workbench.costs.pricing import instances_of
from workbench.costs.store import Measurement
from workbench.studies.devices.spec_io import (
    ExchangeError,
    Results,
    Spec,
    read_instance,
    read_results,
    read_spec,
    write_results,
    write_spec,
)


def test_a_spec_is_read_back_as_it_was(tmp_path):
    found = [i for case in INSTANCES if case[2] for i in instances_of(instance(*case))]
    write_spec(tmp_path / "s.json", Spec(tuple(found), {"from": "a test"}))
    spec = read_spec(tmp_path / "s.json")
    assert spec.instances == tuple(found)
    assert spec.about == {"from": "a test"}


def spoilt(record, path):
    *way, last = path
    place = record
    for step in way:
        place = place[step]
    return place, last


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), "another", "format"),
        (("instances", 0, "op"), "reluu", "instance 0.*did you mean relu"),
        (("instances", 0, "type"), "float32[3]", "instance 0.*must be float32"),
        (("instances", 0, "constant"), [], "instance 0"),
        (("instances", 0, "inputs"), ["float99[1]"], "instance 0.*float99"),
        (("instances", 0, "attrs"), {"size": 3}, "instance 0.*no attribute"),
        (("instances", 0), 5, "instance 0"),
        (("instances",), None, "the spec"),
    ],
)
def test_a_spec_that_is_wrong_says_where(tmp_path, path, value, message):
    relu = next(i for case in INSTANCES if case[0] == "relu" for i in instances_of(instance(*case)))
    file = tmp_path / "s.json"
    write_spec(file, Spec((relu,)))
    record = json.loads(file.read_text())
    place, last = spoilt(record, path)
    place[last] = value
    file.write_text(json.dumps(record))
    with pytest.raises(ExchangeError, match=message):
        read_spec(file)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b'{"format": 1}'])
@pytest.mark.parametrize("read", [read_spec, read_results])
def test_a_file_that_is_neither_is_refused(tmp_path, content, read):
    file = tmp_path / "f.json"
    file.write_bytes(content)
    with pytest.raises(ExchangeError, match="file"):
        read(file)


def results():
    found = Results({"device": "a GPU", "tf32": False, "torch": "2"}, {"version": 1}, left=3)
    found.measured["k"], found.methods["k"] = Measurement(1.5, 0.25, 9), "graph"
    found.failures["f"] = "MemoryError: it takes 99 GiB"
    return found


def test_results_are_read_back_as_they_were(tmp_path):
    write_results(tmp_path / "r.json", results())
    assert read_results(tmp_path / "r.json") == results()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("measured", 0, "median_us"), -1),
        (("measured", 0, "median_us"), None),
        (("measured", 0), {}),
        (("failures",), 3),
        (("left",), "many"),
        (("device",), None),
    ],
)
def test_results_that_are_wrong_are_refused(tmp_path, path, value):
    file = tmp_path / "r.json"
    write_results(file, results())
    record = json.loads(file.read_text())
    place, last = spoilt(record, path)
    place[last] = value
    file.write_text(json.dumps(record))
    with pytest.raises(ExchangeError, match="is wrong"):
        read_results(file)


def test_results_continue_only_what_was_measured_alike():
    first, second = results(), results()
    assert first.continues(second)
    second.device["date"] = "another"
    assert first.continues(second)
    second.device["tf32"] = True
    assert not first.continues(second)
    third = results()
    third.protocol["version"] = 2
    assert not first.continues(third)


def test_an_instance_of_another_type_is_refused():
    with pytest.raises(ValueError, match="relu"):
        read_instance(
            {"op": "relu", "attrs": {}, "inputs": ["float32[2]"], "constant": [False], "type": "float32[3]"}
        )
