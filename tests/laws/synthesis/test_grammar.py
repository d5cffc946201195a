"""Grammars: operators with settings, operands with shapes, sizes, and messages for what is wrong."""

import pytest

from workbench.laws.synthesis.grammar import Grammar, GrammarError, known_to, read_grammar
from workbench.rules import rule_set


def test_a_line_gives_operators_with_settings_and_operands_of_a_kind():
    grammar = Grammar.of("matmul concat[axis=-1] slice[axis=-1, start=0, stop=n]", "matrix: 2, scalar: 1")
    assert [str(f) for f in grammar.forms] == ["matmul", "concat[axis=-1]", "slice[axis=-1, start=0, stop=n]"]
    assert grammar.types == {"x": ("n", "n"), "y": ("n", "n"), "s": ()}
    assert grammar.forms[2].values({"n": 5}) != grammar.forms[2].values({"n": 3})


def test_different_extents_are_different_numbers_under_each_assignment():
    grammar = Grammar.of("add", "image: 1, kernel: 1")
    assert len(grammar.sizes) == 2
    for sizes in grammar.sizes:
        assert len(set(sizes.values())) == len(sizes) == 5


def test_names_and_shapes_may_be_given_instead_of_kinds():
    grammar = Grammar.of("matmul", {"x y": "m k", "w": "k n"})
    assert grammar.types == {"x": ("m", "k"), "y": ("m", "k"), "w": ("k", "n")}


def test_operands_of_several_kinds_have_different_names():
    names = [o.name for o in Grammar.of("add", "matrices: 2, images: 2").operands]
    assert len(set(names)) == 4


def test_a_number_after_a_slash_is_the_number_of_operands():
    assert [f.arity for f in Grammar.of("concat[axis=-1]/3 concat[axis=-1]", "matrix: 1").forms] == [3, 2]


@pytest.mark.parametrize(
    ("operators", "operands", "said"),
    [
        ("matmull", "matrix: 1", "did you mean matmul"),
        ("relu[x]", "matrix: 1", "operator 'relu\\[x\\]'"),
        ("relu/2", "matrix: 1", "relu takes 1 operand, got 2"),
        ("concat[axis=k]", "matrix: 1", "no extent in concat"),
        ("", "matrix: 1", "must have operators"),
        ("relu", "", "must have operands"),
        ("relu", "matrx: 2", "did you mean matrix"),
        ("relu", "matrix: -1", "an extent of matrix must be a name or a positive number, got '-1'"),
    ],
)
def test_errors_name_the_part(operators, operands, said):
    with pytest.raises((GrammarError, LookupError), match=said):
        Grammar.of(operators, operands)


def test_a_file_is_read_and_a_wrong_one_is_refused(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text("operators: [add, relu]\noperands: {matrix: 2}\nsize: 2\nsizes: [{n: 4}]\n")
    grammar = read_grammar(file)
    assert (grammar.name, grammar.operators, grammar.sizes) == ("small", 2, ({"n": 4},))
    for text, said in [
        ("operator: [add]", "did you mean operators"),
        ("[1, 2]", "must have operators"),
        (
            "operators: [add]\noperands: {matrix: 2}\nsize: many",
            "small.yaml: size must be a whole number, got 'many'",
        ),
        ("operators: [add]\noperands: {matrix: 2}\nsizes: 2", "sizes must be a list of assignments, got 2"),
        ("{", "not a YAML file"),
    ]:
        file.write_text(text)
        with pytest.raises(GrammarError, match=said):
            read_grammar(file)


def test_an_operand_may_have_an_element_type_and_sizes_more_extents_than_operands():
    g = Grammar.of(
        "reshape[shape=(h, k)] quantize", "q: int8 m n, z: int8, s:", sizes=[{"m": 2, "n": 6, "h": 3, "k": 4}]
    )
    assert [(o.dtype, o.shape) for o in g.operands] == [
        ("int8", ("m", "n")),
        ("int8", ()),
        ("float32", ()),
    ]
    assert g.forms[0].values(g.sizes[0]) == ((3, 4),)


def test_rules_of_other_operators_and_of_files_left_out_are_not_known():
    grammar = Grammar.of("softmax[axis=-1] add", "matrix: 2")
    every = {r.name for r in known_to(grammar, rule_set("default"))}
    assert "softmax-of-shifted" in every
    fewer = known_to(grammar, rule_set("default"), without={"movement"})
    assert every > {r.name for r in fewer}
    assert "softmax-of-shifted" not in {r.name for r in fewer}
    assert {r.phase for r in fewer} == {"any"}
