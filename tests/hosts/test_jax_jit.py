"""A kernel inside ``jax.jit`` is a custom call of XLA's, on JAX's device and into its memory."""

from __future__ import annotations

import shutil
import subprocess
import threading

import numpy as np
import pytest

from qgraph.compat import xla_ffi
from tests.hosts import kernels
from tests.hosts.kernels import axpy, gathered, interleaved, several, square

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def _on_the_host():
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def test_between_operations_of_jax():
    function = jax.jit(lambda x: interleaved(interleaved(x + 1) * 2).sum() + square(x)[0])
    for n in (1, 2, 5, 1000):
        x = jnp.arange(n, dtype=jnp.float32) + 1
        assert function(x) == 1


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float32", "complex64"])
def test_dtypes(dtype):
    x = np.arange(5).astype(dtype)
    found = jax.jit(kernels.copied)(jnp.asarray(x))
    assert isinstance(found, jax.Array) and found.dtype == x.dtype
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
def test_dtypes_of_64_bits(dtype):
    with jax.enable_x64(True):
        x = np.arange(5).astype(dtype)
        found = jax.jit(kernels.copied)(jnp.asarray(x))
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x)


def test_arguments_of_all_kinds():
    """Tuples, numbers, sizes, an array of NumPy's; new arrays of several types, and one that was passed."""
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    for a, n in ((2.5, 2), (3, 2), (2.5, 3), (np.float32(1.5), 1)):
        t, u, same = jax.jit(lambda x, a=a, n=n: several((y,), a, n, x))(x)
        wanted = several((y,), a, n, x)
        np.testing.assert_array_equal(t, wanted[0])
        np.testing.assert_array_equal(u, [0, 1, 2])
        np.testing.assert_array_equal(same, x)


def test_sites_that_differ_in_a_number_alone():
    """Python's 1, 1.0 and True are three numbers, and so are 0.0 and -0.0, which are equal."""
    x = np.ones(2, np.float32)
    for a in (1, 1.0, True, 0.0, -0.0, 2, 0):
        found = jax.jit(lambda x, a=a: kernels.signed(x, a))(x)
        np.testing.assert_array_equal(found, kernels.signed(x, a))
    assert kernels.signed(x, -0.0)[0] == -kernels.signed(x, 0.0)[0]


def test_lengths_of_one_are_repeated():
    own = kernels.qgraph.kernel(kernels.added.__wrapped__)
    for m, n in ((3, 3), (1, 3), (3, 1), (5, 5), (1, 1)):
        x, y = np.arange(m, dtype=np.float32), np.arange(n, dtype=np.float32) + 1
        np.testing.assert_array_equal(jax.jit(lambda x, y: own(x, y))(x, y), x + y)
    with pytest.raises(kernels.qgraph.ArgumentError, match="`y` has length 4, and `x` has length 3"):
        jax.jit(lambda x, y: own(x, y))(jnp.ones(3), jnp.ones(4))


def test_empty_arrays():
    assert jax.jit(interleaved)(jnp.zeros(0)).shape == (0,)


def test_loops_and_vmap():
    x = jnp.float32([1, 2, 3])
    np.testing.assert_array_equal(jax.lax.fori_loop(0, 3, lambda _, x: square(x), x), [1, 256, 6561])
    np.testing.assert_array_equal(
        jax.jit(jax.vmap(interleaved))(jnp.float32([[1, 2], [3, 4]])), [[1, -1, 2, -2], [3, -3, 4, -4]]
    )


def test_gradients():
    x = jnp.float32([1, 2, 3])
    np.testing.assert_allclose(jax.grad(lambda x: square(x + 1).sum())(x), [4, 6, 8])
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: (square(x) ** 2).sum()))(x), [4, 32, 108])
    with pytest.raises(kernels.qgraph.ArgumentError, match="no gradient flows through the kernel `square_vjp`"):
        jax.grad(lambda x: jax.grad(lambda x: square(x).sum())(x).sum())(x)
    with pytest.raises(kernels.qgraph.ArgumentError, match="no gradient flows through the kernel `without_vjp`"):
        jax.grad(lambda x: kernels.without_vjp(x).sum())(x)


def test_gradients_of_some_arguments(monkeypatch):
    monkeypatch.setattr(several, "_vjp", lambda pair, a, n, x, t, u, ct: (ct.sum(0), None))
    by_pair, by_x = jax.grad(lambda y, x: several((y,), 2.5, 2, x)[0].sum(), argnums=(0, 1))(jnp.ones(3), jnp.ones(3))
    np.testing.assert_array_equal(by_pair, [2, 2, 2])
    np.testing.assert_array_equal(by_x, [0, 0, 0])


@pytest.mark.parametrize(
    ("kernel", "args", "message"),
    [
        ("axpy", lambda x: (2, x, x + 1), "the kernel writes `y`, and no array of jax.jit can be changed"),
        ("double", lambda x: (kernels.State(x, x),), "argument `state`: an object of type State cannot be passed"),
        ("square", lambda x: (x.astype("bfloat16"),), "argument `x`: dtype bfloat16 is not supported"),
        ("total", lambda x: (x,), "returns a number"),
        ("returned_state", lambda x: (x,), "returns a dataclass"),
        ("misspelt", lambda x: (x, x + 1), "the name `no_such_name` does not exist"),
    ],
)
def test_what_is_refused_by_name(kernel, args, message):
    kernel = getattr(kernels, kernel)
    with pytest.raises(kernels.qgraph.QGraphError, match=message):
        jax.jit(lambda x: kernel(*args(x)))(jnp.ones(3))


