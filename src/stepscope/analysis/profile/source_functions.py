"""Which function of a program a line is in, as its source file says."""

from __future__ import annotations

import ast
from pathlib import Path

__all__ = ["SourceFunctions"]

_CHANGED = "(the file changed since)"
_UNREADABLE = "(the file is not here)"


class SourceFunctions:
    r"""Looks lines up; a file is read once.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.py"
    >>> _ = file.write_text("import x\nclass Net:\n    def call(self):\n        return x\n")
    >>> functions = SourceFunctions()
    >>> [functions.at(f"{file}:{line}").rpartition(":")[2] for line in (1, 4)]
    ['<module>', 'Net.call']
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, list[tuple[int, int, str]]] | None] = {}

    def at(self, line: str, before_ns: int = 0) -> str:
        """The function of a "file:line", as "file:function"; `<module>` outside of any.

        Where the file is not there any more, or was written to after `before_ns` (then lines may
        have moved), it says so in the function's place.
        """
        file, _, number = line.rpartition(":")
        if not number.isdecimal():
            return line
        if file not in self._files:
            self._files[file] = _functions(file)
        read = self._files[file]
        if read is None:
            return f"{file}:{_UNREADABLE}"
        written, functions = read
        if before_ns and written > before_ns:
            return f"{file}:{_CHANGED}"
        place = int(number)
        # Inner functions come after those around them.
        inside = [name for first, last, name in functions if first <= place <= last]
        return f"{file}:{inside[-1] if inside else '<module>'}"


def _functions(file: str) -> tuple[int, list[tuple[int, int, str]]] | None:
    """When a file was written, and first line, last line and name of its functions."""
    try:
        path = Path(file)
        written = path.stat().st_mtime_ns
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    found: list[tuple[int, int, str]] = []

    def look(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                found.append((first, child.end_lineno or child.lineno, prefix + child.name))
                inner = f"{prefix}{child.name}."
            elif isinstance(child, ast.ClassDef):
                inner = f"{prefix}{child.name}."
            elif isinstance(child, ast.Lambda):
                found.append((child.lineno, child.end_lineno or child.lineno, f"{prefix}<lambda>"))
            look(child, inner)

    look(tree, "")
    return written, found
