"""What torch.compile users do: dropout, in-place updates, views, buffers, tied weights, regions, hooks."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from workbench.torch import backend, report  # noqa: E402
from workbench.torch.dynamo import CheckFailed, Options, _Checked  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def eager(model, **options):
    return torch.compile(
        model, backend=backend, options={"then": "eager", "strict": True, "time": False} | options
    )


class NonLocal(nn.Module):
    """Attention without a softmax: (q k) v is cheaper as q (k v)."""

    def __init__(self, channels=32, inner=8):
        super().__init__()
        self.q, self.k, self.v = (nn.Conv2d(channels, inner, 1) for _ in range(3))
        self.out = nn.Conv2d(inner, channels, 1)

    def forward(self, x):
        n, _, h, w = x.shape
        q = self.q(x).flatten(2).transpose(1, 2)
        y = (q @ self.k(x).flatten(2)) @ self.v(x).flatten(2).transpose(1, 2) / (h * w)
        return x + self.out(y.transpose(1, 2).reshape(n, -1, h, w))


class Segments(nn.Module):
    """The head of SegFormer: linear layers of two scales, resized, side by side, mixed by a pointwise convolution."""

    def __init__(self, widths=(8, 16), hidden=64):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, hidden) for width in widths)
        self.mix = nn.Conv2d(len(widths) * hidden, hidden, 1, bias=False)

    def forward(self, *scales):
        images = []
        for layer, x in zip(self.layers, scales, strict=True):
            y = layer(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape[0], -1, *x.shape[2:])
            images.append(functional.interpolate(y, scales[0].shape[2:], mode="bilinear"))
        return self.mix(torch.cat(images, 1))


class LastPosition(nn.Module):
    """A head over words of which the last position alone is used."""

    def __init__(self, p=0.0, inplace=False):
        super().__init__()
        self.wide, self.norm, self.head = nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 500)
        self.drop, self.act = nn.Dropout(p), nn.ReLU(inplace=inplace)

    def forward(self, x):
        return self.head(self.norm(self.drop(self.act(self.wide(x)))))[:, -1]


def steps(model, call, arguments, count=3):
    """Train for some steps; return the losses and the last gradients."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for i in range(count):
        torch.manual_seed(i)
        optimiser.zero_grad()
        loss = call(*arguments).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def same_training(model, *arguments, count=3, **options):
    """Train a model with and without the backend, and compare losses, gradients and buffers."""
    ours = copy.deepcopy(model)
    expected, gradients = steps(model, model, arguments, count)
    losses, found = steps(ours, eager(ours, **options), arguments, count)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert found.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=name)
    for (name, buffer), other in zip(model.named_buffers(), ours.buffers(), strict=True):
        torch.testing.assert_close(other, buffer, rtol=1e-4, atol=1e-6, msg=name)
    return report(ours).parts


@pytest.mark.parametrize(("model", "shape"), [(NonLocal(), (1, 32, 16, 16)), (LastPosition(), (2, 20, 32))])
def test_a_gain_is_found_and_training_is_the_same(model, shape):
    (part,) = same_training(model, torch.randn(shape))
    assert part.training
    assert part.gain > 1.5
    assert part.laws
    assert part.way == "rewritten, compiled"
    assert 0 <= part.distance < 1e-4


def test_linear_layers_and_a_pointwise_convolution_are_one_product_before_resizing():
    scales = torch.randn(2, 8, 32, 32), torch.randn(2, 16, 16, 16)
    (part,) = same_training(Segments(), *scales)
    assert {"point-of-tokens", "affine-of-affine"} <= {*part.laws}
    assert part.gain > 2


def test_the_entry_point_is_found_without_an_import():
    assert "workbench" in torch.compiler.list_backends()
    model = LastPosition()
    x = torch.randn(2, 20, 32)
    call = torch.compile(model, backend="workbench", options={"then": "eager", "strict": True, "time": False})
    torch.testing.assert_close(call(x), model(x))


@pytest.mark.parametrize("p", [0.0, 0.2], ids=["alone", "dropout"])
def test_the_losses_of_fifty_steps_agree(p):
    (part,) = same_training(LastPosition(p=p), torch.randn(2, 20, 32), count=50)
    assert part.gain > 1


def test_the_stream_of_random_numbers_is_the_same():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(32, 32) for _ in range(3))

        def forward(self, x):
            a = functional.dropout(self.a(x), 0.5)
            b = functional.dropout(self.b(x), 0.5)
            return functional.dropout(self.c(a + b), 0.5)[:, -1]

    same_training(Branches(), torch.randn(2, 20, 32))
    (part,) = same_training(LastPosition(p=0.3), torch.randn(2, 20, 32))
    assert part.gain > 1


def test_operators_in_place_on_values_of_their_own():
    (part,) = same_training(LastPosition(inplace=True), torch.randn(2, 20, 32))
    assert part.gain > 1


