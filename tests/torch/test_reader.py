import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional  # noqa: E402

from workbench.torch.reader import NotRead, is_random, read  # noqa: E402

pytestmark = pytest.mark.torch


def traced(function, *shapes):
    arguments = [torch.randn(s) for s in shapes]
    return make_fx(lambda *xs: function(*xs), tracing_mode="fake", pre_dispatch=True)(*arguments)


def targets(module):
    return [str(n.target) for n in module.graph.nodes if n.op == "call_function"]


def test_values_results_and_unknown_operators():
    source = read(traced(lambda x, y: (torch.cumsum(x @ y, 0) + 1, x), (3, 4), (4, 5)), training=True)
    assert source.graph.operators() == {"matmul": 1, "opaque": 1, "add": 1, "scalar": 1}
    assert source.unknown == {"aten.cumsum.default": "not modelled"}
    assert list(source.results) == ["result_0", "result_1"]
    assert source.effects == ()


def test_an_operator_with_several_results_is_kept_whole():
    source = read(traced(lambda x: torch.sort(x * 2)[0] + 1, (3, 4)), training=True)
    assert [n.op for n in source.graph.nodes].count("project") == 1


def test_an_operator_in_place_becomes_one_that_makes_a_new_tensor():
    module = traced(lambda x: (x * 2).relu_().add_(1), (3, 4))
    source = read(module, training=True)
    assert targets(module) == ["aten.mul.Tensor", "aten.relu.default", "aten.add.Tensor"]
    assert source.kept == {}


def later_read(x):
    y = x * 2
    y.add_(1)
    return y + x


def test_later_reads_are_of_the_new_tensor():
    source = read(traced(later_read, (3, 4)), training=True)
    assert source.graph.operators()["add"] == 2


def read_through_a_view(x):
    y = x * 2
    view = y[0]
    y.add_(1)
    return view


def into_an_argument(x):
    x.add_(1)
    return x * 2


@pytest.mark.parametrize("function", [read_through_a_view, into_an_argument])
def test_updates_of_shared_tensors_are_not_read(function):
    with pytest.raises(NotRead, match="updates"):
        read(traced(function, (3, 4)), training=True)


def test_a_draw_into_an_empty_tensor_is_kept_in_order():
    def stochastic_depth(x):
        mask = x.new_empty((3, 1)).bernoulli_(0.5)
        return functional.dropout(x, 0.5) * mask

    source = read(traced(stochastic_depth, (3, 4)), training=True)
    assert [str(n.target) for n in source.effects] == ["aten.bernoulli_.float", "aten.dropout.default"]


@pytest.mark.parametrize(
    ("p", "train", "expected"), [(0.5, True, True), (0.0, True, False), (0.5, False, False)]
)
def test_a_dropout_is_random_if_it_drops(p, train, expected):
    module = traced(lambda x: functional.dropout(x, p, train), (3, 4))
    assert any(map(is_random, module.graph.nodes)) == expected


def test_other_types_are_not_read():
    with pytest.raises(NotRead, match="complex64"):
        read(traced(lambda x: torch.fft.fft(x), (4,)), training=True)
