"""What runs a plan: one graph, several, one block, the host, the CPU, the simulator.

An executable (``base.py``) owns everything its nodes point at. A launch patches the parameters that changed and calls
``cuGraphLaunch``; it does not wait. ``graph.py`` is the whole plan as one graph, ``host_loop.py`` segments with the host in
charge of loops, ``unrolled.py`` several graphs of the same kernels, ``single_block.py`` the choice between the graph and one
block. ``captured.py`` adds a plan to a graph that somebody else captures: a launch on a captured stream raises
``StreamCaptured`` before anything changes, and the kernel answers with an executable of its own for that graph.

A call that comes back (``relaunch.py``) has a ``Relaunch``, which knows the graph that has its arguments now, if one has: on
the same stream, with the same context current, it is launched with nothing else, by machine code (``driver/native.py``) unless
the process compiled nothing. All of that happens with the executable's lock held; whoever patches the graph closes the
``Relaunch`` first, and whoever finds it closed goes the long way, ``CudaExecutable.launch``. Graphs with conditional nodes are
launched from Python, in turn with others. Calls that alternate between sets of arrays get an executable each of the same graph
(``graph_exec_cache.py``), if all nodes are kernels; with shared scratch all launches must be of one stream.

Unrolled device loops: before each launch ``unrolled.py`` reads, without waiting, how many iterations each loop had in the
last launch (page-locked words), and runs the graph that is fastest for that many; ``last_launch.reason`` says which.

Host-driven loops: the host waits for the first conditions only. Then it runs ahead: it launches a graph of all copies of the
body, fetches its condition, and launches the next graph before it waits. What was launched past the end returns at its guard.
Two such graphs alternate, since the last condition of one may arrive while kernels of its first copy still read their guard.
"""
