"""What the disk has of a CPU plan: the machine code of a whole kernel, with what a process must know to run it.

One level, ``cpu``: what a program with the names in it becomes. Where anything is another, all is compiled.
"""

from __future__ import annotations

import importlib.machinery
import zlib
from collections.abc import Callable, Mapping

from qgraph.compat import llvmlite, numba
from qgraph.ir.artifacts import Parameter
from qgraph.ir.plan import GraphPlan
from qgraph.ir.program import node_statements
from qgraph.language import is_c_function
from qgraph.lowering.cache.artifact_cache import Cache, fields_of, guarded, tell, values_of
from qgraph.lowering.cache.disk_cache import Entry
from qgraph.lowering.cache.key_texts import Unstable, plan_text
from qgraph.nodes.host_callback import HostCall
from qgraph.options import Options
from qgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """Machine code of LLVM's, not linked yet.

    ``entry`` names the function that Python calls. ``environments`` are the constants of functions, by the name of the word
    that points to them. ``layer`` is the threading layer that it runs its loops on, empty where it has none.
    """

    data: bytes
    entry: str
    environments: Mapping[str, tuple[str, ...]]
    layer: str


@dataclass(frozen=True, slots=True)
class CpuCode:
    """A CPU plan as the disk has it: the fields of ``CpuPlan`` of the same names, and the code."""

    source: str
    parameters: tuple[Parameter, ...]
    dtypes: Mapping[str, str]
    code: ObjectCode


class CpuCache(Cache):
    """The cache as one compilation of a CPU plan sees it."""

    compilers = ("numba", "llvmlite")

    def __init__(self, plan: GraphPlan, options: Options, *, read: bool = True) -> None:
        super().__init__(read=read)
        self._plan, self._options = plan, options

    def find(self) -> CpuCode | None:
        """What was kept, if nothing has changed."""
        entry = self._read(self._key())
        return None if entry is None else guarded(lambda: _loaded(entry))

    def keep(self, made: Callable[[], CpuCode]) -> str:
        """Keep what was compiled; why it cannot be kept, where it cannot."""
        key = self._key()
        self._touch(list, compiled=True)
        if self._store is not None and key:
            try:
                found = made()
                header = {**fields_of(found, ("code",)), "code": fields_of(found.code, ("data",))}
                self._write(key, {"kernel": self._plan.program.name, **header}, [zlib.compress(found.code.data, 1)])
            except Unstable as why:
                self._unkept = self._unkept or str(why)
        if self._unkept:
            tell(self._plan.program.name, self._unkept)
        return self._unkept

    def _key(self) -> str:
        return self._key_of(
            "cpu", self._plan, _machine, lambda: [repr(self._options), plan_text(self._plan), repr(_host_calls(self._plan))]
        )


def _host_calls(plan: GraphPlan) -> list[bool]:
    """Of each call of the host whether it is of a C function: that is called otherwise, and no plan tells it."""
    calls = (each for each in node_statements(plan.program.body) if isinstance(each, HostCall))
    return [is_c_function(call.function) for call in calls]


def _machine() -> str:
    """The processor, and how extension modules of this Python lie in memory.

    Raises:
        Unstable: Numba compiles otherwise than its environment says.
    """
    changed = numba.changed_settings()
    if changed:
        raise Unstable(f"compiled with another numba.config.{changed[0]} than the environment's")
    return repr((llvmlite.host(), importlib.machinery.EXTENSION_SUFFIXES))


def _loaded(entry: Entry) -> CpuCode:
    (data,) = entry.blobs
    header = dict(entry.header)
    code = ObjectCode(data=zlib.decompress(data), **values_of(header.pop("code")))
    values = values_of({name: header[name] for name in ("source", "parameters", "dtypes")})
    return CpuCode(**values, code=code)
