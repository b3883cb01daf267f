"""How large the package is: ``python -m tests.sizes [PACKAGE ...]``, a table with a column for each folder that is named.

Tokens are those of Python's tokenizer without comments, docstrings and line ends, and of native source (``.c``, ``.cu``,
``.ptx``) the words and signs. Lines are all of a file's.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
from pathlib import Path

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_NATIVE = (".c", ".cu", ".h", ".ptx")


def tokens(source: str) -> int:
    """The tokens of Python source without comments and docstrings."""
    docstrings = {
        (node.body[0].lineno, node.body[0].col_offset)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node) is not None
    }
    found = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(each.type not in _LAYOUT and each.start not in docstrings for each in found)


def figures(package: Path) -> dict[str, int]:
    """The rows of the table."""
    files = sorted(package.rglob("*.py"))
    native = [path for path in package.rglob("*") if path.suffix in _NATIVE]
    texts = [path.read_text() for path in files]
    lines = [text.count("\n") for text in texts]
    written = [count for count in lines if count > 5]
    by_folder: dict[Path, int] = {}
    for path in files:
        by_folder[path.parent] = by_folder.get(path.parent, 0) + 1
    return {
        "tokens": sum(map(tokens, texts)) + sum(len(re.findall(r"\w+|[^\w\s]", path.read_text())) for path in native),
        "lines": sum(lines) + sum(path.read_text().count("\n") for path in native),
        "files": len(files),
        "longest file, lines": max(lines),
        "median file, lines": round(statistics.median(written)),
        "files above 500 lines": sum(count > 500 for count in lines),
        "most files in a folder": max(by_folder.values()),
    }


def main(arguments: list[str]) -> None:
    """Print the table."""
    packages = [Path(each) for each in arguments or ["qgraph"]]
    columns = [figures(package) for package in packages]
    print(f"{'':24}" + "".join(f"{str(package)[-30:]:>32}" for package in packages))
    for row in columns[0]:
        print(f"{row:24}" + "".join(f"{column[row]:32,}" for column in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
