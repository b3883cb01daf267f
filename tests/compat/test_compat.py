"""What is private elsewhere is found in the installed versions; where it is not, the error says which part of which library."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from qgraph import forks
from qgraph.compat import Library, cpython, cuda_bindings, llvmlite, numba
from qgraph.compat import numpy as compat_numpy
from qgraph.errors import BackendError, CudaError

PYTEST = Library("pytest", "1.0")


def test_a_part_that_is_not_there_is_refused_by_name():
    with pytest.raises(BackendError) as refused:
        PYTEST.part(threading, "_gone")
    assert str(refused.value) == (
        f"pytest {pytest.__version__} has no `threading._gone`, which qgraph uses\n"
        "help: install the version that qgraph was written for, pytest 1.0, or a newer qgraph"
    )
    owner = SimpleNamespace(_there=1)
    PYTEST.replace(owner, "_there", 2)
    assert owner._there == 2
    with pytest.raises(BackendError, match="no `SimpleNamespace._gone`"):
        PYTEST.replace(owner, "_gone", 2)
    assert not hasattr(owner, "_gone")


def test_versions_that_nobody_knows():
    assert "no-such-library (of an unknown version) has no x," in str(Library("no-such-library", "1").lacks("x"))
    assert f"CPython {sys.version.split()[0]} has no x," in str(cpython.CPYTHON.lacks("x"))


# --- CPython -----------------------------------------------------------------------------------------------------------


def test_a_lock_of_a_thread_that_is_gone_is_freed():
    lock = threading.Lock()
    lock.acquire()
    assert cpython.freed(lock)
    assert not lock.locked()


class Lock:
    """Without what frees it."""

    def __init__(self):
        self.held = False

    def acquire(self, blocking=True):
        taken, self.held = not self.held, True
        return taken

    def release(self):
        self.held = False


def test_a_lock_that_cannot_be_freed_is_told():
    lock = Lock()
    assert cpython.freed(lock)
    lock.acquire()
    assert not cpython.freed(lock)


# --- linear algebra ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
@pytest.mark.parametrize(("name", "shapes"), [("cholesky", ()), ("inv", ()), ("solve", (5,)), ("solve", (5, 2)), ("qr", ())])
def test_linear_algebra_to_its_place(name, shapes, dtype):
    matrix = (np.eye(5) * 4 + np.ones((5, 5))).astype(dtype)
    operands = [matrix, np.arange(np.prod(shapes)).reshape(shapes).astype(dtype)] if shapes else [matrix]
    wanted = getattr(np.linalg, name)(*operands)[0] if name == "qr" else getattr(np.linalg, name)(*operands)
    out = np.zeros_like(wanted)
    done = compat_numpy.linalg_to_place(name, operands, out)
    assert done == (dtype in ("float64", "complex128") and name != "qr")
    assert not done or np.array_equal(out, wanted)


@pytest.mark.parametrize("name", ["cholesky", "inv", "solve"])
def test_linear_algebra_without_an_answer(name):
    operands = [np.zeros((3, 3))] * (2 if name == "solve" else 1)
    errors = []
    for run in (getattr(np.linalg, name), lambda *given: compat_numpy.linalg_to_place(name, given, np.empty((3, 3)))):
        with pytest.raises(np.linalg.LinAlgError) as refused:
            run(*operands)
        errors.append(str(refused.value))
    assert errors[0] == errors[1]


# --- compilers' locks --------------------------------------------------------------------------------------------------


def test_the_locks_of_compilers():
    from llvmlite import binding
    from numba.core.compiler_lock import global_compiler_lock

    assert binding.llvm_version_info
    locks = (numba.fork_lock(), llvmlite.fork_lock())
    for lock in locks:
        assert lock.acquire(blocking=False)
        lock.release()
    with global_compiler_lock:
        taken = []
        other = threading.Thread(target=lambda: taken.append(locks[0].acquire(blocking=False)))
        other.start()
        other.join()
    assert taken == [False]


def test_a_child_does_not_compile_where_it_cannot_tell_who_does(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba.core.compiler_lock", SimpleNamespace())
    with pytest.raises(BackendError, match="numba .* has no `.*global_compiler_lock`"):
        numba.fork_lock()
    child = forks._Forks()
    child.in_child()
    with pytest.raises(BackendError, match="forked while another thread"):
        child.refuse_to_compile()


# --- NumPy -------------------------------------------------------------------------------------------------------------


def test_an_array_object_is_as_it_is_read():
    for array in (np.zeros((3, 5))[1:, ::-2], np.zeros((3, 0, 4), np.int8, order="F"), np.array(1j)):
        read = compat_numpy._ArrayObject.from_address(id(array))
        assert (read.cls, read.ndim, read.flags) == (id(np.ndarray), array.ndim, array.flags.num)
        assert (read.data or 0, read.dtype) == (array.ctypes.data, id(array.dtype))
        assert tuple(read.shape[: array.ndim]) == array.shape
        assert tuple(read.strides[: array.ndim]) == array.strides
        assert compat_numpy.host_pointer(array) == array.ctypes.data
    fields = [name for name, _ in compat_numpy._ArrayObject._fields_]
    places = (compat_numpy.CLASS, compat_numpy.DATA, compat_numpy.NDIM, compat_numpy.SHAPE, compat_numpy.STRIDES)
    assert [fields[each] for each in places] == ["cls", "data", "ndim", "shape", "strides"]
    assert (fields[compat_numpy.DTYPE], fields[compat_numpy.FLAGS]) == ("dtype", "flags")
    assert len(compat_numpy.array_type().elements) == len(fields)


def test_arrays_that_look_otherwise_are_refused(monkeypatch):
    moved = type("Moved", (compat_numpy._ArrayObject,), {"flags": 0})
    monkeypatch.setattr(compat_numpy, "_ArrayObject", moved)
    with pytest.raises(BackendError, match="numpy .* has no array object whose fields lie"):
        compat_numpy.array_type()


def test_row_stack_is_there_for_a_while(monkeypatch):
    monkeypatch.delattr(np, "row_stack", raising=False)
    with compat_numpy.as_before_2_5():
        assert np.row_stack is not np.vstack
        assert np.row_stack(([1, 2], [3, 4])).tolist() == [[1, 2], [3, 4]]
        warnings.warn("The 'generic' unit for NumPy timedelta is deprecated", DeprecationWarning, stacklevel=1)
    assert not hasattr(np, "row_stack")
    monkeypatch.setattr(np, "row_stack", np.hstack, raising=False)
    with compat_numpy.as_before_2_5():
        assert np.row_stack is np.hstack
    assert np.row_stack is np.hstack


# --- CUDA --------------------------------------------------------------------------------------------------------------


def test_edge_data_in_either_release():
    old, new = SimpleNamespace(add=1, add_v2=2), SimpleNamespace(add=3)
    assert (cuda_bindings.with_edge_data(old, "add"), cuda_bindings.with_edge_data(new, "add")) == (2, 3)
    with pytest.raises(CudaError, match=r"cuda-bindings .* has no `SimpleNamespace\.gone`"):
        cuda_bindings.with_edge_data(new, "gone")


def test_a_lowering_that_looks_elsewhere_for_its_variables_is_refused():
    with pytest.raises(BackendError, match="numba .* has no `.*_find_singly_assigned_variable`"):
        type("Lower", (numba.LocalValues,), {})

    class Numbas:
        def _find_singly_assigned_variable(self):
            self._others = ()

    with pytest.raises(BackendError, match="has no attributes _singly_assigned_vars and _blk_local_varmap"):
        type("Lower", (numba.LocalValues, Numbas), {})


def test_no_compiler_is_loaded_by_what_every_process_imports():
    code = "import sys; from qgraph.compat import cpython, cuda_bindings, framework_streams, llvmlite, numba, numpy; "
    code += "print(*(each for each in ('numba', 'llvmlite', 'cuda', 'torch', 'cupy') if each in sys.modules), sep=',')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# --- memory of PyTorch's pools ------------------------------------------------------------------------------------------


def test_pytorch_calls_what_it_was_given():
    from qgraph.compat.torch_memory import segment_allocator

    taken, given = [], []

    def take(size, device, stream):
        taken.append((size, device, stream))
        return 4096 if size < 100 else None

    torch = SimpleNamespace(cuda=SimpleNamespace(MemPool=object), _C=SimpleNamespace(_cuda_customAllocator=lambda *both: both))
    malloc, free = segment_allocator(torch, take, given.append)
    gc.collect()
    malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(malloc)
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(free)
    assert malloc(10, 1, None) == 4096 and malloc(100, 0, 77) is None
    free(4096, 10, 1, None)
    free(None, 100, 0, 77)
    assert (taken, given) == ([(10, 1, 0), (100, 0, 77)], [4096])


@pytest.mark.parametrize(
    ("torch", "missing"),
    [
        (SimpleNamespace(cuda=SimpleNamespace()), "`torch.cuda.MemPool`"),
        (SimpleNamespace(cuda=SimpleNamespace(MemPool=object)), "_C`"),
        (SimpleNamespace(cuda=SimpleNamespace(MemPool=object), _C=SimpleNamespace()), "_cuda_customAllocator`"),
    ],
)
def test_a_pytorch_without_pools_is_refused(torch, missing):
    from qgraph.compat.torch_memory import segment_allocator

    with pytest.raises(CudaError, match=f"^torch .* has no .*{missing}, which qgraph uses"):
        segment_allocator(torch, lambda *_: None, lambda _: None)
