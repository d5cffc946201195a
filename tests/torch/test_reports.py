import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from workbench.torch.reports import Part, note, report  # noqa: E402

pytestmark = pytest.mark.torch


def test_a_record_names_laws_gain_place_and_what_was_refused():
    part = Part(
        modules=("encoder.0", "head"), training=True, operators=7, unknown={"aten.sort.default": "not modelled"},
        before=6.0, after=3.0, laws=("matmul-associates",), way="rewritten, eager", failures=("too far",),
    )  # fmt: skip
    text = str(part)
    for said in ("2.00×", "matmul-associates", "encoder.0, head", "aten.sort.default", "refused: too far"):
        assert said in text


def test_a_graph_that_is_handed_on_says_why_and_gains_nothing():
    part = Part(handed_on="symbolic sizes", before=6.0, after=3.0)
    assert "symbolic sizes" in str(part)
    assert part.gain == 1


def test_a_report_has_the_graphs_of_its_model():
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    module = torch.fx.symbolic_trace(model)
    number = note(Part.of(module, [*model.parameters()], True))
    note(number=number, way="rewritten, compiled")
    assert [p.way for p in report(model).parts] == ["rewritten, compiled"]
    assert report(other).parts == ()
    assert "no graph" in str(report(other))
    assert len(report().parts) >= 1
