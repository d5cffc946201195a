"""``workbench why-not``: why a term is not in the e-graph of a model."""


def test_a_term_of_a_model_is_asked_for(run, model, tmp_path):
    rules = tmp_path / "mine.rules"
    rules.write_text("turn: add(x, y) => add(y, x) where dim(x, -1) = 3\n")
    code, out, err = run("why-not", model, "add(matmul(x, v), matmul(x, w))", "--rules", rules, "-q")
    assert code == 0, err
    assert "a guard said no" in out
    assert "dim(x, -1) = 3 does not hold: 16 and 3" in out


def test_two_terms_are_explained(run, model, tmp_path):
    rules = tmp_path / "mine.rules"
    rules.write_text("turn: add(x, y) => add(y, x)\n")
    code, out, err = run(
        "why-not", model, "add(matmul(x, v), matmul(x, w))", "--explain", "y", "--rules", rules, "-q"
    )
    assert code == 0, err
    assert "by turn" in out


def test_a_rule_is_asked_for_by_name_and_merges_are_limited(run, model):
    code, out, _ = run("why-not", model, "merge-matmuls", "--k-multi", 0, "-q")
    assert code == 0
    assert "k_multi" in out


def test_an_unknown_name_is_bad_input(run, model):
    code, _, err = run("why-not", model, "relu(nothing)", "-q")
    assert code == 2
    assert "must be an input" in err


def test_a_model_file_that_is_missing_is_not_read_as_a_term(run, model):
    code, _, err = run("why-not", model, "nowhere.onnx", "-q")
    assert code == 2
    assert "no such file: nowhere.onnx" in err
