"""Where a part of CUDA is not there, the error says which, and what to install or to write instead."""

from __future__ import annotations

import pytest

from tests.processes import printed_by

pytestmark = pytest.mark.needs("compiler")

# In a process of its own, since what was loaded stays loaded.
PROGRAM = """
    import sys
    from cuda import pathfinder
    load = pathfinder.load_nvidia_dynamic_lib

    def without(name):
        if name == "MISSING":
            raise pathfinder.DynamicLibNotFoundError(f'Failure finding "lib{name}.so": nothing\\nat all')
        return load(name)

    pathfinder.load_nvidia_dynamic_lib = without
    import numpy as np
    import qgraph
    import numba.cuda
    for module in list(sys.modules.values()):
        if getattr(module, "load_nvidia_dynamic_lib", None) is load:
            module.load_nvidia_dynamic_lib = without

    @qgraph.kernel
    def k(x):
        for i in range(x.shape[0]):
            x[i] = np.sin(x[i])

    for _ in range(2):
        try:
            k.ptx(np.ones(4, np.float32))
        except qgraph.BackendError as error:
            print(error)
    """
INSTALL = "help: install the toolkit wheels: pip install qgraph-jit[cu13] (or [cu12] for a driver of CUDA 12)\n"


@pytest.mark.parametrize("library", ["nvrtc", "nvvm"])
def test_a_library_of_the_toolkit(tmp_path, library):
    printed = printed_by(PROGRAM.replace("MISSING", library), tmp_path, QGRAPH_CACHE="0", QGRAPH_BACKEND="")
    assert printed == f"{library} of the CUDA toolkit was not found, without which no PTX is made\n{INSTALL}" * 2


NO_DRIVER = """
    import numba
    import numpy as np
    import qgraph

    @numba.njit
    def product(row, x):
        return row @ x

    @qgraph.kernel
    def k(a, x, y):
        for i in range(a.shape[0]):
            y[i] = product(a[i], x)

    try:
        k.ptx(np.ones((4, 4), np.float32), np.ones(4, np.float32), np.zeros(4, np.float32))
    except qgraph.BackendError as error:
        print(error.found)
        print(error.span.line, error.hint)
    """


def test_what_numba_compiles_for_the_device_itself(tmp_path):
    """With no driver; ``NUMBA_CUDA_DRIVER`` names none, so that there is none where there is a GPU, too."""
    printed = printed_by(NO_DRIVER, tmp_path, QGRAPH_CACHE="0", QGRAPH_BACKEND="", NUMBA_CUDA_DRIVER=str(tmp_path / "none.so"))
    assert printed.startswith(
        "Numba compiles something here for the GPU of this machine alone, and there is none with a driver\n"
    )
    assert printed.endswith("write operations on whole arrays as loops, or with numbers alone\n")
