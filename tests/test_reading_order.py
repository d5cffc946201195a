"""The page on where to read: its files are there, and the spine is no longer than it says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/reading-order.md").read_text(encoding="utf-8")

#: The limit on the lines of the spine: the page says "about eight thousand".
SPINE_LINES = 8_500


def spine():
    """Return the files of the table of the spine."""
    table = PAGE.split("## The spine")[1].split("##")[0]
    return re.findall(r"`([a-z_/]+\.py)`", table)


def test_the_spine_is_about_eight_thousand_lines():
    files = spine()
    assert len(files) == len(set(files)) > 20
    lines = sum(len((ROOT / "workbench" / f).read_text(encoding="utf-8").splitlines()) for f in files)
    assert 7_500 <= lines <= SPINE_LINES


def test_every_file_that_the_page_names_is_there():
    named = re.findall(r"`(?:workbench|tests)/[\w/]+\.py`", PAGE)
    made = {"`workbench/studies/experiments/growth.py`"}  # the page adds it
    assert len(named) > 8
    missing = [n for n in named if n not in made and not (ROOT / n.strip("`")).is_file()]
    assert not missing


def test_the_worked_study_is_python_of_about_a_hundred_lines():
    (study,) = re.findall(r'```text\n("""The growth study.*?)```', PAGE, re.DOTALL)
    compile(study, "growth.py", "exec")
    assert len(study.splitlines()) <= 110
