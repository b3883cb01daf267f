"""What is known of a loop after name resolution: the loop itself, its accesses, and what its names hold."""
