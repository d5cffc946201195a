"""Checks of arguments that several commands share."""

import pytest

from workbench.faces.cli.options import check_results, dimensions
from workbench.support.files import UnwritableOutput


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["N"], "must be NAME=VALUE"),
        (["N=0"], "a positive whole number, got N=0"),
        (["N=" + "9" * 5000], "must be NAME=VALUE"),
        (["N=9223372036854775808"], "must be below 2\\^63"),
        (["N=3", "N=4"], "must give N one value, got 3 and 4"),
    ],
)
def test_a_dimension_that_cannot_be_meant_is_refused(texts, complaint):
    with pytest.raises(ValueError, match=complaint):
        dimensions(texts)


def test_dimensions_may_be_repeated_with_one_value():
    assert dimensions(["N=3", "M=4", "N=3"]) == {"N": 3, "M": 4}
    assert dimensions([]) is None


def test_results_have_files_of_their_own_and_replace_no_input(tmp_path):
    given, one = tmp_path / "given", tmp_path / "one"
    given.write_text("kept")
    check_results([one, None], keep=[given])
    with pytest.raises(ValueError, match="must be written to different files"):
        check_results([one, tmp_path / "." / "one"])
    with pytest.raises(ValueError, match="must not replace a file that the command reads"):
        check_results([None, given], keep=[given])
    with pytest.raises(UnwritableOutput, match="does not exist"):
        check_results([tmp_path / "no" / "one"])


@pytest.mark.parametrize(
    "command",
    [
        ("optimize", "FILE", "--json", "FILE"),
        ("optimize", "FILE", "--report", "FILE"),
        ("search", "FILE", "--json", "FILE"),
        ("verify", "FILE", "--json", "FILE"),
        ("certify", "FILE", "FILE", "--json", "FILE"),
        ("certify", "FILE", "FILE", "--repro", "FILE"),
        ("extract", "FILE", "--json", "FILE"),
        ("synthesise", "FILE", "--journal", "FILE"),
        ("synthesise", "FILE", "--output", "FILE"),
    ],
)
def test_no_command_replaces_what_it_reads(run, tmp_path, command):
    file = tmp_path / "precious"
    file.write_text("kept")
    code, _, err = run(*(str(file) if part == "FILE" else part for part in command))
    assert code == 2
    assert "must not replace a file that the command reads" in err
    assert file.read_text() == "kept"
