"""tamago workbench: tensor-graph superoptimisation by equality saturation."""

__version__ = "0.1.0"
