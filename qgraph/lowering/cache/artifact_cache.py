"""What the disk has of a CUDA plan, in three levels, each under a key that says all that decides it.

``plan``: codes, types, PTX and cubin of a whole plan, the names in it included: these tell lines. ``types``: the types of
kernel scalars, and ``task``: the PTX of one task, both whatever the names are. So a kernel that only moved in its file is
linked again, under its new names, and an edited loop is compiled alone; for an unchanged kernel no compiler is imported.
"""

from __future__ import annotations

import dataclasses
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from qgraph.ir.argument_types import ArrayType, ScalarType
from qgraph.ir.artifacts import ANY_EXTENTS, CudaPlan, Extents, Parameter, TaskCode
from qgraph.ir.functions import Function
from qgraph.ir.plan import GraphPlan
from qgraph.ir.program import Task
from qgraph.lowering.cache.disk_cache import Entry, Store, store
from qgraph.lowering.cache.key_texts import Unstable, digest, plan_text, task_text, types_text
from qgraph.lowering.cache.toolchain_key import COMPILERS, Stamp, confirm, stamps, toolchain_text, unchanged
from qgraph.lowering.ptx import link
from qgraph.lowering.ptx.ptx_rewrite import canonical
from qgraph.options import Options

Result = TypeVar("Result")


class Cache:
    """The cache as one compilation sees it. Where it is off, nothing is found and nothing is kept.

    Attributes:
        compilers: the packages that compile, whose versions are part of every key.
    """

    compilers: tuple[str, ...] = COMPILERS

    def __init__(self, *, read: bool) -> None:
        self._store: Store | None = store()
        # Without reading, what is compiled takes the place of what the disk has.
        self._reads = read
        # Why something could not be kept: the first reason.
        self._unkept = ""
        # The files that made what was read or compiled, for the plan to remember.
        self._files: set[Stamp] = set()
        # By kind and identity: the things live as long as their keys do.
        self._keys: dict[tuple[str, int], tuple[object, str]] = {}

    def _key_of(self, kind: str, thing: object, machine: Callable[[], str], texts: Callable[[], Iterable[str]]) -> str:
        """The key of ``thing``, compiled for ``machine``; empty where it has none."""
        if self._store is None:
            return ""
        if (kind, id(thing)) not in self._keys:
            try:
                key = f"{kind}-{digest(toolchain_text(self.compilers), machine(), *texts())}"
            except Unstable as why:
                key = ""
                self._unkept = self._unkept or str(why)
            self._keys[kind, id(thing)] = thing, key
        return self._keys[kind, id(thing)][1]

    def _read(self, key: str) -> Entry | None:
        entry = self._store.read(key) if self._store is not None and key and self._reads else None
        if entry is None:
            return None
        files = guarded(lambda: {(str(path), int(size), int(time)) for path, size, time in entry.header["files"]})
        if files is None or not unchanged(files):
            return None
        self._files |= files
        return entry

    def _write(self, key: str, header: Mapping[str, Any], blobs: Sequence[bytes], *, files: bool = True) -> None:
        if self._store is not None and key:
            self._store.write(key, {**header, "files": sorted(self._files) if files else []}, blobs)

    def _touch(self, files: Callable[[], Iterable[str]], *, compiled: bool = False) -> None:
        """Remember files that what is kept from now on is made by. Where these cannot be told, nothing is kept any more."""
        if self._store is None:
            return
        try:
            if compiled:
                confirm(sys.modules, self.compilers)
            self._files |= set(stamps(files()))
        except (OSError, Unstable) as why:
            self._store, self._unkept = None, self._unkept or str(why)


