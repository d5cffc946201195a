"""Large weights stay in the file of their model; files of unexpected form are left to protobuf."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.frontends.large import N, product, small_limits  # noqa: F401  (a fixture)
from workbench.frontends import ModelError, import_onnx, load_onnx
from workbench.frontends.onnx.file import read_apart, varint
from workbench.support.mmap import file_of

pytestmark = pytest.mark.usefixtures("small_limits")


def write(folder, model, name="m.onnx"):
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def test_large_initializers_are_mapped_and_the_rest_is_parsed(tmp_path):
    m = product()
    apart = read_apart(write(tmp_path, m))
    assert sorted(apart.arrays) == ["w0", "w1", "w2"]
    for tensor in m.graph.initializer[:3]:
        np.testing.assert_array_equal(apart.arrays[tensor.name], numpy_helper.to_array(tensor))
        tensor.ClearField("raw_data")
    assert apart.model == m


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
def test_all_plain_element_types_are_mapped(tmp_path, dtype):
    m = product(dtype=dtype)
    apart = read_apart(write(tmp_path, m))
    np.testing.assert_array_equal(apart.arrays["w1"], numpy_helper.to_array(m.graph.initializer[1]))


def test_a_graph_of_mapped_weights_is_that_of_read_ones(tmp_path):
    m = product()
    path = write(tmp_path, m)
    mapped, read = load_onnx(path, dims={"n": 2}), load_onnx(m, dims={"n": 2})
    assert mapped.structural_hash() == read.structural_hash()
    assert file_of(mapped.weights["w0"].value()) is not None
    assert file_of(mapped.weights["b"].value()) is None
    for name, weight in read.weights.items():
        np.testing.assert_array_equal(mapped.weights[name].value(), weight.value())


def test_external_data_are_mapped(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save_model(product(), path, save_as_external_data=True, location="m.data", size_threshold=1024)
    graph = load_onnx(path, dims={"n": 2})
    assert file_of(graph.weights["w2"].value()).path == (tmp_path / "m.data").resolve()
    expected = numpy_helper.to_array(product().graph.initializer[2])
    np.testing.assert_array_equal(graph.weights["w2"].value(), expected)


def test_a_link_to_a_model_is_read_as_the_model(tmp_path):
    (tmp_path / "store").mkdir()
    link = tmp_path / "link.onnx"
    link.symlink_to(write(tmp_path / "store", product()))
    assert file_of(load_onnx(link, dims={"n": 2}).weights["w0"].value()) is not None


def test_data_that_do_not_fit_their_type_are_refused_as_ever(tmp_path):
    m = product()
    m.graph.initializer[1].raw_data += b"more"
    with pytest.raises(ModelError, match=r"'w1'.*contains other data"):
        import_onnx(write(tmp_path, m), dims={"n": 2})
    m = product()
    m.graph.initializer[2].name = "w0"
    with pytest.raises(ModelError, match="two initializers are called 'w0'"):
        import_onnx(write(tmp_path, m), dims={"n": 2})
    m = product()
    m.graph.initializer[0].data_type = 99
    with pytest.raises(ModelError, match="element type 99"):
        import_onnx(write(tmp_path, m), dims={"n": 2})


def test_a_truncated_or_flipped_file_never_does_worse_than_a_full_parse(tmp_path):
    whole = product().SerializeToString()
    random = np.random.default_rng(0)
    for number in range(60):
        data = bytearray(whole)
        if number % 2:
            data = data[: random.integers(1 << 12, len(data))]
        else:
            data[random.integers(0, 300)] ^= 1 << random.integers(0, 8)
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(bytes(data))
        apart = read_apart(path)
        if apart is not None:
            again = onnx.ModelProto.FromString(bytes(data))
            tensors = {t.name: t for t in again.graph.initializer}
            for name, array in apart.arrays.items():
                np.testing.assert_array_equal(array, numpy_helper.to_array(tensors[name]))
        try:
            import_onnx(path, dims={"n": 2})
        except (ModelError, FileNotFoundError):
            continue


def test_small_files_and_other_files_are_left_to_protobuf(tmp_path, monkeypatch):
    (tmp_path / "text.onnx").write_text("no model " * 1000)
    assert read_apart(tmp_path / "text.onnx") is None
    with pytest.raises(ModelError, match="not an ONNX model"):
        load_onnx(tmp_path / "text.onnx")
    monkeypatch.setattr("workbench.frontends.onnx.file.MAP_BEYOND", 1 << 30)
    assert read_apart(write(tmp_path, product())) is None


def test_numbers_are_written_as_protobuf_writes_them():
    for value in (0, 1, 127, 128, 300, N * N * 4, 1 << 40):
        proto = onnx.ModelProto(ir_version=value)
        assert varint(1 << 3) + varint(value) == proto.SerializeToString()
