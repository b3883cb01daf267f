"""Source text to syntax trees; what no kernel may contain is refused."""
