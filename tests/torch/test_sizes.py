import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import fx, nn  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.fx.experimental.symbolic_shapes import (  # noqa: E402
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.nn import functional  # noqa: E402

from workbench.symbolic.integers import sym  # noqa: E402
from workbench.torch import backend, report  # noqa: E402
from workbench.torch.reader import NotRead, read  # noqa: E402
from workbench.torch.sizes import (  # noqa: E402
    NotSized,
    Sizes,
    arguments_at,
    integer,
    symbol_nodes,
    write_integer,
)
from workbench.torch.writer import write  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def traced(function, *shapes, whole=False):
    """Trace a function with a symbol for every axis of 10 or more."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    arguments = []
    for shape in shapes:
        x = torch.zeros(shape, dtype=torch.int64) if whole else torch.randn(shape)
        open_ = [DimDynamic.DYNAMIC if extent > 9 else DimDynamic.STATIC for extent in shape]
        context = StatelessSymbolicContext(open_)
        arguments.append(mode.from_tensor(x, symbolic_context=context))
    with mode:
        return make_fx(lambda *xs: function(*xs), pre_dispatch=True)(*arguments)


def extents(function, *shapes):
    module = traced(function, *shapes)
    source = read(module, training=True)
    return source, {name: source.graph.nodes[i].tensor.shape for name, i in source.graph.outputs}


def test_a_size_is_an_integer_over_symbols():
    module = traced(lambda x: functional.conv2d(x, x.new_ones(4, 3, 3, 3), stride=2), (2, 3, 20, 30))
    (conv,) = (n for n in module.graph.nodes if "conv2d" in str(n.target))
    high, wide = (integer(d) for d in conv.meta["val"].shape[2:])
    names = {place[1]: name for name, place in symbol_nodes(module).items()}
    for h, w in ((20, 30), (21, 13)):
        values = {names[2]: h, names[3]: w}
        assert (high.at(values), wide.at(values)) == ((h - 1) // 2, (w - 1) // 2)
    assert integer(7).value == 7


def test_what_torch_guards_is_known():
    def narrow(x):
        return x[:, :4] if x.shape[1] > 12 else x

    sizes = Sizes.of(traced(narrow, (11, 20)))
    least = sizes.generic.facts.least
    assert sorted(sizes.hints.values()) == [11, 20]
    assert sorted(least[f"+{n}"] for n in sizes.hints) == [2, 13]
    for binding in sizes.others():
        assert binding != sizes.hints
        assert all(size >= least[f"+{n}"] for n, size in binding.items())
    assert len(sizes.others()) == 2


def test_sizes_that_depend_on_data_have_no_form():
    module = traced(lambda x: x + 1, (20,))
    (name,) = Sizes.of(module).hints
    shapes = next(n for n in module.graph.nodes).meta["val"].fake_mode.shape_env
    del shapes.backed_var_to_val[next(s for s in shapes.backed_var_to_val if s.name == name)]
    with pytest.raises(NotSized, match="depend on data"):
        Sizes.of(module)
    with pytest.raises(NotRead, match="symbolic sizes"):
        read(module, training=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x @ y.t())[:, -1].reshape(-1, 1),
        lambda x, y: torch.cat([x, y], 0)[3:] / x.shape[0],
        lambda x, y: (x.view(x.shape[0], 2, 4).transpose(0, 1) + 1).flatten(1),
        lambda x, y: x.expand(3, x.shape[0], 8)[:, : x.shape[0] - 1].sum(1),
        lambda x, y: x.mean(0, keepdim=True) * y[-5:-1].sum(),
        lambda x, y: (x * y.shape[0] + y.shape[0] // 2, y.shape[0]),
    ],
)
def test_what_is_written_computes_the_same_at_every_size(function):
    module = traced(function, (12, 8), (17, 8))
    source = read(module, training=True)
    assert source.sizes.hints
    written = write(source, source.graph.copied())
    for a, b in ((12, 17), (6, 9), (30, 40)):
        arguments = torch.randn(a, 8), torch.randn(b, 8)
        expected = function(*arguments)
        found = written(*arguments)
        for ours, theirs in zip(*map(_tuple, (found, expected)), strict=True):
            torch.testing.assert_close(torch.as_tensor(ours), torch.as_tensor(theirs))


def _tuple(found):
    return found if isinstance(found, tuple) else (found,)


def test_a_slice_that_ends_inside_at_the_sizes_at_hand_alone_is_proved_or_kept():
    source, shapes = extents(lambda x: x[:, :15] * 2, (3, 20))
    ((_, extent),) = shapes.values()
    assert extent == 15
    assert source.sizes.generic.facts.least[f"+{next(iter(source.sizes.hints))}"] >= 15


def test_arguments_at_other_sizes_have_the_given_elements():
    module = traced(lambda x: x + 1, (11, 4), whole=True)
    x = torch.arange(44).reshape(11, 4)
    (name,) = Sizes.of(module).hints
    (less,) = arguments_at(module, [x], {name: 5})
    (more,) = arguments_at(module, [x], {name: 13})
    assert torch.equal(less, x[:5])
    assert torch.equal(more, torch.cat([x, x[:2]]))


def test_integers_are_written_as_computations():
    graph = fx.Graph()
    n, m = graph.placeholder("n"), graph.placeholder("m")
    nodes = {"+n": n, "+m": m}
    x = (sym("+n") * sym("+m") * 2 - 3 + (sym("+n") + 1) // 2) * sym("+n")
    graph.output(write_integer(graph, x, nodes.__getitem__))
    call = fx.GraphModule(nn.Module(), graph)
    for values in ((1, 1), (4, 7), (9, 2)):
        assert call(*values) == x.at(dict(zip(nodes, values, strict=True)))


class Pixels(nn.Module):
    """Attention over all pixels without a softmax."""

    def __init__(self, channels=32, inner=8):
        super().__init__()
        self.q, self.k, self.v = (nn.Conv2d(channels, inner, 1) for _ in range(3))

    def forward(self, x):
        n, _, h, w = x.shape
        q, k, v = (part(x).flatten(2) for part in (self.q, self.k, self.v))
        return (((q.transpose(1, 2) @ k) / (h * w)) @ v.transpose(1, 2)).reshape(n, h, w, -1)


def test_a_graph_with_symbolic_sizes_is_rewritten_and_trains_at_every_size():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Pixels()
    call = torch.compile(
        model, backend=backend, options={"then": "eager", "strict": True, "time": False}, dynamic=True
    )
    for shape in ((2, 32, 19, 12), (3, 32, 4, 7), (2, 32, 9, 9)):
        x = torch.randn(shape)
        found, expected = call(x), model(x)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        ours, theirs = (
            torch.autograd.grad(y.square().sum(), [*model.parameters()]) for y in (found, expected)
        )
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
    (part,) = report(model).parts  # no size led to another graph
    assert part.gain > 1.5
    assert part.way == "rewritten, compiled"


def test_a_result_that_is_wrong_at_other_sizes_is_refused():
    from workbench.torch.dynamo import Options, _Checked
    from workbench.torch.reports import Part, note

    right = traced(lambda x: x * x.shape[0], (12, 3))
    wrong = traced(lambda x: x * x.shape[0], (12, 3))
    node = next(n for n in wrong.graph.nodes if "mul" in str(n.target))
    node.args = (node.args[0], 12)
    wrong.recompile()
    number = note(Part())
    checked = _Checked(
        right, wrong, wrong.forward, Options(then="eager", time=False), number, Sizes.of(right)
    )
    x = torch.randn(12, 3)
    assert torch.equal(checked(x), x * 12)
    assert checked._chosen == right.forward
    assert "at s" in report().parts[number].failures[0]
