"""What is private in other libraries, one module a library: nothing else in qgraph touches it.

Private are names with an underscore that their library does not document, how objects of CPython and NumPy lie in memory, what
is reached through ``_ctypes`` or ``ctypes.pythonapi``, symbols in another library's machine code, modules that another one is
made to see otherwise, and the English of Numba's messages. Not private are documented names that have an underscore
(``sys._getframe``, a named tuple's ``_fields``, ``_getvalue`` of Numba's structs), and public names of importable modules, as
of numba.core and numba.cuda: what extends Numba uses them.

Each module says which version it was read from. What it does not find has another way, or is refused by name.
"""

from __future__ import annotations

import platform
from typing import Any

from qgraph.errors import BackendError, CudaError, QGraphError
from qgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class Library:
    """A library whose private parts are used.

    Attributes:
        name: that of its distribution.
        read: the version that was read.
        error: what is raised where something is not there.
    """

    name: str
    read: str
    error: type[BackendError] | type[CudaError] = BackendError

    def part(self, owner: object, name: str) -> Any:
        """``owner.name``, or the error that names it."""
        try:
            return getattr(owner, name)
        except AttributeError:
            raise self.lacks(f"`{getattr(owner, '__name__', type(owner).__name__)}.{name}`") from None

    def replace(self, owner: object, name: str, value: object) -> None:
        """Set ``owner.name``, which must be there: nobody reads what has another name by now."""
        self.part(owner, name)
        setattr(owner, name, value)

    def lacks(self, what: str) -> QGraphError:
        """What to raise where ``what`` is not found."""
        return self.error(
            f"{self.name} {self._version()} has no {what}, which qgraph uses",
            hint=f"install the version that qgraph was written for, {self.name} {self.read}, or a newer qgraph",
        )

    def _version(self) -> str:
        from importlib import metadata

        if self.name == "CPython":
            return platform.python_version()
        try:
            return metadata.version(self.name)
        except metadata.PackageNotFoundError:
            return "(of an unknown version)"
