"""Writes the page of op types and names that the embedded engine has, from the code and the tests.

python docs/make_ops_page.py            writes docs/ops.md again
python docs/make_ops_page.py --check    fails where it is stale

What is checked against TensorFlow, and with which dtypes, is what the op tables of the tests build.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ops.md"
sys.path.insert(0, str(ROOT / "tests" / "unit" / "ops"))

from op_coverage import coverage, has_gradient, public_op_types  # noqa: E402

import stepscope.tf1  # noqa: E402
from stepscope.tf1._absent import public_name, public_names  # noqa: E402
from stepscope.tf1.paths import modules  # noqa: E402

_COLUMNS = 100
_INTRODUCTION = """\
# Op types and names of the embedded engine

Written from the code by `make docs`; a test fails when it is stale. An op type that is not here can
be [registered](training.md#a-gradient-of-your-own), or the graph run on TensorFlow.

## Op types

Every op type is compared with TensorFlow: values, dtypes, shapes and gradients. *Rows* is how many
programs of the tests do so, *dtypes* what they try. A gradient that *ends* is one that TensorFlow
takes for zero without an error; `-` means that TensorFlow has none either, or that a loop has it
as a whole.

| op type | gradient | rows | dtypes |
|---|---|---|---|
"""
_ORDER = [
    *("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"),
    *("uint16", "uint32", "uint64", "complex64", "complex128", "string", "resource", "variant"),
]


def page() -> str:
    """The page as Markdown."""
    rows = coverage()
    lines = []
    for op_type in public_op_types():
        covered = rows[op_type.name]
        gradient = "yes" if has_gradient(op_type) else "ends" if op_type.gradient else "-"
        dtypes = " ".join(sorted(covered.dtypes, key=_ORDER.index))
        lines.append(f"| `{op_type.name}` | {gradient} | {covered.rows} | {dtypes} |\n")
    return f"{_INTRODUCTION}{''.join(lines)}\n## Names\n{''.join(_names(stepscope.tf1))}{_paths()}"


def _paths() -> str:
    """The module paths that give names which are public elsewhere."""
    listed = [f"`tensorflow.{path}`" for path in modules()]
    return f"\n### Module paths\n\n{_wrapped(listed)}\n"


def _names(module: ModuleType) -> list[str]:
    """A module's names, then those of the modules below it."""
    title = public_name(module.__name__).replace("tensorflow", "tf", 1)
    parts, plain = [], []
    for name in public_names(module):
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            is_below = value.__name__.startswith(f"{module.__name__}.")
            if is_below and name not in ("core", "examples", "python", "tfprof"):
                parts += _names(value)
        else:
            plain.append(f"`{name}`")
    own = f"\n### `{title}`\n\n{_wrapped(plain)}\n" if plain else ""
    return [own, *parts]


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
        found.splitlines(), page().splitlines(), "docs/ops.md", "from the code", lineterm=""
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
