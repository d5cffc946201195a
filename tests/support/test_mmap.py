"""Arrays in files: mapped once, seen through views, and missed when the file is written over."""

import mmap
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from workbench.graph import GraphBuilder, Weight
from workbench.support.mmap import (
    ChangedFile,
    FileMap,
    checked,
    file_of,
    give_back,
    kept_small,
    offset_of,
    release,
)

DATA = np.arange(64 * 1024, dtype=np.float32)


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(b"head" + DATA.tobytes())
    return path


def mapped(place, offset=4, shape=(64, 1024)):
    return FileMap.open(place).array(offset, shape, np.dtype("float32"))


def test_a_part_of_a_file_is_an_array_that_cannot_be_written_to(place):
    array = mapped(place)
    np.testing.assert_array_equal(array, DATA.reshape(64, 1024))
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1
    assert FileMap.open(place) is FileMap.open(place)


def test_element_types_that_numpy_lacks_and_odd_places_are_read(tmp_path):
    import ml_dtypes

    data = np.arange(100).astype(ml_dtypes.bfloat16)
    (tmp_path / "odd").write_bytes(b"x" + data.tobytes())
    found = FileMap.open(tmp_path / "odd").array(1, (10, 10), data.dtype)
    np.testing.assert_array_equal(found, data.reshape(10, 10))


@pytest.mark.parametrize("offset", [-1, 8, 10**12])
def test_a_part_outside_the_file_is_refused(place, offset):
    with pytest.raises(ValueError, match="bytes"):
        mapped(place, offset)


def test_views_know_their_file(place):
    array = mapped(place)
    for view in (array, array.T, array[3:5], np.asarray(array).reshape(-1), array.view(np.uint8)):
        assert file_of(view) is FileMap.open(place)
    assert file_of(array + 1) is file_of(DATA) is None
    assert offset_of(array) == 4
    assert offset_of(array[3:5]) == 4 + 3 * 4096
    assert offset_of(array.T) is offset_of(DATA) is None


def test_a_file_that_is_written_over_is_missed_and_one_that_is_replaced_is_not(place, tmp_path):
    array = mapped(place)
    other = tmp_path / "other"
    other.write_bytes(b"new")
    other.replace(place)
    np.testing.assert_array_equal(checked(array), DATA.reshape(64, 1024))
    place.unlink()
    assert checked(array) is array
    place.write_bytes(b"head" + DATA.tobytes())
    array = mapped(place)
    weight = Weight.of(array)
    assert weight.value() is array
    place.write_bytes(b"short")
    with pytest.raises(ChangedFile, match="try to load the model again"):
        weight.value()


def test_released_memory_is_read_again(place):
    array = mapped(place)
    assert array.sum() == DATA.sum()
    release(array)
    release(array.T)
    release(DATA)
    np.testing.assert_array_equal(array, DATA.reshape(64, 1024))


def test_a_graph_holds_mapped_weights_as_they_are(place):
    builder = GraphBuilder("mapped")
    x = builder.input("x", (2, 64))
    graph = builder.graph({"y": builder.op("matmul", x, builder.weight(data=mapped(place), name="w"))})
    assert file_of(graph.weights["w"].value()) is not None
    assert os.fspath(file_of(graph.weights["w"].value()).path) == os.fspath(place.resolve())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_file_that_is_read_once_is_not_kept_in_memory(tmp_path):
    def mapped():
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssFile")) / 1024

    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * (1 << 18))
    data = FileMap.open(path).array(0, (1 << 26,), np.dtype("uint8"))
    before = mapped()
    with kept_small():
        total = int(data.sum(dtype=np.int64))
    assert total == sum(range(256)) * (1 << 18)
    assert mapped() - before < 16
    assert int(data[:256].sum()) == sum(range(256)), "it is read again when it is needed"
    with pytest.raises(KeyError), kept_small():
        raise KeyError


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_freed_memory_goes_back_to_the_system():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    blocks = [bytearray(b"\1" * 50_000) for _ in range(2_000)]
    used = [*blocks[::100], blocks[-1]]  # memory below a block that is still used is not given back by itself
    full = resident()
    del blocks
    held = resident()
    give_back()
    assert held > full - 20_000_000
    assert resident() < held - 50_000_000
    assert {len(block) for block in used} == {50_000}
