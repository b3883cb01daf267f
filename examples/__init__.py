"""Programs that use qgraph as its users do."""
