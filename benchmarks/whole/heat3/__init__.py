"""Heat in a cube whose walls are kept at 0, by explicit steps of the seven-point stencil."""
