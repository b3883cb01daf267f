"""What a failure of Numba becomes: the user's mistake where it is one, the compiler's where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError, UnsupportedBytecodeError

import qgraph
from qgraph.errors import KernelTypeError
from qgraph.lowering.number_types.compile_errors import kernel_errors
from tests.processes import printed_by

SOURCE = "def k(o):\n    o[0] = 1\n"


@pytest.mark.parametrize("error", [NotImplementedError("no code for it"), AssertionError("no code for it"), AssertionError()])
def test_a_fault_of_the_compiler_is_not_called_the_users(function, error):
    with pytest.raises(KernelTypeError) as caught, kernel_errors(function(SOURCE)):
        raise error
    said = caught.value
    assert said.found.startswith(f"an internal error of the compiler, not of the kernel: {type(error).__name__}")
    assert str(error) in said.found
    assert "check the types" not in said.hint
    assert "report it" in said.hint
    assert said.__cause__ is error
    assert said.span.line == 2


@pytest.mark.parametrize("error", [TypingError("no such thing"), UnsupportedBytecodeError("no such thing")])
def test_what_numba_refuses_is_about_the_kernel(function, error):
    with pytest.raises(KernelTypeError, match="no such thing") as caught, kernel_errors(function(SOURCE)):
        raise error
    assert "internal" not in str(caught.value)
    assert "check the types" in caught.value.hint


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError()])
def test_anything_else_passes(function, error):
    with pytest.raises(type(error)), kernel_errors(function(SOURCE)):
        raise error


OF_CUDA = {
    "NRT required but not enabled": "makes a new array",
    "- Resolution failure for literal arguments:\nOnly accept returning of array passed into the function as argument": "array",
    "Untyped global name '_impl': Cannot determine Numba type of <class 'numba.cuda.extending._Intrinsic'>": "has no code",
    "- Resolution failure for literal arguments:\nthe reason": "the reason",
}


@pytest.mark.parametrize("text", OF_CUDA)
def test_what_numba_lacks_on_cuda_is_said_in_words_of_a_user(function, text):
    with pytest.raises(KernelTypeError, match=OF_CUDA[text]), kernel_errors(function(SOURCE)):
        raise TypingError(text)


def test_an_operation_of_elements_is_refused_where_arrays_are_written():
    def kernel(x, y):
        for i in range((x + y).shape[0]):
            x[i] = y[i]

    with pytest.raises(KernelTypeError, match=r"^bool \+ bool is a number in Python") as caught:
        qgraph.kernel(backend="cpu")(kernel)(np.zeros(3, bool), np.zeros(3, bool))
    assert caught.value.span.line == kernel.__code__.co_firstlineno + 1


@pytest.mark.needs("compiler")
def test_numbas_own_code_is_not_told_by_names_of_the_user():
    @qgraph.func
    def fn(value):
        return value + 1

    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = np.isneginf(x[i]) + fn(x[i])

    # What Numba's code calls `fn` is something else.
    with pytest.raises(KernelTypeError, match=r"^Numba's own code for numpy.isneginf\(float64\)") as caught:
        qgraph.kernel(backend="cuda")(kernel).ptx(np.zeros(3))
    assert "loop" in caught.value.hint


# In a process of its own: what Numba has got from others counts for all of a process.
OF_OTHERS = """
import numpy as np
from numba.extending import overload
import qgraph

@overload(np.mask_indices)
def _mask_indices(value):
    return lambda value: value.no_such

@qgraph.kernel(backend="cpu")
def kernel(x):
    for i in range(x.shape[0]):
        x[i] = np.mask_indices(x[i])

try:
    kernel(np.zeros(3))
except qgraph.KernelTypeError as error:
    print(error.found)
"""


def test_code_of_others_is_told_by_its_own_error(tmp_path):
    said = printed_by(OF_OTHERS, tmp_path)
    assert "no_such" in said
    assert "own code" not in said


def test_a_float16_on_the_cpu_is_refused_by_name():
    def kernel(x):
        for i in range(x.shape[0]):
            x[i] = np.float16(1.5) * i

    with pytest.raises(KernelTypeError, match="the CPU cannot compute with float16"):
        qgraph.kernel(backend="cpu")(kernel)(np.zeros(3))


@pytest.mark.parametrize("run", ["__call__", "check"])
def test_what_stands_in_the_place_of_an_access_has_the_users_line(run):
    @qgraph.kernel(backend="cpu", bounds_check=True)
    def kernel(x, y):
        for i in range(y.shape[0]):
            x[i % 2] = min(x[i % 2], y[i])

    with pytest.raises(KernelTypeError, match="the least of elements of type uint32 and int8") as caught:
        getattr(kernel, run)(np.zeros(2, np.uint32), np.zeros(3, np.int8))
    assert caught.value.span.file == __file__
    assert "min(x[i % 2], y[i])" in caught.value.span.text()
