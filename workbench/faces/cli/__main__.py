"""Run the command line as ``python -m workbench.faces.cli``."""

from workbench.faces.cli import main

main()
