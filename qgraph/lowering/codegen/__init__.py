"""Tasks as Python source: chunks for the CPU, kernels for CUDA and the simulator.

A task becomes a function around the user's statements, with their line numbers. ``task_codegen.py`` has what all backends
share, ``cuda_codegen.py`` the kernels (which thread has which iteration), ``cpu_codegen.py`` one function for the whole
kernel whose parallel loops run in chunks (``cpu_chunks.py``); kernels of more than 32 tasks are several functions, as compile
time is superlinear. Loops there that may not end call Python about every 50 ms, for its signal handlers and the watchdog
(``cpu_polls.py``); nothing else polls.

Unrolling (``unrolling.py``): an iteration of a while node costs as much as a few kernels, so one holds up to 16 copies of a
body. The kernels of a copy begin with a guard: where the scratch word of their parameter ``_guard`` is 0 they return; the
condition kernel sets the word of the next copy (``_next``). Small grids read the guard before ``griddepcontrol.wait``, large
ones after it. A loop whose trip count is known at its entry is counted (``CountedUnroll``): up to 64 copies, copy ``u`` exits
if ``remaining <= u``, and one kernel behind all copies decrements; the counter is replicated over 64 cache lines. On large
grids it is two while nodes, the first without guards. Arrays that swap names once an iteration need no slot, in loops that
are not counted, too: each copy has its arrays as parameters, which lets their loads pass stores to others.

Reductions (``reduction_codegen.py``): a grid that stays on the device, of threads with columns of the last axis and several
rows each; half of the blocks that fit, while a thread has few iterations. Lanes combine by shuffles, warps in shared memory.

Handing on (``handed_on.py``): in copies of a loop whose kernels come one after the other no last block finishes a reduction.
Each block of the next kernel combines the results of all blocks itself, in the order of a last block, and evaluates the
statements behind the reduction, which must be pure: no ticket, no fence. A kernel of one block ends each turn.

Threads per row (``cooperative_codegen.py``): an inner loop that only combines values in private names is shared by a group of
threads with shuffles, so that their loads are coalesced. How many is decided at each launch (``threads_per_row`` in
``runtime/graph/launch_shapes.py``); with one, the plain loop runs.

Stopping (``stopping`` in ``unrolling.py``): the condition of each device loop reads a scratch word that the host writes where
somebody interrupts it (``runtime/values/running_loops.py``), and is false where that is set. It is in device memory: a read of
the host's would take longer than an iteration.

Single block (``single_block_codegen.py``): with ``fuse=True`` the whole program also is one kernel of one block. Barriers
stand in the control flow alone; conditions are broadcast by ``syncthreads_or``, so that nobody reads a slot that is being
rewritten.
"""
