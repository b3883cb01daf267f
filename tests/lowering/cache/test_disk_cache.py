"""The store of the disk cache: whatever is wrong with a file or a folder, an entry is missing, and nothing else happens."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from random import Random

import pytest

import qgraph
from qgraph.lowering.cache import disk_cache
from qgraph.lowering.cache.disk_cache import Store

KEY = "task-" + "0123456789abcdef" * 4
OTHER = "plan-" + "fedcba9876543210" * 4
HEADER = {"entry": "name", "numbers": [1, 2.5, None]}
BLOBS = (b"", b"first\x00", bytes(range(256)) * 50)
ROOT = Path(qgraph.__file__).parent.parent


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "cache" / "inner"), 1 << 20)


def file_of(store, key=KEY):
    return Path(store.folder) / f"{key}.qgc"


def test_what_is_written_is_read(store):
    assert store.read(KEY) is None
    assert store.write(KEY, HEADER, BLOBS)
    entry = store.read(KEY)
    assert (entry.header, entry.blobs) == (HEADER, BLOBS)
    assert store.read(OTHER) is None
    store.write(KEY, {}, [b"new"])
    assert store.read(KEY).blobs == (b"new",)
    assert store.usage().entries == 1
    assert store.usage().size == file_of(store).stat().st_size


def test_only_the_owner_can_look_into_a_new_folder(store):
    store.write(KEY, HEADER)
    assert os.stat(store.folder).st_mode & 0o077 == 0


def test_a_file_cut_anywhere_is_missing_and_replaced(store):
    store.write(KEY, HEADER, BLOBS)
    whole = file_of(store).read_bytes()
    # In the first line, the checksum, the length, the header, each blob, and one byte short.
    for length in (0, 1, 14, 15, 30, 46, 47, 49, 51, 60, len(whole) - 12_810, len(whole) - 12_000, len(whole) - 1):
        file_of(store).write_bytes(whole[:length])
        assert store.read(KEY) is None, length
    store.write(KEY, HEADER, BLOBS)
    assert store.read(KEY).blobs == BLOBS


def test_a_byte_changed_anywhere_is_missing(store):
    store.write(KEY, HEADER, BLOBS)
    whole = file_of(store).read_bytes()
    for position in (*range(0, 160, 3), *range(160, len(whole), 997)):
        file_of(store).write_bytes(whole[:position] + bytes([whole[position] ^ 0x41]) + whole[position + 1 :])
        assert store.read(KEY) is None, position
    file_of(store).write_bytes(whole + b"x")
    assert store.read(KEY) is None


@pytest.mark.parametrize("data", [b"", b"\x00" * 4096, b"{}", b"qgraph cache 2\n" + b"\x00" * 64, b"\x7fELF" + b"\xff" * 99])
def test_foreign_bytes_are_missing(store, data):
    os.makedirs(store.folder)
    file_of(store).write_bytes(data)
    assert store.read(KEY) is None


def test_an_entry_under_another_key_is_missing(store):
    store.write(OTHER, HEADER, BLOBS)
    os.rename(file_of(store, OTHER), file_of(store))
    assert store.read(KEY) is None


def test_a_sound_file_with_another_content_is_missing(store):
    for body in (b"null", b"[]", b'{"key": 1}', b'{"key": "%s", "sizes": 3, "header": {}}' % KEY.encode(), b"\xff"):
        whole = disk_cache._HEADER.pack(len(body)) + body
        os.makedirs(store.folder, exist_ok=True)
        file_of(store).write_bytes(disk_cache._MAGIC + disk_cache.hashlib.sha256(whole).digest() + whole)
        assert store.read(KEY) is None


def test_what_is_no_file_is_missing(store):
    os.makedirs(file_of(store))
    assert store.read(KEY) is None
    os.rmdir(file_of(store))
    os.mkfifo(file_of(store))
    assert store.read(KEY) is None
    assert store.write(KEY, HEADER)
    assert store.read(KEY) is not None


# --- who could have written it ------------------------------------------------------------------------------------------


@pytest.fixture
def owned_by(monkeypatch):
    """``owned_by(path, user)``: from now on the path belongs to ``user``, as far as anybody asks."""
    owners = {}

    def seen(about):
        fields = list(about)
        fields[4] = owners.get(about.st_ino, os.geteuid())
        return os.stat_result(fields)

    for name in ("stat", "fstat"):
        monkeypatch.setattr(disk_cache.os, name, lambda what, _real=getattr(os, name), **how: seen(_real(what, **how)))
    return lambda path, user: owners.__setitem__(Path(path).lstat().st_ino, user)


@pytest.mark.parametrize("of", ["file", "folder"])
def test_only_what_nobody_else_could_have_written_is_read(tmp_path, owned_by, of):
    random = Random(20)
    modes = {0o600, 0o644, 0o620, 0o602, 0o664, 0o666, *(random.randrange(0o1000) | 0o700 for _ in range(40))}
    for number, (mode, user) in enumerate(itertools.product(sorted(modes), (os.geteuid(), 0, 65534))):
        store = Store(str(tmp_path / f"{number}"), 1 << 20)
        store.write(KEY, HEADER, BLOBS)
        changed = file_of(store) if of == "file" else Path(store.folder)
        changed.chmod(mode | (0o500 if of == "folder" else 0o400))
        owned_by(changed, user)
        closed = not mode & 0o022 and user != 65534
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert (store.read(KEY) is not None) == (store.read(KEY) is not None) == closed, (oct(mode), user)
        # A folder is the user's to mend; a file is replaced.
        assert len(caught) == (of == "folder" and not closed)
        if of == "file":
            owned_by(changed, os.geteuid())
            assert store.write(KEY, HEADER, BLOBS)
            assert store.read(KEY) is not None


def test_a_folder_that_others_can_write_gets_nothing(store):
    os.makedirs(store.folder)
    os.chmod(store.folder, 0o770)
    with pytest.warns(qgraph.PerformanceWarning, match=r"mode 770, and code comes out of it.*chmod go-w") as caught:
        assert not store.write(KEY, HEADER)
        assert store.read(KEY) is None
    assert len(caught) == 1
    assert os.listdir(store.folder) == []


def test_a_link_to_the_file_of_another_user_is_missing(store, tmp_path, owned_by):
    store.write(KEY, HEADER, BLOBS)
    elsewhere = tmp_path / "elsewhere"
    os.rename(file_of(store), elsewhere)
    file_of(store).symlink_to(elsewhere)
    assert store.read(KEY) is not None
    owned_by(elsewhere, 65534)
    assert store.read(KEY) is None


def test_whatever_new_files_may_be_ours_are_the_owners_alone(store):
    before = os.umask(0)
    try:
        store.write(KEY, HEADER, BLOBS)
    finally:
        os.umask(before)
    assert file_of(store).stat().st_mode & 0o777 == 0o600
    assert os.stat(store.folder).st_mode & 0o777 == 0o700


def test_a_writer_that_is_interrupted_leaves_nothing(store, monkeypatch):
    def interrupted(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(disk_cache.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write(KEY, HEADER, BLOBS)
    assert os.listdir(store.folder) == []


# --- folders that cannot be used ----------------------------------------------------------------------------------------


def test_an_unreadable_file_is_replaced(store, monkeypatch):
    store.write(KEY, HEADER, [b"old"])

    def refused(path, flags):
        raise PermissionError(13, "no", path)

    with monkeypatch.context() as patch:
        patch.setattr(disk_cache.os, "open", refused)
        assert store.read(KEY) is None
    store.write(KEY, HEADER, [b"new"])
    assert store.read(KEY).blobs == (b"new",)


@pytest.mark.parametrize("number", [13, 28, 30], ids=["not allowed", "full", "read-only"])
def test_a_folder_that_takes_nothing_is_said_once(store, monkeypatch, number):
    def refused(source, target):
        raise OSError(number, "no", target)

    monkeypatch.setattr(disk_cache.os, "replace", refused)
    with pytest.warns(qgraph.PerformanceWarning, match=r"QGRAPH_CACHE_DIR") as caught:
        assert not store.write(KEY, HEADER)
        assert not store.write(OTHER, HEADER)
    assert len(caught) == 1
    assert os.listdir(store.folder) == []
    assert store.read(KEY) is None


def test_a_folder_that_goes_away_while_it_is_written_is_nothing_to_say(store, monkeypatch):
    def gone(source, target):
        os.unlink(source)
        os.rmdir(store.folder)
        raise FileNotFoundError(2, "no", source)

    with monkeypatch.context() as patch:
        patch.setattr(disk_cache.os, "replace", gone)
        assert not store.write(KEY, HEADER)
    assert store.write(KEY, HEADER)


def test_a_folder_under_a_file_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    store = Store(str(tmp_path / "file" / "cache"), 1 << 20)
    assert store.read(KEY) is None
    with pytest.warns(qgraph.PerformanceWarning):
        assert not store.write(KEY, HEADER)
    assert (store.usage().entries, store.clear()) == (0, 0)


def key(number):
    return f"task-{number:064x}"


def test_the_one_unused_for_longest_goes_first(tmp_path):
    store = Store(str(tmp_path), 100_000)
    for number in range(9):
        store.write(key(number), {}, [bytes(9_900)])
        os.utime(file_of(store, key(number)), (1000 + number, 1000 + number))
    assert store.usage().entries == 9
    # Reading is using.
    assert store.read(key(0)) is not None
    for number in range(9, 12):
        store.write(key(number), {}, [bytes(9_900)])
    kept = {number for number in range(12) if store.read(key(number)) is not None}
    assert {0, 11} <= kept
    assert 1 not in kept
    assert store.usage().size <= 100_000
    assert kept == {0, *range(min(kept - {0}), 12)}


def test_files_of_others_stay(tmp_path):
    store = Store(str(tmp_path), 1000)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "task-12.qgc").write_text("mine")
    store.write(KEY, {}, [bytes(5000)])
    store.write(OTHER, {}, [b""])
    assert store.read(KEY) is None
    assert store.clear() == 1
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "task-12.qgc"]


def test_what_a_dead_process_was_writing_goes(tmp_path):
    old, new = (tmp_path / f"{KEY}.qgc.{number}-1-1.tmp" for number in (1, 2))
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    store = Store(str(tmp_path), 1 << 20)
    store.write(OTHER, {})
    assert not old.exists()
    assert new.exists()
    assert store.usage().entries == 1


WRITER = """
import sys
from qgraph.lowering.cache.disk_cache import Store
store, me = Store(sys.argv[1], 200_000), sys.argv[2]
for turn in range(150):
    key = f"task-{turn % 7:064x}"
    store.write(key, {"by": me, "turn": turn}, [me.encode() * 5000, str(turn).encode() * 1000])
    found = store.read(f"task-{(turn + 3) % 7:064x}")
    if found is not None:
        by, turns = found.header["by"], str(found.header["turn"])
        assert found.blobs == (by.encode() * 5000, turns.encode() * 1000), found.header
    if turn % 50 == 49:
        store.clear()
