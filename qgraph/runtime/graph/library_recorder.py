"""Records what libraries launch for the calls of kernels (``nodes.library_call``), once for each set of arrays."""

from __future__ import annotations

import importlib
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from qgraph.errors import ArgumentError, BackendError, CudaError, QGraphError
from qgraph.nodes.library_call import NAMES, LibraryCall, Operand
from qgraph.nodes.memory_region import allocation_of
from qgraph.runtime.driver.driver import DeviceContext, driver, failure
from qgraph.runtime.driver.stream import current_streams, refuse_capture, synchronize
from qgraph.runtime.graph.radix_sort import radix_sort, takes
from qgraph.runtime.graph.recording import Recording
from qgraph.runtime.values.array_view import ArrayView

_MOST = 256
_SUCCESS, _NOT_READY = 0, 600
# Errors of PyTorch and CuPy that say what the driver refused.
_OF_THE_DRIVER = frozenset({"AcceleratorError", "OutOfMemoryError", "CUDADriverError", "CUDARuntimeError"})


class LibraryRecorder:
    """The recordings of a device, those used last at the end; and what was warmed up."""

    def __init__(self, device: DeviceContext) -> None:
        self._device = device
        self._recorded: OrderedDict[object, Recording] = OrderedDict()
        self._warm: set[object] = set()

    def of(self, statement: LibraryCall) -> Callable[[Sequence[ArrayView]], Recording]:
        """What records the function of ``statement`` for given arrays: its operands, targets and status.

        Raises:
            ArgumentError: the function refused the arrays.
            BackendError: no library is installed.
            CudaError: it did what no graph holds, the driver refused, or the arrays are new and a stream is being captured.
        """
        # Not a part of the key by itself: 0.0 == -0.0 and 1 == True.
        return partial(self._record, statement, repr((statement.operands, statement.keywords_given)))

    def _record(self, statement: LibraryCall, spelled: str, views: Sequence[ArrayView]) -> Recording:
        library = _library(statement, views)
        settings = library.get_float32_matmul_precision() if library.__name__ == "torch" else None
        types = tuple((view.shape, view.strides, view.dtype) for view in views)
        what = (statement.function, spelled, library.__name__, settings, types)
        key = (what, tuple((view.pointer, allocation_of(driver, view.pointer)) for view in views))
        with self._device.lock:
            found = self._recorded.get(key)
            if found is None:
                found = self._recorded[key] = self._make(statement, views, library, what)
                if len(self._recorded) > _MOST:
                    self._recorded.popitem(last=False)
            self._recorded.move_to_end(key)
            return found

    def _make(self, statement: LibraryCall, views: Sequence[ArrayView], library: Any, what: object) -> Recording:
        for each in current_streams():
            refuse_capture(
                each,
                f"`{statement.label}` was not recorded for these arrays yet",
                "call the kernel once before the capture, with the same arrays",
            )
        # Nothing is launched for arrays without elements.
        recording = Recording(self._device, None, "thread_local", (), may_be_empty=True)
        try:
            arrays = [_array(library, view) for view in views]
            backwards = [_backwards(library, view) for view in views]
            # Whether the last array, a target, lies beside all others.
            spans = [view.span() for view in views]
            apart = all(low >= spans[-1][1] or high <= spans[-1][0] for low, high in spans[:-1])
            if what not in self._warm:
                # Libraries load code and plan at their first call, which no capture allows.
                with recording.uncaptured():
                    _run(statement, [_copy(library, each) for each in arrays], library, backwards, apart=apart)
                    synchronize(recording.stream)
                self._warm.add(what)
            with recording:
                _run(statement, arrays, library, backwards, apart=apart)
        except QGraphError:
            raise
        except Exception as error:
            raise _told(error, statement, library, recording.stream) from error
        refused = recording.not_in_body()
        if refused:
            raise CudaError(
                f"what {library.__name__} launches for `{statement.label}` cannot be part of a graph {refused}",
                statement.span,
                hint="use a function that stays on the device",
            )
        return recording


def _library(statement: LibraryCall, views: Sequence[ArrayView]) -> Any:
    """The library that computes: the function's own, that of an array, one that is loaded, one that is installed."""
    possible = statement.libraries
    of_function = (getattr(statement.function, "__module__", None) or "").partition(".")[0]
    of_arrays = [type(view.owner).__module__.partition(".")[0] for view in views]
    loaded = [name for name in possible if name in sys.modules]
    for name in (of_function, *of_arrays, *loaded, *possible):
        if name in possible and find_spec(name) is not None:
            return importlib.import_module(name)
    raise BackendError(
        f"`{statement.label}` is computed by a library, and {' or '.join(NAMES[each] for each in possible)} is not installed",
        statement.span,
        hint="pip install 'qgraph-jit[libs]'",
    )


