"""Kernels as operators of ONNX Runtime: the runs of a session, and the libraries and runtimes that are refused."""

import ctypes
import math
import platform
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import workbench
from tests.kernels.codegen.needs import compiler, free
from tests.kernels.codegen.test_partitioned import Expensive, block
from tests.sampled import in_turn
from workbench.frontends import run_model, to_onnx
from workbench.frontends.onnx.opaque import payload_of
from workbench.frontends.runtime import session
from workbench.graph import GraphBuilder, evaluate
from workbench.kernels.codegen.compiler import Build, CompilerMissing
from workbench.kernels.codegen.custom_ops import DOMAIN, library_of, operator, payload, table_text, written_of
from workbench.kernels.codegen.fusion import Beside, has_algorithm
from workbench.kernels.codegen.partitioned import Mixed, plan_of
from zoo.chains import CHAINS, chain


def operators_of(graph, threads=1):
    return [replace(operator(c), parts=threads) for c in plan_of(graph, Expensive(), measure=free).clusters]


def feeds_of(graph):
    random = np.random.default_rng(0)
    return {n: random.standard_normal(t.shape).astype(np.float32) for n, t in graph.input_types.items()}


def used(model, library, feeds, tmp_path):
    """The operators that a session runs, and its outputs."""
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    options.register_custom_ops_library(str(library))
    loaded = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs = loaded.run(None, feeds)
    return loaded.end_profiling(), outputs


@compiler
@pytest.mark.parametrize("name", in_turn(CHAINS, 1, quick=3))
def test_a_kernel_in_a_session_computes_what_its_operators_compute(name):
    graph, threads = chain(name), 2
    plan = plan_of(graph, Expensive(), measure=free, threads=threads)
    assert plan.operators
    feeds, library = feeds_of(graph), library_of(plan.operators, Build())
    loaded = session(to_onnx(plan.graph), threads=threads, operators=library)
    (found,) = loaded.run(None, feeds)
    np.testing.assert_allclose(found, evaluate(graph, feeds)["y"], rtol=1e-4, atol=1e-5)


@compiler
def test_the_session_runs_the_kernel_and_no_operator_of_its_cluster(tmp_path):
    plan = plan_of(chain("residual-norm"), Expensive(), measure=free)
    library = library_of(plan.operators, Build())
    profile, _ = used(to_onnx(plan.graph), library, feeds_of(plan.source), tmp_path)
    text = Path(profile).read_text()
    assert plan.operators[0].name in text
    assert "LayerNormalization" not in text


@compiler
def test_a_runtime_adds_in_the_convolution_after_a_kernel(tmp_path):
    """It fuses a sum of images if it knows their sizes, which it does not infer for an operator of a library."""
    b = GraphBuilder("block", seed=0)
    x = b.input("x", (1, 32, 12, 12))
    y = b.op("conv2d", x, b.weight((32, 32, 3, 3)), pads=(1, 1, 1, 1))
    y = b.op("conv2d", b.op("relu", y), b.weight((32, 32, 1, 1)))
    graph = b.graph({"y": b.op("add", y, b.op("conv2d", x, b.weight((32, 32, 1, 1))))})
    plan = plan_of(
        graph, Expensive(), measure=lambda c: free(c) if has_algorithm(c) else Beside(0.0, math.inf)
    )
    (op,), model = plan.operators, to_onnx(plan.graph)
    assert [v.type.tensor_type.shape.dim[1].dim_value for v in model.graph.value_info] == [32]
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "made.onnx")
    options.register_custom_ops_library(str(library_of([op], Build())))
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    kinds = [n.op_type for n in onnx.load(tmp_path / "made.onnx").graph.node]
    assert op.name in kinds
    assert "Add" not in kinds


@compiler
def test_without_the_library_the_same_model_runs_its_local_functions():
    graph = block()
    plan = plan_of(graph, Expensive(), measure=free)
    model, feeds = to_onnx(plan.graph), feeds_of(graph)
    onnx.checker.check_model(model)
    assert {f.domain for f in model.functions} == {DOMAIN}
    found, expected = run_model(model, feeds), evaluate(graph, feeds)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@compiler
def test_parts_cover_the_first_axis_whatever_its_length():
    from workbench.graph import GraphBuilder
    from workbench.kernels.codegen.clusters import Member, cluster_of
    from workbench.ops import TensorType

    for rows in (1, 2, 3, 5, 64):
        kind = TensorType("float32", (rows, 33))
        bias = TensorType("float32", (33,))
        cluster = cluster_of(
            [Member(2, "add", (), (0, 1), kind), Member(3, "softmax", (-1,), (2,), kind)],
            {0: kind, 1: bias, 2: kind, 3: kind},
            {},
        )
        made = replace(operator(cluster), parts=4)
        made = type(made)(made.cluster, made.schedule, 4)
        builder = GraphBuilder()
        x, b = builder.input("x", kind.shape), builder.input("b", bias.shape)
        (y,) = builder.opaque(payload(made), [x, b])
        graph = builder.graph({"y": y})
        feeds = feeds_of(graph)
        loaded = session(to_onnx(graph), threads=2, operators=library_of([made], Build()))
        total = np.exp(feeds["x"] + feeds["b"])
        np.testing.assert_allclose(
            loaded.run(None, feeds)[0], total / total.sum(-1, keepdims=True), rtol=1e-5
        )


