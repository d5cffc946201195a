"""The model zoo, with the studies that need it: in a checkout's folder ``experiments/zoo``, not in the wheel."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path


def find_zoo() -> None:
    """Make the package ``zoo`` importable.

    It is in the folder that ``WORKBENCH_ZOO`` names, or in ``experiments`` next to the package or above the
    working folder. Raise FileNotFoundError if it is in none of them.
    """
    if "zoo" in sys.modules or find_spec("zoo") is not None:
        return
    here, package = Path.cwd(), Path(__file__).resolve().parents[1]
    named = os.environ.get("WORKBENCH_ZOO")
    folders = [Path(named)] if named else [f / "experiments" for f in (package.parent, here, *here.parents)]
    for folder in folders:
        if (folder / "zoo" / "__init__.py").is_file():
            sys.path.append(str(folder))
            return
    raise FileNotFoundError(
        f"the model zoo must be in {' or '.join(map(str, folders[:2]))}: it is in a clone of the repository, not in"
        " the wheel (run the study there, or name the folder that holds it in WORKBENCH_ZOO)"
    )
