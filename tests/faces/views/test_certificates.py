"""Certificates in words."""

from dataclasses import replace

import pytest

import workbench
from workbench.faces.views.certificates import certificate_lead, certificate_words


@pytest.fixture(scope="module")
def certificate():
    return workbench.optimize(workbench.benchmark("bert", layers=1), cost="analytic", time=False).certificate


def test_what_was_compared_and_how_is_said(certificate):
    words = dict(certificate_words(certificate))
    assert "3 random inputs in float64, seed 0" in words["rewritten parts"]
    assert "at most 1e-09 is allowed" in words["rewritten parts"]
    assert words["whole models"].startswith("both ran once as saved")
    assert "not a proof for all inputs" in words["what it means"]
    assert "computes what the original computes" in certificate_lead(certificate)


def test_a_failure_says_why_and_that_the_original_stays(certificate):
    failed = replace(certificate, passed=False, reason="output 'y' differs")
    assert certificate_lead(failed) == "The certificate failed: output 'y' differs. The original stays."


def test_rules_that_are_not_proved_are_not_called_proved(certificate):
    tested = replace(certificate, rules={"a": "proved", "b": "tested"})
    assert "proved for all inputs" not in dict(certificate_words(tested))["what it means"]
    proved = replace(certificate, rules={"a": "proved"})
    assert "Every rule that fired is proved" in dict(certificate_words(proved))["what it means"]
    both = replace(certificate, rules={"a": "theorem", "b": "proved"})
    assert "Every rule that fired is proved" in dict(certificate_words(both))["what it means"]
    assert both.rules_line() == "2 rules fired: 1 proved, 1 theorem"
    theorems = replace(certificate, rules={"a": "theorem", "b": "theorem"})
    assert "Every rule behind this result is a theorem" in dict(certificate_words(theorems))["what it means"]
    assert theorems.rules_line() == "2 rules fired: 2 theorems"


def test_models_that_did_not_run_are_not_said_to_have_run(certificate):
    words = dict(certificate_words(replace(certificate, whole_ran=False, whole="too large")))
    assert words["whole models"] == "not run: too large"
