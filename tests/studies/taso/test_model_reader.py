"""Models in TASO's text format become graphs: published models, every operator, and broken files."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.studies.taso.models import nameless, operators, read_back
from workbench.certification.inputs import random_inputs
from workbench.frontends import ModelError
from workbench.graph import GraphBuilder, evaluate
from workbench.studies.benchmarks import benchmark
from workbench.studies.taso.model_reader import (
    KINDS,
    NUMBERS,
    Record,
    import_taso_model,
    load_taso_model,
    parse_records,
    read_records,
)
from workbench.studies.taso.model_writer import format_records


@pytest.fixture
def load(tmp_path):
    """Load operators that are written as (id, type, operands, parameters)."""

    def loaded(*records):
        path = tmp_path / "net.model"
        path.write_text("".join(f"{i}\n{kind}\n{ops}\n{params}\n" for i, kind, ops, params in records))
        return load_taso_model(path)

    return loaded


X = (100, 0, "10:0", "1,4,6,6")
W = (101, 1, "11:0", "8,4,3,3")
CONV = "1,4,6,6,8,4,3,3,1,1,0,0,1,1"


# -- published models ---------------------------------------------------------------------------
def without_relus_of_pools(graph):
    """Return a graph without the activations of its average pools."""
    b = GraphBuilder(graph.name)
    b.weights = dict(graph.weights)
    place = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            place[i] = b.input(node.attr("name"), node.type.shape)
        elif node.op == "relu" and graph.nodes[node.inputs[0]].op == "avgpool":
            place[i] = place[node.inputs[0]]
        else:
            place[i] = b.apply(node.op, [place[j] for j in node.inputs], node.attrs)
    return b.graph([(name, place[i]) for name, i in graph.outputs])


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "network", "idle"),
    [("squeezenet", "squeezenet", 31), ("vgg", "vgg19", 24), ("inceptionv3", "inceptionv3", 14)],
)
def test_a_published_file_is_the_network_that_is_built_from_code(shared_data, tmp_path, file, network, idle):
    found = import_taso_model(shared_data / "tensat" / "models" / f"{file}.model")
    loaded, built = found.graph, benchmark(network)
    if network == "inceptionv3":
        # The file has a relu in the pools of stride 1; Tensat's reader, and so its network, omits it.
        assert loaded.operators()["relu"] == 7
        assert "relu" not in built.operators()
        loaded = without_relus_of_pools(loaded)
    assert nameless(loaded) == nameless(built)
    # The structural hash includes names, which the format does not store.
    named = replace(loaded, outputs=tuple(zip(["y"], loaded.output_ids, strict=True)))
    assert read_back(named, tmp_path).structural_hash() == read_back(built, tmp_path).structural_hash()
    assert found.coverage.fraction == 1
    assert found.coverage.opaque == {}
    assert any(note.startswith(f"{idle} weights") for note in found.coverage.notes)


@pytest.mark.shared
def test_every_published_file_is_read_back_as_it_was_written(shared_data, tmp_path):
    files = sorted((shared_data / "tensat" / "models").glob("*.model"))
    assert len(files) == 3
    for file in files:
        graph = load_taso_model(file)
        assert read_back(graph, tmp_path).structural_hash() == graph.structural_hash()


# -- operators ------------------------------------------------------------------------------------
def test_a_convolution_has_tasos_pads_and_the_groups_of_its_shapes(load):
    graph = load(X, (101, 1, "11:0", "8,2,3,3"), (102, 3, "100:0,101:0", "1,4,6,6,8,2,3,3,2,2,0,2,1,1"))
    (conv,) = [n for n in graph.nodes if n.op == "conv2d"]
    # Pads are equal on both sides, not at the end as in ONNX's SAME_UPPER.
    assert conv.named_attrs() == {
        "strides": (2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1), "groups": 2, "act": "relu",
    }  # fmt: skip
    assert conv.type.shape == (1, 8, 3, 3)
    assert list(graph.input_types) == ["data"]
    assert list(graph.output_types) == ["output"]


def test_a_pool_has_its_activation_apart_and_needs_no_kernel(load):
    pool = (102, 7, "100:0,101:0", "1,4,6,6,7,3,3,2,2,1,2,0,0")
    graph = load(X, (101, 1, "11:0", "4,1,3,3"), pool)
    assert operators(graph) == ["avgpool", "relu"]
    assert graph.nodes[1].attr("include_pad") == 0
    assert graph.weights == {}
    assert load(X, (102, 6, "100:0", "1,4,6,6,6,3,3,2,2,1,0,0,0")).operators() == {"maxpool": 1}


def test_activations_sums_products_and_dropout(load):
    shape = "1,4,6,6"
    graph = load(
        X,
        (101, 8, "100:0", shape), (102, 9, "101:0", "1"), (103, 10, "102:0", shape),
        (104, 16, "103:0,100:0", shape), (105, 17, "104:0,104:0", shape), (106, 4, "105:0", shape),
    )  # fmt: skip
    assert operators(graph) == ["relu", "sigmoid", "tanh", "add", "mul", "identity"]
    assert graph.nodes[5].inputs == (4, 4)


def test_axes_count_from_the_first_and_a_split_says_its_sizes(load):
    graph = load(
        X,
        (101, 13, "100:0", "1,1,3"),
        (102, 12, "101:1,101:0,100:0", "1"),
        (103, 14, "102:0", "8,36"),
        (104, 15, "103:0", "2,1,0,1"),
        (105, 15, "103:0", "1,0,1"),
    )
    first, second, joined = graph.nodes[1:4]
    assert (first.attrs, second.attrs) == ((-3, 0, 1, 1), (-3, 1, 4, 1))
    assert joined.inputs == (2, 1, 0)
    assert joined.attrs == (-3,)
    # TASO's own writer omits the rank of a transpose: both forms give the same operator.
    assert operators(graph) == ["slice", "slice", "concat", "reshape", "transpose"]
    assert graph.nodes[-1].attrs == ((1, 0),)
    assert [t.shape for t in graph.output_types.values()] == [(36, 8), (36, 8)]


def test_a_product_holds_its_activation(load):
    rows = (100, 0, "10:0", "2,3,4"), (101, 1, "11:0", "2,4,5")
    graph = load(*rows, (102, 18, "100:0,101:0", "3,3"))
    assert graph.nodes[2].attrs == ("tanh",)
    assert graph.nodes[2].type.shape == (2, 3, 5)


def test_a_kernel_grows_around_its_middle(load):
    graph = load(
        X, (101, 1, "11:0", "8,4,1,3"), (102, 1, "11:0", "1,1,3,6"),
        (103, 20, "101:0,102:0", "8,4,1,3"), (104, 3, "100:0,103:0", "1,4,6,6,8,4,3,6,1,1,1,0,0,0"),
    )  # fmt: skip
    (enlarged,) = [n for n in graph.nodes if n.op == "enlarge"]
    assert enlarged.attrs == ((1, 1, 1, 2),)
    assert len(graph.weights) == 1


def test_merged_groups_are_counted_by_the_convolution(load):
    graph = load(
        (100, 0, "10:0", "1,8,6,6"), (101, 1, "11:0", "8,1,3,3"),
        (102, 21, "101:0", "2"), (103, 21, "102:0", "2"),
        (104, 3, "100:0,103:0", "1,8,6,6,8,4,3,3,1,1,0,0,1,1"),
    )  # fmt: skip
    assert [n.named_attrs() for n in graph.nodes if n.op == "merge_gconv"] == [
        {"count": 2, "groups": 8},
        {"count": 2, "groups": 4},
    ]
    # Merging keeps the values: they equal those of the grouped convolution with the original weight.
    (conv,) = [n for n in graph.nodes if n.op == "conv2d"]
    assert conv.attr("groups") == 2
    b = GraphBuilder()
    x = b.input("data", (1, 8, 6, 6))
    grouped = b.op("conv2d", x, b.weight((8, 1, 3, 3)), pads=(1, 1, 1, 1), groups=8)
    inputs = random_inputs(graph, 0, 0)
    np.testing.assert_allclose(
        evaluate(graph, inputs)["output"],
        evaluate(b.graph({"y": grouped}), inputs)["y"],
        rtol=1e-5,
        atol=1e-6,
    )


def test_a_variance_is_positive_and_the_same_every_time(load):
    vectors = [(k, 1, "11:0", "4") for k in (101, 102, 103, 104)]
    graphs = [load(X, *vectors, (105, 11, "100:0,101:0,102:0,103:0,104:0", "1,4,6,6")) for _ in range(2)]
    values = [graph.weights["w3"].value() for graph in graphs]
    assert values[0].dtype == np.float32
    assert (values[0] >= 0.5).all()
    assert len(set(values[0].tolist())) == 4
    np.testing.assert_array_equal(*values)
    assert graphs[0].weights["w0"].data is None
    assert graphs[0].nodes[-1].attr("eps") == 1e-5


def test_outputs_are_what_nothing_reads_and_inputs_need_no_reader(load):
    graph = load(
        X, (101, 0, "10:0", "2,2"), (102, 8, "100:0", "1,4,6,6"), (103, 10, "102:0", "1,4,6,6"),
        (104, 13, "100:0", "0,1"), (105, 9, "102:0", "0"),
    )  # fmt: skip
    assert list(graph.input_types) == ["data", "data_1"]
    assert [graph.nodes[i].op for i in graph.output_ids] == ["tanh", "slice", "sigmoid"]
    assert list(graph.output_types) == ["output", "output_1", "output_2"]


def test_what_is_left_over_of_a_split_is_not_an_output_and_noted(tmp_path):
    path = tmp_path / "net.model"
    path.write_text("100\n0\n10:0\n2,9\n101\n13\n100:0\n1,2,3,4\n102\n8\n101:1\n2,3\n")
    found = import_taso_model(path)
    assert [found.graph.nodes[i].op for i in found.graph.output_ids] == ["relu"]
    assert found.graph.operators() == {"slice": 1, "relu": 1}
    assert any(note.startswith("2 unread parts of splits") for note in found.coverage.notes)


# -- invalid operators ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("record", "line", "message"),
    [
        ((102, 3, "100:0", CONV), 11, "must have 2 operands, got 1"),
        ((102, 3, "100:0,101:0", "1,4,6,6"), 12, "14 parameters (n, c, h, w, o, i, kh, kw, stride h"),
        (
            (102, 3, "100:0,101:0", "1,4,6,7" + CONV[7:]),
            12,
            "the input must be (1, 4, 6, 6), got (1, 4, 6, 7)",
        ),
        (
            (102, 3, "100:0,101:0", CONV.replace("8,4,3,3", "8,4,5,5")),
            12,
            "the weight must be (8, 4, 3, 3), got (8, 4, 5, 5)",
        ),
        ((102, 3, "100:0,101:0", CONV[:-3] + "2,2"), 12, "the padding (same) must be (1, 1), got (2, 2)"),
        ((102, 3, "100:0,101:0", CONV[:-11] + "0,1,0,0,1,1"), 12, "kernels and strides must be positive"),
        (
            (102, 3, "100:0,101:0", CONV[:-7] + "2,0,1,1"),
            12,
            "the padding must be one of 0 same, 1 valid, got 2",
        ),
        ((102, 3, "100:0,101:0", CONV[:-5] + "7,1,1"), 12, "the activation must be one of 0 none, 1 sigmoid"),
        ((102, 3, "101:0,100:0", CONV), 12, "the input must be (8, 4, 3, 3), got (1, 4, 6, 6)"),
        ((102, 8, "100:0", "1,4"), 12, "the first operand must be (1, 4, 6, 6), got (1, 4)"),
        ((102, 9, "100:0", ""), 12, "1 parameters (in place), got 0"),
        ((102, 12, "100:0,101:0", "1"), 12, "operator 102 (concat): concat: extents differ off the axis"),
        ((102, 12, "100:0", "4"), 12, "the axis must be from 0 to 3, got 4"),
        ((102, 12, "", "1"), 11, "must have 1 to 65536 operands, got 0"),
        ((102, 13, "100:0", "1"), 12, "parameters must be an axis and the sizes of parts, got (1,)"),
        (
            (102, 13, "100:0", "1,2,3"),
            12,
            "sizes must be positive and add up to axis -3 of float32[1, 4, 6, 6], got [2, 3]",
        ),
        (
            (102, 13, "100:0", "1,5,-1"),
            12,
            "sizes must be positive and add up to axis -3 of float32[1, 4, 6, 6], got [5, -1]",
        ),
        ((102, 14, "100:0", "1,-1"), 12, "extents must be positive, got (1, -1)"),
        ((102, 14, "100:0", "1,4"), 12, "does not reshape to"),
        ((102, 15, "100:0", "4,0,1,2,2,1"), 12, "parameters must be the rank, a permutation and a flag"),
        ((102, 15, "100:0", "3,0,1,2,3,1"), 12, "the number of axes must be (4,), got (3,)"),
        ((102, 15, "100:0", ""), 12, "parameters must be the rank, a permutation"),
        ((102, 16, "100:0,101:0", "1,4,6,6"), 12, "does not broadcast with"),
        ((102, 18, "100:0,101:0", "0,4"), 12, "matmul: inner extents differ"),
        ((102, 18, "100:0,100:0", "0,2"), 12, "the number of axes must be (4,), got (2,)"),
        (
            (102, 11, "100:0,101:0,101:0,101:0,101:0", "1,4,6,6"),
            12,
            "scale, bias, mean and variance must be [C]",
        ),
        ((102, 20, "100:0,101:0", "1,4,6,6"), 12, "a kernel (1, 4, 6, 6) cannot grow"),
        ((102, 21, "101:0", "2"), 9, "merged groups must be read only as the weight of a convolution"),
        ((102, 21, "101:0", "0"), 12, "0 groups of a weight (8, 4, 3, 3) cannot be merged"),
        ((102, 21, "101:0", "9" * 18), 12, "elements"),
        ((102, 1, "11:0", "9" * 18), 12, "elements"),
        ((102, 1, "11:0", "3,0"), 12, "extents must be positive, got (3, 0)"),
        ((102, 7, "100:0", "1,4,6,6,7,9,9,1,1,1,0,0,0"), 12, "the window exceeds its input"),
    ],
)
def test_an_operator_that_does_not_fit_is_named_with_its_line(load, record, line, message):
    with pytest.raises(ModelError) as raised:
        load(X, W, record, (103, 8, "102:0", "1")) if record[1] == 1 else load(X, W, record)
    assert f"net.model, line {line}: operator 102 (" in str(raised.value)
    assert message in str(raised.value)


def test_merged_groups_that_another_operator_reads_are_refused(load):
    with pytest.raises(
        ModelError, match=r"line 15: operator 103 \(relu\): reads operator 102: merged groups"
    ):
        load(X, W, (102, 21, "101:0", "2"), (103, 8, "102:0", "8,8,3,3"))


def test_a_file_that_computes_nothing_is_refused(load):
    with pytest.raises(ModelError, match="has no operator that computes anything"):
        load(X, W)


WHOLE = """\
100 0 10:0 1,4,6,6
101 1 11:0 8,2,3,3
102 3 100:0,101:0 1,4,6,6,8,2,3,3,1,1,0,2,1,1
103 13 102:0 1,3,5
104 12 103:1,103:0 1
105 7 104:0 1,8,6,6,7,3,3,2,2,1,1,0,0
106 14 105:0 8,4
107 15 106:0 2,1,0,1
108 18 106:0,107:0 2,2
109 21 101:0 2
110 3 100:0,109:0 1,4,6,6,8,4,3,3,1,1,0,0,1,1
"""


@pytest.mark.slow
@settings(max_examples=400)
@given(st.data())
def test_a_model_with_any_change_is_loaded_or_refused_in_words(tmp_path_factory, data):
    fields = [line.split(" ") for line in WHOLE.splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        record = data.draw(st.sampled_from(fields))
        at = data.draw(st.integers(0, 3))
        parts = record[at].split(",")
        k = data.draw(st.integers(0, len(parts) - 1))
        parts[k] = data.draw(
            st.one_of(
                st.integers(-3, 24).map(str),
                st.integers(99, 112).map(lambda n: f"{n}:{n % 3}"),
                st.sampled_from(["", "999999999999999999", "0,0", "1:1:1"]),
            )
        )
        record[at] = ",".join(parts)
    path = tmp_path_factory.mktemp("taso") / "net.model"
    path.write_text("".join("\n".join(record) + "\n" for record in fields))
    refused = ""
    try:
        graph = load_taso_model(path)
    except ModelError as error:
        refused = str(error)
    assert refused.startswith(str(path)) if refused else graph.outputs


# -- lines of numbers, and messages that name the faulty line ---------------------------------------------
TEXT = """\
100
0
10:0
1,3,8,8
101
1
11:0
4,3,3,3
102
3
100:0,101:0
1,3,8,8,4,3,3,3,1,1,0,2,1,1
"""


def edited(line, text):
    """Return the text with one line in another form."""
    lines = TEXT.splitlines()
    lines[line - 1] = text
    return "\n".join(lines)


def test_four_lines_are_an_operator():
    x, w, y = parse_records(TEXT, "net.model")
    assert x == Record(100, "input", ((10, 0),), (1, 3, 8, 8), 1)
    assert w == Record(101, "weight", ((11, 0),), (4, 3, 3, 3), 5)
    assert y == Record(102, "conv2d", ((100, 0), (101, 0)), (1, 3, 8, 8, 4, 3, 3, 3, 1, 1, 0, 2, 1, 1), 9)
    assert format_records([x, w, y]) == TEXT


def test_a_scalar_has_no_extents_and_an_end_may_have_empty_lines():
    scalar = TEXT + "103\n1\n11:0\n\n"
    assert parse_records(scalar, "net.model")[-1] == Record(103, "weight", ((11, 0),), (), 13)
    assert parse_records(scalar + "\n" * 7, "net.model") == parse_records(scalar, "net.model")
    assert parse_records(TEXT.replace("\n", "\r\n") + "\n\n", "net.model") == parse_records(TEXT, "net.model")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (edited(1, "1OO"), 1, "the id of an operator must be a whole number, got '1OO'"),
        (edited(1, "10"), 1, "ids of operators must be larger than 19, got 10"),
        (edited(5, "100"), 5, "operator 100 is already in line 1"),
        (edited(10, "conv"), 10, "the type of operator 102 must be a whole number, got 'conv'"),
        (edited(10, "5"), 10, "the type of operator 102 must be one of 0 input, 1 weight, 3 conv2d"),
        (edited(10, ""), 10, "the type of operator 102 must be a whole number, got ''"),
        (
            edited(11, "100,101"),
            11,
            "an operand of operator 102 must be written id:result, as in 100:0, got '100'",
        ),
        (edited(11, "100:0,"), 11, "got ''"),
        (edited(11, "100:0,110:0"), 11, "(conv2d) reads operator 110, which does not come before it"),
        (edited(11, "100:0,102:0"), 11, "reads operator 102, which does not come before it"),
        (edited(11, "10:0,101:0"), 11, "10, which represents the data of inputs and weights"),
        (edited(11, "100:1,101:0"), 11, "reads result 1 of operator 100 (input), which has 1"),
        (edited(7, "100:0"), 7, "operator 101 (weight) must not read other operators"),
        (edited(12, "1,3,8,eight"), 12, "a parameter of operator 102 must be a whole number, got 'eight'"),
        (edited(12, "9" * 5000), 12, "a parameter of operator 102 must be a whole number, got '9999"),
        ("\n".join(TEXT.splitlines()[:11]), 12, "the file ends before the parameters of operator 102"),
        ("\n".join(TEXT.splitlines()[:9]), 10, "the file ends before the type of operator 102"),
    ],
)
def test_a_broken_line_is_named(text, line, message):
    with pytest.raises(ModelError) as raised:
        parse_records(text, "net.model")
    assert str(raised.value).startswith(f"net.model, line {line}: ")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"\n \n\n", "the file is empty"),
        (
            b"100\n0\n\x08\xff\n",
            "line 3: not text in TASO's format (try the extension .onnx for an ONNX model)",
        ),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path, data, message):
    path = tmp_path / "net.model"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"net\.model") as raised:
        read_records(path)
    assert message in str(raised.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such model file"):
        read_records(tmp_path / "net.model")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_records(tmp_path)


def test_every_number_has_a_name_of_its_own():
    assert {NUMBERS[name]: name for name in NUMBERS} == KINDS


@st.composite
def files(draw):
    """Draw operators that read earlier ones."""
    records = []
    for k in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(sorted(NUMBERS)))
        earlier = [(r.id, i) for r in records for i in range(len(r.params) - 1 if r.kind == "split" else 1)]
        operands = draw(st.lists(st.sampled_from(earlier), max_size=3)) if earlier else []
        if kind in ("input", "weight"):
            operands = [(draw(st.integers(0, 19)), 0)]
        params = draw(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=5))
        records.append(Record(100 + 3 * k, kind, tuple(operands), tuple(params), 4 * k + 1))
    return records


@pytest.mark.slow
@given(files())
def test_what_is_written_is_read(records):
    assert parse_records(format_records(records), "net.model") == records


@settings(max_examples=300)
@given(st.data())
def test_a_text_with_any_change_is_read_or_its_line_is_named(data):
    lines = TEXT.splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    change = data.draw(st.sampled_from(["drop", "repeat", "replace"]))
    if change == "drop":
        del lines[at]
    elif change == "repeat":
        lines.insert(at, lines[at])
    else:
        lines[at] = data.draw(st.text("0123456789:,-. \nx", max_size=12))
    refused = "net.model: "
    try:
        parse_records("\n".join(lines), "net.model")
    except ModelError as error:
        refused = str(error)
    assert refused.startswith("net.model")
