"""Files of compiled code that processes share: each is one entry under a key, checked by a checksum, and replaced as a whole.

Whatever is wrong with a file (cut short, somebody else's, unreadable, gone meanwhile), the entry is missing. Whatever is wrong
with the folder, everything works without it. There is no pickle: an entry is a JSON header and raw bytes.

Code comes out of the files, and the checksum is the file's own. So a file counts only where nobody but this user and root could
have written it, nor put another one in its place: that is what the owners and modes of file and folder say.

``QGRAPH_CACHE_DIR`` names another folder than the user's own, ``QGRAPH_CACHE=0`` turns the cache off, and
``QGRAPH_CACHE_SIZE`` is the most that it keeps, in MiB. A setting that means nothing is one warning.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import stat
import struct
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from qgraph import forks
from qgraph.errors import PerformanceWarning
from qgraph.records import dataclass

# In MiB: without QGRAPH_CACHE_SIZE, and what is as good as no limit.
DEFAULT_SIZE = 512
_MOST = 1 << 20
# What a file begins with; another format has another number.
_MAGIC = b"qgraph cache 1\n"
_CHECKSUM = hashlib.sha256().digest_size
_HEADER = struct.Struct("<I")
_OURS = re.compile(r"[a-z]+-[0-9a-f]{64}\.qgc(?P<temporary>\.[\w-]+\.tmp)?")
# A temporary file of this age, in seconds, belongs to a process that died.
_STALE = 3600.0
# The folder is looked through once this part of its limit was written.
_PART = 32
# What others may do with a file of ours, or with its folder: read it.
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_SETTINGS = "name another folder with QGRAPH_CACHE_DIR, or turn the cache off with QGRAPH_CACHE=0"


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies under a key: ``header`` is JSON's, ``blobs`` are bytes that nothing here looks into."""

    header: Mapping[str, Any]
    blobs: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a folder holds: how many entries, and their bytes."""

    entries: int
    size: int


class Store:
    """Entries in one folder. Any number of processes and threads may use it at once."""

    def __init__(self, folder: str, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        # As if enough had been written already: a process that writes looks through the folder at least once.
        self._written = limit
        self._lock = forks.lock()
        self._failed = False

    def read(self, key: str) -> Entry | None:
        """The entry under ``key`` (a word, ``-``, and 64 hexadecimal digits), or None."""
        if not self._is_private():
            return None
        path = self._path(key)
        entry = _decoded(_contents(path, self.limit), key)
        if entry is not None:
            with suppress(OSError):  # another process removed it, or the folder cannot be written
                os.utime(path)
        return entry

    def write(self, key: str, header: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bool:
        """Put an entry in the place of what lies under ``key``; whether that worked. Where it cannot, one warning says why."""
        if self._failed:
            return False
        data = _encoded(key, header, blobs)
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            if not self._is_private():
                return False
            self._put(self._path(key), data)
        except FileNotFoundError:
            # Somebody removed the folder meanwhile, or what we were writing. Next time, then.
            return False
        except OSError as error:
            self._give_up(f"{error.strerror or error}", _SETTINGS)
            return False
        self._make_room(len(data))
        return True

    def _is_private(self) -> bool:
        """Whether nobody else can put files into the folder, or take them out of it; says so where somebody can."""
        try:
            trouble = _written_by_others(os.stat(self.folder))
        except OSError:  # there is none yet, or none that can be used: reading finds nothing, and writing says why
            return True
        if trouble:
            self._give_up(
                f"it {trouble}, and code comes out of it", f"chmod go-w {self.folder}, if it is yours; or {_SETTINGS}"
            )
        return not trouble

    def _put(self, path: str, data: bytes) -> None:
        """A file of ``data`` in the place of ``path``, at once: nobody ever sees a part of it, and only its owner can."""
        from tempfile import mkstemp

        # A name that no other writer has, on another machine or in another container either; the file is its owner's alone.
        handle, temporary = mkstemp(".tmp", f"{os.path.basename(path)}.", self.folder)
        try:
            with open(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def usage(self) -> Usage:
        """How much lies in the folder."""
        sizes = [found.st_size for _, found, temporary in self._files() if not temporary]
        return Usage(len(sizes), sum(sizes))

    def clear(self) -> int:
        """Remove every entry, and nothing else; returns how many there were."""
        removed = 0
        for path, _, temporary in list(self._files()):
            with suppress(OSError):
                os.unlink(path)
                removed += not temporary
        return removed

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, f"{key}.qgc")

    def _files(self) -> Iterator[tuple[str, os.stat_result, bool]]:
        """Our files: path, size and time, and whether it is one that somebody is writing."""
        try:
            with os.scandir(self.folder) as found:
                for item in found:
                    match = _OURS.fullmatch(item.name)
                    if match is None:
                        continue
                    with suppress(OSError):
                        yield item.path, item.stat(follow_symlinks=False), match["temporary"] is not None
        except OSError:
            return

    def _give_up(self, reason: str, ways_out: str) -> None:
        with self._lock:
            said, self._failed = self._failed, True
        if not said:
            warnings.warn(
                f"compiled kernels cannot be kept in {self.folder} ({reason}): every process compiles them anew; {ways_out}",
                PerformanceWarning,
                stacklevel=4,
            )

    def _make_room(self, written: int) -> None:
        """Now and then, remove what was not used for longest until a tenth of the limit is free."""
        with self._lock:
            self._written += written
            if self._written <= self.limit // _PART:
                return
            self._written = 0
        files = sorted(self._files(), key=lambda file: file[1].st_mtime_ns)
        size = sum(found.st_size for _, found, _ in files)
        enough = self.limit - self.limit // 10 if size > self.limit else size
        stale = time.time() - _STALE
        for path, found, temporary in files:
            if (found.st_mtime < stale) if temporary else size > enough:
                with suppress(OSError):  # another process was faster
                    os.unlink(path)
                size -= found.st_size


def _contents(path: str, limit: int) -> bytes:
    """What a file holds; nothing where it is no file that can be read, or one that somebody else could have written."""
    try:
        # Opening a pipe would wait for somebody to write into it.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb") as file:
            found = os.fstat(handle)
            ours = stat.S_ISREG(found.st_mode) and found.st_size <= limit and not _written_by_others(found)
            return file.read() if ours else b""
    except OSError:
        return b""


def _written_by_others(about: os.stat_result) -> str:
    """Why somebody besides this user and root could have written what ``about`` is of, as a phrase; empty where nobody could.

    Where files have no owner in numbers, as on Windows, the user's own folders are closed to others as they are.
    """
    if not hasattr(os, "geteuid"):
        return ""
    if about.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {about.st_uid}"
    return f"can be written by others, mode {about.st_mode & 0o777:o}" if about.st_mode & _OTHERS_WRITE else ""


def _encoded(key: str, header: Mapping[str, Any], blobs: Sequence[bytes]) -> bytes:
    text = json.dumps({"key": key, "sizes": [len(blob) for blob in blobs], "header": header}).encode()
    body = b"".join((_HEADER.pack(len(text)), text, *blobs))
    return b"".join((_MAGIC, hashlib.sha256(body).digest(), body))


def _decoded(data: bytes, key: str) -> Entry | None:
    start = len(_MAGIC) + _CHECKSUM
    body = memoryview(data)[start:]
    if not data.startswith(_MAGIC) or len(body) < _HEADER.size or data[len(_MAGIC) : start] != hashlib.sha256(body).digest():
        return None
    (length,) = _HEADER.unpack_from(body)
    try:
        about = json.loads(bytes(body[_HEADER.size : _HEADER.size + length]))
        if about["key"] != key:
            return None
        ends = list(itertools.accumulate(about["sizes"], initial=_HEADER.size + length))
        blobs = tuple(bytes(body[first:last]) for first, last in itertools.pairwise(ends))
        return Entry(dict(about["header"]), blobs)
    except (ValueError, KeyError, TypeError):  # the checksum of something that we did not write
        return None


# --- settings of the process -------------------------------------------------------------------------------------------


def default_folder() -> str:
    """The user's own folder for caches, and in it ours."""
    import platformdirs

    folder: str = platformdirs.user_cache_dir("qgraph", appauthor=False)
    return folder


