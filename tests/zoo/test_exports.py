"""The exported architectures are the published ones: by number of parameters, and as torch computes them."""

import ast
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import zoo.exports as exports
from tests.sampled import in_turn
from workbench.studies.benchmarks.light import light_names
from workbench.support.messages import UnknownName
from zoo.exports import Input, architecture, architectures, each

#: Quick to export, and of all kinds: convolutions, attention, recurrence, tables.
QUICK = ("lenet5", "dcgan", "stories_260k", "gru_tagger", "lstm_tagger", "wide_and_deep")


#: Half a minute and more for each.
LONG = ("sd_vae_decoder", "segformer_b2_512", "unet")


def in_full(names):
    """Pair names and exporters: of the slow ones a quarter runs, none of the longest or of the second exporter."""
    slow = [n for n in names if n not in QUICK and n not in LONG]
    yield from ((name, "torchscript") for name in QUICK)
    yield from in_turn([(name, "torchscript") for name in slow], 4, [pytest.mark.slow])
    yield from (pytest.param(name, "dynamo", marks=pytest.mark.slow) for name in QUICK)
    nightly = [*((name, "torchscript") for name in LONG), *((name, "dynamo") for name in [*slow, *LONG])]
    yield from (pytest.param(*pair, marks=[pytest.mark.slow, pytest.mark.nightly]) for pair in nightly)


