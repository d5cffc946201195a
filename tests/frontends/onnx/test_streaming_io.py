"""Models written array by array are the models that protobuf writes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.frontends.large import places, product, small_limits  # noqa: F401  (a fixture)
from workbench.frontends import load_onnx, save_onnx, to_onnx
from workbench.frontends.onnx import file as onnx_file
from workbench.frontends.onnx import file as onnx_stream
from workbench.frontends.onnx.exporter import to_onnx_apart
from workbench.frontends.onnx.file import joined, may_be_apart, write_apart


@pytest.fixture(autouse=True)
def lower(monkeypatch):
    monkeypatch.setattr(onnx_stream, "APART_BYTES", 1 << 12)


def graph(**given):
    return load_onnx(product(**given), dims={"n": 2})


def test_a_model_apart_has_placeholders_that_are_joined_again():
    apart = to_onnx_apart(graph())
    assert places(apart.model) == {"w0": True, "w1": True, "w2": True, "b": False}
    assert sorted(apart.arrays) == ["w0", "w1", "w2"]
    whole = joined(apart)
    onnx.checker.check_model(whole, full_check=True)
    assert not any(places(whole).values())


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_the_file_holds_what_the_model_holds(tmp_path, dtype):
    path = tmp_path / "m.onnx"
    save_onnx(graph(dtype=dtype), path)
    assert onnx.load(path) == to_onnx(graph(dtype=dtype))
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_metadata_and_functions_are_written(tmp_path):
    apart = to_onnx_apart(graph())
    apart.model.doc_string = "text"
    apart.model.domain = "some.domain"
    apart.model.metadata_props.add(key="label", value="1")
    body = onnx.helper.make_function(
        "own", "f", ["a"], ["b"], [onnx.helper.make_node("Neg", ["a"], ["b"])], apart.model.opset_import
    )
    apart.model.functions.append(body)
    write_apart(apart, tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx") == joined(apart)


def test_views_are_written_in_their_own_order(tmp_path):
    apart = to_onnx_apart(graph())
    arrays = {name: np.asfortranarray(array) for name, array in apart.arrays.items()}
    write_apart(type(apart)(apart.model, arrays), tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx") == joined(apart)


def test_large_data_lie_in_pages_next_to_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_file, "EXTERNAL_BEYOND", 1000)
    path = tmp_path / "m.onnx"
    save_onnx(graph(), path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    stored = onnx.load(path, load_external_data=False)
    for tensor in stored.graph.initializer:
        entries = {e.key: e.value for e in tensor.external_data}
        assert int(entries.get("offset", 0)) % 4096 == 0
        assert tensor.data_location == (TensorProto.EXTERNAL if tensor.name != "b" else TensorProto.DEFAULT)
    onnx.checker.check_model(str(path), full_check=True)
    assert load_onnx(path).structural_hash() == graph().structural_hash()


@pytest.mark.usefixtures("small_limits")
def test_a_model_may_be_written_over_the_file_that_it_is_mapped_from(tmp_path):
    path = tmp_path / "m.onnx"
    save_onnx(graph(), path)
    save_onnx(load_onnx(path), path)
    assert onnx.load(path) == to_onnx(graph())


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"before")

    def fail(*args):
        raise OSError("disk full")

    for limit in (1000, 1 << 30):
        monkeypatch.setattr(onnx_file, "EXTERNAL_BEYOND", limit)
        with monkeypatch.context() as patch:
            patch.setattr(onnx_stream, "release", fail)  # called after the first array
            with pytest.raises(OSError, match="disk full"):
                save_onnx(graph(), path)
        assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
        assert path.read_bytes() == b"before"


def test_only_large_tensors_of_whole_bytes_are_apart():
    import ml_dtypes

    assert may_be_apart(np.zeros(5000, ml_dtypes.bfloat16))
    assert not may_be_apart(np.zeros(5000, ml_dtypes.int4))
    assert not may_be_apart(np.zeros(8, np.float32))
    assert not may_be_apart(np.full(5000, "text", object))


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("can", [True, False])
def test_data_of_a_file_are_copied_with_their_holes(tmp_path, monkeypatch, can):
    monkeypatch.setattr(onnx_file, "EXTERNAL_BEYOND", 1000)
    if not can:
        monkeypatch.delattr(onnx_file.os, "copy_file_range", raising=False)
    given, sparse = tmp_path / "m.onnx", tmp_path / "m.onnx.data"
    save_onnx(graph(), given)
    stored = onnx.load(given, load_external_data=False)
    with sparse.open("r+b") as data:  # the last weight is a hole between its first and its last element
        entries = {
            e.key: int(e.value) for e in stored.graph.initializer[2].external_data if e.key != "location"
        }
        begin, end = entries["offset"], entries["offset"] + entries["length"]
        data.seek(begin)
        first = data.read(4)
        data.seek(end - 4)
        last = data.read(4)
        data.truncate(begin)
        data.seek(begin)
        data.write(first)
        data.seek(end - 4)
        data.write(last)
    copied = tmp_path / "copy" / "n.onnx"
    copied.parent.mkdir()
    save_onnx(load_onnx(given), copied)
    assert onnx.load(copied).graph.initializer == onnx.load(given).graph.initializer
    if can and hasattr(onnx_file.os, "copy_file_range"):
        held = [p.stat().st_blocks for p in (sparse, copied.with_name("n.onnx.data"))]
        assert held[1] <= held[0] + 8


def test_a_copy_that_the_system_refuses_is_written_from_memory(tmp_path, monkeypatch):
    def refuse(*args):
        raise OSError(onnx_file.errno.EXDEV, "not on this system")

    monkeypatch.setattr(onnx_file, "EXTERNAL_BEYOND", 1000)
    save_onnx(graph(), tmp_path / "m.onnx")
    monkeypatch.setattr(onnx_file.os, "copy_file_range", refuse, raising=False)
    monkeypatch.setattr(onnx_file, "MAP_BEYOND", 1 << 12)
    monkeypatch.setattr(onnx_file, "MAPPED_TENSOR", 1 << 12)
    save_onnx(load_onnx(tmp_path / "m.onnx"), tmp_path / "n.onnx")
    assert (
        onnx.load(tmp_path / "n.onnx").graph.initializer == onnx.load(tmp_path / "m.onnx").graph.initializer
    )
