import numpy as np
import pytest

from workbench.kernels.accelerators import AccumulatorOverflow, Tiling, amx, unit

ABSENT = amx.missing()
here = pytest.mark.skipif(bool(ABSENT), reason=ABSENT)


def matrices(rows, inner, columns):
    random = np.random.default_rng(0)
    return (random.integers(-128, 128, s).astype(np.int8) for s in ((rows, inner), (inner, columns)))


@here
@pytest.mark.parametrize("extents", [(16, 64, 16), (7, 13, 17), (49, 1024, 1024), (33, 130, 31)])
def test_the_tile_registers_are_exact(extents):
    left, right = matrices(*extents)
    done = amx.multiply(left, right)
    assert done.result.dtype == np.int32
    np.testing.assert_array_equal(done.result, left.astype(np.int32) @ right.astype(np.int32))
    tiling = Tiling(unit("amx_int8"), 1, *extents)
    assert (done.loads, done.calls) == (tiling.tiles, tiling.calls)


def test_a_processor_without_amx_is_refused_with_the_reason(tmp_path, monkeypatch):
    information = tmp_path / "cpuinfo"
    information.write_text("flags : fpu sse2 amx_tile\n")
    assert amx.missing(information) == "this processor has no amx_int8"
    information.write_text("flags : fpu sse2\n")
    assert amx.missing(information) == "this processor has no amx_tile and no amx_int8"
    assert "cannot be read" in amx.missing(tmp_path / "nowhere")
    monkeypatch.setattr(amx, "missing", lambda: "this processor has no amx_int8")
    amx._library.cache_clear()
    with pytest.raises(amx.AmxMissing, match="no amx_int8"):
        amx.multiply(*matrices(3, 4, 5))
    amx._library.cache_clear()


def test_a_machine_without_a_compiler_is_refused(tmp_path, monkeypatch):
    information = tmp_path / "cpuinfo"
    information.write_text("flags : amx_tile amx_int8\n")
    monkeypatch.setattr(amx, "compiler", lambda: None)
    assert "neither cc, gcc nor clang" in amx.missing(information)
    with pytest.raises(amx.AmxMissing, match="C compiler"):
        amx.compiled()


@pytest.mark.skipif(amx.compiler() is None, reason="no C compiler")
def test_the_source_compiles_where_there_is_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(amx, "cache_folder", lambda: tmp_path)
    assert amx.compiled().is_file()
    monkeypatch.setattr(amx, "SOURCE", tmp_path / "wrong.c")
    (tmp_path / "wrong.c").write_text("int amx_begin(void) { return nothing; }\n")
    with pytest.raises(amx.AmxMissing, match="must compile AMX intrinsics"):
        amx.compiled()


def test_operands_must_be_bytes_whose_sums_fit():
    left, right = matrices(2, 3, 4)
    with pytest.raises(TypeError, match="must be int8, got int32 and int8"):
        amx.multiply(left.astype(np.int32), right)
    with pytest.raises(AccumulatorOverflow):
        amx.multiply(np.zeros((1, 131_072), np.int8), np.zeros((131_072, 1), np.int8))


def test_packing_puts_four_bytes_of_a_column_together():
    _, right = matrices(1, 8, 5)
    found = amx.packed(right)
    assert found.shape == (2, 20)
    np.testing.assert_array_equal(found[1, 4:8], right[4:8, 1])
