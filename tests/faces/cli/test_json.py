"""The keys of `--json` are those of the page that documents them."""

import json
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "json.md"
KEYS = {
    name: re.findall(r"`([\w-]+)`", keys)
    for name, keys in re.findall(
        r"^\| `([^`]+)` \| [^|]+ \| (.*) \|$", PAGE.read_text().partition("Others")[0], re.M
    )
}
OPTIONS = {
    "rules": ["relu-twice"],
    "cost MODEL": ["--cost", "analytic"],
    "certify A B": ["-q"],
    "extract EGRAPH": ["-q"],
    "verify FILE": ["-q", "-j", 1],
    "optimize MODEL": ["--cost", "analytic", "--no-time", "-q"],
    "search MODEL": ["--cost", "analytic", "--budget", 3, "-q"],
}


@pytest.mark.parametrize("name", KEYS)
def test_a_file_has_the_keys_that_the_page_says(name, run, model, tmp_path):
    (tmp_path / "mine.rules").write_text("mine: relu(relu(x)) => relu(x)\n")
    node = {"op": "x", "children": [], "eclass": "0", "cost": 1}
    (tmp_path / "e.json").write_text(json.dumps({"nodes": {"a": node}, "root_eclasses": ["0"]}))
    files = {
        "MODEL": model,
        "A": model,
        "B": model,
        "EGRAPH": tmp_path / "e.json",
        "FILE": tmp_path / "mine.rules",
    }
    words = [files.get(word, word) for word in name.split()]
    code, out, err = run(*words, *OPTIONS.get(name, []), "--json", "-")
    assert code == 0, err
    figures = json.loads(out)
    assert list(figures[0] if isinstance(figures, list) else figures) == KEYS[name]
