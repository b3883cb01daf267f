"""CUDA graphs: nodes, kernels, their parameters, and how they are laid out and updated.

``graph_builder.py`` puts a plan into a graph: the handle of a while node is made with it and is armed by the driver at the
first entry only; a nested loop is armed again by its ``enter`` task (``lowering/intrinsics/while_condition.py``).
``capability_probe.py`` runs such a loop once a device to see whether the device can decide. ``kernel_parameters.py`` holds
the arguments of all kernels at fixed addresses, ``node_updates.py`` patches the nodes whose parameters changed,
``launch_shapes.py`` chooses grids and blocks, ``launch_serialiser.py`` orders launches of graphs with conditional nodes on a
device.
"""
