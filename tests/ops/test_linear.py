"""Einstein sums as the operators that they are read as, against numpy's."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from workbench.frontends import import_onnx
from workbench.graph import evaluate
from workbench.ops.linear import equation
from workbench.ops.onnx_form import NotModelled

CASES = [
    ("ij->ji", [(2, 3)], ["transpose"]),
    ("ij->", [(2, 3)], ["reduce_sum"]),
    ("ijk->ki", [(2, 3, 4)], ["reduce_sum", "transpose"]),
    ("ij,jk->ik", [(2, 3), (3, 4)], ["matmul"]),
    ("ij,jk", [(2, 3), (3, 4)], ["matmul"]),
    ("ij,kj->ik", [(2, 3), (4, 3)], ["matmul", "transpose"]),
    ("ij,jk->ki", [(2, 3), (3, 4)], ["matmul", "transpose"]),
    ("bsd,dhk->bshk", [(2, 5, 6), (6, 3, 4)], ["matmul", "reshape", "reshape"]),
    ("bqhd,bkhd->bhqk", [(2, 5, 3, 4), (2, 7, 3, 4)], ["matmul", "transpose", "transpose"]),
    ("bhqk,bkhd->bqhd", [(2, 3, 5, 7), (2, 7, 3, 4)], ["matmul", "transpose", "transpose"]),
    ("bshk,hkd->bsd", [(2, 5, 3, 4), (3, 4, 6)], ["matmul", "reshape", "reshape"]),
    ("i,j->ij", [(2,), (3,)], ["mul", "reshape"]),
    ("ij,ij->ij", [(2, 3), (2, 3)], ["mul"]),
    ("ij,j->ij", [(2, 3), (3,)], ["mul"]),
    ("ij,i->ji", [(2, 3), (2,)], ["mul", "transpose"]),
    ("i,i->", [(3,), (3,)], ["matmul", "reshape", "reshape", "reshape"]),
    ("bi,bi->b", [(2, 3), (2, 3)], ["matmul", "reshape", "reshape", "reshape"]),
    ("ijl,jkm->ik", [(2, 3, 4), (3, 5, 6)], ["matmul", "reduce_sum", "reduce_sum"]),
    ("bij,j->bi", [(2, 3, 4), (4,)], ["matmul", "reshape", "reshape"]),
    ("...ij,...jk->...ik", [(2, 5, 3, 4), (2, 5, 4, 6)], ["matmul"]),
    ("...ij,jk", [(2, 5, 3, 4), (4, 6)], ["matmul"]),
    ("i...->...i", [(2, 3, 4)], ["transpose"]),
]  # fmt: skip


def model(text, shapes, out):
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, s) for i, s in enumerate(shapes)]
    node = helper.make_node("Einsum", [v.name for v in inputs], ["y"], equation=text)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, out)
    graph = helper.make_graph([node], "einsum", inputs, [result])
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(found)
    return found


@pytest.mark.parametrize(("text", "shapes", "operators"), CASES, ids=[c[0] for c in CASES])
def test_an_einsum_is_what_numpy_computes(text, shapes, operators):
    random = np.random.default_rng(0)
    given = [random.standard_normal(s).astype(np.float32) for s in shapes]
    expected = np.einsum(text, *given)
    imported = import_onnx(model(text, shapes, expected.shape))
    assert not imported.coverage.opaque
    found = evaluate(imported.graph, {f"x{i}": v for i, v in enumerate(given)})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert sorted(n.op for n in imported.graph.nodes if n.op != "input") == operators


@pytest.mark.parametrize(
    ("text", "shapes", "out"),
    [
        ("ii->i", [(3, 3)], (3,)),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], (2, 5)),
        ("ij,jk->ik", [(2, 1), (3, 4)], (2, 4)),
        ("...i->i", [(2, 3)], (3,)),
    ],
)
def test_another_einsum_stays_as_it_is(text, shapes, out):
    assert list(import_onnx(model(text, shapes, out)).coverage.opaque) == ["Einsum"]


@pytest.mark.parametrize("text", ["ij,jk->il", "ij->jj", "i1->i", "ij,j,k->i", "i..j->ij", "ijk->ij"])
def test_a_wrong_equation_is_refused(text):
    with pytest.raises(NotModelled):
        equation(text, [2] * (text.count(",") + 1 if text != "ij,j,k->i" else 2))
