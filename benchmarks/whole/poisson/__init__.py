"""Conjugate gradients, matrix-free, on the five-point Laplacian of a square."""