def torch_or_skip():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(autouse=True)
def one_thread():
    """Keep torch to one thread: several test processes share the cores."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def test_there_are_more_than_thirty_with_those_of_onnx():
    assert len(architectures()) >= 30
    assert len(architectures()) + len(light_names()) >= 40
    assert [a.name for a in each()] == architectures()


def test_a_misspelt_name_says_which_one_is_near():
    with pytest.raises(UnknownName, match="did you mean resnet18"):
        architecture("resnet-18")


def test_inputs_take_sizes_for_their_names():
    assert Input("tokens", ("batch", "sequence"), "int64", 9).sized({"batch": 2, "sequence": 5}) == (2, 5)
    for a in each():
        names = {n for i in a.inputs for n in i.shape if isinstance(n, str)}
        assert names == set(a.sizes), a.name
        assert a.source


def test_torch_is_imported_only_when_a_module_is_built():
    names = ("__init__.py", "weights.py", "export.py")
    for file in (Path(exports.__file__).with_name(name) for name in names):
        tops = [n for n in ast.parse(file.read_text()).body if isinstance(n, ast.Import | ast.ImportFrom)]
        assert not any("torch" in ast.dump(n) for n in tops), file


@pytest.mark.torch
@pytest.mark.parametrize("name", architectures())
def test_the_number_of_parameters_is_the_published_one(name):
    torch = torch_or_skip()
    a = architecture(name)
    family = import_module(f"zoo.exports.{a.family}")
    with torch.device("meta"):  # the shapes count, no numbers are drawn
        module = getattr(family, name)()
    assert sum(p.numel() for p in module.parameters()) == a.parameters


@pytest.mark.parametrize(
    ("name", "count"),
    [
        # LSTM and GRU: 4 and 3 gates with two matrices and two biases each, forwards and backwards.
        ("lstm_tagger", 20_000 * 100 + 2 * 4 * (100 * 100 + 100 * 100 + 200) + 200 * 9 + 9),
        (
            "gru_tagger",
            20_000 * 100
            + 2 * 3 * (128 * (100 + 128) + 256)
            + 2 * 3 * (128 * (256 + 128) + 256)
            + 256 * 17 + 17,
        ),
        ("lstm_language_model", 10_000 * 650 + 2 * 4 * (650 * 1300 + 1300) + 651 * 10_000),
        (
            "dlrm",
            14 * 512 + 513 * 256 + 257 * 64 + 65 * 16
            + 26 * 10_000 * 16
            + (16 + 27 * 26 // 2 + 1) * 512 + 513 * 256 + 257,
        ),
        ("neumf", (6040 + 3706) * (64 + 128) + 257 * 128 + 129 * 64 + 129),
        (
            "wide_and_deep",
            26 * 10_000 * 33 + 14 + (13 + 26 * 32 + 1) * 1024 + 1025 * 512 + 513 * 256 + 257,
        ),
    ],
)  # fmt: skip
def test_what_nobody_publishes_follows_from_the_definition(name, count):
    assert architecture(name).parameters == count


@pytest.mark.torch
def test_the_same_seed_gives_the_same_weights_and_batch_norms_are_not_trivial():
    torch = torch_or_skip()
    state = torch.random.get_rng_state()
    one, two, other = (architecture("shufflenet_v2").module(seed) for seed in (0, 0, 1))
    assert torch.equal(state, torch.random.get_rng_state())
    for (name, a), b, c in zip(
        one.state_dict().items(), two.state_dict().values(), other.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), name
        if a.dim() and a.is_floating_point():
            assert not torch.equal(a, c), name
    norms = [m for m in one.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert not one.training
    assert len(norms) == 56
    for norm in norms:
        assert norm.running_var.std() > 0
        assert norm.running_mean.abs().max() > 0
        assert norm.weight.std() > 0.1


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "exporter"), in_full([n for n in architectures() if architecture(n).parameters < 1e9])
)
def test_an_exported_architecture_computes_what_its_module_computes(tmp_path, name, exporter):
    torch = torch_or_skip()
    import onnxruntime as ort

    from zoo.exports.export import export
    from zoo.exports.weights import example

    a = architecture(name)
    if exporter == "dynamo" and a.family == "sequences" and "whisper" not in name:
        pytest.skip("torch.export writes recurrent layers for one batch only")
    module = a.module()
    path = export(a, tmp_path / "m.onnx", dynamic=True, exporter=exporter, module=module)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [i.shape for i in session.get_inputs()] == [list(i.shape) for i in a.inputs]
    for batch, length in ((1, 9), (3, 17)):
        sizes = {**a.sizes, "batch": batch} | ({"sequence": length} if "sequence" in a.sizes else {})
        inputs = example(a, sizes, seed=batch)
        with torch.no_grad():
            expected = module(*inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = session.run(None, {i.name: x.numpy() for i, x in zip(a.inputs, inputs, strict=True)})
        for ours, theirs in zip(expected, found, strict=True):
            scale = float(ours.abs().max())
            assert np.isfinite(theirs).all()
            assert scale > 1e-3, "a network whose output is nothing shows nothing"
            np.testing.assert_allclose(theirs, ours.numpy(), rtol=1e-3, atol=1e-3 * scale)


@pytest.mark.torch
def test_a_static_export_has_the_usual_sizes_or_those_given(tmp_path):
    torch_or_skip()
    import onnx

    from zoo.exports.export import export

    a = architecture("stories_260k")
    for sizes, shape in ((None, [1, 128]), ({"sequence": 16}, [1, 16])):
        model = onnx.load(export(a, tmp_path / "m.onnx", sizes=sizes))
        dims = model.graph.input[0].type.tensor_type.shape.dim
        assert [d.dim_value for d in dims] == shape
    with pytest.raises(ValueError, match="exporter must be one of torchscript, dynamo, got 'other'"):
        export(a, tmp_path / "m.onnx", exporter="other")


@pytest.mark.torch
def test_what_is_too_large_for_one_file_gets_one_next_to_it(tmp_path, monkeypatch):
    torch_or_skip()
    import onnx

    from zoo.exports import export as module

    # Without its own file of data an exporter fails from 2 GiB on; here a small model is written so.
    monkeypatch.setattr(module, "EXTERNAL_BEYOND", 1000)
    monkeypatch.setattr(module, "_trace", module._dynamo)
    path = module.export(architecture("lenet5"), tmp_path / "m.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    onnx.checker.check_model(str(path), full_check=True)


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"tamago-workbench\[torch\]"):
        architecture("lenet5").module()
