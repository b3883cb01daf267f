"""Why qgraph is behind a peer where it is, and what the limit is: the README says it below the figures."""

from __future__ import annotations

from collections.abc import Iterable

# By question, how the names of its targets begin and the peer that they name; without a peer, what is in their names.
_WHY = {
    ("programs", "fdtd", "CuPy"): (
        "its graph has the number of steps built in, and is built again for another one. In qgraph's, which runs any number, "
        "some steps together are a turn of the while node, and kernels of the last turns look whether a step is left for them"
    ),
    ("programs", "boltzmann,", "CuPy"): (
        "its graph has the number of steps built in; in qgraph's, which runs any number, some steps are a turn of the while "
        "node, and steps of the last turns look whether they are left. All blocks of a step of 512^2 fit on the device, "
        "so that the next step cannot begin early, and looks for nothing whether it may. That this is all is a guess"
    ),
    ("programs", "boltzmann3", "CuPy"): "as of boltzmann: all blocks of 64^3 fit on the device at once",
    ("programs", "gray_scott", "CuPy"): (
        "its graph has the number of steps built in. A step alone takes as long in both (91 us at 4,096^2); the loop here, "
        "which runs any number, adds 12 us a turn there, of 2 steps where there are few"
    ),
    ("programs", "gray_scott", "Quadrants"): "as against CuPy: there is one n for all arrays",
    ("programs", "shallow", "CuPy"): (
        "`min` and `max` give Python's answer for nan and for zeros with a sign: of 76 in a cell and stage 40 are two "
        "instructions (in PTX), and extents are numbers of 64 bits"
    ),
    ("programs", "shallow", "Quadrants"): "as against CuPy",
    ("programs", "molecules", "CuPy"): (
        "when this was measured, the loops around the innermost one were written out, and threads parted in each copy: with "
        "131,072 particles 1,900 us, since then 1,420. A float4 in place of a row of three takes CuPy's as long"
    ),
    ("programs", "poisson, 1,024^2", ""): (
        "an iteration waits for two sums over the whole grid, and the memory idles meanwhile; less so the larger the grid is"
    ),
    ("programs", "poisson, 2,048^2", ""): "as of 1,024^2",
    ("programs", "fdtd, 2,048^2, 100 steps: share", ""): (
        "one sweep a pass; with fuse=True several sweeps are one pass, in a quarter of the time"
    ),
    ("programs", "boltzmann, 2,048^2, 10 steps: share", ""): "the last turn of few steps, as against CuPy, which has 0.89",
    ("programs", "pagerank", ""): (
        "a link reads the rank of a page anywhere: a sector of 32 bytes for 4, of which the limit counts the 4"
    ),
    ("programs", "heat3", ""): (
        "the best shapes of C take as long (`shapes`); that planes leave the caches before they are needed again is a guess"
    ),
    ("programs", "gray_scott", ""): "one sweep a pass; with fuse=True several sweeps are one pass, in half the time",
    ("programs", "shallow, 2,048^2, 40 steps: share", ""): (
        "a cell and stage take some 500 instructions, and those take the time, not memory"
    ),
    ("cpu_programs", "nbody, against Numba, loops", ""): (
        "the loops compute half of the energies, each pair once; as arrays it is all pairs, of which `np.triu` leaves half"
    ),
    ("cpu_programs", "azimint_naive, against Numba, loops", ""): (
        "its thousand rings are parallel loops one behind the other, `serial` says so; the loops by hand have a thread a ring"
    ),
    ("row_rules", "rows fused", ""): (
        "a row has one block of threads: few of them leave most of the GPU idle, and loops over the elements fill it"
    ),
    ("npbench", "atax", "CuPy"): (
        "both run the same kernels of cuBLAS, which take as long; the host's part is longer here, since products are recorded "
        "again where the result is a new array"
    ),
    ("npbench", "bicg", "CuPy"): "as of atax",
    ("npbench", "mvt", "CuPy"): "as of atax",
    ("npbench", "gesummv", "CuPy"): "as of atax",
    ("npbench", "mlp", "CuPy"): "as of atax",
    ("npbench", "k3mm", "CuPy"): "both call cuBLAS: half a percent",
    (
        "npbench",
        "covariance2",
        "CuPy",
    ): "as of atax",
    ("npbench", "nussinov", "JAX"): (
        "both have a turn a diagonal; here a thread looks where an element's range is parted best, and JAX's version at all "
        "places at once"
    ),
    ("shapes", "heat3, 128", ""): (
        "both have 128 x 2 threads of 4 planes each; C launches a kernel a call and qgraph a graph of one, and at 256^3 a call "
        "takes 0.9 us more, too. That this is all is a guess"
    ),
    ("profile_sums", "channel_flow", ""): (
        "its kernels take 1 us, and a stamp, whose thread waits for memory, adds 0.02 to 0.13 in processes of the same code: "
        "that this is by where the profile's array lies is a guess"
    ),
    ("profile_sums", "dormand_prince", ""): (
        "its arrays have 40 elements: a kernel takes as long as a thread that loads and stores, and a stamp does both"
    ),
    ("progress_overhead", "counted, 2048", ""): (
        "a row is a kernel of its own, for which the sweep behind it waits: 0.19 to 0.24 in runs of the same kernels"
    ),
    ("overlapped_tiles", "averaged, 256", ""): (
        "C has the best of several shapes for each size, here with three sweeps a pass; qgraph one, of 52 planes and up to "
        "four sweeps, whose halo costs more where there are few tiles: with more warps a block, registers are spilled"
    ),
    ("overlapped_tiles_cpu", "", ""): (
        "one sweep a pass has 35 GB/s of this machine's memory for its two cores (jacobi, float32: 134 MB in 3793 us), and "
        "its last cache, of 260 MB, holds arrays of 2,048^2: less is left to gain than where cores share less. A cell of heat "
        "takes nine loads, in tiles as without them, and a tile's halo takes more of them: with fuse=True it is slower there"
    ),
    ("npbench", "mandelbrot1", "JAX"): "level: it was ahead by as much in a run on another machine of the kind",
    ("npbench", "cholesky2", "JAX"): "the factor, and what is above it, are copied to their place",
    ("npbench", "contour_integral", "CuPy"): (
        "cuSOLVER allocates memory to factor large complex matrices, which no device loop may hold: they are real ones of "
        "twice the rows"
    ),
    ("npbench", "contour_integral", "JAX"): "as against CuPy; and JAX's version factors the matrices of all points together",
    ("npbench", "doitgen", "JAX"): "the product comes from PyTorch, and is copied to its place",
    (
        "npbench",
        "durbin",
        "JAX",
    ): "each turn is several kernels that wait for each other; the sum and what it decides are one in XLA",
    (
        "npbench",
        "gemver",
        "JAX",
    ): "XLA reads the matrix once for the outer products and what follows; that this is all is a guess",
    (
        "npbench",
        "gramschmidt",
        "JAX",
    ): "the inner loop has a thread a column, as written; JAX's version is a product of matrices",
    (
        "npbench",
        "lenet",
        "JAX",
    ): (
        "level: half of the time is the host's, which hands 12 arrays and 3 products to the graph; it differs by 200 us "
        "between processes of the same code, and why is not known"
    ),
    ("npbench", "resnet", "JAX"): "its convolutions are cuDNN's; here they are the loops as written",
    ("npbench", "mandelbrot2", "JAX"): "each turn asks whether a point is left; JAX's version runs all turns",
    ("npbench", "scattering_self_energies", "JAX"): (
        "as written each product of two small matrices is a turn; JAX's version sums over most loops before it multiplies"
    ),
    ("npbench", "softmax", "JAX"): "both are one kernel, with `fuse=True`; why XLA's takes a tenth less is not known",
    ("npbench", "stockham_fft", "CuPy"): "its products of 2 by 2 matrices are cuBLAS'; why it is ahead by so much is not known",
    ("npbench", "stockham_fft", "JAX"): "XLA computes what twists the elements while it compiles; that this is all is a guess",
    ("npbench", "symm", "JAX"): "JAX's version is one product of matrices; here a warp has a row or column, as written",
    ("npbench", "syr2k", "JAX"): "as of symm",
    ("npbench", "syrk", "JAX"): "as of symm",
    ("npbench", "trmm", "JAX"): "JAX's version is one product of matrices; here a warp has a column in each turn, as written",
    (
        "npbench",
        "trisolv",
        "NumPy",
    ): "14,000 dot products that wait for each other: a core starts the next one sooner than a device loop",
    ("library_calls", "", "recorded alone"): (
        "a turn of the while node takes 3 to 4 us whatever is in it, and does 32 calls, then 5, then one"
    ),
    ("library_calls", "cholesky", ""): (
        "of the hundred turns each does one Cholesky factorisation, which PyTorch makes beside its place: it is copied there, "
        "as it is in PyTorch's loop. XLA lets the library write where the result belongs. That this is all is a guess"
    ),
    ("ladders", "chain, 1:", "CuPy"): "with one node the call counts, and a replay of CuPy's looks at no arguments",
    ("ladders", "chain, 1:", "Warp"): "with one node the call counts, and a launch of Warp's graph looks at no arguments",
    ("ladders", "chain, 1:", "raw C"): "with one node the call counts, which comes from Python and looks at its arguments",
    ("ladders", "chain, 50:", "JAX"): "XLA makes one loop of them all, as `fuse=True` does",
    ("ladders", "changed, 1:", "Warp"): "it launches its one kernel anew, and has no graph to patch",
    ("ladders", "changed", "CuPy"): "it launches its one kernel anew, and has no graph to patch",
    ("ladders", "changed", "raw C"): "a call comes from Python, which looks at each array",
    ("ladders", "branches, 1:", "Warp"): "with one node the call counts, and a launch of Warp's graph looks at no arguments",
    ("ladders", "branches, 1:", "CuPy"): "with one node the call counts, and a replay of CuPy's looks at no arguments",
    ("ladders", "branches, 1:", "raw C"): "with one node the call counts, which comes from Python and looks at its arguments",
    ("ladders", "branches, 2:", "CuPy"): "with two nodes the call counts still, and a replay of CuPy's looks at no arguments",
    ("ladders", "branches, 2:", "raw C"): "with two nodes the call counts still, which comes from Python, and raw C's from C",
    ("independent", "2 loops of", ""): (
        "the time is what the CPU takes to launch (the columns of CPU), and a call comes from Python, raw C's from C. "
        "That of 1,024 elements took 2.54 us on a stream of its own; why it took longer on the default stream is not known"
    ),
    ("independent", "16 loops of 131,072", ""): (
        "loops at once are roots of the graph, and each takes the CPU about a microsecond of the launch, in raw C, too: "
        "that is all of the time (the columns of CPU)"
    ),
    ("independent", "16 loops of 1,048,576", ""): (
        "the arrays are 64 MiB, about what the L2 cache holds; that less of them is found there is a guess. "
        "Of arrays that are larger qgraph's loops are ahead"
    ),
    ("argument_cost", "a bound call", ""): (
        "the driver is asked which context is current, the context variable which stream; and threads are kept apart"
    ),
    ("argument_cost", "PyTorch: the last", ""): (
        "PyTorch is asked where each tensor lies, and whether it is negated when it is read"
    ),
    ("argument_cost", "Numba: the last", ""): "three attributes of each array are compared with what they were",
    ("argument_cost", "8 sets in turn", ""): (
        "to launch eight graphs in turn takes the driver longer than to launch one of them again (the columns without qgraph), "
        "and that is about all of the difference"
    ),
    ("argument_cost", "CuPy: the last", ""): "CuPy is asked for its stream, and each array for its dimensions",
    ("argument_cost", "65 fields: the last", ""): "each of the arrays is looked at",
}


def reasons(question: str, missed: Iterable[str]) -> list[str]:
    """For the names of missed targets, each reason that is known, once."""
    found: dict[str, None] = {}
    for name in missed:
        for (asked, part, peer), why in _WHY.items():
            if asked == question and (name.startswith(part) and f"time of {peer} over" in name if peer else part in name):
                what = f"{part.rstrip(':')}{f' against {peer}' if peer else ''}".lstrip()
                found[f"{what}: {why}." if what else f"{why}."] = None
    return list(found)