def refusal(library):
    """Return what a library says to a runtime that has no table of functions but the oldest."""
    said = []
    refuse = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(
        lambda code, text: said.append(text) or 1
    )
    table = (ctypes.c_void_p * 1)(ctypes.cast(refuse, ctypes.c_void_p))
    ask = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(
        lambda version: ctypes.addressof(table) if version == 1 else None
    )
    base = (ctypes.c_void_p * 2)(ctypes.cast(ask, ctypes.c_void_p), None)
    loaded = ctypes.CDLL(str(library))
    loaded.RegisterCustomOps.restype = ctypes.c_void_p
    assert loaded.RegisterCustomOps(None, base) == 1
    return said[0].decode()


@compiler
def test_a_runtime_that_is_too_old_is_refused():
    library = library_of(operators_of(chain("mish")), Build())
    assert refusal(library) == "ONNX Runtime must be of version 1.17 or newer"


@compiler
@pytest.mark.skipif(platform.machine() != "x86_64", reason="FMA4 is an extension of x86-64")
def test_a_processor_that_lacks_instructions_is_refused():
    # FMA4 was in four series of one maker, of 2011 to 2016.
    if "fma4" in Path("/proc/cpuinfo").read_text().split():
        pytest.skip("this processor has FMA4")
    library = library_of(operators_of(chain("mish")), Build(march="bdver1"))
    assert "made for another processor" in refusal(library)


@compiler
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_a_library_that_was_cut_off_is_refused(tmp_path, share):
    library = library_of(operators_of(chain("mish")), Build()).read_bytes()
    cut = tmp_path / "cut.so"
    cut.write_bytes(library[: int(share * len(library))])
    with pytest.raises(OSError, match=r"must be a (whole )?library"):
        session(to_onnx(block()), operators=cut)


def test_equal_clusters_share_one_kernel():
    made = operators_of(block())
    written = written_of([*made, *made])
    text = table_text(written)
    assert len(written) == text.count(".run = fused_") == len(made)
    assert f'#define DOMAIN "{DOMAIN}"' in text
    assert payload_of(payload(made[0])).graph.node[0].domain == DOMAIN


def test_clusters_that_read_values_of_other_shapes_are_different_operators():
    names = []
    for shape in ((40, 64), (1, 40, 64)):
        b = GraphBuilder("norm")
        y = b.op("add", b.input("x", (1, 40, 64)), b.input("table", shape))
        graph = b.graph({"y": b.op("layernorm", y, b.weight((64,)), b.weight((64,)), axis=-1)})
        (op,) = plan_of(graph, Expensive(), measure=free).operators
        names.append(op.name)
    assert len(set(names)) == 2


def test_libraries_of_other_flags_have_other_operators():
    def names(build):
        return {o.name for o in plan_of(block(), Expensive(), measure=free, build=build).operators}

    plain = names(Build())
    assert plain
    assert plain == names(Build(omp=False))  # the runtime has its own threads: no library has OpenMP
    for other in (Build(fast_math=True), Build(opt=2), Build(march=""), Build(contract=False)):
        assert not plain & names(other)


def test_without_a_compiler_there_is_no_library():
    with pytest.raises(CompilerMissing):
        library_of(operators_of(block()), Build(cc="no-such-compiler"))


@compiler
def test_a_declared_composite_in_a_kernel_runs_without_the_library_too(tmp_path):
    workbench.kernels.composite(
        "rms_in_saved_kernel",
        "x{T}[~ D], g{T}[D] -> y{T}[~ D]",
        "y[~ d] = x[~ d] * g[d] / sqrt(mean(e) x[~ e]^2 + eps)",
        eps=1e-5,
    )
    b = GraphBuilder()
    x = b.input("x", (16, 64))
    y = b.op("exp", b.op("rms_in_saved_kernel", b.op("add", x, x), b.weight((64,))))
    graph = b.graph({"y": y})
    Mixed(plan_of(graph, Expensive(), measure=free)).save(tmp_path / "m.onnx")
    feeds = {"x": np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)}
    for _ in range(2):
        found = workbench.kernels.load_program(tmp_path / "m.onnx")(feeds)["y"]
        np.testing.assert_allclose(found, evaluate(graph, feeds)["y"], rtol=1e-4)
        (tmp_path / "m.so").unlink(missing_ok=True)
