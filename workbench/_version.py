"""The version of the package: the build, files and results all read it here."""

__version__ = "0.1.0"
