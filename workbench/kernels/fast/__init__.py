"""Algorithms with fewer multiplications: their matrices, and the operators that laws are about."""