print("done")
"""


def test_many_processes_write_and_read_at_once(tmp_path):
    command = [sys.executable, "-W", "error", "-c", WRITER, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True, env=env) for name in "abc"]
    assert [process.communicate(timeout=60)[0].strip() for process in processes] == ["done"] * 3
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


# --- the environment ---------------------------------------------------------------------------------------------------


def test_the_environment_names_the_store(tmp_path, monkeypatch):
    monkeypatch.setenv("QGRAPH_CACHE", "1")
    monkeypatch.setenv("QGRAPH_CACHE_DIR", str(tmp_path / "here"))
    monkeypatch.delenv("QGRAPH_CACHE_SIZE", raising=False)
    found = disk_cache.store()
    assert (found.folder, found.limit) == (str(tmp_path / "here"), 512 << 20)
    assert disk_cache.store() is found
    monkeypatch.setenv("QGRAPH_CACHE_SIZE", "1.5")
    assert disk_cache.store().limit == 3 << 19
    monkeypatch.setenv("QGRAPH_CACHE", "0")
    assert disk_cache.store() is None


@pytest.fixture
def said(monkeypatch, tmp_path):
    """A process that has said nothing yet, and whose cache is in a folder of the test."""
    monkeypatch.setattr(disk_cache, "_OWN", disk_cache._Stores())
    for name in ("QGRAPH_CACHE", "QGRAPH_CACHE_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("QGRAPH_CACHE_DIR", str(tmp_path / "cache"))

    def of_stores(times):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            stores = [disk_cache.store() for _ in range(times)]
        assert all(found is stores[0] for found in stores)
        return stores[0], [str(warning.message) for warning in caught]

    return of_stores


SIZES = ["nan", "-nan", "lots", "-1", "0", "-inf", "512MiB", "1e", "0x10", "1,5", "\u00b2", "1" * 5000]


@pytest.mark.parametrize("text", SIZES[:-1])
def test_a_size_that_is_none_is_said_once(monkeypatch, said, text):
    monkeypatch.setenv("QGRAPH_CACHE_SIZE", text)
    found, words = said(3)
    assert found.limit == 512 << 20
    assert words == [f"QGRAPH_CACHE_SIZE={text!r} is no size in MiB: 512 are taken; QGRAPH_CACHE=0 turns the cache off"]


@pytest.mark.parametrize(
    ("text", "size"),
    [("", 512), (" ", 512), (" 64 ", 64), ("0.01", 1), ("1e400", 1 << 20), ("inf", 1 << 20), (SIZES[-1], 1 << 20)],
)
def test_every_other_size_is_taken(monkeypatch, said, text, size):
    monkeypatch.setenv("QGRAPH_CACHE_SIZE", text)
    found, words = said(2)
    assert (found.limit, words) == (size << 20, [])


@pytest.mark.parametrize(
    ("text", "on", "words"),
    [
        *((text, True, []) for text in ("", " ", "1", "on", "TRUE", "Yes ")),
        *((text, False, []) for text in ("0", " 0", "off", "False", "NO")),
        *(
            (text, False, [f"QGRAPH_CACHE={text!r} says neither 1 nor 0: compiled kernels are not kept"])
            for text in ("2", "disabled", "of", "00", "/tmp")
        ),
    ],
)
def test_the_switch(monkeypatch, said, text, on, words):
    monkeypatch.setenv("QGRAPH_CACHE", text)
    found, told = said(3)
    assert (found is not None, told) == (on, words)


def test_a_relative_folder_of_a_place_that_is_gone(monkeypatch, said, tmp_path):
    monkeypatch.setenv("QGRAPH_CACHE_DIR", "here")
    monkeypatch.setattr(disk_cache, "default_folder", lambda: str(tmp_path / "own"))

    def gone():
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(disk_cache.os, "getcwd", gone)
    found, words = said(2)
    assert found.folder == str(tmp_path / "own")
    assert words == ["QGRAPH_CACHE_DIR='here' is relative to a folder that is gone: the user's own folder is taken"]


def test_a_folder_may_be_named_from_home(monkeypatch, said, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("QGRAPH_CACHE_DIR", "~/kept")
    assert said(1)[0].folder == str(tmp_path / "kept")


@pytest.mark.parametrize("home", [None, "here", "~"])
def test_without_a_home_nothing_is_kept(monkeypatch, said, tmp_path, home):
    import pwd

    def unknown(*_):
        raise KeyError("uid not found")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("QGRAPH_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    found, words = said(3)
    assert found is None
    (only,) = words
    assert only.startswith("compiled kernels are not kept: ")
    assert only.endswith("; set HOME, or name a folder with QGRAPH_CACHE_DIR")
    assert os.listdir(tmp_path) == []


def test_without_a_name_it_is_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("QGRAPH_CACHE", "1")
    monkeypatch.setenv("QGRAPH_CACHE_DIR", "")
    monkeypatch.setattr(disk_cache, "_OWN", disk_cache._Stores())
    monkeypatch.setattr(disk_cache, "default_folder", lambda: str(tmp_path / "own"))
    assert disk_cache.store().folder == str(tmp_path / "own")


def test_where_nothing_tells_the_users_own_folder_nothing_is_kept(monkeypatch):
    monkeypatch.setenv("QGRAPH_CACHE", "1")
    monkeypatch.delenv("QGRAPH_CACHE_DIR", raising=False)
    monkeypatch.setattr(disk_cache, "_OWN", disk_cache._Stores())
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.warns(qgraph.PerformanceWarning, match="install platformdirs") as caught:
        assert disk_cache.store() is disk_cache.store() is None
    assert len(caught) == 1


def test_the_users_own_folder_is_named_after_us(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "qgraph" in Path(disk_cache.default_folder()).parts
    assert not list(tmp_path.iterdir())
