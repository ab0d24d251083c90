"""How TensorFlow builds the graphs of functions, and by what of arguments it tells them apart.

This file, too, reaches into TensorFlow: written for 2.15 to 2.21. Where a version has something
elsewhere, building is not seen, which `watch_building` says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple


class Building(NamedTuple):
    """TensorFlow builds a graph of a function, for arguments that it had none for."""

    name: str
    python_function: Any
    function: Any
    """What all graphs of one `tf.function` have in common, and those of no other."""
    arguments: dict[str, Any]
    """By parameter, the type that TensorFlow knows the argument by."""
    creates_variables: bool
    """Whether it is the first graph, in which variables may be made. Of a function that makes some
    TensorFlow builds another one for the same arguments at once."""


def watch_building(begins: Callable[[Building], Callable[[Any], None]]) -> bool:
    """Have `begins` called when a function's graph is built, and what it gives when that is done.

    That is given the graph, or None where building it failed. Neither may raise. False where this
    version has no place to see it.
    """
    try:
        from tensorflow.python.eager.polymorphic_function import tracing_compilation

        original = tracing_compilation._create_concrete_function
        creation = tracing_compilation.ScopeType.VARIABLE_CREATION
    except (ImportError, AttributeError):
        return False

    def building(function_type: Any, options: Any) -> Building:
        types = {name: found.type_constraint for name, found in function_type.parameters.items()}
        first = options.scope_type == creation
        return Building(str(options.name), options.python_function, options.lock, types, first)

    @functools.wraps(original)
    def create(function_type: Any, type_context: Any, func_graph: Any, options: Any) -> Any:
        try:
            ends = begins(building(function_type, options))
        except AttributeError:  # a version that has it elsewhere
            return original(function_type, type_context, func_graph, options)
        made = None
        try:
            made = original(function_type, type_context, func_graph, options)
        finally:
            ends(made.graph if made is not None else None)
        return made

    tracing_compilation._create_concrete_function = create
    return True


def unwrapped(function: Any) -> Any:
    """The Python function below TensorFlow's decorators."""
    from tensorflow.python.util import tf_decorator

    found = tf_decorator.unwrap(function)[1]
    while hasattr(found, "__wrapped__"):  # by others, such as AutoGraph
        found = found.__wrapped__
    return getattr(found, "__func__", found)


class ArgumentLeaf(NamedTuple):
    """One value in an argument, by what TensorFlow tells graphs apart."""

    kind: str
    """`tensor`: by its type and shape. `value`: Python's, by being equal. `object`: by being the
    same one. `other`: by what `text` says."""
    path: str
    type: str
    text: str


def argument_leaves(name: str, kind: Any, most: int) -> list[ArgumentLeaf]:
    """The values in an argument of this type, at most so many; `name` begins their paths."""
    found: list[ArgumentLeaf] = []
    _add_leaves(name, kind, found, most)
    return found


def _add_leaves(path: str, kind: Any, found: list[ArgumentLeaf], most: int) -> None:
    if len(found) >= most:
        return
    parts = getattr(kind, "components", None)
    inner = getattr(kind, "components_tuple", None)
    mapping = getattr(kind, "mapping", None)
    if inner is not None:
        parts = inner.components
    if type(kind).__module__.endswith("default_types") and isinstance(parts, tuple):
        for place, part in enumerate(parts):
            _add_leaves(f"{path}[{place}]", part, found, most)
    elif isinstance(mapping, dict):
        for key, part in mapping.items():
            _add_leaves(f"{path}[{key!r}]", part, found, most)
    elif type(kind).__name__ == "Reference" and hasattr(kind, "base"):
        _add_leaves(path, kind.base, found, most)
    elif hasattr(kind, "element_spec"):  # an iterator's
        _add_leaves(path, kind.element_spec, found, most)
    elif isinstance(kind, tuple | list):
        for place, part in enumerate(kind):
            _add_leaves(f"{path}[{place}]", part, found, most)
    elif isinstance(kind, dict):
        for key, part in kind.items():
            _add_leaves(f"{path}[{key!r}]", part, found, most)
    else:
        found.append(_leaf(path, kind))


def _leaf(path: str, kind: Any) -> ArgumentLeaf:
    name = type(kind).__name__
    if name == "Literal":
        value = kind.value
        return ArgumentLeaf("value", path, type(value).__name__, repr(value))
    if name == "Weakref":
        value = kind.placeholder_value(None)
        return ArgumentLeaf("object", path, type(value).__name__, _said_of(value))
    if hasattr(kind, "dtype") and hasattr(kind, "shape"):
        shape = kind.shape
        size = "unknown" if shape.rank is None else str([*shape.as_list()]).replace("None", "?")
        return ArgumentLeaf("tensor", path, str(kind.dtype.name), size)
    return ArgumentLeaf("other", path, name, str(kind))


def _said_of(value: Any) -> str:
    """What an object is, without the address by which no two are alike."""
    code = getattr(value, "__code__", None)
    if code is None:
        return type(value).__qualname__
    return f"{value.__qualname__} of {code.co_filename}:{code.co_firstlineno}"