class ArtifactCache(Cache):
    """That of a CUDA plan."""

    def __init__(
        self,
        plan: GraphPlan,
        capability: tuple[int, int],
        options: Options,
        extents: Extents = ANY_EXTENTS,
        *,
        read: bool = True,
    ) -> None:
        super().__init__(read=read)
        self._plan, self._capability, self._options, self._extents = plan, capability, options, extents

    # --- the whole plan ------------------------------------------------------------------------------------------------

    def plan(self) -> CudaPlan | None:
        """All of it, if nothing has changed."""
        entry = self._read(self._plan_key())
        return None if entry is None else guarded(lambda: self._loaded(entry))

    def keep_plan(self, compiled: CudaPlan) -> CudaPlan:
        """Keep what was compiled; gives it back, with the reason if it cannot be kept."""
        key = self._plan_key()
        self._touch(lambda: [link.library_path("nvJitLink"), *_runtime_library(compiled)] if compiled.cubin else [])
        texts = list(dict.fromkeys(compiled.ptx.values()))
        try:
            self._write(key, self._header(compiled, texts), [compiled.cubin, *map(_packed, texts)])
        except Unstable as why:
            self._unkept = self._unkept or str(why)
        if self._unkept:
            tell(self._plan.program.name, self._unkept)
        return replace(compiled, unkept=self._unkept)

    def _header(self, compiled: CudaPlan, texts: Sequence[str]) -> dict[str, Any]:
        numbers = {text: number for number, text in enumerate(texts)}
        return {
            "kernel": self._plan.program.name,
            "codes": {name: {**fields_of(code, ("task",)), "task": code.task.name} for name, code in compiled.codes.items()},
            "texts": {name: numbers[text] for name, text in compiled.ptx.items()},
            "rest": fields_of(compiled, _OWN_PLACE),
        }

    def _loaded(self, entry: Entry) -> CudaPlan:
        header = entry.header
        cubin, *packed = entry.blobs
        texts = [_unpacked(blob) for blob in packed]
        tasks = {node.task.name: node.task for node in self._plan.nodes if node.task is not None}
        return CudaPlan(
            plan=self._plan,
            codes={name: _code(fields, tasks) for name, fields in header["codes"].items()},
            ptx={name: texts[index] for name, index in header["texts"].items()},
            cubin=cubin,
            from_disk=True,
            **values_of(header["rest"]),
        )

    # --- types of kernel scalars ---------------------------------------------------------------------------------------

    def types(self) -> dict[str, str] | None:
        """The dtypes of kernel scalars, by slot name."""
        entry = self._read(self._types_key())
        if entry is None:
            return None
        names = [slot.name for slot in self._plan.program.slots]
        return guarded(lambda: {names[index]: dtype for index, dtype in entry.header["dtypes"]})

    def keep_types(self, dtypes: Mapping[str, str]) -> None:
        """Keep them by the places of their slots, since names may tell lines."""
        found = [(index, dtypes[slot.name]) for index, slot in enumerate(self._plan.program.slots) if slot.name in dtypes]
        if len(found) == len(dtypes):
            self._write(self._types_key(), {"dtypes": found}, [], files=False)

    # --- the PTX of a task ---------------------------------------------------------------------------------------------

    def ptx(self, code: TaskCode, function: Function, settings: Mapping[str, Any]) -> str | None:
        """The PTX of a task, whose kernel is ``code.entry``; ``settings`` are what the compiler is told besides."""
        entry = self._read(self._task_key(code, function, settings))
        return None if entry is None else guarded(lambda: _renamed(entry, code.entry))

    def keep_ptx(
        self, code: TaskCode, function: Function, settings: Mapping[str, Any], text: str, files: Iterable[str]
    ) -> None:
        """Keep the PTX of a task, which ``files`` made."""
        self._touch(lambda: files, compiled=True)
        self._write(self._task_key(code, function, settings), {"entry": code.entry}, [_packed(text)])

    # --- keys ----------------------------------------------------------------------------------------------------------

    def _plan_key(self) -> str:
        return self._key("plan", self._plan, lambda: [repr(asdict(self._options)), repr(self._extents), plan_text(self._plan)])

    def _types_key(self) -> str:
        return self._key("types", self._plan, lambda: [types_text(self._plan.program)])

    def _task_key(self, code: TaskCode, function: Function, settings: Mapping[str, Any]) -> str:
        return self._key("task", function, lambda: [repr(sorted(settings.items())), task_text(code, function)])

    def _key(self, kind: str, thing: object, texts: Callable[[], Iterable[str]]) -> str:
        return self._key_of(kind, thing, lambda: repr(self._capability), texts)


