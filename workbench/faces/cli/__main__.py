"""Run the command line as ``python -m workbench.faces.cli``."""

from workbench.faces.cli import main

if __name__ == "__main__":
    main()
