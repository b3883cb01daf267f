"""PTX text: its names, and linking it."""
