"""What is kept on the disk, and the keys by which it is found; the keys of what a process keeps in memory.

A plan that was compiled is kept in the user's cache folder. A process that finds a CUDA plan imports neither Numba nor
llvmlite; one that finds a CPU plan imports llvmlite, which links the code, and of Numba the extension modules that it calls.

| level | key: the toolchain, and | holds | a hit saves |
| --- | --- | --- | --- |
| ``plan`` | the plan with its names; options; capability; the extents | code, scalar types, PTX, cubin | everything |
| ``types`` | the program, without its names | types of kernel scalars | type inference |
| ``answer`` | the source of ``polyhedral/``, and the question of a dependence test | its answer | isl |
| ``task`` | the generated function, without its names; parameter types; options | PTX | compiling one task |
| ``link`` | a PTX text | cubin | linking the capability probe |
| ``cpu`` | the plan with its names; options; processor | object code of LLVM's, scalar types | everything |

``key_texts.py``: statements count, not text, so no path, comment or line number is in a key; names count as what they stand
for (constants by value, NumPy's and Python's functions by name, ``@numba.njit`` functions by bytecode, defaults, globals and
closures). What has no lasting identity is compiled in every process, and the logger says why. ``toolchain_key.py``: Python,
the compilers' versions and settings, qgraph's own source; an entry names the toolkit's files that made it. ``memory_key.py``
is the key within a process. ``disk_cache.py`` is the store: a file is written beside its place and renamed, checked by a
checksum, and counts only if nobody but this user and root could have written it. ``artifact_cache.py`` is the cache as one
compilation sees it, ``cpu_artifacts.py`` the same for the CPU. What of the CPU's code can be kept, and how another process
runs it, says ``numba_backend/object_code.py``.
"""
