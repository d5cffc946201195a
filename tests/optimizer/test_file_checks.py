"""Comparison of a result's file with the original at several bindings."""

from tests.frontends.symbolic_models import linear
from workbench.optimizer.dynamic import open_model
from workbench.optimizer.file_checks import FILES, Checked, Files

SIZES = {"batch": 3, "sequence": 7}


def opened(given):
    opening = open_model(linear(), None).opening
    files = Files(given, opening.searched, opening.opened.table)
    sizes = opening.bindings()[0]
    return files, files.compare(sizes, opening.at_prices(opening.searched), 0)


def test_files_that_agree_are_compared_as_files():
    files, found = opened(linear())
    assert files.there
    assert (found.note, found.why, found.files) == (FILES, "", True)


def test_without_a_given_file_only_graphs_are_compared():
    files, found = opened(None)
    assert not files.there
    assert (found.note, found.why, found.files) == ("graphs compared", "", False)


def test_an_outcome_names_its_sizes_and_the_difference():
    assert str(Checked(SIZES, FILES)) == "batch=3, sequence=7 (files)"
    assert str(Checked(SIZES, "", "output 'y' differs")) == "batch=3, sequence=7 (FAILED: output 'y' differs)"
