"""C from index notation: loops and their schedules, compiled kernels, and a target that runs models."""
