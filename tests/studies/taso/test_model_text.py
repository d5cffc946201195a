"""TASO's text format: lines of numbers, and messages that name the faulty line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.frontends import ModelError
from workbench.studies.taso.model_text import (
    KINDS,
    NUMBERS,
    Record,
    format_records,
    parse_records,
    read_records,
)

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
