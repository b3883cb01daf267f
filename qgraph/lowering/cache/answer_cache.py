"""Disk cache of dependence tests: a process that finds its answers there imports no isl."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, MutableMapping
from dataclasses import asdict
from pathlib import Path

from qgraph.lowering.cache.disk_cache import store
from qgraph.polyhedral.questions import Answer

_TESTS = Path(__file__).parents[2] / "polyhedral"


class SavedAnswers(MutableMapping[str, Answer]):
    """What this object was told, and behind it the disk, where there is a cache."""

    def __init__(self) -> None:
        self._known: dict[str, Answer] = {}
        self._source = ""

    def __getitem__(self, question: str) -> Answer:
        if question not in self._known:
            kept = store()
            entry = None if kept is None else kept.read(self._key(question))
            if entry is None:
                raise KeyError(question)
            fields = dict(entry.header)
            fields["parameters"] = tuple(tuple(each) for each in fields["parameters"])
            self._known[question] = Answer(**fields)
        return self._known[question]

    def __setitem__(self, question: str, answer: Answer) -> None:
        self._known[question] = answer
        kept = store()
        if kept is not None:
            kept.write(self._key(question), asdict(answer))

    def _key(self, question: str) -> str:
        # Answers are those of the code that found them.
        self._source = self._source or "".join(file.read_text() for file in sorted(_TESTS.glob("*.py")))
        return f"answer-{hashlib.sha256(f'{self._source}{question}'.encode()).hexdigest()}"

    def __delitem__(self, question: str) -> None:
        del self._known[question]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
