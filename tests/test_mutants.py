"""The planted mistakes of ``tests/mutants.py`` stand where the code is now; their table is of them."""

from __future__ import annotations

import ast
import json

import pytest

from tests.mutants import MUTANTS, RESULTS, ROOT, TABLE, table


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_mutants_can_be_planted(mutant):
    source = (ROOT / "qgraph" / mutant.file).read_text()
    assert source.count(mutant.before) == 1
    assert ast.dump(ast.parse(source)) != ast.dump(ast.parse(source.replace(mutant.before, mutant.after)))
    assert all((ROOT / named).is_file() for named in mutant.named)


def test_the_table_is_of_these_mutants():
    rows = json.loads(RESULTS.read_text())
    assert [row["what"] for row in rows] == [mutant.what for mutant in MUTANTS]
    assert TABLE.read_text() == table(rows)