def store() -> Store | None:
    """The store that the environment names, None where it is off; the same object as long as it names the same."""
    if not _is_on():
        return None
    folder = _named_folder() or _OWN.folder()
    return _OWN.store(folder, _limit()) if folder else None


def _is_on() -> bool:
    text = os.environ.get("QGRAPH_CACHE", "")
    word = text.strip().lower()
    if word not in ("", "1", "on", "true", "yes", "0", "off", "false", "no"):
        _OWN.warn(f"QGRAPH_CACHE={text!r} says neither 1 nor 0: compiled kernels are not kept")
        return False
    return word in ("", "1", "on", "true", "yes")


def _named_folder() -> str:
    """What ``QGRAPH_CACHE_DIR`` names; empty where it names nothing."""
    named = os.environ.get("QGRAPH_CACHE_DIR", "")
    try:
        # Relative to where the process is now, wherever it goes.
        return os.path.abspath(os.path.expanduser(named)) if named else ""
    except OSError:  # that folder was removed
        _OWN.warn(f"QGRAPH_CACHE_DIR={named!r} is relative to a folder that is gone: the user's own folder is taken")
        return ""


def _limit() -> int:
    text = os.environ.get("QGRAPH_CACHE_SIZE", "").strip()
    try:
        size = float(text or DEFAULT_SIZE)
    except ValueError:
        size = 0.0
    if not size > 0:  # nan, too
        _OWN.warn(f"QGRAPH_CACHE_SIZE={text!r} is no size in MiB: {DEFAULT_SIZE} are taken; QGRAPH_CACHE=0 turns the cache off")
        size = DEFAULT_SIZE
    return int(min(max(size, 1), _MOST) * (1 << 20))


class _Stores:
    """The stores of this process, one a folder, so that what one of them said is said once."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._stores: dict[tuple[str, int], Store] = {}
        self._folder: str | None = None
        self._said: set[str] = set()

    def folder(self) -> str:
        """The user's own; empty where nothing tells it, which is said once."""
        if self._folder is None:
            folder, ways_out = "", "set HOME"
            try:
                folder = default_folder()
                trouble = "" if os.path.isabs(folder) else f"the user's folder for caches would be {folder!r}"
            except ImportError as error:
                trouble, ways_out = str(error), "install platformdirs"
            except (RuntimeError, KeyError, OSError) as error:  # a container's user, who is in no list, and has no HOME
                trouble = f"nothing tells the user's folder for caches ({error})"
            self._folder = "" if trouble else folder
            if trouble:
                self.warn(f"compiled kernels are not kept: {trouble}; {ways_out}, or name a folder with QGRAPH_CACHE_DIR")
        return self._folder

    def store(self, folder: str, limit: int) -> Store:
        with self._lock:
            return self._stores.setdefault((folder, limit), Store(folder, limit))

    def warn(self, message: str) -> None:
        """Say it, if it was not said."""
        with self._lock:
            said = message in self._said
            self._said.add(message)
        if not said:
            warnings.warn(message, PerformanceWarning, stacklevel=4)


_OWN = _Stores()
