"""Installed packages that offer things to the workbench as entry points, made for a test."""

import sys


def install(folder, monkeypatch, module, source, **groups):
    """Put a package into a folder on the path; ``groups`` map a group's last word to its entries."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = []
    for group, entries in groups.items():
        lines.append(f"[workbench.{group}]")
        lines += [f"{name} = {module}:{thing}" for name, thing in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(folder))
    path = ":".join(p for p in (str(folder), *sys.path) if p)
    monkeypatch.setenv("PYTHONPATH", path)