def _told(error: Exception, statement: LibraryCall, library: Any, stream: int) -> QGraphError:
    """What is told of a library's ``error``; ``stream`` is not captured any more."""
    code = driver.cuStreamQuery(stream)[0]
    if int(code) not in (_SUCCESS, _NOT_READY):
        return failure(code, "cuStreamQuery")
    words = (str(error).strip() or type(error).__name__).splitlines()[0]
    if any(each.__name__ in _OF_THE_DRIVER for each in type(error).__mro__) and "captur" not in words:
        hint = "free arrays, or use smaller ones" if "memory" in words.lower() else None
        return CudaError(f"{library.__name__} failed in `{statement.label}`: {words}", statement.span, hint=hint)
    return ArgumentError(
        f"{library.__name__} cannot compute `{statement.label}`: {words}",
        statement.span,
        hint="it may be of types that the library does not compute, or wait for the device, which no graph holds",
    )


class _Exported:
    """An array for libraries, which hold no memory by it; along the axes ``turned`` it is the other way round."""

    def __init__(self, view: ArrayView, turned: Sequence[int] = ()) -> None:
        last = sum((view.shape[axis] - 1) * view.strides[axis] for axis in turned)
        self.__cuda_array_interface__ = {
            "shape": view.shape,
            "strides": tuple(-stride if axis in turned else stride for axis, stride in enumerate(view.strides)),
            "typestr": view.dtype.str,
            "data": (view.pointer + last if view.size else view.pointer, False),
            "version": 3,
        }


def _array(library: Any, view: ArrayView) -> Any:
    if library.__name__ == "cupy":
        return library.asarray(_Exported(view))
    return library.as_tensor(_Exported(view, _backwards(library, view)), device=f"cuda:{view.device}")


def _backwards(library: Any, view: ArrayView) -> tuple[int, ...]:
    """The axes along which ``_array`` is turned: PyTorch has no negative strides."""
    return () if library.__name__ == "cupy" else tuple(axis for axis, stride in enumerate(view.strides) if stride < 0)


def _turned(array: Any, axes: Sequence[int]) -> Any:
    return array.flip(axes) if axes else array


def _copy(library: Any, array: Any) -> Any:
    return array.copy() if library.__name__ == "cupy" else array.clone()


def _run(
    statement: LibraryCall, arrays: Sequence[Any], library: Any, backwards: Sequence[Sequence[int]], *, apart: bool
) -> None:
    record = statement.record
    if record is None and any(backwards):
        raise ValueError("an array of negative strides, which PyTorch does not have")
    targets = [*zip(arrays, backwards, strict=True)][-len(statement.targets) - bool(statement.status) :]
    if record is not None and not record.fails and all(0 in target.shape for target, _ in targets):
        # Some libraries refuse stacks of nothing.
        return
    given = zip(arrays, backwards, strict=True)
    operands = [each.of(_turned(*next(given))) if isinstance(each, Operand) else each.value for each in statement.operands]
    if record is None:
        result = statement.function(*operands)
    else:
        dtype = record.dtype([_dtype(each) for each in operands])
        if dtype is not None:
            operands = [_converted(library, each, dtype) for each in operands]
        if record.fills and apart and _like_result(statement, operands, library, *targets[0]):
            _result(statement, operands, library, out=targets[0][0])
            return
        result = _result(statement, operands, library)
    if statement.status:
        result, failed = result
    for each in statement.results(result):
        target, axes = next(given)
        if library.__name__ == "cupy":
            target[...] = each
        else:
            target.copy_(_turned(each, axes))
    if statement.status:
        next(given)[0].copy_(failed if failed.numel() == 1 else (failed != 0).any())


def _like_result(statement: LibraryCall, operands: Sequence[Any], library: Any, target: Any, axes: Sequence[int]) -> bool:
    """Whether ``target`` is as the array that PyTorch would make for the result of one type's operands."""
    record = statement.record
    assert record is not None
    if library.__name__ != "torch" or axes or not target.is_contiguous():
        return False
    # Sums of narrow integers are wider.
    kept = target.is_floating_point() or target.is_complex() or target.dtype == library.int64
    shape = record.shape([tuple(each.shape) for each in operands], statement.constants)
    return kept and all(each.dtype == target.dtype for each in operands) and tuple(target.shape) == shape


def _result(statement: LibraryCall, operands: Sequence[Any], library: Any, **out: Any) -> Any:
    record = statement.record
    assert record is not None
    if library.__name__ == "cupy":
        module, name = record.cupy
        return getattr(importlib.import_module(module), name)(*statement.packed(operands), **statement.constants)
    run: Callable[..., Any] = radix_sort if statement.function is np.sort and takes(operands[0]) else record.torch
    return run(library, *operands, **statement.constants, **out)


def _dtype(array: Any) -> np.dtype[Any]:
    # PyTorch spells its types as NumPy does, behind its own name.
    return np.dtype(str(array.dtype).removeprefix("torch."))


def _converted(library: Any, array: Any, dtype: np.dtype[Any]) -> Any:
    return array.astype(dtype, copy=False) if library.__name__ == "cupy" else array.to(getattr(library, dtype.name))
