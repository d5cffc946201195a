import pytest

from workbench.saturation.encoding import Encoding
from workbench.saturation.expressions import Sym
from workbench.saturation.symbolic import NeverApplies, SymbolicTyping, SymType


def test_what_the_left_side_assumes_is_not_demanded_again():
    t = SymbolicTyping(Encoding(4))
    x, y = SymType("s_x_"), SymType("s_y_")
    t.require(t.rank(x) == 4, "")
    t.require(t.dim(x, -1) == t.dim(y, -1), "")
    t.assuming = False
    t.require(t.rank(x) == 4, "")
    t.require(t.dim(y, -1) == t.dim(x, -1), "")
    assert t.guards == []
    t.require(t.dim(y, -2) == 7, "")
    assert t.guards == ["(= (vec-get s_y_ 4) 7)"]
    with pytest.raises(NeverApplies):
        t.require(t.rank(x) == 3, "")


def test_broadcasting_with_itself_is_free():
    t = SymbolicTyping(Encoding(4), assuming=False)
    x = SymType("s_x_")
    assert t.text(t.broadcast(x, x)) == "s_x_"
    assert t.guards == []
    t.broadcast(x, SymType("s_y_"))
    assert len(t.guards) == 4


def test_constants_have_all_extents_and_the_element_type_given():
    t = SymbolicTyping(Encoding(4), assuming=False)
    x = SymType("s_x_")
    assert t.text(t.constant("float64", 2, 3)) == "(vec-of 11 2 1 1 2 3)"
    made = t.constant(t.get(x, 0), t.dim(x, -1))
    assert t.text(made) == "(vec-of (vec-get s_x_ 0) 1 1 1 1 (vec-get s_x_ 5))"
    assert t.guards == []
    t.constant("float32", Sym("n"))
    assert t.guards == ["(<= 1 n)"]
    with pytest.raises(NeverApplies, match="positive"):
        t.constant("float32", 0)
    with pytest.raises(NeverApplies, match="rank beyond"):
        t.constant("float32", 1, 1, 1, 1, 1)


def test_a_constant_of_a_shape_has_the_type_that_holds_the_shape():
    t = SymbolicTyping(Encoding(4))
    # On the left-hand side the vector is the constant's own type; elsewhere it may be another tensor's.
    assert t.text(t.constant_of_shape(Sym("a_d_"), Sym("a_s_"))) == "a_s_"
    t.assuming = False
    assert t.text(t.constant_of_shape(Sym("a_d_"), Sym("a_s_"))) == "a_s_"
    assert t.text(t.constant_of_shape("float32", Sym("a_s_"))) == "(vec-set a_s_ 0 1)"
    assert t.text(t.constant_of_shape("float32", (2, 3))) == "(vec-of 1 2 1 1 2 3)"
    assert t.guards == []


def test_element_types_without_zero_and_one_are_guarded_against():
    t = SymbolicTyping(Encoding(4), assuming=False)
    t.require_number(t.constant(Sym("d"), 2))
    assert t.guards == ["(!= 8 d)", "(!= 24 d)"]
    t.require_number(t.constant("int64", 2))
    with pytest.raises(NeverApplies):
        t.require_number(t.constant("float8e8m0", 2))
    t = SymbolicTyping(Encoding(4))
    t.require_float(SymType("s_x_"))
    t.assuming = False
    t.require_number(SymType("s_x_"))
    assert t.guards == []
