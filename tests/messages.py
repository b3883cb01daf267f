"""What a message may say: its reader's own names, and a way out."""

from __future__ import annotations

import builtins
import keyword
import re

import qgraph

_PLACES = re.compile(r"^  --> .*$|^ *\w* \|.*$", re.MULTILINE)
_BEGIN_OR_END = re.compile(r"(?<![\w.\])])\.+(?=[^\W\d])[.\w]*|\b_\w+|\w+_(?!\w)")
_QUOTED = re.compile(r"`([^`]*)`")
_TEXTS = re.compile(r"'[^']*'")
_NAMES = re.compile(r"[^\W\d]\w*")


def made_names(message: str, source: str) -> list[str]:
    """Names in a message that are not in the source of its reader.

    Those that begin with a dot or an underscore, or end with one, are nobody's anywhere; between quotes of what was found, and
    not of what to write instead, each name is the reader's or Python's.
    """
    text = _PLACES.sub("", message)
    own = set(_NAMES.findall(source))
    found = [name for name in _BEGIN_OR_END.findall(text) if name not in own]
    said, _, _ = text.partition("\nhelp: ")
    for quoted in _QUOTED.findall(said):
        names = _NAMES.findall(_TEXTS.sub("", quoted))
        found += [name for name in names if name not in own and not keyword.iskeyword(name) and not hasattr(builtins, name)]
    return found


def fault_of(error: BaseException, source: str) -> str:
    """What is wrong with the way in which a program was refused; nothing if it is right."""
    if not isinstance(error, qgraph.QGraphError):
        return f"{type(error).__name__} escaped: {error}"
    names = made_names(str(error), source)
    if names:
        return f"names that nobody wrote, {', '.join(names)}: {error}"
    if not error.hint or error.span is None:
        return f"no way out, or no place: {error}"
    return ""
