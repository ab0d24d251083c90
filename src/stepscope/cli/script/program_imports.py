"""What a program's own modules say about TensorFlow, from their text: nothing is imported or run.

A program written for TensorFlow 1 needs version 2's behaviour off before its first op, so that has
to be known when TensorFlow is imported; and the names that only version 1 has (`tf.Session`) often
stand in another module than the one that is run. So the main module is read, and what it imports
of the program's own modules, and what those import. Libraries are not read.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections import deque
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_TENSORFLOW: Final = ("tensorflow", "keras", "tf_keras", "stepscope")
_MOST_MODULES: Final = 1_000
"""How many of a program's modules are read; a larger one says `--tf1` itself."""
_VERSION_1_ONLY = frozenset(
    {
        "Session", "InteractiveSession", "ConfigProto", "GPUOptions", "RunOptions", "RunMetadata",
        "placeholder", "placeholder_with_default", "get_variable", "variable_scope",
        "get_default_graph", "get_default_session", "global_variables_initializer",
        "local_variables_initializer", "initialize_all_variables", "global_variables",
        "trainable_variables", "reset_default_graph", "assign", "assign_add", "assign_sub",
        "random_normal", "random_uniform", "truncated_normal", "set_random_seed",
        "get_collection", "add_to_collection", "layers", "contrib", "app", "flags", "logging",
        "gfile",
    }
)  # fmt: skip
"""Names that only TensorFlow 1 has at its top level."""


@dataclass(slots=True)
class ModuleText:
    """What one module's text says."""

    version_1: str = ""
    """What of TensorFlow it uses that only version 1 has (`tf.Session in line 7`), or ""."""
    imports: list[str] = field(default_factory=list)
    """The absolute names of what it imports; of `from a import b` both `a` and `a.b`."""


def version_1_use(source: bytes, package: str, is_library: Callable[[str], bool]) -> str:
    """The first name of TensorFlow 1 in a program whose main module is `source`, or "".

    `is_library` says of a file whether it is a library's; such files are not read. `sys.path` is
    the program's by now.
    """
    main = read(source, package)
    if main.version_1:
        return main.version_1
    waiting = deque(main.imports)
    seen: set[str] = set()
    files: set[str] = set()
    while waiting and len(files) < _MOST_MODULES:
        name = waiting.popleft()
        if name in seen or name.partition(".")[0] in _TENSORFLOW:
            continue
        seen.add(name)
        spec = find_statically(name)
        origin = spec.origin if spec is not None else None
        if spec is None or origin is None or origin in files or is_library(origin):
            continue
        files.add(origin)
        inside = spec.name if spec.submodule_search_locations is not None else spec.parent
        text = _read_file(origin, inside or "")
        if text.version_1:
            return f"{text.version_1} of {Path(origin).name}"
        waiting.extend(text.imports)
    return ""


def find_statically(name: str) -> ModuleSpec | None:
    """Where a module lies, without importing the packages it lies in; None where it is not."""
    top, *rest = name.split(".")
    if not top or top in sys.builtin_module_names:
        return None
    try:
        spec = importlib.util.find_spec(top)
        for part in rest:
            if spec is None or spec.submodule_search_locations is None:
                return None
            spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    except (ImportError, ValueError):
        return None
    return spec


def read(source: bytes, package: str = "") -> ModuleText:
    """Read a module's text; one that does not even parse says nothing.

    >>> read(b"from .model import build; import tensorflow as tf; tf.Session()", "app")
    ModuleText(version_1='tf.Session in line 1', imports=['app.model', 'app.model.build', 'tensorflow'])
    """  # noqa: E501
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ModuleText()
    text = ModuleText()
    bound: set[str] = set()
    rebound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                text.imports.append(name.name)
                if name.name == "tensorflow":
                    bound.add(name.asname or "tensorflow")
                elif name.asname:
                    rebound.add(name.asname)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, package)
            text.imports += [module, *(f"{module}.{name.name}" for name in node.names)]
            if module == "tensorflow":
                for name in node.names:
                    if name.name in _VERSION_1_ONLY and not text.version_1:
                        text.version_1 = f"tensorflow.{name.name} in line {node.lineno}"
            else:
                rebound |= {name.asname or name.name for name in node.names}
                if module.startswith("tensorflow.examples") and not text.version_1:
                    text.version_1 = f"{module} in line {node.lineno}"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            rebound.add(node.id)
    text.version_1 = text.version_1 or _first_use(tree, bound - rebound)
    return text


def _read_file(path: str, package: str) -> ModuleText:
    try:
        return read(Path(path).read_bytes(), package) if path.endswith(".py") else ModuleText()
    except OSError:
        return ModuleText()


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The whole name of the module that is imported from."""
    if not node.level:
        return node.module or ""
    inside = package.split(".")[: len(package.split(".")) - (node.level - 1)]
    return ".".join([*inside, *([node.module] if node.module else [])])


def _first_use(tree: ast.AST, names: set[str]) -> str:
    """The first attribute of one of these names that only version 1 has."""
    uses = [
        (node.lineno, node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        and node.attr in _VERSION_1_ONLY
    ]
    if not uses:
        return ""
    line, name, attribute = min(uses)
    return f"{name}.{attribute} in line {line}"
