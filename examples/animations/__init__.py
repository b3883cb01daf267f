"""Moving pictures of the programs of this folder: ``python -m examples.animations NAME``."""
