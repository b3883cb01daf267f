"""Processes forked from one that used qgraph: a working child, or one clear error before anything is touched."""

from __future__ import annotations

import gc
import os
import threading

import pytest

from qgraph import forks
from tests.processes import printed_by, run_python
from tests.runtime import forked


@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_children_give_the_same_answers(layer):
    settings = {"QGRAPH_BACKEND": "cpu", "NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"}
    done = run_python("-W", "error::UserWarning", "-m", "tests.runtime.forked", *forked.WAYS, **settings)
    assert done.stdout == "".join(f"{way}: as plain Python\n" for way in forked.WAYS), done.stdout + done.stderr


def test_a_child_of_a_parent_that_used_nothing_has_threads_of_its_own(tmp_path):
    program = """
        import os
        import numpy as np
        import qgraph

        @qgraph.kernel
        def k(x):
            for i in range(x.shape[0]):
                x[i] += 1

        child = os.fork()
        x = np.zeros(100_000)
        k(x)
        assert (x == 1).all() and "on all threads" in k.last_launch.reason
        if child:
            print(os.waitpid(child, 0)[1])
        """
    assert printed_by(program, tmp_path, QGRAPH_BACKEND="cpu") == "0\n"


def test_numbas_own_threads_count_too(tmp_path):
    """The parent used Numba's threads and no kernel: qgraph's first use is in the child."""
    program = """
        import os
        import numba
        import numpy as np
        import qgraph

        @numba.njit(parallel=True)
        def fill(x):
            for i in numba.prange(x.shape[0]):
                x[i] = 1

        @qgraph.kernel
        def k(x):
            for i in range(x.shape[0]):
                x[i] += 1

        x = np.zeros(100_000)
        fill(x)
        child = os.fork()
        if child == 0:
            k(x)
            os._exit(not (x == 2).all())
        print(os.waitpid(child, 0)[1])
        """
    assert printed_by(program, tmp_path, QGRAPH_BACKEND="cpu", NUMBA_THREADING_LAYER="omp") == "0\n"


def test_a_fork_while_another_thread_compiles(tmp_path):
    """What was compiled runs in the child; what was not is refused, and nothing waits for a lock that nobody lets go of."""
    program = """
        import os
        import threading
        import warnings
        import numpy as np
        import qgraph
        from qgraph.lowering.numba_backend import cpu as numba_cpu

        warnings.simplefilter("ignore", DeprecationWarning)

        @qgraph.kernel
        def k(x):
            for i in range(x.shape[0]):
                x[i] += 1

        compile_really = numba_cpu._compile_control
        compiling, forked = threading.Event(), threading.Event()

        def slowly(*arguments):
            compiling.set()
            forked.wait(60)
            return compile_really(*arguments)

        x = np.zeros(100_000)
        k(x)
        numba_cpu._compile_control = slowly
        floats = np.zeros(100_000, np.float32)
        thread = threading.Thread(target=k, args=(floats,))
        thread.start()
        compiling.wait(60)
        child = os.fork()
        if child == 0:
            k(x)
            assert (x == 2).all()
            for array in (np.zeros(4, np.float32), np.zeros(4, np.int32)):
                try:
                    k(array)
                except qgraph.BackendError as error:
                    assert not array.any()
                    print(error, flush=True)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        forked.set()
        thread.join()
        assert (floats == 1).all()
        print(status)
        """
    refused = (
        "this process was forked while another thread of its parent compiled, so that it cannot compile itself\n"
        "help: start processes by spawn: multiprocessing.get_context('spawn'), or "
        "DataLoader(..., multiprocessing_context='spawn'); or fork before a thread compiles\n"
    )
    assert printed_by(program, tmp_path, QGRAPH_BACKEND="cpu") == f"{refused}{refused}0\n"


def test_locks_are_free_in_a_child(monkeypatch):
    known = forks._Forks()
    locks = [known.lock(), known.rlock(), known.lock()]
    dead = known.lock()
    del dead
    gc.collect()
    thread = threading.Thread(target=lambda: [lock.acquire() for lock in locks[:2]])
    thread.start()
    thread.join()
    assert [lock.acquire(blocking=False) for lock in locks] == [False, False, True]
    known.in_child()
    assert [lock.acquire(blocking=False) for lock in locks] == [True, True, True]
    known.refuse_to_compile()


