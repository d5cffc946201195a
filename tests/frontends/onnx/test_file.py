"""Models are read from files, bytes and messages, and written; malformed ones are refused."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from tests.frontends.models import FLOAT, model, node, normal, value, weight
from workbench.frontends import ModelError, import_onnx, load_onnx, run_model, save_onnx, to_onnx
from workbench.frontends.onnx import file as onnx_file
from workbench.frontends.onnx.file import ir_version_for, read_model, tensor_array, weight_bytes
from workbench.frontends.onnx.prepare import check_model, label


def product(opset=17):
    return model(
        [node("MatMul", "x w", "y")],
        [value("x", [2, 64])],
        [value("y", [2, 64])],
        [normal("w", 64, 64)],
        opset,
    )


def external(path, m=None, **more):
    m = m or product()
    onnx.save_model(m, path, save_as_external_data=True, location="w.bin", size_threshold=0, **more)
    return path


def relocated(path, **entries):
    """Rewrite the place of the data in the model."""
    m = onnx.load(path, load_external_data=False)
    tensor = m.graph.initializer[0]
    known = {e.key: e.value for e in tensor.external_data} | entries
    del tensor.external_data[:]
    for key, text in known.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, text
    path.write_bytes(m.SerializeToString())
    return path


def test_path_bytes_and_proto_give_the_same_graph(tmp_path):
    m = product()
    path = tmp_path / "m.onnx"
    path.write_bytes(m.SerializeToString())
    graphs = [load_onnx(source) for source in (path, str(path), m.SerializeToString(), m)]
    assert len({g.structural_hash() for g in graphs}) == 1
    assert len(m.graph.initializer) == 1  # the caller's model is not modified


def test_a_missing_file_and_a_folder_are_os_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.onnx"):
        load_onnx(tmp_path / "nowhere.onnx")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        load_onnx(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x00", b"this is not a model", b"\x08\x07", os.urandom(300)])
def test_what_is_not_a_model_is_said_to_be_none(content):
    with pytest.raises(ModelError, match="not an ONNX model"):
        load_onnx(content)


def test_every_truncation_is_an_error_of_ours():
    content = product().SerializeToString()
    whole = load_onnx(content)
    for length in range(0, len(content), 97):
        with pytest.raises(ModelError):
            load_onnx(content[:length])
    assert whole.operators() == {"matmul": 1}


def test_every_flipped_byte_is_an_error_of_ours_or_a_graph():
    content = bytearray(product().SerializeToString())
    fates = set()
    for position in [*range(0, 120), *range(len(content) - 120, len(content))]:
        broken = bytearray(content)
        broken[position] ^= 0xFF
        try:
            load_onnx(bytes(broken))
            fates.add("graph")
        except ModelError:
            fates.add("error")
    assert "error" in fates


def test_a_special_file_is_refused():
    if not os.path.exists("/dev/zero"):  # noqa: PTH110
        pytest.skip("no /dev/zero here")
    with pytest.raises(ModelError, match="not a regular file"):
        load_onnx("/dev/zero")


def test_external_data_are_read(tmp_path):
    inside = load_onnx(product())
    outside = load_onnx(external(tmp_path / "m.onnx"))
    np.testing.assert_array_equal(inside.weights["w"].value(), outside.weights["w"].value())


def test_external_data_need_a_path(tmp_path):
    content = external(tmp_path / "m.onnx").read_bytes()
    with pytest.raises(ModelError, match=r"'w' is stored in 'w\.bin'.*try the path of the model"):
        load_onnx(content)


def test_missing_external_data_are_named(tmp_path):
    path = external(tmp_path / "m.onnx")
    (tmp_path / "w.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"'w' is stored in 'w\.bin'"):
        load_onnx(path)


@pytest.mark.parametrize("size", [0, 1, 64 * 64 * 4 - 1])
def test_truncated_external_data_are_refused(tmp_path, size):
    path = external(tmp_path / "m.onnx")
    os.truncate(tmp_path / "w.bin", size)
    with pytest.raises(ModelError, match="'w'"):
        load_onnx(path)


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "a/../../w.bin", "", "C:\\w.bin", ".."])
def test_external_data_outside_the_folder_are_refused(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    external(tmp_path / "elsewhere.onnx")
    path = relocated(external(folder / "m.onnx"), location=location)
    with pytest.raises(ModelError, match="must lie in the model's folder"):
        load_onnx(path)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    path = external(folder / "m.onnx")
    (folder / "w.bin").rename(tmp_path / "w.bin")
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelError, match="'w'"):
        load_onnx(path)


@pytest.mark.parametrize(
    "entries", [{"length": "-5"}, {"offset": "x"}, {"length": "99999999999"}, {"offset": "9" * 30}]
)
def test_absurd_places_in_external_data_are_refused(tmp_path, entries):
    path = relocated(external(tmp_path / "m.onnx"), **entries)
    with pytest.raises(ModelError, match="'w'"):
        load_onnx(path)


def test_external_data_in_attributes_are_read_and_checked(tmp_path):
    constant = onnx.helper.make_node("Constant", [], ["w"], value=normal("w", 4, 4))
    m = model([constant, node("MatMul", "x w", "y")], [value("x", [2, 4])], [value("y", [2, 4])])
    path = tmp_path / "m.onnx"
    onnx.save_model(
        m, path, save_as_external_data=True, location="w.bin", size_threshold=0, convert_attribute=True
    )
    assert load_onnx(path).weights["w"].type.shape == (4, 4)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"w\.bin"):
        load_onnx(path)


def wrong(**fields):
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[64, 64])
    for name, content in fields.items():
        if name in ("dims", "float_data"):
            del getattr(tensor, name)[:]
            getattr(tensor, name).extend(content)
        else:
            setattr(tensor, name, content)
    return tensor


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (wrong(raw_data=b"123"), r"declared float32\[64, 64\], contains other data \(3 bytes\)"),
        (wrong(raw_data=bytes(64 * 64 * 8)), "contains other data"),
        (wrong(float_data=[1.0, 2.0]), "contains other data"),
        (wrong(), "contains other data"),
        (wrong(data_type=99, raw_data=bytes(64 * 64 * 4)), "element type 99"),
        (wrong(data_type=0, raw_data=bytes(64 * 64 * 4)), "element type 0"),
        (wrong(dims=[-1, 64], raw_data=bytes(256)), "non-negative"),
        (wrong(dims=[1 << 40, 1 << 40], raw_data=bytes(256)), "elements"),
        (wrong(dims=[1 << 33], raw_data=bytes(256)), "must have at most .* elements, got 8.59e\\+09"),
    ],
)
def test_stored_tensors_that_do_not_fit_their_type_are_refused(tensor, message):
    m = product()
    m.graph.initializer[0].CopyFrom(tensor)
    with pytest.raises(ModelError, match=f"'w'.*{message}|{message}"):
        load_onnx(m)


def test_tensor_array_reads_all_element_types():
    import ml_dtypes

    for dtype in (np.float16, np.float64, np.int8, np.bool_, np.uint16, ml_dtypes.bfloat16, ml_dtypes.int4):
        array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
        np.testing.assert_array_equal(tensor_array(numpy_helper.from_array(array, "t"), None), array)


def test_writing_replaces_whole_files_only(tmp_path, monkeypatch):
    graph = load_onnx(product())
    target = tmp_path / "out.onnx"
    target.write_bytes(b"before")

    def fail(self, other):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", fail)
        with pytest.raises(OSError, match="disk full"):
            save_onnx(graph, target)
    assert [p.name for p in tmp_path.iterdir()] == ["out.onnx"]
    assert target.read_bytes() == b"before"
    save_onnx(graph, target)
    assert load_onnx(target).structural_hash() == graph.structural_hash()
    with pytest.raises(OSError, match="is a folder"):
        save_onnx(graph, tmp_path)
    with pytest.raises(OSError, match="does not exist"):
        save_onnx(graph, tmp_path / "nowhere" / "out.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["out.onnx"]


def test_large_weights_go_to_a_file_next_to_the_model(tmp_path, monkeypatch):
    graph = load_onnx(product())
    monkeypatch.setattr(onnx_file, "EXTERNAL_BEYOND", 1000)
    target = tmp_path / "out.onnx"
    save_onnx(graph, target)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.onnx", "out.onnx.data"]
    again = load_onnx(target)
    np.testing.assert_array_equal(again.weights["w"].value(), graph.weights["w"].value())
    feeds = {"x": np.ones((2, 64), np.float32)}
    for bound in ("MAP_BEYOND", "APART_BYTES"):  # as the weights of a large message
        monkeypatch.setattr(onnx_file, bound, 1000)
    np.testing.assert_allclose(
        run_model(to_onnx(again), feeds)["y"], run_model(product(), feeds)["y"], rtol=1e-5
    )


def test_a_failed_write_of_large_weights_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_file, "EXTERNAL_BEYOND", 1000)

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(onnx_file, "_write_data", fail)
    with pytest.raises(OSError, match="disk full"):
        onnx_file.write_apart(onnx_file.taken_apart(product()), tmp_path / "out.onnx")
    assert not list(tmp_path.iterdir())


def test_the_large_weights_of_a_message_are_apart_and_the_message_is_not_modified(monkeypatch):
    m = product()
    m.graph.initializer.append(normal("small", 2))
    m.graph.initializer[0].doc_string = "a product's weight"
    m.metadata_props.add(key="author", value="someone")
    given = m.SerializeToString()
    monkeypatch.setattr(onnx_file, "MAP_BEYOND", 1000)
    monkeypatch.setattr(onnx_file, "APART_BYTES", 1000)
    apart = read_model(m)
    assert m.SerializeToString() == given
    assert list(apart.arrays) == ["w"]
    assert apart.model.ByteSize() < 1000
    assert apart.model.graph.initializer[0].doc_string == "a product's weight"
    assert onnx_file.joined(onnx_file.Apart(apart.model, apart.arrays)) == m


def test_a_malformed_large_weight_of_a_message_stays_in_it(monkeypatch):
    m = product()
    m.graph.initializer[0].raw_data = b"short"
    monkeypatch.setattr(onnx_file, "MAP_BEYOND", 1000)
    monkeypatch.setattr(onnx_file, "APART_BYTES", 1000)
    with pytest.raises(ModelError, match="contains other data"):
        load_onnx(m)


def test_check_model_looks_at_types_without_the_weights():
    m = product()
    check_model(m)
    assert weight_bytes(m) == 64 * 64 * 4
    m.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 3
    with pytest.raises(ModelError, match="is not valid ONNX"):
        check_model(m)
    check_model(m, full=False)


def test_ir_versions_follow_the_operator_set():
    assert ir_version_for({"": 9}) == 4
    assert ir_version_for({"": 21}) == 10
    assert ir_version_for({"": 9}, functions=True) == 10
    assert ir_version_for({"": 17, "some.domain": 3}) == 8


def test_labels_name_a_node_for_people():
    assert label(node("Relu", "x", "y")) == "node Relu 'Relu_y' (makes 'y')"
    assert label(onnx.helper.make_node("Relu", ["x"], [""])) == "node Relu"


def test_read_model_copies_what_it_is_given():
    m = product()
    assert read_model(m).model is not m


def test_a_weight_of_another_dtype_than_the_operator_takes_is_named():
    m = product()
    m.graph.initializer[0].CopyFrom(weight("w", np.ones((64, 64)), np.float64))
    with pytest.raises(ModelError, match=r"node MatMul 'MatMul_y' .*w: float64\[64, 64\]"):
        import_onnx(m)
