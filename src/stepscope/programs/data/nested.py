"""Elements as programs write them: nested tuples and dicts of tensors. A list is a tensor.

>>> leaves({"b": 1, "a": (2, [3, 4])})
[2, [3, 4], 1]
>>> packed({"b": 0, "a": (0, 0)}, ["x", "y", "z"])
{'a': ('x', 'y'), 'b': 'z'}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["leaves", "mapped", "packed", "structure_of"]


def leaves(structure: Any) -> list[Any]:
    """The tensors of an element, from left to right; of dicts in the order of their keys."""
    return list(_walk(structure))


def _walk(structure: Any) -> Iterator[Any]:
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            yield from _walk(structure[key])
    elif isinstance(structure, tuple):
        for item in structure:
            yield from _walk(item)
    else:
        yield structure


def packed(structure: Any, values: Sequence[Any]) -> Any:
    """The structure with other leaves."""
    return _fill(structure, iter(values))


def _fill(structure: Any, values: Iterator[Any]) -> Any:
    if isinstance(structure, Mapping):
        return {key: _fill(structure[key], values) for key in sorted(structure)}
    if isinstance(structure, tuple):
        items = [_fill(item, values) for item in structure]
        return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)
    return next(values)


def mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    """The structure with `function` applied to each leaf."""
    return packed(structure, [function(leaf) for leaf in leaves(structure)])


def structure_of(value: Any, types: Any) -> list[Any]:
    """The leaves of a value that is nested as `types` are; ValueError where it is not."""
    if isinstance(types, Mapping):
        if not isinstance(value, Mapping) or set(value) != set(types):
            raise ValueError(f"Expected a dict with the keys {sorted(types)}, found {value!r}.")
        return [leaf for key in sorted(types) for leaf in structure_of(value[key], types[key])]
    if isinstance(types, tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(types):
            raise ValueError(f"Expected {len(types)} values, found {value!r}.")
        pairs = zip(value, types, strict=True)
        return [leaf for part, of_part in pairs for leaf in structure_of(part, of_part)]
    return [value]
