"""A Lennard-Jones fluid in a periodic box: molecular dynamics with lists of cells that each step makes anew."""
