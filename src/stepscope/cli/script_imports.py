"""What a script says about TensorFlow, from its source: nothing is imported or run."""

from __future__ import annotations

import ast
from dataclasses import dataclass

_PACKAGES = ("tensorflow", "keras", "tf_keras")
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


@dataclass(frozen=True, slots=True)
class TensorFlowUse:
    """How a script uses TensorFlow."""

    imports: bool
    """Whether it imports TensorFlow or Keras anywhere."""
    version_1: str
    """What of it only TensorFlow 1 has (`tf.Session in line 7`), or ""."""


def tensorflow_use(source: bytes) -> TensorFlowUse:
    """Read a script; one that does not even parse uses nothing."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return TensorFlowUse(imports=False, version_1="")
    bound: set[str] = set()
    imports = False
    version_1 = ""
    rebound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                imports = imports or name.name.partition(".")[0] in _PACKAGES
                if name.name == "tensorflow":
                    bound.add(name.asname or "tensorflow")
                elif name.asname:
                    rebound.add(name.asname)
        elif isinstance(node, ast.ImportFrom):
            if node.level or not node.module:
                continue
            imports = imports or node.module.partition(".")[0] in _PACKAGES
            if node.module == "tensorflow":
                for name in node.names:
                    if name.name in _VERSION_1_ONLY and not version_1:
                        version_1 = f"tensorflow.{name.name} in line {node.lineno}"
            else:
                rebound |= {name.asname or name.name for name in node.names}
                if node.module.startswith("tensorflow.examples") and not version_1:
                    version_1 = f"{node.module} in line {node.lineno}"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            rebound.add(node.id)
    return TensorFlowUse(imports, version_1 or _first_use(tree, bound - rebound))


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