CUDA = """
    import atexit, gc, os, sys
    import cuda.bindings
    import numpy as np

    class Driver:
        "A driver with one device, which notes what it is asked."
        def __init__(self):
            self.asked = []
        def __getattr__(self, name):
            if not name.startswith("cu"):
                return getattr(really, name)
            def function(*arguments):
                self.asked.append(name)
                return answers.get(name, (0, 1))
            function.__name__ = name
            return function

    from cuda.bindings import driver as really
    answers = {
        "cuInit": (0,), "cuCtxGetDevice": (0, 0), "cuDeviceGet": (0, 0),
        "cuDeviceGetName": (0, b"made up"), "cuMemAlloc": (0, 4096), "cuCtxGetId": (0, 7),
        "cuThreadExchangeStreamCaptureMode": (0, 0), "cuMemsetD8Async": (0,), "cuStreamSynchronize": (0,), "cuMemFree": (0,),
        "cuDevicePrimaryCtxGetState": (0, 0, 1), "cuCtxSynchronize": (0,), "cuDevicePrimaryCtxRetain": (0, 64),
    }
    made = cuda.bindings.driver = sys.modules["cuda.bindings.driver"] = Driver()

    import qgraph
    from qgraph.dispatch import executables
    from qgraph.runtime.driver import driver as cuda_driver
    from qgraph.runtime.values.prepared_call import ReplayCode

    class Executable:
        path, reason, nodes, argument_updates, rebuilds, replays = "cuda-graph", "", 1, 0, 0, 0
        def launch(self, call):
            self.replays += 1
            made.asked.append("launch")
        def close(self):
            made.asked.append("close")

    def again(executable, call, variant, held):
        return ReplayCode((), {"go": executable.launch}, lambda arrays: ["numbers = go(None)"])

    executables.EXECUTABLES["cuda"] = lambda plan, variant, far: (cuda_driver.device(variant.device), Executable())[1]
    executables.AGAIN["cuda"] = again

    @qgraph.kernel
    def k(x):
        for i in range(x.shape[0]):
            x[i] += 1

    @qgraph.kernel(backend="cuda")
    def on_the_device(x):
        for i in range(x.shape[0]):
            x[i] += 1

    x, y = qgraph.empty(8, backend="cuda"), qgraph.empty(8, backend="cuda")
    for _ in range(4):
        k(x)
    assert k.stats.replays == made.asked.count("launch") == 4
    bound = k.bind(x)
    bound.launch()
    cuda_driver.device(0).wait_at_exit()
    made.asked.clear()
    # What runs before the calls must not matter: garbage, or a child's child.
    for before in ("pass", "gc.collect()", "qgraph.reset()", "if os.fork(): os._exit(os.waitstatus_to_exitcode(os.wait()[1]))"):
        made.asked.clear()
        launches = k.stats.replays
        child = os.fork()
        if not child:
            break
        print(os.waitpid(child, 0)[1])
        # The parent goes on.
        k(x)
        assert "launch" in made.asked
    else:
        os._exit(0)
    exec(before)
    def see():
        if made.asked:
            print("asked", made.asked)
            sys.stdout.flush()
            os._exit(1)
    for what in (
        lambda: k(x), lambda: bound.launch(), lambda: bound.graph, lambda: k.bind(y), lambda: on_the_device(np.zeros(4)),
        lambda: x.numpy(), lambda: y.fill(1), lambda: x[0], lambda: qgraph.zeros(4, backend="cuda"),
        lambda: qgraph.to_numpy(x), lambda: qgraph.asarray(np.zeros(4), backend="cuda"), lambda: qgraph.set_backend("cuda"),
    ):
        try:
            what()
        except qgraph.BackendError as error:
            assert "this process was forked from one that uses CUDA, and cannot use it itself" in str(error), error
            assert "start processes by spawn" in str(error), error
        else:
            print("ran in silence")
        see()
    # The CPU is the child's own; what it has of the parent's goes without a word.
    host = np.zeros(100_000)
    for _ in range(3):
        k(host)
    assert (host == 3).all() and k.stats.replays == launches + 3, k.stats
    qgraph.synchronize()
    k.clear_cache()
    qgraph.reset()
    del x, y, bound
    gc.collect()
    see()
    atexit.register(see)
    """


def test_a_child_of_a_process_that_uses_cuda_never_asks_the_driver(tmp_path):
    assert printed_by(CUDA, tmp_path, QGRAPH_BACKEND="") == "0\n" * 4


def test_another_library_may_have_begun(tmp_path):
    program = (
        CUDA.partition("    import qgraph")[0]
        + """
    import qgraph
    answers["cuInit"] = (really.CUresult.CUDA_ERROR_NOT_INITIALIZED,)
    answers |= {"cuGetErrorName": (0, b"CUDA_ERROR_NOT_INITIALIZED"), "cuGetErrorString": (0, b"initialization error")}
    try:
        qgraph.zeros(4, backend="cuda")
    except qgraph.BackendError as error:
        print(error)
    """
    )
    printed = printed_by(program, tmp_path, QGRAPH_BACKEND="")
    assert "this process was forked from one that uses CUDA" in printed
    assert "or fork before anything uses CUDA" in printed


def test_there_is_nothing_to_do_where_processes_do_not_fork(monkeypatch):
    monkeypatch.delattr(os, "register_at_fork")
    forks.in_child(lambda: None)


def test_a_child_collects_garbage_though_a_thread_of_its_parent_compiled(tmp_path):
    program = """
        import gc
        import os
        import sys
        import threading
        from qgraph.stack import compiling

        inside, leave = threading.Event(), threading.Event()

        @compiling
        def waiting():
            inside.set()
            leave.wait()

        thread = threading.Thread(target=waiting)
        thread.start()
        inside.wait()
        assert not gc.isenabled()
        child = os.fork()
        if not child:
            os._exit(0 if gc.isenabled() else 1)
        leave.set()
        thread.join()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), gc.isenabled())
        """
    assert printed_by(program, tmp_path) == "0 True\n"
