"""The kernels wing: composites in index notation, C code generation, accelerators."""
