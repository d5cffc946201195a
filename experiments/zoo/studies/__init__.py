"""Kinds of studies that need the model zoo: branches merged, files deployed, kernels in C; and their rivals."""
