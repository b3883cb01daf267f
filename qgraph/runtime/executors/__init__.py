"""What runs a plan: one graph, several, one block, the host, the CPU, the simulator."""