def linked(ptx: str, capability: tuple[int, int]) -> bytes:
    """One PTX text as a cubin, off the disk if it was linked before."""
    disk = store()
    key = ""
    try:
        key = f"link-{digest(toolchain_text(), repr(capability), ptx)}" if disk is not None else ""
    except Unstable:
        disk = None
    entry = disk.read(key) if disk is not None else None
    if entry is not None and len(entry.blobs) == 1 and guarded(lambda: unchanged(entry.header["files"])):
        return entry.blobs[0]
    runtime = link.device_runtime_path()
    cubin = link.link([ptx], capability, device_runtime=runtime is not None)
    if disk is not None:
        files = [link.library_path("nvJitLink"), *(() if runtime is None else (runtime,))]
        disk.write(key, {"files": stamps(files)}, [cubin])
    return cubin


# --- records as JSON -------------------------------------------------------------------------------------------------------

# What a plan's entry has in a form of its own, or does not have.
_OWN_PLACE = ("plan", "codes", "ptx", "cubin", "from_disk", "unkept")
_RECORDS: Mapping[str, type[Any]] = {record.__name__: record for record in (Parameter, ArrayType, ScalarType, Extents)}


def fields_of(record: Any, without: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of a record, each as JSON. Every field, so that one that is added to the record is not forgotten here."""
    return {field.name: _json(getattr(record, field.name)) for field in dataclasses.fields(record) if field.name not in without}


def values_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that ``fields_of`` gave as JSON."""
    return {name: _value(item) for name, item in fields.items()}


def _code(fields: Mapping[str, Any], tasks: Mapping[str, Task]) -> TaskCode:
    values = values_of(fields)
    return TaskCode(task=tasks[values.pop("task")], **values)


def _json(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if isinstance(value, frozenset):
        return {"": "set", "items": sorted(value)}
    if isinstance(value, Mapping):
        return {"": "mapping", "items": {name: _json(item) for name, item in value.items()}}
    name = type(value).__name__
    if _RECORDS.get(name) is not type(value):
        raise Unstable(f"a plan with a {name}")
    return {"": name, **fields_of(value)}


def _value(item: Any) -> Any:
    if isinstance(item, list):
        return tuple(map(_value, item))
    if not isinstance(item, dict):
        return item
    fields = {name: value for name, value in item.items() if name}
    match item[""]:
        case "set":
            return frozenset(fields["items"])
        case "mapping":
            return values_of(fields["items"])
        case record:
            return _RECORDS[record](**values_of(fields))


def _packed(text: str) -> bytes:
    return zlib.compress(text.encode(), 1)


def _unpacked(blob: bytes) -> str:
    return zlib.decompress(blob).decode()


def _renamed(entry: Entry, name: str) -> str:
    text, old = _unpacked(entry.blobs[0]), entry.header["entry"]
    return text if old == name else canonical(text, old, name)


def guarded(read: Callable[[], Result]) -> Result | None:
    """What ``read`` makes of an entry; None where it is not what we write."""
    try:
        return read()
    except (KeyError, IndexError, TypeError, ValueError, zlib.error):
        return None


def _runtime_library(compiled: CudaPlan) -> Iterable[str]:
    path = link.device_runtime_path() if compiled.device_runtime else None
    return () if path is None else (path,)


def tell(kernel: str, reason: str) -> None:
    """Say why a kernel is not kept."""
    import logging

    logging.getLogger("qgraph").info("%s() is compiled anew in every process: %s", kernel, reason)