def test_an_update_of_a_shared_tensor_is_handed_on():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 8)

        def forward(self, x):
            y = self.a(x) * 1
            view = y[:, :4]
            y.mul_(2)
            return view + y[:, 4:]

    (part,) = same_training(Shared(), torch.randn(3, 8))
    assert "shared" in part.handed_on


def test_an_argument_that_is_updated_is_updated():
    def step(x, state):
        state.add_(x.sum())
        return x * state

    x, ours, theirs = torch.randn(4), torch.zeros(4), torch.zeros(4)
    call = torch.compile(step, backend=backend, options={"then": "eager", "strict": True, "time": False})
    for _ in range(3):
        torch.testing.assert_close(call(x, ours), step(x, theirs))
    torch.testing.assert_close(ours, theirs)


def test_batch_statistics_are_left_alone_in_training():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8)
    )
    same_training(model, torch.randn(4, 3, 9, 9))


def test_batch_norms_are_merged_in_evaluation():
    model = nn.Sequential(nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16), nn.ReLU()).eval()
    for p in (*model.parameters(), *model.buffers()):
        if p.is_floating_point():
            nn.init.uniform_(p, 0.5, 1.5)
    x = torch.randn(2, 16, 30, 30)
    call = eager(model)
    with torch.no_grad():
        torch.testing.assert_close(call(x), model(x), rtol=1e-4, atol=1e-4)
        assert not report(model).parts[-1].training
        model[1].weight.data.mul_(3)  # raises no version
        torch.testing.assert_close(call(x), model(x), rtol=1e-4, atol=1e-4)


def test_tied_weights_get_the_gradients_of_both_uses():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 16)
            self.inner = nn.Linear(16, 16)
            self.head = nn.Linear(16, 50, bias=False)
            self.head.weight = self.words.weight

        def forward(self, tokens):
            return self.head(self.inner(self.words(tokens)))[:, -1]

    same_training(Tied(), torch.randint(0, 50, (2, 12)))


def test_detached_values_get_no_gradient():
    class Detached(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x):
            return (self.a(x).detach() + self.b(x))[:, -1]

    parts = same_training(Detached(), torch.randn(2, 9, 16))
    assert parts


@pytest.mark.parametrize("dtype", [torch.bfloat16])
def test_regions_of_autocast_are_handed_on(dtype):
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = LastPosition()

        def forward(self, x):
            with torch.autocast("cpu", dtype=dtype):
                return self.inner(x).float()

    same_training(Mixed(), torch.randn(2, 20, 32))


def test_a_region_without_gradients_is_handed_on():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x):
            with torch.no_grad():
                y = self.a(x)
            return self.b(y)[:, -1]

    same_training(Frozen(), torch.randn(2, 9, 16))


def test_a_checkpoint_is_handed_on():
    from torch.utils.checkpoint import checkpoint

    class Saved(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = LastPosition()

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    same_training(Saved(), torch.randn(2, 20, 32))


def test_a_function_with_a_backward_of_its_own_keeps_it():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x):
            return self.b(Double.apply(self.a(x)))[:, -1]

    same_training(Own(), torch.randn(2, 9, 16))


def test_hooks_of_parameters_see_their_gradients():
    seen = []
    model = LastPosition()
    model.wide.weight.register_hook(lambda g: seen.append(g.norm().item()))
    x = torch.randn(2, 20, 32)
    eager(model)(x).sum().backward()
    assert seen == [pytest.approx(model.wide.weight.grad.norm().item())]


def test_hooks_of_modules_run_and_see_what_they_see_without_the_backend():
    def run(make):
        torch.manual_seed(0)
        model, seen = LastPosition(), []
        model.norm.register_forward_hook(lambda _, given, found: found * 2)
        model.wide.register_full_backward_hook(lambda _, inner, outer: seen.append(outer[0].norm().item()))
        make(model)(torch.ones(2, 20, 32)).sum().backward()
        return [*seen, *(p.grad.norm().item() for p in model.parameters())]

    assert run(lambda model: eager(model)) == pytest.approx(run(lambda model: model), rel=1e-4)


def test_what_an_input_is_a_view_of_gets_its_gradient():
    model, x = LastPosition(), torch.randn(40, 32, requires_grad=True)
    other = x.detach().clone().requires_grad_()
    eager(model)(x.view(2, 20, 32)).sum().backward()
    model(other.view(2, 20, 32)).sum().backward()
    torch.testing.assert_close(x.grad, other.grad)


def test_a_transform_of_functions_is_handed_on():
    class Mapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x):
            return torch.vmap(lambda row: torch.tanh(row @ self.inner.weight))(x)[:, -1:]

    (part,) = same_training(Mapped(), torch.randn(3, 8))
    assert "vmap" in part.handed_on


