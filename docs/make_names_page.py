"""Writes the page of what of TensorFlow 1's public names the embedded engine has, by module.

python docs/make_names_page.py            writes docs/tensorflow1_names.md again
python docs/make_names_page.py --check    fails where it is stale

TensorFlow's own list is `tf.compat.v1` of the installed TensorFlow, so this needs one.
"""

from __future__ import annotations

import difflib
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import stepscope.tf1
from stepscope.tf1._absent import public_names

PAGE = Path(__file__).resolve().parent / "tensorflow1_names.md"
ROOT = "tensorflow._api.v2.compat.v1"
ELSEWHERE = ("compat", "keras", "raw_ops")
"""Below `compat` is all of TensorFlow once more; Keras is a library of its own; op types are on the
page of ops."""
_COLUMNS = 100
_PAGE = """\
# TensorFlow 1's names on the embedded engine

Written from the code by `make docs`; a test fails when it is stale. The names are those of
`tf.compat.v1` in TensorFlow {version}, without `tf.keras` and `tf.raw_ops`; many of them are
younger than TensorFlow 1. Each name that is not here is an error that says what to use in its
place, or how to run the program on TensorFlow: `stepscope run --engine tensorflow program.py`.
[ops.md](ops.md) lists what there is, op types too.

**{here} of {total}** names are here.

| module | here | of |
|---|--:|--:|
{rows}
## From `tf.contrib`

TensorFlow 2 has no `contrib`: programs that use it run here alone.

| module | here |
|---|--:|
{contrib}
## What is not here

Modules of which nothing is here are in the table alone.
{lists}"""


def modules_of_tensorflow() -> dict[str, list[str]]:
    """By dotted path ("" is the top), the names of each public module, modules left out."""
    found: dict[str, list[str]] = {}
    waiting = [("", import_module("tensorflow.compat.v1"))]
    while waiting:
        path, module = waiting.pop()
        names = []
        for name in dir(module):
            if name.startswith("_") or (not path and name in ELSEWHERE):
                continue
            value = getattr(module, name)
            if not isinstance(value, ModuleType):
                names.append(name)
            elif str(vars(value).get("__name__")).startswith(ROOT):
                waiting.append((f"{path}.{name}".strip("."), value))
        found[path] = sorted(names)
    return dict(sorted(found.items()))


def ours(path: str) -> ModuleType | None:
    """Our module of that path, if there is one."""
    found: object = stepscope.tf1
    for part in filter(None, path.split(".")):
        found = getattr(found, part, None)
        if not isinstance(found, ModuleType):
            return None
    return found if isinstance(found, ModuleType) else None


def missing_names() -> dict[str, list[str]]:
    """By module path, the names of TensorFlow's that are not here."""
    return {path: _without(path, names) for path, names in modules_of_tensorflow().items()}


def _without(path: str, names: list[str]) -> list[str]:
    module = ours(path)
    return [name for name in names if module is None or not _has(module, name)]


def _has(module: ModuleType, name: str) -> bool:
    return name in public_names(module) or name in vars(module)


def page() -> str:
    """The page as Markdown."""
    version = import_module("tensorflow").__version__
    theirs, missing = modules_of_tensorflow(), missing_names()
    total = sum(map(len, theirs.values()))
    here = total - sum(map(len, missing.values()))
    rows = [
        f"| `{_title(path)}` | {len(names) - len(missing[path])} | {len(names)} |\n"
        for path, names in theirs.items()
        if names
    ]
    lists = [
        f"\n### `{_title(path)}`\n\n{_wrapped([f'`{name}`' for name in names])}\n"
        for path, names in missing.items()
        if names and len(names) < len(theirs[path])
    ]
    return _PAGE.format(
        version=version, here=here, total=total, rows="".join(rows),
        contrib="".join(_contrib()), lists="".join(lists),
    )  # fmt: skip


def _contrib() -> list[str]:
    contrib, rows = stepscope.tf1.contrib, []
    for name in public_names(contrib):
        module = getattr(contrib, name)
        count = sum(not isinstance(getattr(module, n), ModuleType) for n in public_names(module))
        if count:
            rows.append(f"| `tf.contrib.{name}` | {count} |\n")
    return rows


def _title(path: str) -> str:
    return f"tf.{path}" if path else "tf"


def _wrapped(words: list[str]) -> str:
    lines, line = [], ""
    for word in words:
        if line and len(line) + len(word) + 1 > _COLUMNS:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])


def stale() -> str:
    """What would change, or nothing."""
    found = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    lines = difflib.unified_diff(
        found.splitlines(), page().splitlines(), PAGE.name, "from the code", lineterm=""
    )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Write, or check."""
    if arguments == ["--check"]:
        difference = stale()
        sys.stdout.write(difference)
        return 1 if difference else 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