def test_what_is_no_call_is_refused():
    for look in (axpy.plan, axpy.bind, axpy.check):
        with pytest.raises(kernels.qgraph.ArgumentError, match="argument `x`: it is a tracer of jax"):
            jax.jit(lambda x, look=look: look(2.0, x, x))(jnp.ones(3))


def test_errors_of_a_call():
    """They come through XLA, which has one class for all."""
    x = jnp.float32([1, 2, 3])
    np.testing.assert_array_equal(jax.jit(gathered)(x, jnp.array([2, 0])), [3, 1])
    with pytest.raises(Exception, match="BoundsError: the index of `x.index.i..` is out of bounds: 7 on axis 0"):
        jax.block_until_ready(jax.jit(gathered)(x, jnp.array([0, 7])))
    np.testing.assert_array_equal(jax.jit(gathered)(x, jnp.array([2, 0])), [3, 1])


def test_what_was_compiled_in_must_be_what_it_was(monkeypatch):
    """XLA's memory has the length that was looked at."""
    function = jax.jit(lambda x: kernels.of_length(x))
    assert function(jnp.ones(1)).shape == (2,)
    monkeypatch.setattr(kernels, "LENGTH", 5)
    with pytest.raises(Exception, match="surroundings"):
        jax.block_until_ready(function(jnp.ones(1)))


HEADER = r"""
#include "xla/ffi/api/c_api.h"
#include <cstdio>
#define AT(record, field) std::printf("%zu ", offsetof(record, field))
int main() {
  AT(XLA_FFI_CallFrame, extension_start); AT(XLA_FFI_CallFrame, api); AT(XLA_FFI_CallFrame, ctx); AT(XLA_FFI_CallFrame, stage);
  AT(XLA_FFI_CallFrame, args); AT(XLA_FFI_CallFrame, rets); AT(XLA_FFI_CallFrame, attrs);
  AT(XLA_FFI_Buffer, dtype); AT(XLA_FFI_Buffer, data); AT(XLA_FFI_Buffer, rank); AT(XLA_FFI_Buffer, dims);
  AT(XLA_FFI_Args, size); AT(XLA_FFI_Args, args); AT(XLA_FFI_Rets, rets); AT(XLA_FFI_Attrs, types); AT(XLA_FFI_Attrs, attrs);
  AT(XLA_FFI_Scalar, value); AT(XLA_FFI_Metadata, api_version); AT(XLA_FFI_Metadata, traits);
  AT(XLA_FFI_Metadata_Extension, metadata); AT(XLA_FFI_Api_Version, minor_version);
  AT(XLA_FFI_Error_Create_Args, message); AT(XLA_FFI_Error_Create_Args, errc); AT(XLA_FFI_Stream_Get_Args, stream);
  AT(XLA_FFI_Api, api_version); AT(XLA_FFI_Api, XLA_FFI_Error_Create); AT(XLA_FFI_Api, XLA_FFI_Stream_Get);
  std::printf("%d %d %d", XLA_FFI_ExecutionStage_EXECUTE, XLA_FFI_AttrType_SCALAR, XLA_FFI_API_MAJOR);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler")
def test_the_records_are_those_of_the_header(tmp_path):
    """Of this jaxlib: where a handler looks is where XLA writes."""
    (tmp_path / "at.cc").write_text(HEADER)
    command = ["g++", f"-I{jax.ffi.include_dir()}", str(tmp_path / "at.cc"), "-o", str(tmp_path / "at")]
    subprocess.run(command, check=True, capture_output=True)
    found = subprocess.run([tmp_path / "at"], check=True, capture_output=True, text=True).stdout
    frame, buffer, buffers, attributes = xla_ffi._CallFrame, xla_ffi._Buffer, xla_ffi._Buffers, xla_ffi._Attributes
    records = (
        *(frame.extension_start, frame.api, frame.context, frame.stage, frame.arguments, frame.results, frame.attributes),
        *(buffer.dtype, buffer.data, buffer.rank, buffer.dims, buffers.size, buffers.buffers, buffers.buffers),
        *(attributes.types, attributes.values, xla_ffi._Scalar.value, xla_ffi._Metadata.api_version, xla_ffi._Metadata.traits),
        *(xla_ffi._MetadataExtension.metadata, xla_ffi._Version.minor, xla_ffi._ErrorArguments.message),
        *(xla_ffi._ErrorArguments.code, xla_ffi._StreamArguments.stream, xla_ffi._Api.version),
    )
    functions = [8 * place for place in (xla_ffi._ERROR_CREATE, xla_ffi._STREAM_GET)]
    constants = [xla_ffi._EXECUTE, xla_ffi._SCALAR, xla_ffi._MAJOR]
    assert list(map(int, found.split())) == [*(record.offset for record in records), *functions, *constants]


def test_calls_from_several_threads():
    function = jax.jit(lambda x: square(x).sum())
    found = []

    def call(k):
        found.extend(float(function(jnp.full(10, float(k)))) == 10 * k * k for _ in range(30))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 120 and all(found)
