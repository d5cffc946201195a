"""TASO's Python interface: ``import workbench.taso as taso``; the code is in ``workbench.studies.taso``."""

from workbench.studies.taso import *  # noqa: F403
from workbench.studies.taso import __all__ as __all__
from workbench.studies.taso import __version__ as __version__
