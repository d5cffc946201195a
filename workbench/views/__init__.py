"""Static faces of the workbench's objects: tables, embedded pictures, details."""

from workbench.views.faces import page, static_html

__all__ = ["page", "static_html"]
