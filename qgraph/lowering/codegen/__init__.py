"""Tasks as Python source: chunks for the CPU, kernels for CUDA and the simulator."""
