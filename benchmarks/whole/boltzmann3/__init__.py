"""Vortices in a periodic box, by the lattice-Boltzmann method (D3Q19, one relaxation time)."""
