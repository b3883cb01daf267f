"""Nodes and edges of the graph: dependences, memset and memcpy nodes, fusion, unrolling, joins.

Edges follow from effects and array sections (``dependencies.py``), in program order, transitively reduced.
``epilogue_fusion.py`` lets the last thread of a kernel run one-thread statements behind it; with ``fuse=True``
``horizontal_fusion.py`` puts independent loops into one kernel, and ``single_block.py`` says up to which extents the whole
kernel may run as one block, loop by loop, and why some programs never do (host calls, events, memory of the graph, extents
that only the device knows).

PDL chain (``GraphPlan.row``): independent kernels that fill at most a third of the device are chained by programmatic edges
that the plan does not have, because to start many at once takes longer than one after the other; each waits only when it is
done. Once one outgrows that, another graph without the chain is built.

Conditional nodes never run concurrently: driver 580.159 loses the context (``CUDA_ERROR_LAUNCH_FAILED``) where several while
nodes of one graph, or of graphs on two streams, do (``tests/gpu/while_nodes.cu`` shows it without qgraph). Each loop and
branch therefore writes one region that all share (``TURN`` in ``ir/program.py``), and ``runtime/graph/launch_serialiser.py``
orders launches of such graphs on one device. Graphs that others launch, as by the handles of ``bind(...).graph``, are not
seen there.
"""
