"""Execute the notebooks in place, so that outputs can be committed: python docs/execute_notebooks.py [NN …].

Outputs are kept as a reader without a kernel sees them: no states of widgets, nothing of the standard error.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import papermill

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
#: The largest size of a committed notebook in bytes.
LARGEST = 1_000_000


def cleaned(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook without what differs from run to run and is of no use to a reader."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook["metadata"] = {"kernelspec": kernel, "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = f"cell-{number:02}"
        tags = cell["metadata"].get("tags", [])
        cell["metadata"] = {"tags": tags} if tags else {}
        if cell["cell_type"] != "code":
            continue
        outputs: list[dict[str, Any]] = []
        for output in cell["outputs"]:
            data = output.get("data", {})
            # The state of a widget is not saved: its static face is shown instead.
            data.pop("application/vnd.jupyter.widget-view+json", None)
            if output.get("name") == "stderr" or (data and not any(map("".join, data.values()))):
                continue
            for kind in data.keys() & {"text/html", "text/plain"}:
                data[kind] = steady("".join(data[kind])).splitlines(keepends=True)
            if outputs and outputs[-1].get("name") == output.get("name") == "stdout":
                outputs[-1]["text"] += output["text"]
            else:
                outputs.append(output)
        cell["outputs"] = outputs
    return notebook


def steady(text: str) -> str:
    """Return a text without addresses of objects and without the random names of styled tables."""
    return re.sub(r"\bT_[0-9a-f]{5}\b", "T_table", re.sub(r" at 0x[0-9a-f]+", "", text))


def execute(path: Path) -> int:
    """Execute one notebook in its folder, write it, and return its size in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        done = Path(folder) / path.name
        papermill.execute_notebook(
            str(path), str(done), cwd=str(NOTEBOOKS), progress_bar=False, store_widget_state=False
        )
        notebook = cleaned(json.loads(done.read_text(encoding="utf-8")))
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    size = len(text.encode())
    if size > LARGEST:
        raise SystemExit(f"{path.name} must have at most {LARGEST:,} bytes, got {size:,}")
    path.write_text(text, encoding="utf-8")
    return size


def main() -> None:
    """Execute the notebooks whose numbers are given, or all."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if len(sys.argv) == 1 or path.name[:2] in sys.argv[1:]:
            print(f"{path.name}: {execute(path):,} bytes", flush=True)


if __name__ == "__main__":
    main()
