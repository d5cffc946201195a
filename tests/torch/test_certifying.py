import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnxscript", reason="torch's exporter is not installed")

from torch import nn  # noqa: E402

import workbench  # noqa: E402
from workbench.frontends import ModelError  # noqa: E402
from workbench.torch.certifying import certify_torch  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]


class Two(nn.Module):
    """Two outputs, of which one is a number of a class."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleDict({"wide": nn.Linear(8, 16), "narrow": nn.Linear(16, 4)})

    def forward(self, x, *, scale=None):
        y = self.encoder["narrow"](torch.tanh(self.encoder["wide"](x)))
        return {"scores": y if scale is None else y * scale, "best": y.argmax(-1)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    torch.manual_seed(0)
    module, x = Two(), torch.randn(3, 8)
    path = tmp_path_factory.mktemp("two") / "two.onnx"
    workbench.save_onnx(workbench.load_torch(module, x), path)
    return module, x, str(path)


def test_a_module_and_its_file_are_equal_in_both_directions(saved):
    module, x, path = saved
    for sides in ((module, path), (path, module), (module, copy.deepcopy(module))):
        found = workbench.certify(*sides, x)
        assert found.passed
        assert found.draws == 3
        assert found.error < 1e-5
    assert workbench.certify(module, workbench.load_torch(module, x), {"x": x}).passed


@pytest.mark.parametrize(
    "sides",
    [
        "changed file",
        pytest.param("file changed", marks=pytest.mark.nightly),
        pytest.param("module changed", marks=pytest.mark.nightly),
    ],
)
def test_the_first_tensor_that_differs_and_its_module_are_named(saved, sides):
    module, x, path = saved
    changed = copy.deepcopy(module)
    with torch.no_grad():
        changed.encoder["narrow"].weight[2, 3] += 0.5
    named = {"changed": changed, "module": module, "file": path}
    found = workbench.certify(*map(named.get, sides.split()), x)
    assert not found.passed
    shown = [*found.difference.a.nodes, *found.difference.b.nodes]
    assert any(name.startswith("encoder.narrow/") for name in shown)
    assert module.training  # the mode is restored


def test_a_module_that_differs_from_its_export_is_noticed(saved, monkeypatch):
    class Otherwise(Two):
        def forward(self, x, *, scale=None):
            found = super().forward(x, scale=scale)
            return found if torch.compiler.is_exporting() else found | {"scores": found["scores"] + 0.1}

    module, x, path = saved
    other = Otherwise()
    other.load_state_dict(module.state_dict())
    found = workbench.certify(other, path, x)
    assert not found.passed
    assert "the module differs from its export" in found.notes[0]
    assert found.difference.tensor == "output 0"


class Marked(nn.Module):
    """Signs and doubles, of which one may be wrong."""

    def __init__(self, sign=0, double=None):
        super().__init__()
        self.sign, self.double = sign, double

    def forward(self, x):
        doubles = x * 2
        if self.double is not None:
            doubles = torch.where(torch.arange(4) == 1, torch.tensor(self.double), doubles)
        return doubles, (doubles > 0).to(torch.int64) + self.sign


@pytest.mark.parametrize("wrong", [{"sign": 1}, {"double": float("nan")}, {"double": float("inf")}])
def test_other_whole_numbers_and_elements_that_are_no_numbers_are_differences(wrong):
    x = torch.ones(3, 4)
    assert certify_torch(Marked(), Marked(), x).passed
    for sides in ((Marked(), Marked(**wrong)), (Marked(**wrong), Marked())):
        assert not certify_torch(*sides, x, draws=1).passed


def test_inputs_that_do_not_fit_are_told(saved):
    module, x, path = saved
    with pytest.raises(ModelError, match="has 1 inputs, the example 2 tensors"):
        certify_torch(module, path, {"x": x, "scale": torch.ones(4)})
    with pytest.raises(ValueError, match="draws must be at least 1"):
        certify_torch(module, path, x, draws=0)
    with pytest.raises(ModelError, match="does not run"):
        certify_torch(module, copy.deepcopy(module), torch.randn(3, 9))
