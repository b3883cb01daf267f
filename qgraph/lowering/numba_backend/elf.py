"""Object files of LLVM's in the ELF format, 64 bits, as far as linking asks: which symbols they need, and which they use."""

from __future__ import annotations

import struct

from qgraph.records import dataclass

_HEADER = struct.Struct("<16s2HI3QI6H")
_SECTION = struct.Struct("<2I4Q2I2Q")
_SYMBOL = struct.Struct("<I2BH2Q")
# The kinds of sections with symbols, and with relocations; an entry of these has a place, a kind, and the number of a symbol.
_SYMBOLS = 2
_RELOCATIONS = (4, 9)
_RELOCATION = struct.Struct("<Q2I")
# The first bytes of a file of 64 bits whose first bytes are the lowest.
_MAGIC = b"\x7fELF\x02\x01"


@dataclass(frozen=True, slots=True)
class Symbols:
    """Names of symbols: those that others must define, and those that something in the file refers to."""

    undefined: frozenset[str]
    used: frozenset[str]


def symbols_of(data: bytes) -> Symbols:
    """The symbols of an object file.

    Raises:
        ValueError: it is no such file.
    """
    if not data.startswith(_MAGIC):
        raise ValueError("no ELF file of 64 bits")
    try:
        return _read(data)
    except (struct.error, IndexError) as error:
        raise ValueError(str(error)) from None


def _read(data: bytes) -> Symbols:
    header = _HEADER.unpack_from(data)
    place, size, count = header[6], header[11], header[12]
    sections = [_SECTION.unpack_from(data, place + number * size) for number in range(count)]
    names: list[str] = []
    undefined: set[str] = set()
    numbers: set[int] = set()
    for _, kind, _, _, start, length, link, _, _, step in sections:
        if kind == _SYMBOLS:
            text = sections[link][4]
            for offset in range(start, start + length, step):
                name, info, _, section, _, _ = _SYMBOL.unpack_from(data, offset)
                found = data[text + name : data.index(b"\0", text + name)].decode()
                names.append(found)
                if not section and info >> 4 and found:
                    undefined.add(found)
        elif kind in _RELOCATIONS:
            numbers |= {_RELOCATION.unpack_from(data, offset)[2] for offset in range(start, start + length, step)}
    if not names:
        raise ValueError("an ELF file without symbols")
    return Symbols(frozenset(undefined), frozenset(names[number] for number in numbers))
