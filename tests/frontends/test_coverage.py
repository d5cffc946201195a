import pytest

from workbench.frontends import Coverage, OperatorUse


def uses():
    return (
        *(OperatorUse("Conv", "", f"c{i}", "modelled") for i in range(3)),
        OperatorUse("Relu", "", "", "modelled"),
        OperatorUse("LRN", "", "n", "opaque", "not modelled"),
        OperatorUse("Conv", "", "c3", "opaque", "a convolution over 1 axes; two are modelled"),
        OperatorUse("FusedMatMul", "com.microsoft", "f", "opaque", "not modelled"),
        OperatorUse("Shape", "", "s", "constant"),
    )


def test_counts_and_fraction():
    coverage = Coverage(uses(), unused=2, notes=("a note",))
    assert coverage.modelled == {"Conv": 3, "Relu": 1}
    assert coverage.opaque == {"Conv": 1, "LRN": 1, "com.microsoft::FusedMatMul": 1}
    assert coverage.constant == {"Shape": 1}
    assert coverage.fraction == pytest.approx(4 / 7)
    assert coverage.reasons()["LRN", "not modelled"] == 1
    assert Coverage(()).fraction == 1.0


def test_the_text_says_how_much_and_why_not():
    text = repr(Coverage(uses(), unused=2, notes=("a note",)))
    assert (
        text.splitlines()[0] == "Coverage: 4 of 7 operators modelled (57.1%), 1 computed at import, 2 unused"
    )
    assert "modelled: Conv 3, Relu 1" in text
    assert "opaque: Conv 1 (a convolution over 1 axes; two are modelled)" in text
    assert "note: a note" in text


def test_the_text_stays_short():
    many = tuple(OperatorUse(f"Op{i}", "", "", "opaque", "not modelled") for i in range(50))
    text = repr(Coverage(many + uses()))
    assert len(text.splitlines()) <= 12
    assert "more; .frame() lists all" in text


def test_the_frame_has_a_row_per_operator_fate_and_reason():
    frame = Coverage(uses()).frame()
    assert list(frame.columns) == ["op_type", "domain", "fate", "reason", "nodes"]
    assert frame["nodes"].sum() == len(uses())
    assert frame.iloc[0].to_dict() == {
        "op_type": "Conv",
        "domain": "",
        "fate": "modelled",
        "reason": "",
        "nodes": 3,
    }
