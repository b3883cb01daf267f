"""A fluid in a box under a moving lid, by the lattice-Boltzmann method (D2Q9, one relaxation time)."""