def test_a_condition_on_data_trains():
    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            def more(v):
                return self.a(v) * 2

            def less(v):
                return self.b(v) + 1

            return torch.cond(x.sum() > 0, more, less, (x,))[:, -1:]

    same_training(Either(), torch.rand(3, 8))


def test_a_condition_on_data_is_handed_on():
    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 8)

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda v: self.a(v) * 2, lambda v: self.a(v) + 1, (x,))

    model = Either()
    x = torch.randn(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(eager(model)(x), model(x))


def test_nothing_to_gain_is_handed_on_bit_for_bit():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    x = torch.randn(3, 8)
    assert torch.equal(eager(model)(x), model(x))
    (part,) = report(model).parts
    assert part.handed_on == "nothing cheaper was found"
    assert part.gain == 1


def test_a_result_that_is_a_view_of_an_argument_stays_one():
    def views(x):
        return x.view(2, 8)[:, :4], x + 1

    x = torch.randn(16)
    a, _ = torch.compile(views, backend=backend, options={"then": "eager", "strict": True, "time": False})(x)
    a.zero_()
    assert x[:4].abs().sum() == 0


def test_a_wrong_result_is_replaced_by_the_original(caplog):
    def scaled(factor):
        module = torch.fx.symbolic_trace(nn.Linear(4, 4))
        graph = module.graph
        output = next(n for n in graph.nodes if n.op == "output")
        with graph.inserting_before(output):
            output.args = (graph.call_function(torch.mul, (output.args[0], factor)),)
        module.recompile()
        return module

    right = scaled(1)
    wrong = copy.deepcopy(right)
    next(n for n in wrong.graph.nodes if n.target is torch.mul).args = (
        next(n for n in wrong.graph.nodes if n.target is torch.mul).args[0],
        1.01,
    )
    wrong.recompile()
    from workbench.torch.reports import Part, note

    x = torch.randn(3, 4, requires_grad=True)
    number = note(Part())
    checked = _Checked(right, wrong, wrong.forward, Options(then="eager", time=False), number)
    assert torch.equal(checked(x), right(x))
    assert "away" in report().parts[number].failures[0]
    assert report().parts[number].way == "original, eager"
    with pytest.raises(CheckFailed, match="results"):
        _Checked(right, wrong, wrong.forward, Options(then="eager", time=False, strict=True), number)(x)


@pytest.mark.parametrize(("before", "after", "way"), [(1.0, 2.0, "original"), (2.0, 1.0, "rewritten")])
def test_the_faster_of_two_right_ways_runs(monkeypatch, before, after, way):
    from workbench.torch import dynamo

    model, x = LastPosition(), torch.randn(2, 23, 32)
    asked = []

    def measured(functions, arguments):
        asked.append(functions)
        a, b = (f(*arguments)[0] for f in functions)
        torch.testing.assert_close(a, b)
        return [lambda: before, lambda: after]

    monkeypatch.setattr(dynamo, "timers", measured)
    call = torch.compile(model, backend=backend, options={"then": "eager", "strict": True})
    torch.testing.assert_close(call(x), model(x))
    torch.testing.assert_close(call(x), model(x))
    assert len(asked) == 1
    (part,) = report(model).parts
    assert part.way == f"{way}, compiled"
    assert part.timed == before / after
    assert f"{part.timed:.2f}× when timed" in str(part)


def test_a_faster_original_that_is_compiled_wrongly_does_not_run(monkeypatch):
    from workbench.torch import dynamo
    from workbench.torch.reports import Part, note

    right = torch.fx.symbolic_trace(nn.Linear(4, 4))
    monkeypatch.setattr(dynamo, "_then", lambda *_: lambda *given: 2 * right(*given))
    monkeypatch.setattr(dynamo, "timers", lambda *_: [lambda: 1.0, lambda: 2.0])
    x, number = torch.randn(3, 4), note(Part())
    assert torch.equal(_Checked(right, right, right.forward, Options(), number)(x), right(x))
    assert report().parts[number].way == "rewritten, compiled"


def test_timing_leaves_parameters_buffers_and_the_random_stream():
    model = nn.Sequential(LastPosition(), nn.Dropout(0.5), nn.BatchNorm1d(500))
    twin, x = copy.deepcopy(model), torch.randn(8, 23, 32)
    call = torch.compile(model, backend=backend, options={"then": "eager", "strict": True})
    torch.manual_seed(5)
    ours = call(x)
    torch.manual_seed(5)
    torch.testing.assert_close(ours, twin(x))
    assert report(model).parts[0].timed > 0
    torch.testing.assert_close(dict(model.named_buffers()), dict(twin.named_buffers()))
    assert all(p.grad is None for p in model.parameters())


def test_zero_gradients_are_noticed(monkeypatch):
    """A right loss with gradients of zero, as a compiler once gave without a word."""
    from workbench.torch.reports import Part, note

    right = torch.fx.symbolic_trace(nn.Linear(4, 4))

    def without(*arguments):
        found = right(*arguments)
        return found.detach() + 0 * found

    from workbench.torch import dynamo

    for compiled, expected in ((right.forward, "original, compiled"), (without, "rewritten, eager")):
        monkeypatch.setattr(dynamo, "_then", lambda *_, compiled=compiled: compiled)
        x = torch.randn(3, 4, requires_grad=True)
        number = note(Part())
        checked = _Checked(right, right, without, Options(), number)
        checked(x).sum().backward()
        assert x.grad.abs().sum() > 0
        assert "gradients" in report().parts[number].failures[0]
        assert report().parts[number].way == expected


def test_a_rewritten_graph_that_does_not_compile_or_run_is_replaced(monkeypatch):
    from workbench.torch import dynamo

    model, x = LastPosition(), torch.randn(2, 23, 32)
    then = dynamo._then

    def fails(module, *rest):
        if any(getattr(n.target, "__name__", "") == "apply" for n in module.graph.nodes):
            raise RuntimeError("no compiler today")
        return then(module, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(dynamo, "_then", fails)
        call = torch.compile(model, backend=backend, options={"then": "eager", "time": False})
        torch.testing.assert_close(call(x), model(x))
    assert "no compiler today" in report(model).parts[-1].handed_on

    def broken(*_, **__):
        raise RuntimeError("no form today")

    torch._dynamo.reset()
    other = copy.deepcopy(model)
    from workbench.torch import writer

    monkeypatch.setattr(writer, "spec_of", broken)
    wrong = torch.fx.symbolic_trace(other.wide)
    output = next(n for n in wrong.graph.nodes if n.op == "output")
    with wrong.graph.inserting_before(output):
        attrs = {"op": "relu", "attrs": ()}
        output.args = (wrong.graph.call_function(writer.apply, (output.args[0],), attrs),)
    wrong.recompile()
    from workbench.torch.reports import Part, note

    right, number = torch.fx.symbolic_trace(other.wide), note(Part())
    checked = _Checked(right, wrong, wrong.forward, Options(then="eager", time=False), number)
    assert torch.equal(checked(x), right(x))
    assert "no form today" in report().parts[number].failures[0]


def test_an_error_is_handed_on_and_told(monkeypatch, caplog):
    from workbench.torch import dynamo

    def fails(*_, **__):
        raise RuntimeError("no search today")

    monkeypatch.setattr(dynamo, "improved", fails)
    model = LastPosition()
    x = torch.randn(2, 20, 32)
    call = torch.compile(model, backend=backend, options={"then": "eager", "time": False})
    torch.testing.assert_close(call(x), model(x))
    assert "no search today" in report(model).parts[-1].handed_on
    torch._dynamo.reset()
    with pytest.raises(Exception, match="no search today"):
        torch.compile(model, backend=backend, options={"then": "eager", "strict": True, "time": False})(x)


def test_a_search_is_read_from_disk_by_the_next_process(monkeypatch):
    from workbench.support import disk_cache
    from workbench.torch import dynamo

    model, x = LastPosition(), torch.randn(2, 21, 32)
    eager(model)(x)
    disk_cache._memory.clear()
    torch._dynamo.reset()
    monkeypatch.setattr(dynamo, "_searched", None)
    torch.testing.assert_close(eager(model)(x), model(x))
    first, second = report(model).parts
    assert second.laws == first.laws != ()


def test_a_search_whose_time_was_up_is_not_kept():
    model, x = LastPosition(), torch.randn(2, 22, 32)
    eager(model, seconds=1e-6)(x)
    torch._dynamo.reset()
    eager(model)(x)
    first, second = report(model).parts
    assert first.handed_on == "nothing cheaper was found before the time was up"
    assert second.gain > 1


def test_a_search_that_gains_goes_deeper(monkeypatch):
    from workbench.torch import dynamo

    limits = []

    class Found:
        cost_before, cost_after, stop_reason = 10.0, 8.0, dynamo.StopReason.E_NODE_LIMIT
        graph, dynamic, rules = None, None, ()

    def search(*_, e_nodes, **__):
        limits.append(e_nodes)
        return Found()

    monkeypatch.setattr("workbench.optimizer.pipeline.optimize", search)
    for after, count in ((8.0, 2), (10.0, 1)):
        limits.clear()
        Found.cost_after = after
        torch._dynamo.reset()
        model = LastPosition()
        torch.compile(model, backend=backend, options={"then": "eager", "time": False})(
            torch.randn(2, 24 + count, 32)
        )
        assert len(limits) == count
    assert dynamo.DEEPER > 1


def test_options_are_checked():
    with pytest.raises(ValueError, match="then must be one of inductor, eager"):
        Options(then="tvm")
