"""The compiler of kernels: options, the cache of libraries, and files in it that are broken."""

import ctypes
import os

import numpy as np
import pytest

from tests.kernels.codegen.needs import compiler
from workbench.kernels.codegen import compiler as module
from workbench.kernels.codegen.compiler import (
    Build,
    CompilationFailed,
    CompilerMissing,
    build_from,
    compiled,
    has_compiler,
    library,
    place_of,
)

TEXT = "int seven(void) { return 7; }\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "_loaded", {})


def test_options_come_from_names_of_the_document():
    named = {"CC": "gcc", "MARCH": "x86-64", "OMP": "0", "OPT": "2", "FAST_MATH": "1"}
    assert build_from(named) == Build("gcc", "x86-64", omp=False, opt=2, fast_math=True)
    assert build_from({}) == Build()
    assert build_from({"OPT": "-O1"}).opt == 1


def test_values_are_kept_unless_fast_math_is_asked_for():
    assert "-ffast-math" not in Build().flags
    assert Build().arithmetic == "strict arithmetic"
    assert "-ffast-math" in Build(fast_math=True).flags
    assert Build(fast_math=True).arithmetic == "-ffast-math"


def test_contraction_is_said_to_the_compiler():
    assert "-ffp-contract=fast" in Build().flags
    assert "-ffp-contract=off" in build_from({"CONTRACT": "0"}).flags
    assert Build(contract=False).arithmetic == "strict arithmetic without contraction"
    assert Build(march="").flags[0] == "-O3"
    assert "-march" not in " ".join(Build(march="").flags)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"OPT": "9"}, "OPT, the level of optimisation, must be 0 to 3, got 9"),
        ({"OPT": "fast"}, "got 'fast'"),
        ({"OMP": "yes"}, "OMP must be 0 or 1, got 'yes'"),
        ({"MARCH": "-evil"}, "MARCH must be the name of a processor, got '-evil'"),
        ({"MARCH": "a b"}, "got 'a b'"),
    ],
)
def test_wrong_options_are_named(named, said):
    with pytest.raises(ValueError, match="must be") as error:
        build_from(named)
    assert said in str(error.value)


def test_a_missing_compiler_is_said_plainly(monkeypatch):
    assert not has_compiler(Build(cc="no-such-compiler"))
    with pytest.raises(CompilerMissing, match="CC is 'no-such-compiler', which is not"):
        library(TEXT, Build(cc="no-such-compiler"))
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(CompilerMissing, match="cc, gcc, clang are not"):
        library(TEXT, Build())


@compiler
def test_a_library_is_compiled_once_and_found_by_content():
    place = place_of(TEXT, Build())
    assert not place.exists()
    assert library(TEXT, Build()).seven() == 7
    assert place.is_file()
    assert place.with_suffix(".c").read_text() == TEXT
    made = place.stat().st_mtime_ns
    module._loaded.clear()
    assert library(TEXT, Build()).seven() == 7
    assert place.stat().st_mtime_ns == made
    assert place_of(TEXT, Build(opt=0)) != place != place_of(TEXT + "\n", Build())
    assert sorted(p.suffix for p in place.parent.iterdir()) == [".c", ".so"]


@compiler
def test_a_broken_file_is_compiled_again():
    place = place_of(TEXT, Build())
    place.parent.mkdir(parents=True)
    place.write_bytes(b"not a library")
    assert library(TEXT, Build()).seven() == 7
    ctypes.CDLL(str(place))


@compiler
def test_a_file_that_was_cut_off_is_compiled_again():
    whole = compiled(TEXT, Build()).read_bytes()
    place_of(TEXT, Build()).write_bytes(whole[: len(whole) // 2])
    assert library(TEXT, Build()).seven() == 7


@compiler
def test_a_text_that_is_not_c_is_refused_with_its_first_error():
    with pytest.raises(CompilationFailed, match="must compile the kernel with -O3") as error:
        library("int seven(void) { return nothing; }\n", Build())
    assert "nothing" in str(error.value)
    assert error.value.text.startswith("int seven")


@compiler
def test_fast_math_in_a_kernel_leaves_the_process_its_smallest_numbers():
    library("double half(double x) { return x / 2; }\n", Build(fast_math=True))
    assert np.float64(5e-324) > 0
    assert np.array([2.3e-308, 1e-300]).min() / 4 > 0
