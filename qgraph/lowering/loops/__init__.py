"""Passes over the loops of a program: repeated bodies, and many sweeps for one pass over memory.

``overlapped_tiles.py`` makes two loops of one: turns of many sweeps in tiles, then the rest. ``stencils.py`` says whether it
may (all loops of the body are proved parallel, each index is a variable plus a constant) and how wide halos are. That goes
backwards through the body: what a loop stores beyond a tile is the most that a later one, or the tile itself, needs there, and
what it needs is that plus the offsets of its accesses. A body that needs ``r`` more elements than what comes behind it needs
``k * r`` for ``k`` iterations. ``tile_codegen.py`` writes a pass, ``block_codegen.py`` one for CUDA, where a block of threads
has a tile in shared memory, and ``register_tiles.py`` what it does far from every edge; which iterations a thread may run
together, also under conditions, ``iterations_together.py`` says, and ``tile_costs.py`` which halo pays. All tiles compute what
they share from the same values by the same statements, so each element has the bits of the plain loop. Along a periodic axis a
tile holds copies of what lies beyond the end; ``plain_indices.py`` sees such axes in choices. ``converging_tiles.py`` has
loops that test in each iteration how far they are: a pass keeps what each of its sweeps found, and is dropped where the loop
ends within it; ``going_beyond.py`` says what iterations beyond the last one may do. ``sure_floats.py`` tells which kernel
scalars have a type that is known before lowering infers any.

``neighbours.py`` comes last: ``(i + 1) % n`` becomes a comparison, behind whoever has to see that an axis is periodic.
"""
