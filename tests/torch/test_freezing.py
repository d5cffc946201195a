import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from workbench.torch import backend, freezing, report  # noqa: E402
from workbench.torch.freezing import CHUNK, Folded, stored_places  # noqa: E402
from workbench.torch.writer import constant  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def two():
    """Two layers without anything between them: one layer of the product of their weights."""
    return nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64)).eval()


def compiled(model, **options):
    return torch.compile(
        model, backend=backend, options={"then": "eager", "strict": True, "time": False} | options
    )


def close(call, model, x):
    torch.testing.assert_close(call(x), model(x), rtol=1e-4, atol=1e-5)


def test_products_of_frozen_parameters_are_computed_once_and_follow_a_change(monkeypatch):
    model, x = two(), torch.randn(300, 64)
    call = compiled(model)
    with torch.no_grad():
        close(call, model, x)
        computed = []
        values = Folded._values
        monkeypatch.setattr(Folded, "_values", lambda self, given: computed.append(1) or values(self, given))
        close(call, model, x)
        assert not computed
        model[0].weight.mul_(2)
        close(call, model, x)
        model.load_state_dict({name: value / 3 for name, value in model.state_dict().items()})
        close(call, model, x)
        model[1].weight = nn.Parameter(torch.randn(64, 64))
        close(call, model, x)
        assert len(computed) == 3
    (part,) = report(model).parts
    assert part.gain > 1.5
    assert not part.training


def fused(model):
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.AdamW(model.parameters(), lr=0.1, fused=True).step()


WRITES = {
    "data": lambda model: model[0].weight.data.mul_(2),
    "numpy": lambda model: model[0].weight.detach().numpy().fill(0.5),
    "optimiser": fused,
    "pointer": lambda model: setattr(model[1].weight, "data", torch.randn(64, 64)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_that_raises_no_version_is_followed(write):
    model, x = two(), torch.randn(302, 64)
    call = compiled(model)
    with torch.no_grad():
        close(call, model, x)
    before = [p._version for p in model.parameters()]
    write(model)
    assert [p._version for p in model.parameters()] == before
    with torch.no_grad():
        close(call, model, x)


def test_a_write_of_one_element_that_raises_no_version_is_followed_in_the_end():
    model, x = two(), torch.randn(302, 64)
    call = compiled(model)
    with torch.no_grad():
        close(call, model, x)
        model[0].weight.data[3, 5] = 9
        for _ in range(2 * 64 * 64 // CHUNK):
            call(x)
        close(call, model, x)


def test_a_write_of_most_elements_is_followed_at_once_without_the_chunk_in_turn(monkeypatch):
    monkeypatch.setattr(freezing, "CHUNK", 1)  # the next call has one element of a first row in turn
    model, x = two(), torch.randn(302, 64)
    call = compiled(model)
    with torch.no_grad():
        close(call, model, x)
        model[0].weight.data[1:].mul_(2)
        close(call, model, x)


def test_a_write_to_a_parameter_with_gaps_is_followed():
    model, x = two(), torch.randn(302, 64)
    model[0].weight = nn.Parameter(torch.randn(64, 128)[:, :64])
    assert not model[0].weight.is_contiguous()
    call = compiled(model)
    with torch.no_grad():
        close(call, model, x)
        model[0].weight.data[3, 5] = 9
        close(call, model, x)


@pytest.mark.parametrize(("options", "freed"), [({}, True), ({"freeze": False}, False)])
def test_parameters_are_frozen_in_evaluation_unless_forbidden(options, freed):
    model, x = two(), torch.randn(40, 64)
    with torch.no_grad():
        close(compiled(model, **options), model, x)
    (part,) = report(model).parts
    assert (
        bool(part.laws) == freed
    )  # the product of two parameters is worth its price only if it is computed once


def test_parameters_are_never_frozen_in_training():
    model, x = two(), torch.randn(301, 64)
    ours = torch.autograd.grad(compiled(model)(x).sum(), [*model.parameters()])
    theirs = torch.autograd.grad(model(x).sum(), [*model.parameters()])
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    (part,) = report(model).parts
    assert part.training


def test_parameters_and_buffers_are_stored_and_arguments_are_not():
    seen = []

    def look(module, arguments):
        places = stored_places(module, arguments)
        seen.append([tuple(arguments[i].shape) for i in sorted(places)])
        return module.forward

    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)).eval()
    with torch.no_grad():
        torch.compile(model, backend=look)(torch.ones(7, 4))
    assert sorted(seen[0]) == [(5,), (5,), (5,), (5,), (5,), (5, 4)]


class Identity(nn.Module):
    """A block of branches as RepVGG has them: two convolutions and the input, each with its norm."""

    def __init__(self):
        super().__init__()
        self.wide, self.point = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.Conv2d(8, 8, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(3))

    def forward(self, x):
        branches = (self.wide(x), self.point(x), x)
        return torch.relu(sum(norm(y) for norm, y in zip(self.norms, branches, strict=True)))


def test_kernels_of_which_a_law_brings_a_part_are_computed_once(monkeypatch):
    model, x = Identity().eval(), torch.randn(1, 8, 40, 40)
    parts = []
    made = Folded.__init__

    def watched(self, *given, **named):
        made(self, *given, **named)
        parts.append(self)

    monkeypatch.setattr(Folded, "__init__", watched)
    call = compiled(model)
    with torch.no_grad():
        close(call, model, x)
        (folded,) = parts
        assert [n for n in folded._compute.graph.nodes if n.target is constant]
        called = [n for n in folded.module.graph.nodes if n.op == "call_function"]
        assert len(called) <= 2  # the convolution with its bias, and the relu
        model.norms[2].weight.mul_(3)
        close(call, model, x)


@pytest.mark.parametrize("then", ["eager", "inductor"])
def test_kernels_have_their_channels_last_for_inductor_alone_and_follow(then, monkeypatch):
    kept = []
    made = Folded.__init__

    def watched(self, *given, **named):
        made(self, *given, **named)
        kept.append(
            [b for name, b in self.module.named_buffers() if name.startswith("folded") and b.dim() == 4]
        )

    monkeypatch.setattr(Folded, "__init__", watched)
    # Of the second convolution no law changes the kernel.
    model = nn.Sequential(Identity(), nn.Conv2d(8, 4, 3, bias=False)).eval()
    x, call = torch.randn(1, 8, 40, 40), compiled(model, then=then)
    with torch.no_grad():
        close(call, model, x)
        ((*found,),) = kept
        kernels = [b for b in found if b.shape[2:] == (3, 3)]
        assert len(kernels) == (2 if then == "inductor" else 1)
        last = [b.is_contiguous(memory_format=torch.channels_last) for b in kernels]
        assert all(last) == (then == "inductor")
        model[1].weight.mul_(3)
        model[0].norms[2].weight.mul_(3)
        close(call, model, x)
        assert last == [b.is_contiguous(memory_format=torch.channels_last) for b in kernels]
