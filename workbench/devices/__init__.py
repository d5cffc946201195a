"""Devices: running and timing graphs in torch on a CPU or a CUDA GPU, and in ONNX Runtime."""
