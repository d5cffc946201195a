import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional  # noqa: E402

from workbench.torch.reader import NotRead, read  # noqa: E402
from workbench.torch.writer import write  # noqa: E402

pytestmark = pytest.mark.torch


def reading(function, *shapes):
    torch.manual_seed(0)
    arguments = [torch.randn(s) for s in shapes]
    module = make_fx(lambda *xs: function(*xs), tracing_mode="fake", pre_dispatch=True)(*arguments)
    return read(module, training=True), arguments


def targets(module):
    return [str(n.target) for n in module.graph.nodes if n.op == "call_function"]


def model(x, w, b):
    y = functional.linear(x, w, b).relu()
    return functional.dropout(y, 0.5) + torch.cumsum(y, 0), y.split(2, -1)[0]


def test_a_graph_that_is_not_rewritten_is_the_same_operator_by_operator():
    source, arguments = reading(model, (3, 4), (6, 4), (6,))
    written = write(source, source.graph)
    assert set(targets(written)) == set(targets(source.module))
    for function in (written, source.module):
        torch.manual_seed(1)
        found = function(*arguments)
        if function is written:
            ours = found
    assert all(torch.equal(a, b) for a, b in zip(ours, found, strict=True))


def test_new_values_are_built_around_what_stays():
    source, arguments = reading(lambda x, w, v: torch.cumsum(x @ w @ v, 0) * 2, (30, 4), (4, 20), (20, 4))

    def associated(builder, _, node, operands):
        inner = source.graph.nodes[node.inputs[0]] if node.inputs else None
        if node.op == "matmul" and inner.op == "matmul":
            left, right = builder.nodes[operands[0]].inputs
            return builder.op("matmul", left, builder.op("matmul", right, operands[1]))
        return None

    graph = source.graph.copied(associated)
    written = write(source, graph)
    assert "aten.cumsum.default" in targets(written)
    torch.testing.assert_close(written(*arguments), source.module(*arguments))


def test_constants_are_made_where_the_arguments_are():
    source, arguments = reading(lambda x: x.cos(), (3, 4))

    def doubled(builder, _, node, operands):
        if node.op != "cos":
            return None
        number = builder.op("scalar", value=2.0, dtype="float32")
        return builder.op("mul", builder.op("cos", *operands), number)

    written = write(source, source.graph.copied(doubled))
    torch.testing.assert_close(written(*arguments), 2 * arguments[0].cos())


def test_constants_of_sixteen_bits_keep_their_type():
    from workbench.torch.writer import constant

    found = constant(op="scalar", attrs=(("value", 0.5), ("dtype", "bfloat16")), like=torch.device("cpu"))
    assert (found.dtype, found.item()) == (torch.bfloat16, 0.5)


def test_effects_keep_their_order_or_nothing_is_written():
    def two(x):
        return functional.dropout(x, 0.5), functional.dropout(x * 2, 0.25)

    source, _ = reading(two, (3, 4))
    assert [n.args[1] for n in write(source, source.graph).graph.nodes if "dropout" in str(n.target)] == [
        0.5,
        0.25,
    ]
    first, second = (i for i, n in enumerate(source.graph.nodes) if n.op == "opaque")

    def crossed(builder, i, node, operands):
        return builder.apply("opaque", [second_value(builder)], node.attrs) if i == first else None

    def second_value(builder):
        x = builder.inputs[0]
        twice = builder.op("mul", x, builder.op("scalar", value=2.0, dtype="float32"))
        return builder.apply("opaque", [twice], source.graph.nodes[second].attrs)

    with pytest.raises(NotRead, match="order"):
        write(source, source.graph.copied(crossed))
