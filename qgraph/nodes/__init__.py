"""The kinds of nodes that are neither kernels nor conditional: each kind owns itself, in one file.

A kind is a frozen record, what a node of the plan works on (``Node.what``), with methods for all that is done with it:

- ``touched``: what it reads and writes, from which its edges follow;
- ``statement``, ``planned`` (of a statement): from the user's call to the record, and to nodes of the plan with their lines;
  ``of_loop`` (of a loop that is one): from a task to the record;
- ``cpu_code``, ``on_cpu``: its code in the compiled function for the CPU; ``run_on_host``: what the simulator does;
- ``in_graph``: its ``GraphNode``, which adds itself to a CUDA graph, takes the values of each call, and can run in a stream.

``registry.py`` lists the kinds whose words, and whose loops, are looked for. All others are made by the pass that adds them.

This folder lies above ``ir`` and below the stages, and imports none of them. What a kind needs of a stage is a protocol in
``kind.py`` that the stage implements and passes in: ``WrittenCall`` (frontend), ``CpuCode`` (lowering), ``HostRun`` and
``Owner`` (runtime). ``Owner`` has the driver's module too, so nothing here imports CUDA.
"""
