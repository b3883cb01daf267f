"""Maxwell's equations in two dimensions (TM), by Yee's scheme in a box with conducting walls."""
