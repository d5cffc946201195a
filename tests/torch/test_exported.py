import builtins

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnxscript", reason="torch's exporter is not installed")

import workbench
from workbench import load_torch
from workbench.frontends import ModelError, opaque_runner, run_graph
from workbench.frontends.model_file import open_model
from workbench.graph import evaluate
from workbench.torch.exported import TorchMissing, exported


def test_without_torch_the_message_says_what_to_install(monkeypatch):
    original = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "torch":
            raise ImportError("no torch here")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(TorchMissing, match=r"pip install 'tamago-workbench\[torch\]'"):
        load_torch(None, None)
    assert issubclass(TorchMissing, ImportError)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


def attention(torch, width=32, heads=4):
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
            self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.wide, self.narrow = torch.nn.Linear(width, 64), torch.nn.Linear(64, width)
            self.feed = torch.nn.Sequential(self.wide, torch.nn.GELU(), torch.nn.Dropout(0.5), self.narrow)

        def forward(self, x):
            y = self.first(x + self.attention(x, x, x, need_weights=False)[0])
            return self.second(y + self.feed(y))

    return Attention(), torch.randn(2, 5, width)


def residual(torch, width=8):
    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.deep = torch.nn.Sequential(
                torch.nn.Conv2d(width, width, 3, padding=1, groups=width),
                torch.nn.BatchNorm2d(width),
                torch.nn.ReLU6(),
                torch.nn.Conv2d(width, width, 1),
            )
            self.pool = torch.nn.AdaptiveAvgPool2d(1)

        def forward(self, x):
            return self.pool(torch.relu(x + self.deep(x))).flatten(1)

    return Residual(), torch.randn(2, width, 9, 9)


@pytest.mark.torch
@pytest.mark.parametrize("block", [attention, residual])
def test_a_block_is_modelled_whole_and_computes_what_torch_does(block, torch, capsys):
    torch.manual_seed(0)
    module, x = block(torch)
    imported = open_model(exported(module, x))
    assert module.training  # the mode is restored
    assert imported.coverage.fraction == 1.0
    assert imported.graph.name == type(module).__name__
    with torch.no_grad():
        expected = module.eval()(x).numpy()
    ((name, kind),) = imported.graph.input_types.items()
    assert kind.shape == tuple(x.shape)
    feeds = {name: x.numpy()}
    for found in (evaluate(imported.graph, feeds, opaque=opaque_runner()), run_graph(imported.graph, feeds)):
        (value,) = found.values()
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
    assert capsys.readouterr().out == ""


@pytest.mark.torch
def test_several_inputs_are_given_as_a_sequence(torch):
    class Sum(torch.nn.Module):
        def forward(self, a, b):
            return a + 2 * b

    graph = load_torch(Sum(), (torch.ones(2, 3), torch.ones(3)))
    assert [t.shape for t in graph.input_types.values()] == [(2, 3), (3,)]
    assert graph.operators()["add"] == 1


@pytest.mark.torch
def test_what_is_not_a_module_or_cannot_be_exported_is_refused(torch):
    with pytest.raises(ModelError, match=r"module must be a torch\.nn\.Module, got int"):
        load_torch(3, torch.ones(2))

    class Stubborn(torch.nn.Module):
        def forward(self, x):
            raise KeyError("nothing goes")

    with pytest.raises(ModelError, match="torch cannot export Stubborn"):
        load_torch(Stubborn(), torch.ones(2))


@pytest.mark.torch
def test_weights_are_those_of_the_module_under_their_names(torch):
    module = torch.nn.Linear(256, 256)
    graph = load_torch(module, torch.ones(2, 256))
    kept = graph.weights["weight"].data
    assert kept.__array_interface__["data"][0] == module.weight.data_ptr()
    assert {*graph.weights} == {"weight", "bias"}


@pytest.mark.torch
def test_keyword_inputs_and_exported_programs(torch, tmp_path):
    class Scaled(torch.nn.Module):
        def forward(self, x, *, scale=None):
            return x if scale is None else x * scale

    x, scale = torch.ones(2, 3), torch.ones(3)
    graph = load_torch(Scaled(), {"x": x, "scale": scale})
    assert [*graph.input_types] == ["x", "scale"]
    program = torch.export.export(Scaled(), (x,), {"scale": scale})
    torch.export.save(program, tmp_path / "scaled.pt2")
    for given in (program, tmp_path / "scaled.pt2"):
        assert load_torch(given).operators() == graph.operators()


@pytest.mark.torch
def test_dimensions_that_may_change_stay_symbolic(torch):
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    model = load_torch(module, torch.ones(3, 8), dynamic_shapes=({0: torch.export.Dim("batch")},))
    assert model.kept == ("batch",)
    result = workbench.optimize(model, cost="analytic")
    assert result.certificate.passed
    assert result.dynamic.kept == ("batch",)


@pytest.mark.torch
def test_a_module_is_optimised_like_its_file(torch):
    module, x = residual(torch)
    result = workbench.optimize(module.eval(), x, cost="analytic", time=False)
    assert result.certificate.passed
    assert result.coverage is not None
    assert result.cost_after < result.cost_before
    with torch.no_grad():
        torch.testing.assert_close(result.to_torch()(x), module(x), rtol=1e-4, atol=1e-5)
    # A node says in which module it is.
    names = {node.name for node in exported(module, x).model.graph.node}
    assert any(name.startswith("deep.3/") for name in names)
