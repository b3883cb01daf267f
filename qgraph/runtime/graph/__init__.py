"""CUDA graphs: nodes, kernels, their parameters, and how they are laid out and updated."""
